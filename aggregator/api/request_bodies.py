"""Reads the bodies of requests in advance, up to a limit and within a time."""

import asyncio
from collections import Counter

from starlette.types import Message, Receive, Scope

MOST_BYTES = 2_000_000
"""A config is far smaller, and so are the offsets of ten thousand partitions."""
SECONDS = 15.0
"""Within these a body has to be there."""
MOST_AT_ONCE = 12
"""How many requests with a body, or that change something, are handled at once: of callers with the
right to change things, and of all others. Threads remain for those that only read."""
LOOKING = ("GET", "HEAD", "OPTIONS")


class BodyError(Exception):
    """A request that is not taken for its body, with the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class RequestsInFlight:
    """Counts the requests that are in hand; in the server's thread alone."""

    def __init__(self) -> None:
        self._count: Counter[bool] = Counter()

    def take(self, scope: Scope, *, trusted: bool) -> bool:
        """Count a request; False for one that only looks, of which any number may come.

        BodyError (503) when there are too many.
        """
        if scope["method"] in LOOKING and not has_body(scope):
            return False
        if self._count[trusted] >= MOST_AT_ONCE:
            raise BodyError(503, f"{MOST_AT_ONCE} requests are in hand: try again in a moment")
        self._count[trusted] += 1
        return True

    def release(self, *, trusted: bool) -> None:
        """Note that one which was counted is done with."""
        self._count[trusted] -= 1


async def whole_body(scope: Scope, receive: Receive) -> Receive:
    """What hands out a request whose body is there; BodyError for one too large or too slow."""
    if not has_body(scope):
        return receive
    length = header(scope, b"content-length")
    if length.isdigit() and (len(length) > 18 or int(length) > MOST_BYTES):
        raise _too_large()
    try:
        async with asyncio.timeout(SECONDS):
            waiting = [await _read(receive)]
    except TimeoutError as error:
        raise BodyError(408, f"the body did not come within {SECONDS:g} s") from error

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def has_body(scope: Scope) -> bool:
    """Whether the headers of a request announce a body."""
    return bool(header(scope, b"transfer-encoding") or header(scope, b"content-length").strip("0"))


def header(scope: Scope, wanted: bytes) -> str:
    """The value of the first header of this name; empty when there is none."""
    return next((it.decode("latin-1") for name, it in scope["headers"] if name == wanted), "")


async def _read(receive: Receive) -> Message:
    """The whole body as one message, or that the caller has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return {"type": "http.request", "body": bytes(body), "more_body": False}


def _too_large() -> BodyError:
    return BodyError(413, f"the body is larger than {MOST_BYTES:,} bytes")
