"""Whether the log of a partition that runs still fits its reader, by what the probes tell. Pure.

A reader's position is only told at the end of a batch, so it is behind the truth; and a probe is
older than the moment it is looked at. Only what is certain in spite of that counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from aggregator.model import OffsetRange, SourcePartition
from aggregator.plan.positions import Observed

STILL_BATCHES = 2
"""A reader whose batch began below the earliest offset, and ended where it began, waits in vain."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last probe of one source told: its ids, its logs, and when it asked for them.

    `topic_ids` are those of the topics that were asked for; one that is not there is absent.
    """

    asked_at: float = 0.0
    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[SourcePartition, OffsetRange] = field(default_factory=dict)


def seen_of(observed: Observed) -> dict[str, Seen]:
    """What a look found, as what the probes of its sources told."""
    return {
        alias: Seen(
            0.0,
            cluster_id,
            {topic: it for (source, topic), it in observed.topic_ids.items() if source == alias},
            {sp: log for sp, log in observed.offsets.items() if sp.cluster == alias},
        )
        for alias, cluster_id in observed.cluster_ids.items()
    }


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a reader stands: the end of the last batch, which of its lane's batches that was, and
    the ids of what it reads.
    """

    position: int
    batch: int
    cluster_id: str = ""
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class Stand:
    """Since when a reader stands at a position, and its batches since the log begins beyond it."""

    position: int
    since: float
    below_from: int | None = None
    batch: int = -1


def foreign(
    readings: Mapping[SourcePartition, Reading], seen: Mapping[str, Seen]
) -> dict[SourcePartition, str]:
    """Partitions whose topic or cluster is not the one that is read, with the reason in words.

    An id that is not known proves nothing.
    """
    found = {}
    for sp, reading in readings.items():
        probe = seen.get(sp.cluster, Seen())
        cluster, topic = probe.cluster_id, probe.topic_ids.get(sp.topic, "")
        if reading.cluster_id and cluster and cluster != reading.cluster_id:
            found[sp] = f"source {sp.cluster} is another cluster now (id {cluster})"
        elif reading.topic_id and topic and topic != reading.topic_id:
            found[sp] = f"topic {sp.topic} was deleted and created again (id {topic})"
    return found


def follow_stands(
    before: Mapping[SourcePartition, Stand],
    readings: Mapping[SourcePartition, Reading],
    seen: Mapping[str, Seen],
    now: float,
) -> dict[SourcePartition, Stand]:
    """The stands after one more look."""
    after = {}
    for sp, reading in readings.items():
        stand = before.get(sp)
        if stand is None or stand.position != reading.position:
            stand = Stand(reading.position, now)
        log = seen.get(sp.cluster, Seen()).logs.get(sp)
        if log is not None and reading.position < log.earliest:
            # The batch that runs now may have begun before the log did so.
            began = reading.batch if stand.below_from is None else stand.below_from
            stand = replace(stand, below_from=began)
        after[sp] = replace(stand, batch=reading.batch)
    return after


def suspects(
    stands: Mapping[SourcePartition, Stand], seen: Mapping[str, Seen]
) -> dict[SourcePartition, str]:
    """Partitions whose log certainly does not fit their reader's position, with the reason."""
    found = {}
    for sp, stand in stands.items():
        probe = seen.get(sp.cluster, Seen())
        log = probe.logs.get(sp)
        if log is None:
            continue
        waited = stand.below_from is not None and stand.batch >= stand.below_from + STILL_BATCHES
        if stand.position < log.earliest and waited:
            found[sp] = (
                f"its log begins at {log.earliest} now, and its reader waits at {stand.position}"
            )
        elif log.latest < stand.position and probe.asked_at > stand.since:
            found[sp] = f"its log ends at {log.latest}, and was read up to {stand.position} before"
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
