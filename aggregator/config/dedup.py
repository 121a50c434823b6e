"""How the events of a hub topic are told apart, where each is to come once. Pure values."""

from __future__ import annotations

import re
from difflib import get_close_matches

from pydantic import Field, field_validator

from aggregator.config.node import Node, Seconds

PLACES = ("key", "header", "value")


class DedupRule(Node):
    """One event once: a record whose event the hub holds already is dropped, and listed."""

    by: str | None = Field(
        default=None,
        description="what names the event of a record: key (the record's), header:NAME, or "
        "value:$.NAME.NAME (a path into a JSON value); without it nothing is dropped",
    )
    window: Seconds = Field(
        default=86_400.0,
        ge=1,
        le=90 * 86_400,
        description="how long an event is remembered since it came into the hub",
    )

    @field_validator("by")
    @classmethod
    def _check_by(cls, value: str | None) -> str | None:
        if value is None:
            return None
        place, colon, rest = value.partition(":")
        if value == "key" or (place == "header" and re.fullmatch(r"\S+", rest)):
            return value
        if place == "value" and re.fullmatch(r"\$(\.[^.\s\[\]*]+)+", rest):
            return value
        raise ValueError(f"'{value}' names no event; {_hint(place, colon, rest)}")

    @property
    def is_on(self) -> bool:
        """Whether anything is dropped."""
        return self.by is not None


def _hint(place: str, colon: str, rest: str) -> str:
    if place == "key":
        return "did you mean key?"
    if place == "value":
        return "write value:$.NAME or value:$.NAME.NAME; lists and wildcards are not followed"
    if place == "header":
        return "write header:NAME; a name has no spaces"
    if near := get_close_matches(place, PLACES, n=1):
        return f"did you mean {near[0]}{colon}{rest}?"
    return "write key, header:NAME or value:$.NAME"
