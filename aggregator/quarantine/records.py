"""What stands in a quarantine topic: records that the hub refused, and notes about them. Pure.

A quarantined record ends with the five origin headers, as every record of ours. A note has none of
these, so nothing takes it for a record: its key is the origin as text, its headers say the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from aggregator.model import ORIGIN_HEADERS, QUARANTINE_HEADERS, SourcePartition

STATE = "quarantine.state"
BY = "quarantine.by"
HUB_PARTITION = "quarantine.hub_partition"
HUB_OFFSET = "quarantine.hub_offset"
DETAIL = "quarantine.detail"

Header = tuple[str, bytes | None]

_ORIGIN = re.compile(r"([^/]+)/(.+)-(\d+)@(\d+)")


class State(StrEnum):
    """What became of a quarantined record; all but OPEN come from a note.

    TRYING: somebody is about to write it to its hub topic, or ended without saying how it went.
    """

    OPEN = "open"
    TRYING = "trying"
    REFUSED = "refused"
    RETRIED = "retried"


class Origin(NamedTuple):
    """Where a record came from."""

    partition: SourcePartition
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Raw:
    """A record of the topic, as any client reads it; `at_ms` is when it arrived."""

    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A record that its hub topic refused; its content is left where it is, at `at`.

    `kept` is whole, key (key and headers) or nothing; `size` is what the hub would have weighed,
    uncompressed. `timestamp` is that of the source.
    """

    origin: Origin
    timestamp: int
    reason: str
    hub_topic: str
    size: int
    kept: str
    at: int
    at_ms: int

    @property
    def whole(self) -> bool:
        """Whether all of the record is in the quarantine topic."""
        return self.kept == "whole"


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody did with a quarantined record.

    TRYING: about to write it to this hub partition, whose end is `hub_offset`; RETRIED: it is
    there; REFUSED and OPEN: it was not written by this one. `by` is the same in the notes of one
    command.
    """

    origin: Origin
    state: State
    by: str
    hub_partition: int = -1
    hub_offset: int = -1
    detail: str = ""
    at: int = -1
    at_ms: int = 0

    def headers(self) -> list[Header]:
        """The headers of the note as it is written."""
        texts = {
            STATE: str(self.state),
            BY: self.by,
            HUB_PARTITION: str(self.hub_partition),
            HUB_OFFSET: str(self.hub_offset),
            DETAIL: self.detail,
        }
        return [(name, text.encode()) for name, text in texts.items()]


def parse(raw: Raw) -> Quarantined | Note | None:
    """What a record of the quarantine topic is; None for one that is not ours."""
    own = len(ORIGIN_HEADERS) + len(QUARANTINE_HEADERS)
    names = (*QUARANTINE_HEADERS, *ORIGIN_HEADERS)
    last = raw.headers[-own:]
    if tuple(name for name, _ in last) == names:
        texts = [(value or b"").decode(errors="replace") for _, value in last]
        return _quarantined(raw, texts)
    return _note(raw, dict(raw.headers))


def origin_of(raw: Raw) -> Origin | None:
    """Where a hub record came from, by its last headers; None for one that is not ours."""
    last = raw.headers[-len(ORIGIN_HEADERS) :]
    if tuple(name for name, _ in last) != ORIGIN_HEADERS:
        return None
    cluster, topic, partition, offset, _ = ((value or b"").decode() for _, value in last)
    return parse_origin(f"{cluster}/{topic}-{partition}@{offset}")


def own_headers(raw: Raw) -> list[Header]:
    """The headers that a quarantined record had at its source."""
    return list(raw.headers[: -len(ORIGIN_HEADERS) - len(QUARANTINE_HEADERS)])


def origin_headers(raw: Raw) -> list[Header]:
    """The origin headers of a quarantined record."""
    return list(raw.headers[-len(ORIGIN_HEADERS) :])


def parse_origin(text: str) -> Origin | None:
    """The origin in `eu/orders-3@5`, None when it is none."""
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return None
    cluster, topic, partition, offset = match.groups()
    return Origin(SourcePartition(cluster, topic, int(partition)), int(offset))


def _quarantined(raw: Raw, texts: Sequence[str]) -> Quarantined | None:
    reason, hub_topic, size, kept, cluster, topic, *numbers = texts
    try:
        partition, offset, timestamp = (int(number) for number in numbers)
        bytes_ = int(size)
    except ValueError:
        return None
    origin = Origin(SourcePartition(cluster, topic, partition), offset)
    return Quarantined(origin, timestamp, reason, hub_topic, bytes_, kept, raw.offset, raw.at_ms)


def _note(raw: Raw, headers: Mapping[str, bytes | None]) -> Note | None:
    texts = {name: (value or b"").decode(errors="replace") for name, value in headers.items()}
    origin = parse_origin((raw.key or b"").decode(errors="replace"))
    if origin is None or texts.get(STATE) not in set(State):
        return None
    try:
        place = int(texts.get(HUB_PARTITION, "-1")), int(texts.get(HUB_OFFSET, "-1"))
    except ValueError:
        return None
    state, by, detail = State(texts[STATE]), texts.get(BY, ""), texts.get(DETAIL, "")
    return Note(origin, state, by, *place, detail, raw.offset, raw.at_ms)
