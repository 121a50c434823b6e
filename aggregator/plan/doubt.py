"""Whether a start may believe a checkpoint that needs no recovery. Pure.

After a clean stop nothing of ours is in the hub behind the ends that the checkpoint holds. If there
is something, somebody else wrote it, or the checkpoint is older than it looks: commits were lost,
the folder was restored from a backup, or it is gone. To look costs little, and what it would cost
not to look is every record of that time once more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.model import OffsetRange, Route, SourcePartition, TopicPartition


@dataclass(frozen=True, slots=True)
class Doubt:
    """Partitions to recover although the checkpoint calls them clean, and where their tail begins.

    `reason` says why, in words; "" when there is nothing to doubt.
    """

    partitions: frozenset[SourcePartition] = frozenset()
    hub_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    reason: str = ""


def plan_doubt(
    routes: Iterable[Route],
    clean: Collection[SourcePartition],
    known_ends: Mapping[TopicPartition, int],
    hub_logs: Mapping[TopicPartition, OffsetRange],
    *,
    fresh: bool,
) -> Doubt:
    """Decide about a start.

    `clean` are the partitions that are to start without a recovery, `known_ends` the furthest ends
    of the hub that any clean end recorded, `fresh` that there is no checkpoint at all. A partition
    is doubted when a hub topic that it goes to holds anything behind the known ends.
    """
    beyond = {
        tp
        for tp, log in hub_logs.items()
        if log.latest > max(log.earliest, known_ends.get(tp, log.earliest))
    }
    topics = {tp.topic for tp in beyond}
    into = {(route.cluster, route.topic) for route in routes if topics & route.hub_topics}
    doubted = frozenset(sp for sp in clean if (sp.cluster, sp.topic) in into)
    if not doubted:
        return Doubt()
    count = sum(
        hub_logs[tp].latest - max(known_ends.get(tp, 0), hub_logs[tp].earliest) for tp in beyond
    )
    named = ", ".join(sorted(topics))
    reason = (
        f"there is no checkpoint, and the hub holds {count} records in {named}: looking which of "
        "them are ours (run --fresh skips this where none can be)"
        if fresh
        else f"the hub holds {count} records in {named} that the checkpoint does not know of: "
        "looking whether they are ours"
    )
    return Doubt(doubted, dict(known_ends), reason)
