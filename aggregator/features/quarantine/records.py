"""The content of a quarantine topic: records that the hub refused, and notes about them. Pure.

A quarantined record ends with its origin, as every copied record: in five headers, or in one, as
records of its hub topic have it. A note has none, so nothing takes it for a record: its key is the
origin as text, its headers say the rest.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from aggregator.model.values import (
    ORIGIN_HEADER,
    ORIGIN_HEADERS,
    ORIGIN_TIMESTAMP,
    QUARANTINE_HEADERS,
    QUARANTINE_TIMESTAMP,
    Header,
    Raw,
    SourcePartition,
    parse_origin_text,
)

STATE = "quarantine.state"
BY = "quarantine.by"
HUB_PARTITION = "quarantine.hub_partition"
HUB_OFFSET = "quarantine.hub_offset"
DETAIL = "quarantine.detail"

_ORIGIN = re.compile(r"([^/]+)/(.+)-(\d+)@(\d+)")


class RecordState(StrEnum):
    """The state of a quarantined record; all but OPEN come from a note.

    TRYING: an attempt is about to write it to its hub topic, or ended without an outcome.
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
    def kind(self) -> str:
        """The reason without what is its own: of a schema, without the id."""
        return self.reason.partition(" ")[0]

    @property
    def whole(self) -> bool:
        """Whether all of the record is in the quarantine topic."""
        return self.kept == "whole"


@dataclass(frozen=True, slots=True)
class Note:
    """What was done with a quarantined record.

    TRYING: about to write it to this hub partition, whose end is `hub_offset`; RETRIED: it is
    there; REFUSED and OPEN: it was not written by this one. `by` is the same in the notes of one
    command. `at_ms` None: no broker has said when it arrived.
    """

    origin: Origin
    state: RecordState
    by: str
    hub_partition: int = -1
    hub_offset: int = -1
    detail: str = ""
    at: int = -1
    at_ms: int | None = 0

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
    """Parse a record of the quarantine topic; None for one that is not ours."""
    if (ours := _ours(raw)) is None:
        return _note(raw, dict(raw.headers))
    origin = origin_of(raw)
    reason, hub_topic, size, kept = (_text(value) for _, value in ours[: len(QUARANTINE_HEADERS)])
    try:
        # Nothing follows the one header: its timestamp is before it.
        said = ours[-1] if ours[-1][0] == ORIGIN_TIMESTAMP else ours[-2]
        timestamp, bytes_ = int(_text(said[1])), int(size)
    except ValueError:
        return None
    if origin is None:
        return None
    return Quarantined(origin, timestamp, reason, hub_topic, bytes_, kept, raw.offset, raw.at_ms)


def origin_of(raw: Raw) -> Origin | None:
    """Where a hub record came from, by its last headers; None for one that is not ours."""
    last = origin_headers(raw)
    names, texts = [name for name, _ in last], [_text(value) for _, value in last]
    if names == [ORIGIN_HEADER]:
        found = parse_origin_text(texts[0])
        return Origin(*found) if found is not None else None
    if names != list(ORIGIN_HEADERS):
        return None
    cluster, topic, partition, offset, _ = texts
    return parse_origin(f"{cluster}/{topic}-{partition}@{offset}")


def own_headers(raw: Raw) -> list[Header]:
    """The headers that a quarantined record had at its source."""
    return list(raw.headers[: len(raw.headers) - len(_ours(raw) or ())])


def origin_headers(raw: Raw) -> list[Header]:
    """The origin headers of a copied record: the one, or the five."""
    one = [name for name, _ in raw.headers[-1:]] == [ORIGIN_HEADER]
    return list(raw.headers[-1 if one else -len(ORIGIN_HEADERS) :])


def parse_origin(text: str) -> Origin | None:
    """The origin in `eu/orders-3@5`, None when it is none."""
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return None
    cluster, topic, partition, offset = match.groups()
    return Origin(SourcePartition(cluster, topic, int(partition)), int(offset))


def _ours(raw: Raw) -> Sequence[Header] | None:
    """All headers added after the own ones of a quarantined record; None for any other one."""
    for names in (
        (*QUARANTINE_HEADERS, *ORIGIN_HEADERS),
        (*QUARANTINE_HEADERS, QUARANTINE_TIMESTAMP, ORIGIN_HEADER),
    ):
        last = raw.headers[-len(names) :]
        if tuple(name for name, _ in last) == names:
            return last
    return None


def _note(raw: Raw, headers: Mapping[str, bytes | None]) -> Note | None:
    texts = {name: _text(value) for name, value in headers.items()}
    origin = parse_origin(_text(raw.key))
    if origin is None or texts.get(STATE) not in set(RecordState):
        return None
    try:
        place = int(texts.get(HUB_PARTITION, "-1")), int(texts.get(HUB_OFFSET, "-1"))
    except ValueError:
        return None
    state, by, detail = RecordState(texts[STATE]), texts.get(BY, ""), texts.get(DETAIL, "")
    at_ms = raw.at_ms if raw.by_broker else None
    return Note(origin, state, by, *place, detail, raw.offset, at_ms)


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")
