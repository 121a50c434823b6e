"""The base of the configuration tree: nodes, and the types that several parts of it share. Pure."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from aggregator.config.values import parse_duration, parse_size

Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number"},
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)?\s*$"},
            ]
        }
    ),
]
"""A duration: `500ms`, `10s`, `5m`, `2h`, `7d`, or a number of seconds."""

Bytes = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer"},
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(([kKmMgG][iI]?)?[bB])?\s*$"},
            ]
        }
    ),
]
"""A number of bytes: `500kB`, `10MB`, `8MiB`, or a plain number."""

ALIAS_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def check_alias(value: str) -> str:
    """Return the name of a source or an aggregation; ValueError if it cannot be one."""
    if not ALIAS_PATTERN.fullmatch(value):
        raise ValueError(f"'{value}' is no name: only letters, digits, '_' and '-'")
    return value


Alias = Annotated[str, AfterValidator(check_alias)]
"""The name of an aggregation or a source: letters, digits, `_` and `-`."""


class Node(BaseModel):
    """Base of every part of the tree: frozen, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def settings_to_text(value: Any) -> Any:
    """Turn YAML scalars of a settings map into the text Kafka and Spark expect (true, 5, ...)."""
    if not isinstance(value, dict):
        return value
    return {
        str(name): str(item).lower() if isinstance(item, bool) else str(item)
        for name, item in value.items()
        if not isinstance(item, dict | list) and item is not None
    } | {str(name): item for name, item in value.items() if isinstance(item, dict | list)}


SettingsMap = Annotated[dict[str, str], BeforeValidator(settings_to_text)]
"""Settings of Kafka or Spark by their names."""


def check_start(value: Any) -> str:
    """Return `earliest`, `latest`, or a timestamp as milliseconds since 1970, in text.

    Raises ValueError for anything else, and for a time without a UTC offset.
    """
    if isinstance(value, datetime):
        return timestamp_to_millis(value)
    text = str(value).strip()
    if text in ("earliest", "latest") or re.fullmatch(r"\d{10,}", text):
        return text
    try:
        return timestamp_to_millis(datetime.fromisoformat(text))
    except ValueError as error:
        reason = str(error) if "offset" in str(error) else f"'{text}' is no start position"
        raise ValueError(
            f"{reason}; use earliest, latest, 2026-01-31T00:00:00Z, or milliseconds since 1970"
        ) from error


Start = Annotated[str, BeforeValidator(check_start)]
"""Where a topic without a checkpoint begins."""


def timestamp_to_millis(moment: datetime) -> str:
    """Milliseconds since 1970 of an aware moment, as text; ValueError for a naive one."""
    if moment.tzinfo is None:
        raise ValueError(f"'{moment.isoformat()}' has no UTC offset")
    try:
        return str(int(moment.astimezone(UTC).timestamp() * 1000))
    except OverflowError as error:
        raise ValueError(f"'{moment.isoformat()}' is out of the years that are known") from error
