"""The error answers that any call may give, and their OpenAPI description."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from aggregator.api.instance import StartingError, instance_of
from aggregator.api.permissions import CallerError
from aggregator.config.mask import mask_text
from aggregator.engine.control.command_queue import NotReadyError
from aggregator.model.errors import (
    EXIT_CONFIG,
    EXIT_OTHER,
    AggregatorError,
    ClusterError,
    ConfigError,
    RefusedError,
)

STARTING = "Worker is still starting up."
"""Connect's words."""


class ErrorAnswer(BaseModel):
    """An error in Connect's form."""

    error_code: int = Field(description="the HTTP status")
    message: str
    exit_code: int | None = Field(
        default=None, description="below /api: the exit code of a command that meets this"
    )


class Health(BaseModel):
    """As Connect's `/health` answers."""

    status: str
    message: str


MEANINGS: dict[int | str, str] = {
    400: "what is asked for is not right; the message says what to mend",
    401: "no token, or one that is not known",
    403: "this caller may not change anything",
    404: "there is no such connector, source, task, plugin or logger",
    409: "it is there already, or the plan refuses it",
    408: "the body did not come in time",
    413: "the body is too large",
    415: "a body that changes anything has to be JSON",
    # It also keeps FastAPI's own 422 out, which is never answered.
    "4XX": "any other request that cannot be served",
    500: "it failed; the log says more",
    502: "a cluster does not answer, or refuses us",
    503: "it starts, stops, or is busy: try again",
}
SCHEMA = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorAnswer.__name__}"}}}
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"content": SCHEMA, "description": text} for code, text in MEANINGS.items()
}
"""For every call of the app. By name: of a model FastAPI makes a reader for each code of each call,
which was most of what the first request waited for. One call has to name the model, as FAILED does.
"""
FAILED: dict[int | str, dict[str, Any]] = {
    500: {"model": ErrorAnswer, "description": MEANINGS[500]}
}


def text(media_type: str) -> dict[int | str, dict[str, Any]]:
    """The document of a call, where it is text; its errors are JSON all the same."""
    return {200: {"content": {media_type: {"schema": {"type": "string"}}}}}


HEALTH: dict[str, Any] = {"model": Health, "description": "it starts, or has failed"}


def status_of(error: Exception) -> int:
    """The HTTP status of an error."""
    match error:
        case CallerError():
            return error.status
        case HTTPException():
            return error.status_code
        case NotReadyError() | StartingError():
            return 503
        case ConfigError() | RequestValidationError():
            return 400
        case RefusedError():
            return 409
        case ClusterError():
            return 502
        case _:
            return 500


async def answer(request: Request, error: Exception) -> Response:
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
    elif isinstance(error, StartingError):
        text, code = STARTING, EXIT_OTHER
    elif isinstance(error, AggregatorError):
        code = error.exit_code
    else:
        text, code = "it failed; the log says more", EXIT_OTHER
    status = status_of(error)
    # A cluster's words may quote an address or a setting.
    text = mask_text(text, instance_of(request).control.config)
    # JSON may hold halves of characters, which no answer can.
    body = {"error_code": status, "message": text.encode("utf-8", "replace").decode()}
    own = {"exit_code": code} if request.url.path.startswith("/api/") else {}
    return JSONResponse({**body, **own}, status, headers)
