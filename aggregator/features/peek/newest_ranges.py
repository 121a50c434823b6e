"""Where to read for the newest records of a topic. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from aggregator.model.values import OffsetRange, TopicPartition

MOST_PARTITIONS = 64
"""The most partitions to read: those with the most records."""


def tails(
    logs: Mapping[TopicPartition, OffsetRange], records: int
) -> dict[TopicPartition, OffsetRange]:
    """Where to read for the newest `records` of a topic.

    Behind the last record there may be markers, so a little more than that is read. Where more
    offsets than that hold no record (compaction, an aborted transaction), fewer are found.
    """
    filled = [
        (log.latest - log.earliest, tp) for tp, log in logs.items() if log.latest > log.earliest
    ]
    most = sorted(filled, key=lambda it: (-it[0], it[1]))[:MOST_PARTITIONS]
    return {
        tp: OffsetRange(max(logs[tp].earliest, logs[tp].latest - records - 2), logs[tp].latest)
        for _, tp in most
    }
