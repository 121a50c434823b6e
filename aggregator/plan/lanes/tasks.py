"""How many tasks read a source, and which partitions each of them has. Pure.

A task is a thread with a consumer and a producer of its own, for as many partitions as it is given.
So tasks are a matter of cores, not of partitions: with fewer, records are sent in larger requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from aggregator.model.values import SourcePartition

TASKS_PER_CORE = 2


def tasks_per_source(cores: int, sources: int, slots: int | None) -> int:
    """The most tasks for each of `sources` sources: together about two for each core.

    At most half of the `slots`, where these are known, so that there is room for lanes that come
    beside those that run; at least one.
    """
    wanted = min(cores, TASKS_PER_CORE * cores // max(1, sources))
    if slots is not None:
        wanted = min(wanted, slots // (2 * max(1, sources)))
    return max(1, wanted)


def deal_tasks(partitions: Sequence[SourcePartition], tasks: int) -> list[list[SourcePartition]]:
    """The partitions of a reading by task: dealt out like cards, so that topics are spread."""
    hands = max(1, min(tasks, len(partitions)))
    ordered = sorted(partitions)
    return [ordered[hand::hands] for hand in range(hands)]
