"""Whether the log of a partition that runs still fits its reader, by what both tell. Pure.

A reader names a position that its log does not hold by itself. What it cannot see is that its topic
or cluster is another one by now, and that a log was cut below what it has read already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from aggregator.model import UNKNOWN_LOG, LogId, SourcePartition
from aggregator.plan.positions import Observed


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last probe of one source told: its ids, its log ends, and when it asked for them.

    `topic_ids` are those of the topics that were asked for; one that is not there is absent.
    """

    asked_at: float = 0.0
    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[SourcePartition, int] = field(default_factory=dict)


def seen_of(observed: Observed) -> dict[str, Seen]:
    """What a look found, as what the probes of its sources told."""
    return {
        alias: Seen(
            0.0,
            cluster_id,
            {topic: it for (source, topic), it in observed.topic_ids.items() if source == alias},
            {sp: log.latest for sp, log in observed.offsets.items() if sp.cluster == alias},
        )
        for alias, cluster_id in observed.cluster_ids.items()
    }


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Where a reader stands, and what it reads."""

    position: int
    log: LogId = UNKNOWN_LOG


@dataclass(frozen=True, slots=True)
class Stand:
    """Since when a reader stands at a position."""

    position: int
    since: float


def foreign(
    readings: Mapping[SourcePartition, ReadPosition], seen: Mapping[str, Seen]
) -> dict[SourcePartition, str]:
    """Partitions whose topic or cluster is not the one that is read, with the reason in words.

    An id that is not known proves nothing.
    """
    found = {}
    for sp, reading in readings.items():
        probe = seen.get(sp.cluster, Seen())
        now = LogId(probe.cluster_id, probe.topic_ids.get(sp.topic, ""))
        if reading.log.is_other_cluster(now):
            found[sp] = f"source {sp.cluster} is another cluster now (id {now.cluster})"
        elif reading.log.is_other_topic(now):
            found[sp] = f"topic {sp.topic} was deleted and created again (id {now.topic})"
    return found


def follow_stands(
    before: Mapping[SourcePartition, Stand],
    readings: Mapping[SourcePartition, ReadPosition],
    now: float,
) -> dict[SourcePartition, Stand]:
    """The stands after one more look."""
    after = {}
    for sp, reading in readings.items():
        stand = before.get(sp)
        moved = stand is None or stand.position != reading.position
        after[sp] = Stand(reading.position, now) if moved or stand is None else stand
    return after


def cut(
    stands: Mapping[SourcePartition, Stand], seen: Mapping[str, Seen]
) -> dict[SourcePartition, str]:
    """Partitions whose log ends below what was read of it, with the reason.

    A probe is older than the moment it is looked at: only one that asked after the reader came to
    stand there counts.
    """
    found = {}
    for sp, stand in stands.items():
        probe = seen.get(sp.cluster, Seen())
        end = probe.ends.get(sp)
        if end is not None and end < stand.position and probe.asked_at > stand.since:
            found[sp] = f"its log ends at {end}, and was read up to {stand.position} before"
    return found


def gone(readings: Collection[SourcePartition], seen: Mapping[str, Seen]) -> set[tuple[str, str]]:
    """Topics (alias, name) that are read, and were not there when the last probe asked."""
    return {
        (sp.cluster, sp.topic)
        for sp in readings
        if (probe := seen.get(sp.cluster)) is not None
        and probe.asked_at
        and sp.topic not in probe.topic_ids
    }
