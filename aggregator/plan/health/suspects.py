"""Whether the log of a running partition still fits its reader, from what both report. Pure.

A reader reports by itself a position that its log does not hold. It cannot see that its topic or
cluster has been replaced, or that a log was cut below what it has already read.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from aggregator.model.values import UNKNOWN_LOG, LogId, SourcePartition
from aggregator.plan.positions.start import Observed

PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The last probe's answer of one source: its ids, its log ends, and when it asked for them.

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
    """A snapshot's findings in the form of probe answers."""
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
    """Where a reader is, and what it reads."""

    position: int
    log: LogId = UNKNOWN_LOG


@dataclass(frozen=True, slots=True)
class ReadState:
    """Since when a reader has been at its position.

    `cut_at` is when its log was first seen to end before that, and `lowest` the lowest end of then
    and since; None when the reader has moved since.
    """

    position: int
    since: float
    cut_at: float | None = None
    lowest: int | None = None


NOTHING_SEEN = Seen()
"""Of a source that was not probed."""


def foreign(
    readings: Mapping[SourcePartition, ReadPosition], seen: Mapping[str, Seen]
) -> dict[SourcePartition, str]:
    """Partitions whose topic or cluster is not the one that is read, with the reason in words.

    An id that is not known proves nothing.
    """
    found = {}
    for sp, reading in readings.items():
        probe = seen.get(sp.cluster, NOTHING_SEEN)
        now = LogId(probe.cluster_id, probe.topic_ids.get(sp.topic, ""))
        if reading.log.is_other_cluster(now):
            found[sp] = f"source {sp.cluster} is another cluster now (id {now.cluster})"
        elif reading.log.is_other_topic(now):
            found[sp] = f"topic {sp.topic} was deleted and created again (id {now.topic})"
    return found


def follow_progress(
    before: Mapping[SourcePartition, ReadState],
    readings: Mapping[SourcePartition, ReadPosition],
    seen: Mapping[str, Seen],
    now: float,
) -> dict[SourcePartition, ReadState]:
    """The progress of each reader after one more round of probes.

    A probe is older than the moment of this comparison: only one that asked after the reader got to
    its position counts.
    """
    after = {}
    for sp, reading in readings.items():
        own = before.get(sp)
        if own is None or own.position != reading.position:
            own = ReadState(reading.position, now, None if own is None else own.cut_at)
        probe = seen.get(sp.cluster, NOTHING_SEEN)
        end = probe.end(sp)
        if end is not None and probe.asked_at > own.since:
            if end >= own.position and own.cut_at is not None:
                own = ReadState(own.position, own.since)
            elif end < own.position:
                lowest = end if own.lowest is None else min(end, own.lowest)
                own = replace(own, cut_at=own.cut_at or now, lowest=lowest)
        after[sp] = own
    return after


def cut(progress: Mapping[SourcePartition, ReadState], now: float) -> dict[SourcePartition, str]:
    """Partitions whose log ends below what was read of it, with the reason.

    A reader that knows the epoch of what it has read finds out by itself, and from where on its log
    is another one. So it is given a moment; one that reads on is not.
    """
    return {
        sp: f"its log ended at {own.lowest}, and was read up to {own.position} before"
        if own.lowest is not None
        else f"its log ended before {own.position}, where its reader is by now"
        for sp, own in progress.items()
        if own.cut_at is not None and (own.lowest is None or now - own.cut_at >= PATIENCE_SECONDS)
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
