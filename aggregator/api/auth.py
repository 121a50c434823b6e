"""Authenticates requests by a token or a client certificate, and limits their number and size."""

import base64
import hmac
import ipaddress
from collections.abc import Mapping
from enum import StrEnum
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.api.request_bodies import BodyError, RequestsInFlight, header, whole_body
from aggregator.config.api import ApiConfig
from aggregator.config.values import parse_listen
from aggregator.model.errors import EXIT_CONFIG, EXIT_OTHER

RIGHT = "aggregator.right"
"""Where the scope of a request has what its caller may do."""
OPEN_PATHS = ("/health", "/alive")
"""What load balancers and containers ask, which have no token; it answers only what they need."""
PAGES = "/ui"
"""The files of the dashboard: the same everywhere. What they show is asked for with a token."""
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Of answers that do not say otherwise: no cache keeps records, and no browser guesses a type."""


class Right(StrEnum):
    """What a caller may do. `PLACE` is decided by where the request comes from."""

    READ = "read"
    WRITE = "write"
    PLACE = "place"


class Gate:
    """Answers 401 without a token, where there is one; notes what the others may do, and lets their
    requests through as far as there is room for them.

    A token comes as `Authorization: Bearer TOKEN`, or, for clients that were made for Connect, as
    the password of any user (Basic). We never ask a browser for a password: it would send that with
    the requests of other sites as well.
    """

    def __init__(self, app: ASGIApp, api: ApiConfig) -> None:
        self._app = app
        self._api = api
        self._in_hand = RequestsInFlight()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        right = right_of(self._api, header(scope, b"authorization"))
        if right is Right.PLACE and self._is_strange(scope) and not _is_open(scope):
            host = header(scope, b"host")
            text = (
                f"the request is for the host '{host}', which is not this machine: "
                "set api.read_token, and show it"
            )
            await _refusal(scope, 403, text)(scope, receive, send)
            return
        if right is None and not _is_open(scope):
            text = "show a token: Authorization: Bearer and api.read_token or api.write_token"
            answer = _refusal(scope, 401, text, {"www-authenticate": "Bearer"})
            await answer(scope, receive, send)
            return
        scope[RIGHT] = right
        trusted = right is Right.WRITE
        try:
            counted = self._in_hand.take(scope, trusted=trusted)
        except BodyError as error:
            await _refused(scope, error)(scope, receive, send)
            return
        try:
            body = await whole_body(scope, receive)
            await self._app(scope, body, send)
        except BodyError as error:
            await _refused(scope, error)(scope, receive, send)
        finally:
            if counted:
                self._in_hand.release(trusted=trusted)

    def _is_strange(self, scope: Scope) -> bool:
        """Whether a page may have pointed a name of its own at us, to read our answers.

        A request with a token is no such page, and without one only this machine is listened to.
        """
        if self._api.read_token is not None or self._api.write_token is not None:
            return False
        listen = parse_listen(self._api.listen)
        own = ((scope.get("server") or ("",))[0], "" if listen is None else listen[0])
        try:
            name = urlsplit(f"//{header(scope, b'host')}").hostname or ""
        except ValueError:
            return True
        return not (is_loopback(name) or name in own)


def right_of(api: ApiConfig, authorization: str) -> Right | None:
    """What the sender of this header may do; None: nothing at all.

    Without tokens anyone may read, and to change things is a matter of place; but who came by a
    certificate that was asked for may do both.
    """
    if api.read_token is None and api.write_token is None:
        certified = api.tls is not None and api.tls.client_ca is not None
        return Right.WRITE if certified else Right.PLACE
    shown = _shown(authorization)
    if api.write_token is not None and _same(shown, api.write_token):
        return Right.WRITE
    if api.read_token is not None and _same(shown, api.read_token):
        # Where there is no write token, any user of this machine may write.
        return Right.PLACE if api.write_token is None else Right.READ
    return None


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _with_headers(send: Send) -> Send:
    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return adding


def _is_open(scope: Scope) -> bool:
    path = str(scope["path"])
    if path == "/":
        # A browser is only led to the dashboard.
        return "text/html" in header(scope, b"accept")
    return path in (*OPEN_PATHS, PAGES) or path.startswith(f"{PAGES}/")


def _refused(scope: Scope, error: BodyError) -> JSONResponse:
    # What is left of the body is not waited for.
    return _refusal(scope, error.status, str(error), {"connection": "close"})


def _refusal(
    scope: Scope, status: int, text: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error in the form that every call has."""
    own = {"exit_code": EXIT_OTHER if status == 503 else EXIT_CONFIG}
    body = {"error_code": status, "message": text}
    is_ours = str(scope["path"]).startswith("/api/")
    return JSONResponse({**body, **(own if is_ours else {})}, status, headers)


def _shown(authorization: str) -> str:
    scheme, _, text = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return text.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(text.strip(), validate=True).decode().partition(":")[2]
        except ValueError:
            # No base64, or none of text.
            return ""
    return ""


def _same(one: str, other: str) -> bool:
    # As long for one that is nearly right as for any other.
    return hmac.compare_digest(one.encode(), other.encode())
