"""What any call may answer instead of its document, as `/api/openapi.json` tells it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


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
