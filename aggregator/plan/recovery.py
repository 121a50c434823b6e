"""What a recovery reads: the hub tail, then the source ranges to look through. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from aggregator.model import OffsetRange, Positions, Route, SourcePartition, TopicPartition
from aggregator.plan.positions import Gap, GapKind, Remembered

NOTHING: Mapping[SourcePartition, Mapping[TopicPartition, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TailPlan:
    """The hub tail that may hold records beyond the positions: [earliest, latest) per partition.

    `above` says of a source partition where its own tail begins, in hub partitions in which the
    whole tail begins earlier. What lies before that is not beyond its position, whatever its origin
    says: it may be of an earlier topic of the same name.
    """

    positions: Positions
    ranges: Mapping[TopicPartition, OffsetRange]
    above: Mapping[SourcePartition, Mapping[TopicPartition, int]] = field(default_factory=dict)

    @property
    def offsets(self) -> int:
        """How many offsets the tail spans."""
        return sum(log.latest - log.earliest for log in self.ranges.values())


def plan_tail(
    positions: Positions,
    hub_ends: Mapping[TopicPartition, int],
    hub_logs: Mapping[TopicPartition, OffsetRange],
    own_ends: Mapping[SourcePartition, Mapping[TopicPartition, int]] = NOTHING,
) -> TailPlan:
    """The tail behind a checkpoint, within what the hub's logs hold now.

    `hub_ends` is the checkpoint's lower bound for all; a hub partition that it does not know (the
    topic was created or has grown since) is read from its beginning. Empty ranges are left out.
    `own_ends` are the bounds of single partitions, which may be higher.
    """
    ranges = {}
    for tp, log in hub_logs.items():
        start = min(max(hub_ends.get(tp, log.earliest), log.earliest), log.latest)
        if start < log.latest:
            ranges[tp] = OffsetRange(start, log.latest)
    above = {
        sp: {tp: end for tp, end in ends.items() if tp in ranges and end > ranges[tp].earliest}
        for sp, ends in own_ends.items()
    }
    return TailPlan(positions, ranges, {sp: ends for sp, ends in above.items() if ends})


def plan_replay(
    positions: Positions,
    highest: Mapping[SourcePartition, int],
    logs: Mapping[SourcePartition, OffsetRange],
) -> dict[SourcePartition, OffsetRange]:
    """Source ranges [position, highest found + 1) in which records may be missing from the hub.

    `highest` is the highest origin offset that the tail holds per source partition. Above it
    nothing was delivered; below it anything may be missing, because one source partition spreads
    over several hub partitions. A partition with nothing found needs no replay. `logs` are what
    the sources still hold; a partition without one is not read: its log is another one.
    """
    ranges = {}
    for sp, position in positions.items():
        if sp in logs and highest.get(sp, -1) >= position:
            log = logs[sp]
            start, end = max(position, log.earliest), min(highest[sp] + 1, log.latest)
            if start < end:
                ranges[sp] = OffsetRange(start, end)
    return ranges


def recovered_positions(positions: Positions, highest: Mapping[SourcePartition, int]) -> Positions:
    """The positions after a replay: the hub holds nothing above them, and below them everything.

    But for what `plan_losses` names, which the sources hold no longer.
    """
    return positions.merged(
        {sp: top + 1 for sp, top in highest.items() if top >= positions.get(sp, 0)}
    )


def plan_losses(
    before: Remembered,
    after: Positions,
    logs: Mapping[SourcePartition, OffsetRange],
    found: Mapping[SourcePartition, int],
) -> tuple[Gap, ...]:
    """What a recovery could not replay, because it was deleted from the source meanwhile.

    `found` says of how many offsets below the log's earliest the hub holds the record. Nothing is
    told of a partition of which the hub held nothing beyond its position: that shows by itself.
    """
    gaps = []
    for sp, reached in sorted(after.items()):
        position, log = before.positions[sp], logs.get(sp)
        if log is None or not position < min(log.earliest, reached):
            continue
        lost = min(log.earliest, reached) - position - found.get(sp, 0)
        if lost > 0:
            lost += max(0, log.earliest - reached)
            reason = (
                f"up to {lost} of the offsets {position} to {log.earliest - 1} were deleted before "
                "they were copied"
            )
            gaps.append(
                Gap(
                    sp,
                    GapKind.BELOW_EARLIEST,
                    position,
                    log.earliest,
                    reason,
                    reached,
                    lost,
                    (before.cluster_ids.get(sp, ""), before.cluster_ids.get(sp, "")),
                    (before.topic_ids.get(sp, ""), before.topic_ids.get(sp, "")),
                )
            )
    return tuple(gaps)


def hub_topics_of(
    routes: Iterable[Route], partitions: Collection[SourcePartition]
) -> frozenset[str]:
    """The hub topics that records of these source partitions go to, quarantine among them."""
    topics = {(sp.cluster, sp.topic) for sp in partitions}
    own = [route for route in routes if (route.cluster, route.topic) in topics]
    return frozenset(
        name for route in own for name in (route.hub_topic, route.poison.quarantine) if name
    )
