"""Where each source partition starts, and which positions do not fit their log any more.

Real-time mode started outside the log stays silent or fails, so every start position lies in
[earliest, latest]. A partition that does not fit is named as a gap and not started;
`aggregator.gaps.core` decides about it. The others start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from aggregator.model import (
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
    TOPIC_RECREATED = "TOPIC_RECREATED"
    TOPIC_GONE = "TOPIC_GONE"
    CLUSTER_CHANGED = "CLUSTER_CHANGED"
    FOREIGN_ORIGIN = "FOREIGN_ORIGIN"
    """No misfit of a position: the hub holds records by its name that are of another log."""
    SKIPPED_BY_OPERATOR = "SKIPPED_BY_OPERATOR"
    """No finding: positions were set forward by hand, over records that were not copied."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A finding about one partition: offsets [start, end) are lost or in doubt.

    `end` is None when nothing tells where the loss ends. `position` is where the partition stands.
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

    def __str__(self) -> str:
        end = "?" if self.end is None else self.end
        return f"{self.partition}: {self.kind} [{self.start}, {end}): {self.reason}"


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Start positions; gaps; and every partition that is held back with the reason why.

    Each selected partition is either in `positions` or in `held`; each gap's partition is held.
    Of those in `unread` this look could not read an offset that it takes: the next one may.
    """

    positions: Positions
    gaps: tuple[Gap, ...] = ()
    held: Mapping[SourcePartition, str] = field(default_factory=dict)
    unread: frozenset[SourcePartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Observed:
    """The clusters now: ids, every topic's id ("" = not told), partition ranges.

    A cluster that is not in `cluster_ids` did not answer; nothing is concluded from its silence.
    """

    cluster_ids: Mapping[str, str]
    topic_ids: Mapping[TopicKey, str]
    offsets: Mapping[SourcePartition, OffsetRange]

    def log(self, sp: SourcePartition) -> LogId:
        """The log that is there now."""
        topic = self.topic_ids.get((sp.cluster, sp.topic), "")
        return LogId(self.cluster_ids.get(sp.cluster, ""), topic)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the checkpoint knows of each partition: its position, and what that belongs to.

    The `logs` are each partition's own: of one topic some partitions may have been decided about
    after it was created again, and others not yet. `snapshots` tell one commit of a position from
    the next. Of a partition in `unsure` the hub may hold more than the position says; its log is
    not compared until that is known. `copied` are offsets beyond a position that the hub holds.
    """

    positions: Positions = field(default_factory=Positions)
    logs: Mapping[SourcePartition, LogId] = field(default_factory=dict)
    log_ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    snapshots: Mapping[SourcePartition, int] = field(default_factory=dict)
    unsure: frozenset[SourcePartition] = frozenset()
    copied: Mapping[SourcePartition, Ranges] = field(default_factory=dict)

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
    known_topics = {(sp.cluster, sp.topic) for sp in known.positions}
    selected = [sp for route in routes for sp in route.source_partitions()]
    for sp in selected:
        gap = _identity_gap(sp, known, observed)
        log = observed.offsets.get(sp)
        if gap is None and log is not None and sp in known.positions and sp not in known.unsure:
            gap = _range_gap(sp, known, observed, log)
        if gap is not None:
            gaps.append(gap)
            held[sp] = gap.reason
        elif log is None:
            held[sp] = "its offsets could not be read; it starts when they can"
            unread.add(sp)
        elif sp in known.positions:
            positions[sp] = known.positions[sp]
        else:
            key = (sp.cluster, sp.topic)
            policy = "earliest" if key in known_topics | appeared else starts[sp.cluster]
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


def _range_gap(
    sp: SourcePartition, known: Remembered, observed: Observed, log: OffsetRange
) -> Gap | None:
    position = known.positions[sp]
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
    if position > log.latest:
        return Gap(
            sp,
            GapKind.BEYOND_END,
            log.latest,
            position,
            f"position {position} is beyond the log's end {log.latest}: the log was truncated, or "
            "the topic is another one",
            position,
            None,
            then,
            now,
        )
    return None


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
