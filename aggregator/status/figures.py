"""Figures of the sources from the tasks' reports: records and bytes since the start, latency.

A task counts from 0 in each life, and a source may be in several lanes: here it is added up over
both. Percentiles are of what came in about the last minute.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from aggregator.datapath.connector.reports import Counted, LaneReport, TaskReport, bucket_bounds
from aggregator.model.alike import made_of
from aggregator.model.patched import may_differ
from aggregator.status.copied import Copied
from aggregator.status.percentiles import longer_from, percentile
from aggregator.status.schema import Latency, Percentiles

WINDOW_SECONDS = 60.0
PERCENTS = (50, 95, 99)
NOTHING = Counted()
STEP_SECONDS = 5.0
"""The window is so much longer at most: older counts are kept at such intervals."""


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """Of one source, since the start of this run; `latency` is that of the last minute.

    `copied` are the records and bytes (of keys and values) that were sent, per topic; `skipped`
    records were left out because the hub held them, `looped` ones because they came from it.
    `retried` ones the hub answered with an error, and they were sent again. `read_bytes` are those
    of keys and values that were read, whatever became of them. `age` and `flight` count records by
    the buckets of `bucket_bounds`.
    """

    copied: tuple[Copied, ...] = ()
    skipped: int = 0
    looped: int = 0
    retried: int = 0
    latency: Latency = field(default_factory=Latency)
    age: tuple[int, ...] = ()
    flight: tuple[int, ...] = ()
    read_bytes: int = 0

    @property
    def records(self) -> int:
        """Records that were sent, of all topics."""
        return sum(it.records for it in self.copied)

    @property
    def bytes_(self) -> int:
        """Their bytes."""
        return sum(it.bytes for it in self.copied)


class Figures:
    """Takes reports by any thread; `at` is asked by one, about once a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[tuple[str, int], LaneReport] = {}
        self._tasks: dict[tuple[str, tuple[int, int]], TaskReport] = {}
        self._sums: dict[str, _Sums] = {}
        self._kept: deque[tuple[float, dict[str, _Counts]]] = deque()
        self._catching_up: frozenset[str] = frozenset()
        self._bounds = bucket_bounds()
        self._ages: Mapping[str, tuple[int, ...]] = {}

    def take(self, report: LaneReport) -> None:
        """Note the newest report of a life of a lane; it is looked at when `at` is asked."""
        if report.tasks:
            task = report.tasks[0]
            with self._lock:
                self._newest[task.lane, task.generation] = report

    def at(self, now: float, catching_up: Collection[str] = ()) -> dict[str, SourceFigures]:
        """The figures of each source (alias) that has reported; `now` are monotonic seconds.

        What a source in `catching_up` copies is old whatever we do, so when that is over its ages
        count from 0.
        """
        with self._lock:
            newest, self._newest = self._newest, {}
        if not self._kept:
            self._kept.append((now, {}))
        for report in newest.values():
            for task in report.tasks:
                self._add(task)
        counts = {alias: it.counts() for alias, it in self._sums.items()}
        for alias in self._catching_up - frozenset(catching_up):
            self._age_anew(alias, counts)
        self._catching_up = frozenset(catching_up)
        self._ages = {alias: it.age for alias, it in counts.items()}
        if now - self._kept[-1][0] >= STEP_SECONDS:
            self._kept.append((now, dict(counts)))
        while len(self._kept) > 1 and self._kept[1][0] <= now - WINDOW_SECONDS:
            self._kept.popleft()
        _, before = self._kept[0]
        return {
            alias: made_of(
                SourceFigures,
                counts[alias],
                sums,
                copied=sums.by_topic(),
                latency=self._latency(counts[alias], before.get(alias, _Counts())),
            )
            for alias, sums in self._sums.items()
        }

    def ages(self) -> Mapping[str, tuple[int, ...]]:
        """The counts by age of each source, as `at` last found them."""
        return self._ages

    def _add(self, task: TaskReport) -> None:
        """Add what a task has counted since its last report."""
        key = (task.lane, task.task)
        before = self._tasks.get(key)
        if before is task:
            return
        if before is not None and before.generation > task.generation:
            return
        self._tasks[key] = task
        if before is not None and _is_another_life(before, task):
            before = None
        self._sums.setdefault(task.cluster, _Sums()).add(task, before)

    def _age_anew(self, alias: str, counts: Mapping[str, _Counts]) -> None:
        now = counts.get(alias, _Counts())
        for _, kept in self._kept:
            kept[alias] = _Counts(now.age, kept.get(alias, _Counts()).flight)

    def _latency(self, now: _Counts, before: _Counts) -> Latency:
        return Latency(
            age_ms=self._percentiles(now.age, before.age),
            flight_ms=self._percentiles(now.flight, before.flight),
        )

    def _percentiles(self, now: Sequence[int], before: Sequence[int]) -> Percentiles | None:
        if now == before:
            return None
        counts = [new - old for new, old in zip_longest(now, before, fillvalue=0)]
        return percentiles_of(counts, self._bounds)


def percentiles_of(counts: Sequence[int], bounds: Sequence[int]) -> Percentiles | None:
    """The percentiles of a histogram by `bounds`; None when nothing was counted."""
    p50, p95, p99 = (percentile(counts, bounds, each) for each in PERCENTS)
    if p50 is None or p95 is None or p99 is None:
        return None
    longer = longer_from(counts, bounds, PERCENTS)
    return Percentiles(p50=p50, p95=p95, p99=p99, longer_from=longer)


@dataclass(frozen=True, slots=True)
class _Counts:
    """Histograms of a source at one moment, counted since the start."""

    age: tuple[int, ...] = ()
    flight: tuple[int, ...] = ()


@dataclass(slots=True)
class _Sums:
    """What was counted of a source since the start."""

    sent: dict[str, Copied] = field(default_factory=dict)
    copied: tuple[Copied, ...] | None = None
    skipped: int = 0
    looped: int = 0
    retried: int = 0
    read_bytes: int = 0
    age: list[int] = field(default_factory=list)
    flight: list[int] = field(default_factory=list)

    def add(self, task: TaskReport, before: TaskReport | None) -> None:
        """Add a report; `before` is the last one of the same life of the task, if there was one."""
        known = before.sent if before is not None else {}
        for topic in may_differ(task.sent, known):
            counted, old = task.sent.get(topic), known.get(topic, NOTHING)
            own = self.sent.get(topic)
            if counted is not None and (own is None or counted != old):
                self.copied = None
                self.sent[topic] = Copied(
                    topic=topic,
                    records=(own.records if own else 0) + counted.records - old.records,
                    bytes=(own.bytes if own else 0) + counted.bytes_ - old.bytes_,
                    dropped=(own.dropped if own else 0) + counted.dropped - old.dropped,
                    without_id=(own.without_id if own else 0) + counted.without_id - old.without_id,
                )
        self.skipped += task.skipped - (before.skipped if before is not None else 0)
        self.looped += task.looped - (before.looped if before is not None else 0)
        self.retried += task.retried - (before.retried if before is not None else 0)
        self.read_bytes += task.read_bytes - (before.read_bytes if before is not None else 0)
        _add_counts(self.age, task.age, before.age if before is not None else ())
        _add_counts(self.flight, task.flight, before.flight if before is not None else ())

    def by_topic(self) -> tuple[Copied, ...]:
        """What was sent of each topic, by name."""
        if self.copied is None:
            self.copied = tuple(it for _, it in sorted(self.sent.items()))
        return self.copied

    def counts(self) -> _Counts:
        """The histograms as they are now."""
        return _Counts(tuple(self.age), tuple(self.flight))


def _is_another_life(before: TaskReport, task: TaskReport) -> bool:
    """Whether a task has restarted since, also within one life of its lane, as on another machine.

    Nothing that it counts ever goes back.
    """
    return (
        before.generation != task.generation
        or task.point < before.point
        or task.skipped < before.skipped
        or task.looped < before.looped
        or task.retried < before.retried
        or sum(task.flight) < sum(before.flight)
        or sum(_more_records(task, before)) < 0
    )


def _more_records(task: TaskReport, before: TaskReport) -> Iterator[int]:
    for topic in may_differ(task.sent, before.sent):
        yield task.sent.get(topic, NOTHING).records - before.sent.get(topic, NOTHING).records


def _add_counts(sums: list[int], now: Sequence[int], before: Sequence[int]) -> None:
    if now == before:
        return
    sums.extend([0] * (len(now) - len(sums)))
    for number, (new, old) in enumerate(zip_longest(now, before, fillvalue=0)):
        sums[number] += new - old
