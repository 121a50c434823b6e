"""Where each source partition starts, and which positions no longer fit their log.

Real-time mode started outside the log stays silent or fails, so every start position lies in
[earliest, latest]. A partition that does not fit is named as a gap and not started;
`aggregator.plan.positions.gaps` decides about it. The others start.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from aggregator.model.values import (
    UNKNOWN_LOG,
    LogId,
    OffsetRange,
    Positions,
    Ranges,
    Route,
    SourcePartition,
)

TopicKey = tuple[str, str]
"""(cluster alias, topic)"""


class GapKind(StrEnum):
    """What does not fit between a known position and the log."""

    BELOW_EARLIEST = "BELOW_EARLIEST"
    BEYOND_END = "BEYOND_END"
    DAMAGED = "DAMAGED"
    TOPIC_RECREATED = "TOPIC_RECREATED"
    TOPIC_GONE = "TOPIC_GONE"
    CLUSTER_CHANGED = "CLUSTER_CHANGED"
    FOREIGN_ORIGIN = "FOREIGN_ORIGIN"
    """No misfit of a position: the hub holds records by its name that are of another log."""
    HUB_LOST = "HUB_LOST"
    """No misfit either: the hub has lost what was copied, and how much of it is not known."""
    SKIPPED_BY_OPERATOR = "SKIPPED_BY_OPERATOR"
    """No finding: positions were set forward by hand, over records that were not copied."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A finding about one partition: offsets [start, end) are lost or in doubt.

    `end` is None when the end of the loss is unknown. `position` is where the partition is.
    `lost` is how many of the offsets the hub does not hold, None when that is unknown; compaction
    and transactions use up offsets, so it may exceed the records. `then` is the log that the
    position belongs to, `now` the one that is there.
    """

    partition: SourcePartition
    kind: GapKind
    start: int
    end: int | None
    reason: str
    position: int
    lost: int | None = None
    then: LogId = UNKNOWN_LOG
    now: LogId = UNKNOWN_LOG

    def as_columns(self) -> dict[str, Any]:
        """The fields that the table and every view call by another name, by that name."""
        return {
            "cause": self.kind,
            "from_offset": self.start,
            "to_offset": self.end,
            "cluster_id_then": self.then.cluster,
            "cluster_id_now": self.now.cluster,
            "topic_id_then": self.then.topic,
            "topic_id_now": self.now.topic,
        }

    def __str__(self) -> str:
        end = "?" if self.end is None else self.end
        return f"{self.partition}: {self.kind} [{self.start}, {end}): {self.reason}"


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Start positions; gaps; and every partition that is held back with the reason why.

    Each selected partition is either in `positions` or in `held`; each gap's partition is held.
    For those in `unread` discovery could not read a needed offset: the next one may.
    """

    positions: Positions
    gaps: tuple[Gap, ...] = ()
    held: Mapping[SourcePartition, str] = field(default_factory=dict)
    unread: frozenset[SourcePartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Damage:
    """The result of trying to read a log from a position on.

    `end` is the first offset behind what cannot be read: the position itself where nothing is
    damaged, None where it was not found.
    """

    position: int
    end: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """The clusters now: ids, every topic's id ("" = not reported), partition ranges.

    A cluster that is not in `cluster_ids` did not answer; nothing is concluded from its silence.
    Where the end of a log is a last stable offset, which an open transaction holds back, `highs`
    has the end of all that is acknowledged, for positions beyond the former; of a source in
    `stable` that must be known first. `damages` are logs that were read because a reader could not.
    """

    cluster_ids: Mapping[str, str]
    topic_ids: Mapping[TopicKey, str]
    offsets: Mapping[SourcePartition, OffsetRange]
    stable: frozenset[str] = frozenset()
    highs: Mapping[SourcePartition, int] = field(default_factory=dict)
    damages: Mapping[SourcePartition, Damage] = field(default_factory=dict)

    def log(self, sp: SourcePartition) -> LogId:
        """The log that is there now."""
        topic = self.topic_ids.get((sp.cluster, sp.topic), "")
        return LogId(self.cluster_ids.get(sp.cluster, ""), topic)

    def reach(self, sp: SourcePartition) -> OffsetRange | None:
        """A log with what an open transaction holds back, where that is known."""
        log = self.offsets.get(sp)
        return log and OffsetRange(log.earliest, max(log.latest, self.highs.get(sp, log.latest)))

    def end(self, sp: SourcePartition, position: int) -> int | None:
        """Where a log ends that is known, as far as a position can lie in it.

        None when a position may lie in what an open transaction holds back, and that is not known.
        """
        latest = self.offsets[sp].latest
        if position <= latest or sp.cluster not in self.stable:
            return latest
        high = self.highs.get(sp)
        return None if high is None else max(latest, high)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the checkpoint knows of each partition: its position, and what that belongs to.

    The `logs` are each partition's own: of one topic some partitions may have been decided about
    after it was created again, and others not yet. `snapshots` distinguish one commit of a position
    from the next. Of a partition in `unsure` the hub may hold more than the position says; its log
    is not compared until that is known. `copied` are offsets beyond a position that the hub holds.
    `cuts` are offsets from which a log differs from what was read, as its reader reports.
    """

    positions: Positions = field(default_factory=Positions)
    logs: Mapping[SourcePartition, LogId] = field(default_factory=dict)
    log_ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    snapshots: Mapping[SourcePartition, int] = field(default_factory=dict)
    unsure: frozenset[SourcePartition] = frozenset()
    copied: Mapping[SourcePartition, Ranges] = field(default_factory=dict)
    cuts: Mapping[SourcePartition, int] = field(default_factory=dict)

    def log(self, sp: SourcePartition) -> LogId:
        """The log that a position belongs to."""
        return self.logs.get(sp, UNKNOWN_LOG)


def plan_positions(
    routes: Iterable[Route],
    known: Remembered,
    observed: Observed,
    starts: Mapping[str, str],
    timestamp_offsets: Mapping[SourcePartition, int] | None = None,
    appeared: frozenset[TopicKey] = frozenset(),
    is_selected: Callable[[TopicKey], bool] = lambda _: True,
) -> StartPlan:
    """Decide the start of every partition of `routes`.

    A known position is kept. A new partition of a known topic starts at earliest, as does a topic
    that appeared while we ran (`appeared`): all of it is new. Any other topic starts by its
    source's entry in `starts`: `earliest`, `latest`, or milliseconds, for which the edge has put
    the offset into `timestamp_offsets`. `is_selected` says of a topic that is not there whether
    the config asks for it.
    """
    positions: dict[SourcePartition, int] = {}
    gaps: list[Gap] = []
    held: dict[SourcePartition, str] = {}
    unread: set[SourcePartition] = set()
    from_the_beginning = appeared | {(sp.cluster, sp.topic) for sp in known.positions}
    selected = [sp for route in routes for sp in route.source_partitions()]
    for sp in selected:
        gap = _identity_gap(sp, known, observed)
        log = observed.offsets.get(sp)
        compared = log is not None and sp in known.positions and sp not in known.unsure
        if gap is None and compared:
            gap = _range_gap(sp, known, observed) or _damage_gap(sp, known, observed)
        if gap is not None:
            gaps.append(gap)
            held[sp] = gap.reason
        elif compared and (why := _unproven(sp, known, observed)):
            held[sp] = why
            unread.add(sp)
        elif log is None:
            held[sp] = "its offsets could not be read; it starts when they can"
            unread.add(sp)
        elif sp in known.positions:
            positions[sp] = known.positions[sp]
        else:
            is_of_known = (sp.cluster, sp.topic) in from_the_beginning
            policy = "earliest" if is_of_known else starts[sp.cluster]
            start = _by_policy(sp, policy, log, timestamp_offsets or {})
            if start is None:
                held[sp] = f"no offset is known for start = {policy}; it starts when it is"
                unread.add(sp)
            else:
                positions[sp] = start
    for gap in _vanished(set(selected), known, observed, is_selected):
        gaps.append(gap)
        held[gap.partition] = gap.reason
    gaps.sort(key=lambda gap: gap.partition)
    return StartPlan(Positions(positions), tuple(gaps), held, frozenset(unread))


def is_same_log(sp: SourcePartition, known: Remembered, observed: Observed) -> bool:
    """Whether the position belongs to the cluster and topic that are there now, as far as known."""
    return _identity_gap(sp, known, observed) is None


def _by_policy(
    sp: SourcePartition, policy: str, log: OffsetRange, by_time: Mapping[SourcePartition, int]
) -> int | None:
    if policy == "earliest":
        return log.earliest
    if policy == "latest":
        return log.latest
    found = by_time.get(sp)
    # The edge's answer may be older than `log`; the start must lie inside it.
    return None if found is None else min(max(found, log.earliest), log.latest)


def _identity_gap(sp: SourcePartition, known: Remembered, observed: Observed) -> Gap | None:
    """The cluster or the topic behind the name is another one than the position belongs to."""
    if sp not in known.positions:
        return None
    then, now = known.log(sp), observed.log(sp)
    if then.is_other_cluster(now):
        reason = (
            f"source {sp.cluster} is now cluster {now.cluster}, the checkpoint belongs to "
            f"{then.cluster}"
        )
        return _of_the_old(sp, GapKind.CLUSTER_CHANGED, reason, known, observed)
    if then.is_other_topic(now):
        reason = (
            f"topic {sp.topic} was deleted and created again (id {then.topic}, now {now.topic})"
        )
        return _of_the_old(sp, GapKind.TOPIC_RECREATED, reason, known, observed)
    return None


def _of_the_old(
    sp: SourcePartition, kind: GapKind, reason: str, known: Remembered, observed: Observed
) -> Gap:
    """A gap of a log that is no longer there: from the position to the last end that was seen."""
    position = known.positions[sp]
    then, now = known.log(sp), observed.log(sp)
    end, copied = known.log_ends.get(sp), known.copied.get(sp, ())
    if end is None:
        lost = None
    else:
        end = max(end, position, *(after for _, after in copied))
        lost = end - position - sum(after - first for first, after in copied)
    if end is not None and lost:
        some = f"{lost} of the " if copied else ""
        reason += f"; at least {some}offsets {position} to {end - 1} were not copied"
    return Gap(sp, kind, position, end, reason, position, lost, then, now)


def _range_gap(sp: SourcePartition, known: Remembered, observed: Observed) -> Gap | None:
    position, log = known.positions[sp], observed.offsets[sp]
    then, now = known.log(sp), observed.log(sp)
    if position < log.earliest:
        return Gap(
            sp,
            GapKind.BELOW_EARLIEST,
            position,
            log.earliest,
            f"offsets {position} to {log.earliest - 1} were deleted before they were copied",
            position,
            log.earliest - position,
            then,
            now,
        )
    end = observed.end(sp, position)
    cut = known.cuts.get(sp)
    if end is not None and end < position:
        start = end if cut is None else min(cut, end)
        reason = (
            f"position {position} is beyond the log's end {end}: the log was truncated, or "
            "the topic is another one"
        )
    elif cut is not None and cut < position:
        start = cut
        reason = (
            f"the log was cut off at {cut}, and read up to {position} before: a leader that did "
            "not have it all has written other records there"
        )
    else:
        return None
    return Gap(sp, GapKind.BEYOND_END, start, position, reason, position, None, then, now)


def _damage_gap(sp: SourcePartition, known: Remembered, observed: Observed) -> Gap | None:
    """Offsets that cannot be read: neither by a task, nor by the client that tried after it."""
    found, position = observed.damages.get(sp), known.positions[sp]
    if found is None or found.position != position or found.end in (None, position):
        return None
    end = found.end
    return Gap(
        sp,
        GapKind.DAMAGED,
        position,
        end,
        f"offsets {position} to {end - 1} cannot be read: {found.reason}",
        position,
        end - position,
        known.log(sp),
        observed.log(sp),
    )


def _unproven(sp: SourcePartition, known: Remembered, observed: Observed) -> str:
    """Why nothing may start from a position although it has no gap; "" when it may."""
    position, found = known.positions[sp], observed.damages.get(sp)
    if observed.end(sp, position) is None:
        return (
            f"position {position} is beyond the last stable offset {observed.offsets[sp].latest}: "
            "whether the log holds it is asked next"
        )
    if found is not None and found.position == position and found.end is None:
        return (
            f"offset {position} cannot be read, and how far that goes was not found "
            f"({found.reason}); it is tried again, and `aggregator positions set` moves it on"
        )
    return ""


def _vanished(
    selected: set[SourcePartition],
    known: Remembered,
    observed: Observed,
    is_selected: Callable[[TopicKey], bool],
) -> Iterable[Gap]:
    """Known partitions that are not there any more.

    One that is merely no longer selected is no finding: its position stays in the checkpoint.
    """
    routed = {(sp.cluster, sp.topic) for sp in selected}
    for sp in known.positions:
        key = (sp.cluster, sp.topic)
        if sp in selected or sp.cluster not in observed.cluster_ids or not is_selected(key):
            continue
        if (gap := _identity_gap(sp, known, observed)) is not None:
            if key in routed or gap.kind is GapKind.CLUSTER_CHANGED:
                yield gap
        elif key not in observed.topic_ids:
            reason = f"topic {sp.topic} does not exist any more"
            yield _of_the_old(sp, GapKind.TOPIC_GONE, reason, known, observed)
        elif key in routed:
            reason = f"topic {sp.topic} has no partition {sp.partition} any more"
            yield _of_the_old(sp, GapKind.TOPIC_RECREATED, reason, known, observed)
