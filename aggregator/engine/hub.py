"""Reads the hub's logs: the snapshots that bound checkpoints, and what a recovery reads."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from aggregator.discover import ClusterAdmin
from aggregator.engine.tail import HubSnapshot
from aggregator.errors import ClusterError
from aggregator.failpoint import failpoint
from aggregator.model import OffsetRange, TopicPartition


def read_snapshot(hub: ClusterAdmin, topics: Mapping[str, int], timeout: float) -> HubSnapshot:
    """End offsets of hub topics, given as topic -> partition count.

    A partition that does not tell is left out: unknown, so a tail there begins at its earliest.
    Raises ClusterError when the hub does not answer.
    """
    partitions = [
        TopicPartition(topic, partition)
        for topic, count in sorted(topics.items())
        for partition in range(count)
    ]
    ranges = hub.offsets(partitions, timeout).ranges if partitions else {}
    failpoint("after-snapshot")
    taken_ms = time.time_ns() // 1_000_000
    return HubSnapshot(taken_ms, {tp: log.latest for tp, log in ranges.items()})


def read_logs(
    hub: ClusterAdmin, topics: Collection[str], timeout: float
) -> dict[TopicPartition, OffsetRange]:
    """The logs of all partitions of hub topics.

    ClusterError when one is not told: a tail that is not whole would make what it does not show
    look missing.
    """
    counts = hub.partition_counts(timeout)
    if absent := sorted(set(topics) - counts.keys()):
        raise ClusterError(f"hub: its end offsets are not all known: no {', '.join(absent)}")
    return told_logs(hub, topics, counts, timeout)


def told_logs(
    hub: ClusterAdmin, topics: Collection[str], counts: Mapping[str, int], timeout: float
) -> dict[TopicPartition, OffsetRange]:
    """The logs of hub topics, of `counts` partitions; a topic that is not in there has none.

    ClusterError when one is not told: what does not show would look missing.
    """
    wanted = [
        TopicPartition(topic, partition)
        for topic in sorted(topics)
        for partition in range(counts.get(topic, 0))
    ]
    found = hub.offsets(wanted, timeout)
    if found.failed:
        raise ClusterError(f"hub: its end offsets are not all known: {dict(found.failed)}")
    return dict(found.ranges)
