"""Which hub ranges an audit reads, and which absent records the hub may have deleted. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from aggregator.features.backfill.ranges import Backfill
from aggregator.features.verify.audit_scope import NO_END, CopyBegin, Window
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition
from aggregator.plan.positions.gaps import OF_IDENTITY, GapRecord
from aggregator.plan.positions.start import GapKind, Observed


@dataclass(frozen=True, slots=True)
class Accounted:
    """Source records that need not be in the hub, and why, such as a gap that is recorded.

    `reused`: the offsets were given to other records before, of which the hub holds some. Origins
    are no proof of anything there, so nothing in the range is held against the hub. `backfilled`:
    they came beside the live flow, so that they may follow newer ones; they have to be there.
    """

    partition: SourcePartition
    offsets: OffsetRange
    why: str
    reused: bool = False
    backfilled: bool = False


@dataclass(frozen=True, slots=True)
class ReasonBelow:
    """Of one source partition, by offset: below which of them absent records have a reason.

    `begun`: the copy began there or above. Below `expired` the hub topic may have lost records, and
    below `set_aside` the topics that they may have been kept in instead.
    """

    begun: int
    expired: int = 0
    set_aside: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """Hub topics that are compared at once: what is read of the hub, and the windows into it."""

    hub: Mapping[TopicPartition, OffsetRange]
    windows: tuple[Window, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The hub topics, in order."""
        return tuple(sorted({window.hub_topic for window in self.windows}))

    @property
    def sources(self) -> dict[str, dict[TopicPartition, OffsetRange]]:
        """What is read of each source, by alias."""
        found: dict[str, dict[TopicPartition, OffsetRange]] = {}
        for window in self.windows:
            if window.compared:
                own = found.setdefault(window.partition.cluster, {})
                own[window.partition.topic_partition] = window.read
        return found

    @property
    def offsets(self) -> int:
        """How many offsets are read, on both sides."""
        read = [log for ranges in self.sources.values() for log in ranges.values()]
        return sum(log.latest - log.earliest for log in [*self.hub.values(), *read])


def plan_jobs(
    windows: Iterable[Window], hub: Mapping[TopicPartition, OffsetRange], most: int
) -> list[Job]:
    """Put hub topics together until a job reads about `most` offsets.

    Compacted hub topics are never together with others: they take one more step.
    """
    by_topic: dict[tuple[bool, str], list[Window]] = {}
    for window in windows:
        by_topic.setdefault((window.superseding, window.hub_topic), []).append(window)
    jobs: list[Job] = []
    kind: bool | None = None
    for (superseding, topic), found in sorted(by_topic.items()):
        ranges = {
            tp: log for tp, log in hub.items() if tp.topic == topic and log.earliest < log.latest
        }
        job = Job(ranges, tuple(found))
        if jobs and kind == superseding and jobs[-1].offsets + job.offsets <= most:
            last = jobs.pop()
            job = Job({**last.hub, **job.hub}, (*last.windows, *job.windows))
        kind = superseding
        jobs.append(job)
    return jobs


def hub_ranges(
    logs: Mapping[TopicPartition, OffsetRange], starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetRange]:
    """What is read of the hub: all that it holds, from `starts` on where that is known."""
    return {
        tp: OffsetRange(min(max(log.earliest, starts.get(tp, 0)), log.latest), log.latest)
        for tp, log in logs.items()
    }


def unread(
    logs: Mapping[TopicPartition, OffsetRange], read: Mapping[TopicPartition, OffsetRange]
) -> dict[str, int]:
    """Of each hub topic how many offsets lie before what is read of it; 0 is left out."""
    found: dict[str, int] = defaultdict(int)
    for tp, log in logs.items():
        found[tp.topic] += read[tp].earliest - log.earliest
    return {topic: count for topic, count in found.items() if count}


def trimmed(logs: Mapping[TopicPartition, OffsetRange]) -> dict[TopicPartition, int]:
    """Hub partitions that have lost their beginning -> their earliest offset."""
    return {tp: log.earliest for tp, log in logs.items() if log.earliest > 0}


def expired_below(
    lost: Collection[TopicPartition],
    firsts: Mapping[TopicPartition, int],
    proven: int | None,
) -> int:
    """An absent record below this offset may have been deleted at the hub; from it on it may not.

    `lost` are the trimmed partitions of its hub topic. `firsts` is the origin offset of this source
    partition's first record in each hub partition: as order is kept, what was deleted before it is
    older than it. `proven`: records from there on are known, by the checkpoint, to lie behind what
    was deleted.
    """
    if not lost:
        return 0
    by_order = max(firsts.get(tp, NO_END) for tp in lost)
    return min(by_order, NO_END if proven is None else proven)


def disjoint(accounted: Iterable[Accounted]) -> list[Accounted]:
    """The same without overlaps, so that a record is in one range at most.

    `reused` ones win, then those that were backfilled: what was skipped is there by now.
    """
    by_partition: dict[SourcePartition, list[Accounted]] = defaultdict(list)
    for item in accounted:
        by_partition[item.partition].append(item)
    found = []
    for _, items in sorted(by_partition.items()):
        ends = sorted({at for it in items for at in (it.offsets.earliest, it.offsets.latest)})
        for start, end in pairwise(ends):
            over = [it for it in items if it.offsets.earliest <= start and end <= it.offsets.latest]
            if over:
                first = max(over, key=lambda it: (it.reused, it.backfilled))
                found.append(replace(first, offsets=OffsetRange(start, end)))
    return found


def accounted_gaps(records: Iterable[GapRecord], observed: Observed) -> list[Accounted]:
    """What the recorded gaps account for, decided or not.

    A log that was truncated, or is another one now, gives its offsets a second time, up to where
    the old one was copied.
    """
    found = []
    for gap in (record.gap for record in records):
        if gap.kind in OF_IDENTITY and not gap.then.is_other(observed.log(gap.partition)):
            continue
        start = 0 if gap.kind in OF_IDENTITY else gap.start
        lost = gap.kind is GapKind.HUB_LOST
        end = gap.end or 0 if lost else max(gap.position, gap.end or 0)
        reused = not lost and gap.kind not in (
            GapKind.BELOW_EARLIEST,
            GapKind.SKIPPED_BY_OPERATOR,
        )
        found.append(Accounted(gap.partition, OffsetRange(start, end), gap.reason, reused))
    return found


def accounted_backfills(backfills: Iterable[Backfill], observed: Observed) -> list[Accounted]:
    """What backfills have brought into the hub so far, of the logs that are there now."""
    return [
        Accounted(
            part.partition,
            OffsetRange(part.start, part.position),
            f"it came by backfill {backfill.id}",
            backfilled=True,
        )
        for backfill in backfills
        for part in backfill.parts
        if part.position > part.start and not backfill.log.is_other(observed.log(part.partition))
    ]


def with_backfilled(
    begun: Mapping[SourcePartition, CopyBegin], filled: Iterable[Accounted]
) -> dict[SourcePartition, CopyBegin]:
    """Where copies begin, when what was backfilled right before the beginning belongs to them."""
    found = dict(begun)
    for it in sorted(filled, key=lambda it: it.offsets.earliest, reverse=True):
        begin = found.get(it.partition)
        if begin is not None and it.offsets.earliest < begin.position <= it.offsets.latest:
            found[it.partition] = replace(begin, position=it.offsets.earliest)
    return found
