"""Parses the config of a connector from a request: text by key, or the problems."""

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from aggregator.config.node import settings_to_text

MOST_KEYS = 1_000
"""For each key that is not known the nearest of all known ones is looked for."""


def _settings(value: Any) -> Any:
    found = settings_to_text(value)
    if isinstance(found, dict):
        if len(found) > MOST_KEYS:
            raise ValueError(f"has {len(found):,} keys; {MOST_KEYS:,} are the most")
        _check_whole("".join(f"{key}{item}" for key, item in found.items()))
    return found


def _changes(value: Any) -> Any:
    found = _settings(value)
    if not isinstance(value, dict):
        return found
    return {**dict.fromkeys(str(key) for key, item in value.items() if item is None), **found}


def _check_whole(text: str) -> None:
    """ValueError for half of a character, which JSON may hold, and no file and no answer can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("holds half of a character: a surrogate without its pair") from error


SCALARS = [{"type": it} for it in ("string", "number", "boolean", "null")]
SHAPE = WithJsonSchema({"type": "object", "additionalProperties": {"anyOf": SCALARS}})

Settings = Annotated[dict[str, str], BeforeValidator(_settings), SHAPE]
"""Numbers and booleans are taken as text, and what is null is not there."""

Changes = Annotated[dict[str, str | None], BeforeValidator(_changes), SHAPE]
"""The same, and what is null stays: it takes a key out."""
