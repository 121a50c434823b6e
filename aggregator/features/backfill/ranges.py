"""Resolves a backfill request into a range for each partition. Pure.

A backfill reads [start, end) of some partitions of one topic, and `end` is never beyond the
position of the live flow. So what it writes and what the live flow writes never overlap, and a
recovery of the live flow, which looks for origins at or beyond its position, never meets a record
of a backfill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aggregator.model.errors import RefusedError
from aggregator.model.values import (
    UNKNOWN_LOG,
    LogId,
    OffsetRange,
    Positions,
    SourcePartition,
    TopicPartition,
)

OFFSETS = 2**63 - 1
"""Kafka's offsets and times are below."""


class BackfillState(StrEnum):
    """What has become of an order. Only one that is ACTIVE is worked at, or waits for that."""

    ACTIVE = "ACTIVE"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class BackfillRequest(BaseModel):
    """What is asked for. Without a begin it is the log's, without an end the live position."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    topic: str
    partition: int | None = Field(default=None, ge=0)
    from_offset: int | None = Field(default=None, ge=0, le=OFFSETS)
    from_time_ms: int | None = Field(default=None, ge=0, le=OFFSETS)
    until_offset: int | None = Field(default=None, ge=0, le=OFFSETS)
    until_time_ms: int | None = Field(default=None, ge=0, le=OFFSETS)
    records_per_second: float | None = Field(default=None, gt=0)
    bytes_per_second: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _check(self) -> BackfillRequest:
        for end in ("from", "until"):
            if None not in (getattr(self, f"{end}_offset"), getattr(self, f"{end}_time_ms")):
                raise ValueError(f"give {end}_offset or {end}_time_ms, not both")
        return self

    def names(self, sp: SourcePartition) -> bool:
        """Whether a partition is among those asked for."""
        return sp[:2] == (self.source, self.topic) and self.partition in (None, sp.partition)


@dataclass(frozen=True, slots=True)
class BackfillPart:
    """[start, end) of one partition, of which everything below `position` is done.

    `lost` are offsets that the source had deleted before they were read.
    """

    partition: SourcePartition
    start: int
    end: int
    position: int
    lost: int = 0

    @property
    def left(self) -> int:
        """How many offsets are still to be read."""
        return max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class Backfill:
    """An order, and how far it has got.

    Every record at or beyond the positions of its parts that the hub holds lies at or behind
    `bound`; a hub partition that is not in it must be read from its beginning. `log` is what the
    offsets count in. `records` were written by it. `at` is when it last changed.
    """

    id: str
    cluster: str
    topic: str
    parts: tuple[BackfillPart, ...]
    ordered_at: datetime
    at: datetime
    log: LogId = UNKNOWN_LOG
    bound: Mapping[TopicPartition, int] = field(default_factory=dict)
    state: BackfillState = BackfillState.ACTIVE
    reason: str = ""
    by: str = ""
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    records: int = 0

    @property
    def left(self) -> int:
        """How many offsets are still to be read."""
        return sum(part.left for part in self.parts)

    @property
    def positions(self) -> Positions:
        """The position of each part that is not done."""
        return Positions({it.partition: it.position for it in self.parts if it.left})

    @property
    def ends(self) -> dict[SourcePartition, int]:
        """Where each part ends."""
        return {it.partition: it.end for it in self.parts}

    @property
    def is_active(self) -> bool:
        """Whether it is worked at, or waits for that."""
        return self.state is BackfillState.ACTIVE

    def moved(
        self, positions: Mapping[SourcePartition, int], lost: Mapping[SourcePartition, int]
    ) -> Backfill:
        """The same with its parts at these positions, and never back; `lost` adds to theirs."""
        parts = tuple(
            replace(
                it,
                position=max(it.position, min(positions.get(it.partition, 0), it.end)),
                lost=it.lost + lost.get(it.partition, 0),
            )
            for it in self.parts
        )
        return replace(self, parts=parts)

    def __str__(self) -> str:
        return f"backfill {self.id} of {self.cluster}/{self.topic}"


@dataclass(frozen=True, slots=True)
class BeforeBackfill:
    """One partition before an order: its log, and the position of the live flow in that log.

    What is not known is None. `start` and `end` are what the times of the request stand for.
    `other_log` says why the position belongs to another log than the one that is there now. Below
    `cut` offsets stand for two records each. `busy` is a backfill that reads it already.
    """

    partition: SourcePartition
    log: OffsetRange | None
    position: int | None = None
    start: int | None = None
    end: int | None = None
    other_log: str = ""
    cut: int | None = None
    busy: str = ""


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """What would be read; with problems in it nothing may be done. `notes` are for people."""

    parts: tuple[BackfillPart, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan_backfill(
    request: BackfillRequest, places: Iterable[BeforeBackfill], *, compacted: str = ""
) -> BackfillPlan:
    """The range of each partition, or every reason why it cannot be.

    `compacted` is the hub topic when it is a compacted one.
    """
    if compacted:
        why = (
            f"hub topic {compacted} is compacted: an old record written behind a newer one of its "
            "key would take its place"
        )
        return BackfillPlan(problems=(why,))
    parts: list[BackfillPart] = []
    problems: list[str] = []
    notes: list[str] = []
    for place in sorted(places, key=lambda it: it.partition):
        sp, log, position = place.partition, place.log, place.position
        if problem := _problem(request, place):
            problems.append(problem)
            continue
        assert log is not None and position is not None
        wanted = _begin(request, place)
        end = min(_end(request, place, position), position)
        start = max(wanted, log.earliest)
        if place.cut is not None and start < min(place.cut, end):
            problems.append(
                f"{sp}: below {place.cut} its log was cut off and has grown again, so that offsets "
                f"do not show what the hub lacks: begin at {place.cut}"
            )
            continue
        lost = max(0, min(log.earliest, end) - wanted) if wanted < log.earliest else 0
        if lost:
            notes.append(f"{sp}: the source has deleted {lost:,} offsets, {wanted} to {start - 1}")
        if start >= end:
            notes.append(f"{sp}: nothing to read from {wanted} to {end}: left alone")
            continue
        parts.append(BackfillPart(sp, start, end, start, lost))
    if not parts and not problems:
        problems.append(f"there is nothing to read: {'; '.join(notes) or 'no partition is named'}")
    if parts:
        notes.append("old records come behind newer ones in the hub partitions")
    return BackfillPlan(tuple(parts), tuple(problems), tuple(notes))


def _problem(request: BackfillRequest, place: BeforeBackfill) -> str:
    sp, position = place.partition, place.position
    if place.log is None:
        return f"{sp}: its log could not be read"
    if place.other_log:
        return f"{sp}: {place.other_log}"
    if position is None:
        return f"{sp} has no position yet: the live flow reads it first, from `start` on"
    if position > place.log.latest:
        return f"{sp}: its log ends at {place.log.latest}, before its position {position}"
    if place.busy:
        return (
            f"{sp}: backfill {place.busy} reads it already: wait for it, or "
            f"aggregator backfill cancel {place.busy}"
        )
    if request.from_time_ms is not None and place.start is None:
        return f"{sp}: no offset is known for its start time"
    if request.until_time_ms is not None and place.end is None:
        return f"{sp}: no offset is known for its end time"
    if request.until_offset is not None and request.until_offset > position:
        return (
            f"{sp}: {request.until_offset} is beyond its position {position}, from where on the "
            "live flow reads: end at `position`"
        )
    return ""


def _begin(request: BackfillRequest, place: BeforeBackfill) -> int:
    if request.from_offset is not None:
        return request.from_offset
    if request.from_time_ms is not None:
        return place.start or 0
    assert place.log is not None
    return place.log.earliest


def _end(request: BackfillRequest, place: BeforeBackfill, position: int) -> int:
    if request.until_offset is not None:
        return request.until_offset
    if request.until_time_ms is not None:
        return position if place.end is None else place.end
    return position


def next_id(known: Iterable[str]) -> str:
    """The name of one more backfill: b1, b2 and so on."""
    numbers = [int(it[1:]) for it in known if it[1:].isdigit()]
    return f"b{max(numbers, default=0) + 1}"


def busy_with(backfills: Iterable[Backfill]) -> dict[SourcePartition, Backfill]:
    """The partitions that an active backfill still has to read something of, and which one."""
    return {
        part.partition: backfill
        for backfill in backfills
        if backfill.is_active
        for part in backfill.parts
        if part.left
    }


def held_back(
    moves: Mapping[SourcePartition, int], backfills: Iterable[Backfill]
) -> tuple[str, ...]:
    """Why these new positions of the live flow may not be: two would write the same records."""
    busy = busy_with(backfills)
    return tuple(
        f"{sp}: backfill {busy[sp].id} reads it up to {busy[sp].ends[sp]}, and {at} is before "
        f"that: wait for it, or aggregator backfill cancel {busy[sp].id}"
        for sp, at in sorted(moves.items())
        if sp in busy and at < busy[sp].ends[sp]
    )


def find_active(known: Mapping[str, Backfill], name: str) -> Backfill:
    """The active backfill of this id; RefusedError when there is none."""
    backfill = known.get(name)
    if backfill is None:
        ids = ", ".join(known) or "none was ordered"
        raise RefusedError([f"there is no backfill {name}; there are: {ids}"])
    if not backfill.is_active:
        raise RefusedError([f"backfill {name} is {backfill.state} already"])
    return backfill
