"""The endpoints that change something: pause, resume, positions, reload.

Whoever shows the write token, or a certificate where those are asked for, may. Else a request has
to come from this machine and name it as its host (a page that points a name of its own at us does
not). Never may it come from a page of another site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.exceptions import HTTPException

from aggregator.config.mask import mask_text
from aggregator.config.values import parse_listen
from aggregator.documents.controls import ReloadReport, SourceControl
from aggregator.errors import (
    EXIT_CONFIG,
    EXIT_OTHER,
    AggregatorError,
    ClusterError,
    ConfigError,
    RefusedError,
)
from aggregator.model import Part
from aggregator.moves import core as rewind
from aggregator.moves.document import MovesReport
from aggregator.serve.gate import is_loopback, may_change, must_not_change
from aggregator.steering.control import Control
from aggregator.steering.door import NotReadyError

SITES = ("same-origin", "none")
"""What a browser says of a request from our own page, and of one that was typed in."""
JSON = "application/json"
Number = Annotated[int | None, Query(ge=0, lt=1 << 31)]


class CallerError(AggregatorError):
    """A request that is not for us to carry out, with its HTTP status."""

    exit_code = EXIT_CONFIG

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class PositionsRequest(rewind.MoveRequest):
    """Where positions are to go. Unless `dry_run` is false it is only told what would be done."""

    dry_run: bool = Field(default=True)


def add_control(app: FastAPI, control: Control) -> None:
    """Add the endpoints that command `control`, and how errors are told."""
    router = APIRouter(prefix="/api", dependencies=[Depends(caller_check(control))])

    # Plain functions: FastAPI runs them in threads, as they wait for the engine.
    @router.put("/sources/{alias}/pause")
    def pause(alias: str, request: Request) -> SourceControl:
        """Let the lanes of a source end, and keep it so, over restarts too."""
        check_source(control, alias)
        return control.pause(alias, by=caller_name(request))

    @router.put("/sources/{alias}/resume")
    def resume(alias: str) -> SourceControl:
        """Let a source go on from where it is."""
        check_source(control, alias)
        return control.resume(alias)

    @router.put("/sources/{alias}/topics/{topic}/pause")
    def pause_topic(
        alias: str, topic: str, request: Request, partition: Number = None
    ) -> SourceControl:
        """Let a topic, or one partition of it, rest while the rest of its source goes on."""
        check_source(control, alias)
        return control.pause_part(Part(alias, topic, partition), by=caller_name(request))

    @router.put("/sources/{alias}/topics/{topic}/resume")
    def resume_topic(
        alias: str, topic: str, request: Request, partition: Number = None
    ) -> SourceControl:
        """Let a topic, with all its partitions, or one of them, go on from where it is."""
        check_source(control, alias)
        return control.resume_part(Part(alias, topic, partition), by=caller_name(request))

    @router.post("/positions")
    def positions(wanted: PositionsRequest) -> MovesReport:
        """Set positions of paused sources; a dry run unless it says `"dry_run": false`."""
        fields = wanted.model_dump(exclude={"dry_run"})
        return control.set_positions(rewind.MoveRequest(**fields), dry_run=wanted.dry_run)

    @router.post("/reload")
    def reload() -> ReloadReport:
        """Read the config again; the old one stays in force when anything is wrong."""
        return control.reload()

    app.include_router(router)

    async def told(request: Request, error: Exception) -> Response:
        return _told(request, error, control)

    for kind in (AggregatorError, RequestValidationError, HTTPException, Exception):
        # HTTPException: a path or a method that there is not.
        app.add_exception_handler(kind, told)


def caller_check(control: Control) -> Callable[[Request], None]:
    """A dependency that lets through whom `check_caller` does."""

    def check(request: Request) -> None:
        listen = parse_listen(control.config.api.listen)
        check_caller(request, listen[0] if listen is not None else "")

    return check


def check_caller(request: Request, listen: str = "") -> None:
    """Raise CallerError for a request that may be somebody else's.

    `listen` is the host that the config names: to call us by that is right.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    empty = "transfer-encoding" not in request.headers and not int(
        request.headers.get("content-length") or 0
    )
    if request.method == "POST" and kind != JSON and not (empty and not kind):
        # A form of any site may send the other kinds without asking.
        raise CallerError(415, f"the content type has to be {JSON}")
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", SITES[0])
    if site not in SITES or (origin is not None and _split(origin).netloc != host):
        raise CallerError(403, f"the request comes from a page of another site: {origin or site}")
    if may_change(request.scope):
        return
    if must_not_change(request.scope):
        raise CallerError(403, "this token may read; to change anything show api.write_token")
    own = str((request.scope.get("server") or ("",))[0])
    client = request.client.host if request.client is not None else ""
    if not (is_loopback(client) or client == own):
        raise CallerError(
            403, f"only this machine may change anything, not {client}: show api.write_token"
        )
    name = _split(f"//{host}").hostname or ""
    if not (is_loopback(name) or name in (own, listen)):
        raise CallerError(403, f"the request is for the host '{host}', which is not this machine")


def _split(url: str) -> SplitResult:
    """The parts of a URL; CallerError (400) for what is none."""
    try:
        return urlsplit(url)
    except ValueError as error:
        raise CallerError(400, f"{url} is no address: {error}") from error


def caller_name(request: Request) -> str:
    """Who asks, as it is kept with what they change."""
    return f"REST from {request.client.host if request.client is not None else 'nobody'}"


def status_of(error: Exception) -> int:
    """The HTTP status of an error."""
    match error:
        case CallerError():
            return error.status
        case HTTPException():
            return error.status_code
        case NotReadyError():
            return 503
        case ConfigError() | RequestValidationError():
            return 400
        case RefusedError():
            return 409
        case ClusterError():
            return 502
        case _:
            return 500


def _told(request: Request, error: Exception, control: Control) -> Response:
    """An error in Connect's shape, with the exit code that it has on the command line."""
    text, code = str(error), EXIT_CONFIG
    headers: Mapping[str, str] | None = None
    if isinstance(error, RequestValidationError):
        text = "; ".join(
            f"{'.'.join(str(part) for part in it['loc'][1:]) or 'body'}: {it['msg']}"
            for it in error.errors()
        )
    elif isinstance(error, HTTPException):
        text, headers = str(error.detail), error.headers
    elif isinstance(error, AggregatorError):
        code = error.exit_code
    else:
        text, code = "it failed; the log says more", EXIT_OTHER
    status = status_of(error)
    # A cluster's words may quote an address or a setting.
    text = mask_text(text, control.config)
    # JSON may hold halves of characters, which no answer can.
    body = {"error_code": status, "message": text.encode("utf-8", "replace").decode()}
    own = {"exit_code": code} if request.url.path.startswith("/api/") else {}
    return JSONResponse({**body, **own}, status, headers)


def check_source(control: Control, alias: str) -> None:
    """Raise CallerError (404) when there is no such source."""
    if alias not in control.config.sources:
        known = ", ".join(control.config.sources)
        raise CallerError(404, f"there is no source {alias}; sources are {known}")
