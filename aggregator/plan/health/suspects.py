"""Whether the log of a partition that runs still fits its reader, by what both tell. Pure.

A reader names a position that its log does not hold by itself. What it cannot see is that its topic
or cluster is another one by now, and that a log was cut below what it has read already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from aggregator.model.values import UNKNOWN_LOG, LogId, SourcePartition
from aggregator.plan.positions.start import Observed

PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last probe of one source told: its ids, its log ends, and when it asked for them.

    `topic_ids` are those of the topics that were asked for; one that is not there is absent. Where
    an open transaction holds the ends back, `highs` are the ends of all that is acknowledged; a
    probe that did not ask for them has none.
    """

    asked_at: float = 0.0
    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    highs: Mapping[SourcePartition, int] | None = None

    def end(self, sp: SourcePartition) -> int | None:
        """Where a log ends, whatever transactions are open; None when that is not known."""
        return (self.ends if self.highs is None else self.highs).get(sp)


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
    """Since when a reader stands at a position.

    `cut_at` is when its log was first seen to end before that, and `lowest` the lowest end of then
    and since; None when the reader has moved since.
    """

    position: int
    since: float
    cut_at: float | None = None
    lowest: int | None = None


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
    seen: Mapping[str, Seen],
    now: float,
) -> dict[SourcePartition, Stand]:
    """The stands after one more look, by what the probes told.

    A probe is older than the moment it is looked at: only one that asked after the reader came to
    stand there counts.
    """
    after = {}
    for sp, reading in readings.items():
        stand = before.get(sp)
        if stand is None or stand.position != reading.position:
            stand = Stand(reading.position, now, None if stand is None else stand.cut_at)
        probe = seen.get(sp.cluster, Seen())
        end = probe.end(sp)
        if end is not None and probe.asked_at > stand.since:
            if end >= stand.position:
                stand = Stand(stand.position, stand.since)
            else:
                lowest = end if stand.lowest is None else min(end, stand.lowest)
                stand = replace(stand, cut_at=stand.cut_at or now, lowest=lowest)
        after[sp] = stand
    return after


def cut(stands: Mapping[SourcePartition, Stand], now: float) -> dict[SourcePartition, str]:
    """Partitions whose log ends below what was read of it, with the reason.

    A reader that knows the epoch of what it has read finds out by itself, and from where on its log
    is another one. So it is given a moment; one that reads on is not.
    """
    return {
        sp: f"its log ended at {stand.lowest}, and was read up to {stand.position} before"
        if stand.lowest is not None
        else f"its log ended before {stand.position}, where its reader is by now"
        for sp, stand in stands.items()
        if stand.cut_at is not None
        and (stand.lowest is None or now - stand.cut_at >= PATIENCE_SECONDS)
    }


def gone(readings: Collection[SourcePartition], seen: Mapping[str, Seen]) -> set[tuple[str, str]]:
    """Topics (alias, name) that are read, and were not there when the last probe asked."""
    return {
        (sp.cluster, sp.topic)
        for sp in readings
        if (probe := seen.get(sp.cluster)) is not None
        and probe.asked_at
        and sp.topic not in probe.topic_ids
    }
