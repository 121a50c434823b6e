"""Reads the hub partitions that scans need, from their starts, until all scans are done."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

from aggregator.config.schema import ClusterConfig
from aggregator.features.quarantine.records import origin_of
from aggregator.kafka.credentials import reader_settings
from aggregator.kafka.reader import AssignedReader, open_consumer
from aggregator.model.errors import ClusterError
from aggregator.model.values import ORIGIN_HEADERS, Raw, SourcePartition, TopicPartition

POLL_RECORDS = 2_000
REPORT_SECONDS = 2.0
FETCH = {"queued.max.messages.kbytes": 16_384}
"""How much of a partition is fetched ahead: it must take no memory from a stream beside it."""


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """The progress of reading: records read, and the most offsets that are left."""

    read: int
    left: int


class Scan(Protocol):
    """A consumer of a hub partition's records, from `start` on, until it is `done`."""

    @property
    def start(self) -> int:
        """Where to begin."""

    @property
    def end(self) -> int:
        """No record from here on is needed."""

    @property
    def read(self) -> int:
        """How many records it has taken."""

    done: bool

    def take(
        self, offset: int, origin: SourcePartition | None, at: int, records: int = 1, /
    ) -> None:
        """The next records, which follow each other here and where they come from.

        `offset` is the hub offset of the first, which comes from offset `at` of `origin`.
        """


class SharedScan:
    """Scans of one hub partition whose ranges touch, as one: each record is read once for all."""

    def __init__(self, scans: Sequence[Scan]) -> None:
        self._coming = sorted(scans, key=lambda it: it.start, reverse=True)
        self._begun: list[Scan] = []
        self.start = self._coming[-1].start
        self.end = max(it.end for it in scans)
        self.read = 0

    @property
    def done(self) -> bool:
        """Whether none of them needs any more."""
        return not (self._coming or self._begun)

    @done.setter
    def done(self, over: bool) -> None:
        if over:
            for scan in (*self._coming, *self._begun):
                scan.done = True
            self._coming, self._begun = [], []

    def take(self, offset: int, origin: SourcePartition | None, at: int, records: int = 1) -> None:
        """The next records, for those that have begun; each begins at its start."""
        over = offset + records
        while offset < over and not self.done:
            while self._coming and self._coming[-1].start <= offset:
                self._begun.append(self._coming.pop())
            until = min(over, self._coming[-1].start) if self._coming else over
            for scan in self._begun:
                scan.take(offset, origin, at, until - offset)
            if any(scan.done for scan in self._begun):
                self._begun = [it for it in self._begun if not it.done]
            self.read += until - offset
            offset, at = until, at + until - offset


def plan_shared(
    scans: Iterable[Mapping[TopicPartition, Scan]], most: int | None
) -> list[dict[TopicPartition, Scan]]:
    """Which scans are read together, and in which turn: each turn reads a partition in one go.

    `most` records are read for a scan at most, so that from where it begins it reaches as far: one
    that begins beyond the reach of all before it is read by itself, and what is between is not.
    """
    by_partition: dict[TopicPartition, list[Scan]] = {}
    for each in scans:
        for tp, scan in each.items():
            if not scan.done:
                by_partition.setdefault(tp, []).append(scan)
    turns: list[dict[TopicPartition, Scan]] = []
    for tp, own in sorted(by_partition.items()):
        for number, together in enumerate(_touching(own, most)):
            if number == len(turns):
                turns.append({})
            turns[number][tp] = SharedScan(together)
    return turns


def _touching(scans: Iterable[Scan], most: int | None) -> list[list[Scan]]:
    found: list[list[Scan]] = []
    reach = -1
    for scan in sorted(scans, key=lambda it: it.start):
        if scan.start > reach:
            found.append([])
        found[-1].append(scan)
        reach = max(reach, scan.end if most is None else min(scan.end, scan.start + most))
    return found


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """How long a read may last: until the deadline (monotonic), and `silence` without an answer.

    It also ends when `stop` is set.
    """

    silence: float
    deadline: float
    report: Callable[[ReadProgress], None] = lambda _: None
    stop: Event | None = None


class ScanCourse:
    """How far a read is: the scans that are `left`, and where (`at`) each of them reads on."""

    def __init__(self, scans: Mapping[TopicPartition, Scan], how: ScanLimits) -> None:
        self.left = {tp: scan for tp, scan in scans.items() if not scan.done}
        self.at = {tp: scan.start for tp, scan in self.left.items()}
        self._scans = scans
        self._how = how
        self._reported_at = time.monotonic()

    def check(self, silent: float) -> None:
        """Raise ClusterError when it is to stop, or has lasted too long.

        `silent`: for how many seconds nothing has come.
        """
        if self._how.stop is not None and self._how.stop.is_set():
            raise ClusterError("hub: stopped while it was read")
        is_over = time.monotonic() > self._how.deadline
        if silent > self._how.silence or is_over:
            raise ClusterError(_late(self.left, None if is_over else self._how.silence))

    def finish(self) -> list[TopicPartition]:
        """Leave out the scans that are done, and return which they are; report now and then."""
        done = [tp for tp, scan in self.left.items() if scan.done]
        for tp in done:
            del self.left[tp]
        if time.monotonic() - self._reported_at > REPORT_SECONDS:
            self._reported_at = time.monotonic()
            behind = sum(scan.end - self.at[tp] for tp, scan in self.left.items())
            read = sum(scan.read for scan in self._scans.values())
            self._how.report(ReadProgress(read, behind))
        return done


Otherwise = Callable[[ScanCourse], None]
"""Reads what is left of scans where records may have other origins."""


def read_scans(
    hub: ClusterConfig,
    scans: Mapping[TopicPartition, Scan],
    how: ScanLimits,
    otherwise: Otherwise | None = None,
) -> None:
    """Hand the scans their records, in the order of each partition.

    Reads uncommitted: also what no transaction has committed yet. From the first record without an
    origin on, all is read by `otherwise`, if there is one: its batch may have been copied as it is.
    Raises ClusterError when the hub refuses, answers nothing for some time, or is not read in time,
    and when it is to stop.
    """
    course = ScanCourse(scans, how)
    left, at = course.left, course.at
    if not left:
        return
    settings = {**reader_settings(hub, "aggregator-groups"), **FETCH}
    with closing(open_consumer("hub", settings)) as consumer:
        reader = AssignedReader(consumer, at)
        while left:
            course.check(reader.silent)
            polled = reader.poll(POLL_RECORDS)
            for tp, message in polled.records:
                offset = int(message.offset() or 0)
                if not left[tp].done:
                    headers: Any = message.headers() or []
                    origin = origin_of(Raw(0, 0, None, None, headers[-len(ORIGIN_HEADERS) :]))
                    if origin is not None:
                        left[tp].take(offset, origin.partition, origin.offset)
                    elif otherwise is None:
                        left[tp].take(offset, None, 0)
                    else:
                        otherwise(course)
                        return
                at[tp] = offset + 1
            for tp, end in polled.ends.items():
                # Offsets behind the last record may hold no record. A new leader may report an end
                # that is too low.
                left[tp].done = left[tp].done or end >= left[tp].end
            polled.check("hub")
            for tp in course.finish():
                reader.finish(tp)


def _late(left: Mapping[TopicPartition, Scan], silence: float | None) -> str:
    first = min(left)
    what = f"hub: {len(left)} partitions, {first} the first, were not read to their end"
    if silence is None:
        return f"{what} in time: give more with --timeout"
    return f"{what}: no answer for {silence:g} s"
