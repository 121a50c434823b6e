"""Positions set by hand: the new position of each partition, and its effect. Pure.

Going back, only what the hub lacks must be written: the move is not clean, and the next start reads
the hub. That cannot be known where the same offset means two records: when a topic was created
again, or its log was cut off and has grown again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aggregator.model.values import OffsetRange, SourcePartition

TARGETS = ("to", "to_offset", "to_offsets", "to_time_ms", "to_version", "by_seconds", "by_offsets")
OF_REWIND = ("by_seconds", "by_offsets")
OFFSETS = 2**63 - 1
"""Kafka's offsets and times are below."""
YEARS_SECONDS = 1e10
"""Three hundred years; what is longer cannot be counted back from now."""


class MoveRequest(BaseModel):
    """A request: which partitions (none named = all), and their new positions.

    Exactly one of `TARGETS` is given. `rewind` never goes forward: what is before the target
    already stays where it is. `again` writes also what the hub holds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str | None = None
    topic: str | None = None
    partition: int | None = Field(default=None, ge=0)
    to: Literal["earliest", "latest"] | None = None
    to_offset: int | None = Field(default=None, ge=0, le=OFFSETS)
    to_time_ms: int | None = Field(default=None, ge=0, le=OFFSETS)
    to_version: int | None = Field(default=None, ge=1)
    to_offsets: dict[str, dict[int, Annotated[int, Field(ge=0, le=OFFSETS)] | None]] | None = Field(
        default=None, description="topic -> partition -> offset of this source; null is earliest"
    )
    by_seconds: float | None = Field(default=None, gt=0, le=YEARS_SECONDS)
    by_offsets: int | None = Field(default=None, ge=1)
    rewind: bool = False
    again: bool = False
    taken_over: bool = Field(
        default=False,
        description="with to_offsets: another tool has copied what is before them; a partition "
        "that has a position already is left alone",
    )

    @model_validator(mode="after")
    def _check(self) -> MoveRequest:
        given = [name for name in TARGETS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(TARGETS)}; given: {', '.join(given) or '-'}")
        if given[0] in OF_REWIND and not self.rewind:
            raise ValueError(f"{given[0]} is for a rewind")
        if self.to_offsets is not None and self.source is None:
            raise ValueError("to_offsets is for one source")
        if self.taken_over and self.to_offsets is None:
            raise ValueError("taken_over is for to_offsets")
        return self

    def time_ms(self, now_ms: int) -> int | None:
        """The moment whose offsets are asked for, if it is by time."""
        if self.by_seconds is not None:
            return max(0, now_ms - int(self.by_seconds * 1000))
        return self.to_time_ms

    def names(self, sp: SourcePartition) -> bool:
        """Whether a partition is among those asked for."""
        if self.to_offsets is not None and sp.partition not in self.to_offsets.get(sp.topic, {}):
            return False
        return (
            self.source in (None, sp.cluster)
            and self.topic in (None, sp.topic)
            and self.partition in (None, sp.partition)
        )

    def absent(self, found: Iterable[SourcePartition]) -> list[str]:
        """Partitions that are asked for one by one, and are not among those that were found."""
        there = {(sp.topic, sp.partition) for sp in found}
        return [
            f"{self.source}/{topic}/{partition}"
            for topic, offsets in (self.to_offsets or {}).items()
            for partition in offsets
            if (topic, partition) not in there
        ]

    def __str__(self) -> str:
        named = (self.source, self.topic, self.partition)
        return "/".join("*" if part is None else str(part) for part in named)


class MoveKind(StrEnum):
    """What becomes of the records."""

    STAY = "STAY"
    REPLAY = "REPLAY"
    AGAIN = "AGAIN"
    SKIP = "SKIP"
    ANEW = "ANEW"
    TAKEN_OVER = "TAKEN_OVER"


@dataclass(frozen=True, slots=True)
class BeforeMove:
    """One partition before its move. What is not known is None.

    `log` is what its log holds now, `position` and `clean` are the checkpoint's, `furthest` the
    highest position that this log ever had. `aimed` is the position that a time or a version means
    here. `other_log` says why the position belongs to another log than the one that is there now;
    then `furthest` is None. Below `cut` offsets stand for two records each.
    """

    partition: SourcePartition
    log: OffsetRange | None
    position: int | None = None
    clean: bool = True
    furthest: int | None = None
    aimed: int | None = None
    other_log: str = ""
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class PositionMove:
    """One partition and where it goes. `skipped` are offsets that are then never copied.

    `clean`: the next start need not look into the hub for it. `gone` is what the source has deleted
    of what must be read.
    """

    partition: SourcePartition
    position: int | None
    new: int
    kind: MoveKind
    clean: bool = True
    skipped: OffsetRange | None = None
    gone: OffsetRange | None = None

    @property
    def difference(self) -> int | None:
        """How many offsets forward (back is negative); None without a position before."""
        return None if self.position is None else self.new - self.position

    def __str__(self) -> str:
        lost = ""
        if self.skipped is not None:
            lost = f"{self.skipped.earliest} to {self.skipped.latest - 1} are SKIPPED, never copied"
        match self.kind:
            case MoveKind.STAY:
                return "stays"
            case MoveKind.REPLAY:
                return f"what the hub lacks from {self.new} on is written"
            case MoveKind.AGAIN:
                return f"all from {self.new} on is written AGAIN, the hub has it twice then"
            case MoveKind.SKIP:
                return lost or f"continues at {self.new}; what was before it is gone at the source"
            case MoveKind.TAKEN_OVER:
                gone = ""
                if self.gone is not None:
                    gone = f"; the source has deleted all before {self.gone.latest}: a gap"
                return f"continues at {self.new}, where the other tool was{gone}"
        words = f"another log than before: all from {self.new} on is written"
        return f"{words}; {lost}" if lost else words


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Moves in order; with problems in it nothing may be done. `notes` are for people."""

    moves: tuple[PositionMove, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[PositionMove, ...]:
        """The moves that change anything."""
        return tuple(move for move in self.moves if move.kind is not MoveKind.STAY)


def plan_moves(request: MoveRequest, places: Iterable[BeforeMove]) -> MovePlan:
    """Decide the move of each place that the request names, or every reason why it cannot be."""
    moves: list[PositionMove] = []
    problems: list[str] = []
    notes: list[str] = []
    for place in sorted(places, key=lambda it: it.partition):
        found = _move(request, place)
        if isinstance(found, PositionMove):
            moves.append(found)
        elif found.startswith(_NOTE):
            notes.append(found.removeprefix(_NOTE))
        else:
            problems.append(found)
    kinds = {move.kind for move in moves}
    if MoveKind.REPLAY in kinds:
        notes.append(
            "what the hub lacks is written behind what it holds: old records come after newer ones"
        )
    if MoveKind.AGAIN in kinds:
        notes.append("--again: what the hub holds already is written a second time, on purpose")
    if MoveKind.ANEW in kinds:
        notes.append(
            "of another log than before the hub's records are not compared: all is written, also "
            "under offsets that the hub knows"
        )
    return MovePlan(tuple(moves), tuple(problems), tuple(notes))


_NOTE = "note: "


def _move(request: MoveRequest, place: BeforeMove) -> PositionMove | str:
    """The move, a problem, or a note that nothing is done."""
    sp, log, now = place.partition, place.log, place.position
    if log is None:
        return f"{sp}: its log could not be read"
    if request.rewind and now is None:
        return f"{_NOTE}{sp} has no position yet: left alone"
    if request.taken_over:
        return _taken_over(request, place, log)
    new = _target(request, place, log)
    if new is None and request.to_version is not None:
        return (
            f"{_NOTE}commit {request.to_version} has no position of {sp} as it is now: left alone"
        )
    if new is None:
        return f"{sp}: no offset is known for that time"
    foreign = place.other_log
    if not foreign and now is not None and now > log.latest:
        foreign = f"its log ends at {log.latest}, before its position {now}"
    if request.rewind and foreign:
        return f"{_NOTE}{sp}: {foreign}: left alone, as only `positions set` can decide"
    if request.rewind and now is not None and new >= now:
        return PositionMove(sp, now, now, MoveKind.STAY, place.clean)
    if not log.earliest <= new <= log.latest:
        return f"{sp}: {new} is outside its log, which goes from {log.earliest} to {log.latest}"
    if foreign:
        lost = OffsetRange(log.earliest, new) if place.other_log and new > log.earliest else None
        return PositionMove(sp, now, new, MoveKind.ANEW, skipped=lost)
    return _within(request, place, log, new)


def _taken_over(request: MoveRequest, place: BeforeMove, log: OffsetRange) -> PositionMove | str:
    """The first position of a partition that another tool has copied up to there.

    What the hub has of it bears no origin, so there is nothing to look for in it.
    """
    sp, new = place.partition, _target(request, place, log)
    if place.position is not None or new is None:
        return f"{_NOTE}{sp} has a position already, {place.position}: left alone"
    if new > log.latest:
        return (
            f"{_NOTE}{sp}: the other tool was at {new}, and its log ends at {log.latest}: it was "
            "created again since, so it is left alone and begins by `start`"
        )
    gone = OffsetRange(new, log.earliest) if new < log.earliest else None
    return PositionMove(sp, None, new, MoveKind.TAKEN_OVER, clean=True, gone=gone)


def _target(request: MoveRequest, place: BeforeMove, log: OffsetRange) -> int | None:
    if request.to is not None:
        return log.earliest if request.to == "earliest" else log.latest
    if request.to_offset is not None:
        return request.to_offset
    if request.to_offsets is not None:
        sp = place.partition
        asked = request.to_offsets[sp.topic][sp.partition]
        return log.earliest if asked is None else asked
    if request.by_offsets is not None:
        return None if place.position is None else place.position - request.by_offsets
    if place.aimed is None or request.to_version is not None:
        return place.aimed
    # A time was looked up a moment before or after the log's ends.
    return min(max(place.aimed, log.earliest), log.latest)


def _within(
    request: MoveRequest, place: BeforeMove, log: OffsetRange, new: int
) -> PositionMove | str:
    """The move of a partition whose log is the one that its position is about."""
    sp, now = place.partition, place.position
    if new == now and not request.again:
        return PositionMove(sp, now, new, MoveKind.STAY, place.clean)
    # Where it once was it has copied all below: to return there skips nothing.
    history = None if place.cut is not None else place.furthest
    copied = max((it for it in (now, history) if it is not None), default=None)
    if copied is not None and new > copied:
        lost = OffsetRange(max(copied, log.earliest), new)
        clean = place.clean and now == copied
        return PositionMove(
            sp, now, new, MoveKind.SKIP, clean, lost if lost.latest > lost.earliest else None
        )
    if request.again:
        kind = MoveKind.STAY if new == now == copied else MoveKind.AGAIN
        return PositionMove(sp, now, new, kind, clean=True)
    if place.cut is not None and new < place.cut:
        return (
            f"{sp}: below {place.cut} its log was cut off and has grown again, so that offsets do "
            "not show what the hub lacks: use --again, which writes everything"
        )
    return PositionMove(sp, now, new, MoveKind.REPLAY, clean=False)
