"""How dedup identifies the events of a hub topic. Pure."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import Field, field_validator

from aggregator.config.node import Node, Seconds
from aggregator.config.values import map_at
from aggregator.model.errors import Problem

PLACES = ("key", "header", "value")


class DedupRule(Node):
    """One event once: a record whose event the hub holds already is dropped, and listed."""

    by: str | None = Field(
        default=None,
        description="what identifies a record's event: key (the record's), header:NAME, or "
        "value:$.NAME.NAME (a path into a JSON value); without it nothing is dropped",
    )
    window: Seconds = Field(
        default=86_400.0,
        ge=1,
        le=90 * 86_400,
        description="how long an event is remembered after it arrived in the hub",
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


def is_off(value: object) -> bool:
    """Whether `dedup: off` is meant, which YAML reads as a truth value."""
    return value is None or str(value).strip().lower() in ("off", "false")


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


def dedup_problems(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """What cannot work, as far as plain data in the shape of a config shows.

    What the tasks know of events is in one process: theirs.
    """
    topics = map_at(tree, "topics")
    master = str(map_at(tree, "spark").get("master") or "auto")
    rules: dict[str, Any] = {"topics": topics}
    rules |= {f"topics.overrides.{name}": it for name, it in map_at(topics, "overrides").items()}
    paths = [
        f"{path}.dedup"
        for path, it in rules.items()
        if isinstance(it, dict) and map_at(it, "dedup").get("by")
    ]
    if not re.fullmatch(r"auto|local(\[[^\]]*\])?", master.strip()):
        hint = "remove it, or set spark.master: auto, so that all tasks are in one process"
        for path in paths:
            yield Problem(path, f"does not work on executors, and spark.master is {master}", hint)
    if paths and topics.get("duplicates") and topics["duplicates"] == topics.get("quarantine"):
        yield Problem("topics.duplicates", "is topics.quarantine", "choose another name")
