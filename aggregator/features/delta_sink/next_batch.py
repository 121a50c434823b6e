"""Decides what of a hub topic lands next, and how large a batch is. Pure.

A table's positions are the NEXT offset of each hub partition. They are written in the same commit
as the records below them, so no crash comes between the two
(`features/delta_sink/landed_commits.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.model.values import OffsetRange

NONE = -1
"""The version of a table that has no commit yet."""
FIRST_LIMIT = 100_000
LEAST_LIMIT = 20_000
MOST_LIMIT = 5_000_000
QUICK_SECONDS = 8.0
SLOW_SECONDS = 30.0
"""A batch that takes longer than this is followed by a smaller one: a crash costs a batch, and
a stop waits for one."""
OFFSETS_PER_FILE = 100_000
MOST_EARLIER = 20
"""Of topics of one name, one after the other, positions are kept."""
FIRST_REST = 1.0
MOST_REST = 60.0


class LostBefore(NamedTuple):
    """Offsets of a hub partition that the hub deleted before they landed: [first, end)."""

    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Landed:
    """What of a hub topic is in its table: everything of `topic_id` below `positions`.

    A topic that was created again has another id, and counts its offsets from 0. `version` is that
    of the commit that says so. `whole`: each partition that the topic had has a position, so one
    without is newer. `earlier` are positions of other topics of this name, by their ids: such a one
    is back when another hub was named for a while.
    """

    topic_id: str = ""
    positions: Mapping[int, int] = field(default_factory=dict)
    version: int = NONE
    whole: bool = True
    earlier: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """What lands in one commit: ranges of hub partitions, and the table's positions after it.

    `follows` is the version of the commit that says where it begins. `replaced`: what had landed of
    an earlier topic of this name, of which everything beyond is gone. A range may be empty where
    all that there is to write is what was lost.
    """

    ranges: Mapping[int, OffsetRange]
    after: Landed
    lost: tuple[LostBefore, ...] = ()
    follows: int = NONE
    replaced: Landed | None = None

    @property
    def offsets(self) -> int:
        """How many offsets; compaction and transactions leave gaps, so records may be fewer."""
        return sum(it.latest - it.earliest for it in self.ranges.values())

    @property
    def files(self) -> int:
        """Into how many files it is written at most: small batches make few small files."""
        return max(1, min(len(self.ranges), -(-self.offsets // OFFSETS_PER_FILE)))


@dataclass(frozen=True, slots=True)
class Receded:
    """A topic that cannot land any more: its log ends below what has landed of it."""

    partition: int
    position: int
    log_end: int

    def __str__(self) -> str:
        return (
            f"partition {self.partition}: the hub's log ends at {self.log_end}, and records up to "
            f"{self.position} have landed: the hub has lost records, or is another one (check "
            "hub.bootstrap_servers; to land it from its beginning, move the table's folder away)"
        )


def plan_beginning(landed: Landed, topic_id: str, logs: Mapping[int, OffsetRange]) -> Landed:
    """What has landed, with a position for each partition that the topic has now.

    A topic that has never landed begins where its logs do. A partition that came later, and each
    one of a topic that was created again, begins at 0: what it does not hold any more is lost. One
    that has landed before begins where it was then.
    """
    positions, earlier = dict(landed.positions), dict(landed.earlier)
    from_start = landed.whole and bool(landed.topic_id or positions)
    if _is_other(landed, topic_id):
        back = earlier.pop(topic_id, {})
        earlier[landed.topic_id] = positions
        positions, from_start = dict(back), True
        earlier = dict(list(earlier.items())[-MOST_EARLIER:])
    for partition, log in logs.items():
        positions.setdefault(partition, 0 if from_start else log.earliest)
    return Landed(topic_id or landed.topic_id, positions, landed.version, earlier=earlier)


def plan_batch(
    landed: Landed, topic_id: str, logs: Mapping[int, OffsetRange], limit: int
) -> Batch | Receded | None:
    """What lands next of a topic whose logs are these: about `limit` offsets, none if all is there.

    Each partition gets its share of the limit, so that none waits for another one.
    """
    known = plan_beginning(landed, topic_id, logs)
    replaced = landed if _is_other(landed, topic_id) else None
    wanted: dict[int, OffsetRange] = {}
    lost: list[LostBefore] = []
    for partition, log in sorted(logs.items()):
        position = known.positions[partition]
        if position > log.latest:
            return Receded(partition, position, log.latest)
        if position < log.earliest:
            lost.append(LostBefore(partition, position, log.earliest))
        if max(position, log.earliest) < log.latest:
            wanted[partition] = OffsetRange(max(position, log.earliest), log.latest)
    if not wanted and not lost and (replaced is None or not logs):
        return None
    total = sum(it.latest - it.earliest for it in wanted.values())
    ranges = {
        partition: OffsetRange(it.earliest, it.earliest + _share(it, limit, total))
        for partition, it in wanted.items()
    }
    ends = {
        **known.positions,
        **{it.partition: it.end for it in lost},
        **{partition: it.latest for partition, it in ranges.items()},
    }
    if not ranges:
        # Nothing is there to land, and that something is lost is written all the same.
        at = lost[0].partition if lost else min(logs)
        ranges = {at: OffsetRange(ends[at], ends[at])}
    after = Landed(known.topic_id, ends, earlier=known.earlier)
    return Batch(ranges, after, tuple(lost), landed.version, replaced)


def _is_other(landed: Landed, topic_id: str) -> bool:
    return bool(topic_id and landed.topic_id and topic_id != landed.topic_id)


def _share(log: OffsetRange, limit: int, total: int) -> int:
    waiting = log.latest - log.earliest
    return waiting if total <= limit else max(1, waiting * limit // total)


def plan_limit(limit: int, offsets: int, seconds: float) -> int:
    """The most offsets of the next batch, by how long the last one took."""
    if seconds > SLOW_SECONDS:
        return max(LEAST_LIMIT, limit // 2)
    # One that was not full says nothing about a full one.
    if seconds < QUICK_SECONDS and offsets >= limit * 9 // 10:
        return min(MOST_LIMIT, limit * 2)
    return limit


def plan_rest(failures: int) -> float:
    """Seconds until a topic, or the hub, is tried again after `failures` in a row."""
    return min(MOST_REST, FIRST_REST * 2.0 ** min(failures - 1, 10)) if failures > 0 else 0.0


def lag_of(landed: Landed, logs: Mapping[int, OffsetRange]) -> int:
    """Offsets that have not landed yet."""
    return sum(
        max(0, log.latest - max(landed.positions.get(partition, 0), log.earliest))
        for partition, log in logs.items()
    )


def reached(landed: Landed, ends: Mapping[int, int], logs: Mapping[int, OffsetRange]) -> bool:
    """Whether everything below these ends has landed, or is not in the logs any more."""
    return all(
        max(landed.positions.get(partition, 0), log.earliest) >= ends.get(partition, 0)
        for partition, log in logs.items()
    )
