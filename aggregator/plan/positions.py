"""Where each source partition starts, and what is held back because its log does not fit.

Real-time mode started outside the log stays silent for ever, so every start position lies in
[earliest, latest]. A partition that does not fit is named as a gap and not started; a policy
decides about it. The others start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from aggregator.model import OffsetRange, Positions, Route, SourcePartition

TopicKey = tuple[str, str]
"""(cluster alias, topic)"""


class GapKind(StrEnum):
    """What does not fit between a known position and the log."""

    BELOW_EARLIEST = "BELOW_EARLIEST"
    BEYOND_END = "BEYOND_END"
    TOPIC_RECREATED = "TOPIC_RECREATED"
    TOPIC_GONE = "TOPIC_GONE"
    CLUSTER_CHANGED = "CLUSTER_CHANGED"


@dataclass(frozen=True, slots=True)
class Gap:
    """A finding about one partition: offsets [start, end) are lost or in doubt.

    `start` is None when no position was known, `end` when nothing tells where the loss ends.
    """

    partition: SourcePartition
    kind: GapKind
    start: int | None
    end: int | None
    reason: str

    def __str__(self) -> str:
        start, end = ("?" if at is None else at for at in (self.start, self.end))
        return f"{self.partition}: {self.kind} [{start}, {end}): {self.reason}"


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Start positions; gaps; and every partition that is held back with the reason why.

    Each selected partition is either in `positions` or in `held`; each gap's partition is held.
    """

    positions: Positions
    gaps: tuple[Gap, ...] = ()
    held: Mapping[SourcePartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observed:
    """The clusters now: ids, every topic's id ("" = not told), partition ranges.

    A cluster that is not in `cluster_ids` did not answer; nothing is concluded from its silence.
    """

    cluster_ids: Mapping[str, str]
    topic_ids: Mapping[TopicKey, str]
    offsets: Mapping[SourcePartition, OffsetRange]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the checkpoint knows: positions, and the ids they belong to."""

    positions: Positions = field(default_factory=Positions)
    topic_ids: Mapping[TopicKey, str] = field(default_factory=dict)
    cluster_ids: Mapping[str, str] = field(default_factory=dict)


def plan_positions(
    routes: Iterable[Route],
    known: Remembered,
    observed: Observed,
    starts: Mapping[str, str],
    timestamp_offsets: Mapping[SourcePartition, int] | None = None,
    appeared: frozenset[TopicKey] = frozenset(),
) -> StartPlan:
    """Decide the start of every partition of `routes`.

    A known position is kept. A new partition of a known topic starts at earliest, as does a topic
    that appeared while we ran (`appeared`): all of it is new. Any other topic starts by its
    source's entry in `starts`: `earliest`, `latest`, or milliseconds, for which the edge has put
    the offset into `timestamp_offsets`.
    """
    positions: dict[SourcePartition, int] = {}
    gaps: list[Gap] = []
    held: dict[SourcePartition, str] = {}
    known_topics = {(sp.cluster, sp.topic) for sp in known.positions}
    selected = [sp for route in routes for sp in route.source_partitions()]
    for sp in selected:
        gap = _identity_gap(sp, known, observed)
        log = observed.offsets.get(sp)
        if gap is None and log is not None and sp in known.positions:
            gap = _range_gap(sp, known.positions[sp], log)
        if gap is not None:
            gaps.append(gap)
            held[sp] = gap.reason
        elif log is None:
            held[sp] = "its offsets could not be read; it starts when they can"
        elif sp in known.positions:
            positions[sp] = known.positions[sp]
        else:
            key = (sp.cluster, sp.topic)
            policy = "earliest" if key in known_topics | appeared else starts[sp.cluster]
            start = _by_policy(sp, policy, log, timestamp_offsets or {})
            if start is None:
                held[sp] = f"no offset is known for start = {policy}; it starts when it is"
            else:
                positions[sp] = start
    for gap in _vanished(set(selected), known, observed):
        gaps.append(gap)
        held[gap.partition] = gap.reason
    return StartPlan(Positions(positions), tuple(sorted(gaps, key=lambda gap: gap.partition)), held)


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
    position = known.positions.get(sp)
    cluster_then = known.cluster_ids.get(sp.cluster)
    cluster_now = observed.cluster_ids.get(sp.cluster)
    if cluster_then and cluster_now and cluster_then != cluster_now:
        return Gap(
            sp,
            GapKind.CLUSTER_CHANGED,
            position,
            None,
            f"source {sp.cluster} is now cluster {cluster_now}, the checkpoint belongs to "
            f"{cluster_then}",
        )
    topic_then = known.topic_ids.get((sp.cluster, sp.topic))
    topic_now = observed.topic_ids.get((sp.cluster, sp.topic))
    if topic_then and topic_now and topic_then != topic_now:
        return Gap(
            sp,
            GapKind.TOPIC_RECREATED,
            position,
            None,
            f"topic {sp.topic} was deleted and created again (id {topic_then}, now {topic_now})",
        )
    return None


def _range_gap(sp: SourcePartition, position: int, log: OffsetRange) -> Gap | None:
    if position < log.earliest:
        return Gap(
            sp,
            GapKind.BELOW_EARLIEST,
            position,
            log.earliest,
            f"offsets {position} to {log.earliest - 1} were deleted before they were copied",
        )
    if position > log.latest:
        return Gap(
            sp,
            GapKind.BEYOND_END,
            log.latest,
            position,
            f"position {position} is beyond the log's end {log.latest}: the log was truncated, or "
            "the topic is another one",
        )
    return None


def _vanished(
    selected: set[SourcePartition], known: Remembered, observed: Observed
) -> Iterable[Gap]:
    """Known partitions that are not there any more.

    One that is merely no longer selected is no finding: its position stays in the checkpoint.
    """
    routed = {(sp.cluster, sp.topic) for sp in selected}
    for sp, position in known.positions.items():
        key = (sp.cluster, sp.topic)
        if sp in selected or sp.cluster not in observed.cluster_ids:
            continue
        if (gap := _identity_gap(sp, known, observed)) is not None:
            if key in routed or gap.kind is GapKind.CLUSTER_CHANGED:
                yield gap
        elif key not in observed.topic_ids:
            reason = f"topic {sp.topic} does not exist any more"
            yield Gap(sp, GapKind.TOPIC_GONE, position, None, reason)
        elif key in routed:
            reason = f"topic {sp.topic} has no partition {sp.partition} any more"
            yield Gap(sp, GapKind.TOPIC_RECREATED, position, None, reason)
