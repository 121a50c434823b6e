"""Decides what of a hub topic lands next, and reads and writes what a table says of itself. Pure.

A table's positions are the NEXT offset of each hub partition. They are written in the same commit
as the records below them, so no crash comes between the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aggregator.model import OffsetRange

KEY = "aggregator_tee"
"""Under this name our part stands in the user metadata of a commit."""
FIRST_LIMIT = 100_000
LEAST_LIMIT = 20_000
MOST_LIMIT = 5_000_000
QUICK_SECONDS = 8.0
SLOW_SECONDS = 30.0
"""A batch that takes longer than this is followed by a smaller one: a crash costs a batch, and
whoever stops waits for one."""
OFFSETS_PER_FILE = 100_000
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

    A topic that was created again has another id, and counts its offsets anew.
    """

    topic_id: str = ""
    positions: Mapping[int, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Grows with every commit of records of this topic id: Delta's transaction version."""
        return sum(self.positions.values())


@dataclass(frozen=True, slots=True)
class Batch:
    """What lands in one commit: ranges of hub partitions, and the table's positions after it."""

    ranges: Mapping[int, OffsetRange]
    after: Landed
    lost: tuple[LostBefore, ...] = ()

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


def plan_batch(
    landed: Landed, topic_id: str, logs: Mapping[int, OffsetRange], limit: int
) -> Batch | Receded | None:
    """What lands next of a topic whose logs are these: about `limit` offsets, none if all is there.

    Each partition gets its share of the limit, so that none waits for another one.
    """
    known = landed
    if topic_id and landed.topic_id and topic_id != landed.topic_id:
        known = Landed(topic_id)
    wanted: dict[int, OffsetRange] = {}
    lost: list[LostBefore] = []
    for partition, log in sorted(logs.items()):
        position = known.positions.get(partition)
        if position is not None and position > log.latest:
            return Receded(partition, position, log.latest)
        first = log.earliest if position is None else max(position, log.earliest)
        if position is not None and position < log.earliest:
            lost.append(LostBefore(partition, position, log.earliest))
        if first < log.latest:
            wanted[partition] = OffsetRange(first, log.latest)
    if not wanted:
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
    return Batch(ranges, Landed(topic_id or landed.topic_id, ends), tuple(lost))


def _share(log: OffsetRange, limit: int, total: int) -> int:
    waiting = log.latest - log.earliest
    return waiting if total <= limit else max(1, waiting * limit // total)


def plan_limit(limit: int, offsets: int, seconds: float) -> int:
    """How many offsets the next batch has at most, after one that took so long."""
    if seconds > SLOW_SECONDS:
        return max(LEAST_LIMIT, limit // 2)
    # One that was not full says nothing about a full one.
    if seconds < QUICK_SECONDS and offsets >= limit * 9 // 10:
        return min(MOST_LIMIT, limit * 2)
    return limit


def plan_rest(failures: int) -> float:
    """Seconds until a topic, or the hub, is tried again after so many failures in a row."""
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


def app_id(name: str, topic_id: str) -> str:
    """The application of Delta's transactions of one hub topic, by the aggregation's name."""
    return f"{KEY}/{name}/{topic_id}"


def to_metadata(batch: Batch) -> str:
    """What a commit says of itself; `from_history` reads it."""
    return json.dumps(
        {
            KEY: {
                "topic_id": batch.after.topic_id,
                "next": {str(at): it for at, it in sorted(batch.after.positions.items())},
                "lost": [list(it) for it in batch.lost],
            }
        }
    )


Commit = tuple[int, str, str | None, Mapping[str, str]]
"""Of a table's history: version, operation, user metadata, parameters of the operation."""


def from_history(commits: Iterable[Commit]) -> Landed | None:
    """What a table's newest commit of ours says, None when there is none.

    The newest commit comes first. A table that was restored says what the version said that it was
    restored to.
    """
    most: int | None = None
    for version, operation, metadata, parameters in commits:
        if most is not None and version > most:
            continue
        if operation == "RESTORE" and str(parameters.get("version", "")).isdigit():
            most = int(parameters["version"])
        elif (landed := from_metadata(metadata)) is not None:
            return landed
    return None


def from_metadata(text: str | None) -> Landed | None:
    """What a commit with this user metadata says; None when it is none of ours."""
    try:
        own: dict[str, Any] = json.loads(text or "")[KEY]
        positions = {int(at): int(it) for at, it in own["next"].items()}
        return Landed(str(own["topic_id"]), positions)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def from_rows(rows: Sequence[tuple[int, int]], topic_id: str) -> Landed:
    """What a table says whose history is gone: partition and highest offset of its rows.

    A commit holds everything of its ranges, so below the highest offset nothing is missing.
    """
    return Landed(topic_id, {partition: offset + 1 for partition, offset in rows})
