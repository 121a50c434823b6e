"""What a recovery reads: the hub tail, then the source ranges to look through. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from aggregator.model import OffsetRange, Positions, Route, SourcePartition, TopicPartition


@dataclass(frozen=True, slots=True)
class TailPlan:
    """The hub tail that may hold records beyond the positions: [earliest, latest) per partition."""

    positions: Positions
    ranges: Mapping[TopicPartition, OffsetRange]

    @property
    def offsets(self) -> int:
        """How many offsets the tail spans."""
        return sum(log.latest - log.earliest for log in self.ranges.values())


def plan_tail(
    positions: Positions,
    hub_ends: Mapping[TopicPartition, int],
    hub_logs: Mapping[TopicPartition, OffsetRange],
) -> TailPlan:
    """The tail behind a checkpoint, within what the hub's logs hold now.

    `hub_ends` is the checkpoint's lower bound; a hub partition that it does not know (the topic
    was created or has grown since) is read from its beginning. Empty ranges are left out.
    """
    ranges = {}
    for tp, log in hub_logs.items():
        start = min(max(hub_ends.get(tp, log.earliest), log.earliest), log.latest)
        if start < log.latest:
            ranges[tp] = OffsetRange(start, log.latest)
    return TailPlan(positions, ranges)


def plan_replay(
    positions: Positions, highest: Mapping[SourcePartition, int]
) -> dict[SourcePartition, OffsetRange]:
    """Source ranges [position, highest found + 1) in which records may be missing from the hub.

    `highest` is the highest origin offset that the tail holds per source partition. Above it
    nothing was delivered; below it anything may be missing, because one source partition spreads
    over several hub partitions. A partition with nothing found needs no replay.
    """
    return {
        sp: OffsetRange(position, highest[sp] + 1)
        for sp, position in positions.items()
        if highest.get(sp, -1) >= position
    }


def recovered_positions(
    positions: Positions, ranges: Mapping[SourcePartition, OffsetRange]
) -> Positions:
    """The positions after a replay: everything below them is in the hub, nothing above them is."""
    return positions.merged({sp: log.latest for sp, log in ranges.items()})


def hub_topics_of(
    routes: Iterable[Route], partitions: Collection[SourcePartition]
) -> frozenset[str]:
    """The hub topics that records of these source partitions go to."""
    topics = {(sp.cluster, sp.topic) for sp in partitions}
    return frozenset(r.hub_topic for r in routes if (r.cluster, r.topic) in topics)
