"""Reads the hub's end offsets: the snapshots that checkpoints are bounded by."""

from __future__ import annotations

import time
from collections.abc import Mapping

from aggregator.discover import ClusterAdmin
from aggregator.engine.tail import HubSnapshot
from aggregator.model import TopicPartition


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
    taken_ms = time.time_ns() // 1_000_000
    return HubSnapshot(taken_ms, {tp: log.latest for tp, log in ranges.items()})
