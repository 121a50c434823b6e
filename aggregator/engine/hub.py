"""Reads the hub's end offsets: the snapshots that checkpoints are bounded by."""

from __future__ import annotations

import time
from collections.abc import Iterable

from aggregator.discover import ClusterAdmin
from aggregator.engine.tail import HubSnapshot
from aggregator.model import TopicPartition


def read_snapshot(hub: ClusterAdmin, topics: Iterable[str], timeout: float) -> HubSnapshot:
    """End offsets of all partitions that hub topics have now.

    A partition that does not tell is left out: unknown, so a tail there begins at its earliest.
    Raises ClusterError when the hub does not answer.
    """
    counts = hub.partition_counts(timeout)
    partitions = [
        TopicPartition(topic, partition)
        for topic in sorted(set(topics))
        for partition in range(counts.get(topic, 0))
    ]
    ranges = hub.offsets(partitions, timeout).ranges if partitions else {}
    taken_ms = time.time_ns() // 1_000_000
    return HubSnapshot(taken_ms, {tp: log.latest for tp, log in ranges.items()})
