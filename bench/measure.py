"""What was measured becomes figures. Pure.

A `Run` is one launch of one tool. Medians, minima, maxima and ratios are taken over the runs that
did not fail; the failed ones stay in the result, with their reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.extras.demo.verdict import percentile

OURS = "aggregator"
OURS_ON_2 = "aggregator, 2 executors"
OURS_ON_4 = "aggregator, 4 executors"
THEIRS = "MirrorMaker 2"
THEIRS_2 = "MirrorMaker 2, 2 processes"
THEIRS_4 = "MirrorMaker 2, 4 processes"
THEIRS_EXACTLY = "MirrorMaker 2, exactly once"
THEIRS_DEFAULTS = "MirrorMaker 2, defaults"
MIRROR_1 = "MirrorMaker 1"
STOCK_SPARK = "Spark's Kafka source and sink"
LOOP = "plain loop"
LOOP_ORIGIN = "plain loop, five headers"
"""The loop with a record's origin: the limit of a copier that makes objects and says it."""
FRANZ_LOOP = "franz-go loop, five headers"
BATCH_LOOP = "batch loop, five headers"
"""Copies the bytes of batches: the limit of what this project does."""
PASS_LOOP = "batch loop, as they are"
"""Passes batches on: the limit of what this project does where they go as they are."""

SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
HIGHER, LOWER = "higher", "lower"

LABELS = {
    "records_per_second": ("records/s, first to last record in the hub", HIGHER),
    "cpu_per_million": ("CPU seconds per million records", LOWER),
    "brokers_cpu_per_million": ("CPU seconds of the brokers per million records", LOWER),
    "records_per_request": ("records of a request to the hub", HIGHER),
    "records_per_batch": ("records of a batch in the hub", HIGHER),
    "batch_kib": ("size of a batch in the hub, KiB", HIGHER),
    "bytes_per_record": ("bytes of a record in the hub, compressed", LOWER),
    "startup_seconds": ("launch to first record, s", LOWER),
    "p50_ms": ("latency p50, ms", LOWER),
    "p95_ms": ("latency p95, ms", LOWER),
    "p99_ms": ("latency p99, ms", LOWER),
    "p999_ms": ("latency p99.9, ms", LOWER),
    "cpu_percent": ("CPU, % of a core", LOWER),
    "memory_mib": ("memory, MiB", LOWER),
    "first_record_seconds": ("new start to first record, s", LOWER),
    "caught_up_seconds": ("new start to caught up, s", LOWER),
    "twice": ("records in the hub twice", LOWER),
    "records_seconds": ("launch to all records in the hub, s", LOWER),
    "groups_seconds": ("launch to all groups at the hub, s", LOWER),
    "cpu_seconds": ("CPU seconds until then", LOWER),
    "again": ("records that the groups read again", LOWER),
    "unset": ("partitions of groups without an offset at the hub", LOWER),
}
"""Measure -> what it is called, and which way is better."""


class Goal(NamedTuple):
    """Our median is at least, or where lower is better at most, this multiple of another's."""

    measure: str
    against: str
    factor: float

    def reached(self, quotient: float) -> bool:
        """Whether a ratio of our figure to theirs reaches it."""
        higher = LABELS[self.measure][1] == HIGHER
        return quotient >= self.factor if higher else quotient <= self.factor


class Sample(NamedTuple):
    """How many records the hub topic held at a moment, in seconds since the tool's launch.

    `cpu` is what the tool's processes had used by then, in seconds, and `brokers` all brokers.
    """

    seconds: float
    records: int
    cpu: float = 0.0
    brokers: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """What a plain consumer found in the hub. `strangers` are records that were never sent."""

    sent: int
    found: int
    missing: int
    twice: int
    strangers: int

    @property
    def perfect(self) -> bool:
        """Whether each record is there once, and nothing else is."""
        return not (self.missing or self.twice or self.strangers)


@dataclass(frozen=True, slots=True)
class Run:
    """One launch of one tool. `failure` is empty when it did what it should."""

    work: str
    tool: str
    round: int
    load_average: float
    values: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, float] = field(default_factory=dict)
    check: Check | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: figures, notes beside them, and the count of what is in the hub."""

    values: Mapping[str, float]
    notes: Mapping[str, float]
    check: Check
    doubles_allowed: bool = False

    @property
    def failure(self) -> str:
        """Why the run does not count; empty when it does."""
        found = self.check
        if found.missing or found.strangers or (found.twice and not self.doubles_allowed):
            return "the hub does not hold each record once"
        return ""


class Spread(NamedTuple):
    """Median, minimum and maximum of one measure over the runs."""

    median: float
    low: float
    high: float
    runs: int


def throughput(samples: Iterable[Sample], expected: int) -> dict[str, float]:
    """Records and CPU seconds between the first and the last record, and the seconds until then.

    The records that the first non-empty sample already holds came before the interval, so they do
    not count. ValueError when the end is not among the samples, or all came within one sample.
    """
    filled = [sample for sample in samples if sample.records > 0]
    last = next((sample for sample in filled if sample.records >= expected), None)
    if last is None:
        raise ValueError(f"{filled[-1].records if filled else 0} of {expected} records arrived")
    first = filled[0]
    if last is first:
        raise ValueError("all records arrived between two looks: take more records")
    records = last.records - first.records
    return {
        "records_per_second": records / (last.seconds - first.seconds),
        "cpu_per_million": (last.cpu - first.cpu) / records * 1e6,
        "brokers_cpu_per_million": (last.brokers - first.brokers) / records * 1e6,
        "startup_seconds": first.seconds,
    }


def latencies(milliseconds: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and p99.9; ValueError when nothing was measured."""
    ordered = sorted(milliseconds)
    found = {name: percentile(ordered, share) for name, share in SHARES.items()}
    values = {name: value for name, value in found.items() if value is not None}
    if len(values) < len(SHARES):
        raise ValueError("no latency was measured")
    return values


def record_id(value: bytes | None) -> tuple[str, int] | None:
    """Source and number that a value begins with (`eu:0000000012:`); None for a stranger's."""
    parts = (value or b"").split(b":", 2)
    if len(parts) != 3 or not parts[1].isdigit():
        return None
    return parts[0].decode("utf-8", "replace"), int(parts[1])


def check(sent: Mapping[str, int], values: Iterable[bytes | None]) -> Check:
    """Compare hub values with what each source was sent: the numbers 0 to `sent` - 1."""
    seen = {source: bytearray(count) for source, count in sent.items()}
    found = twice = strangers = 0
    for value in values:
        identity = record_id(value)
        if identity is None or identity[1] >= sent.get(identity[0], 0):
            strangers += 1
            continue
        source, number = identity
        if seen[source][number]:
            twice += 1
        else:
            seen[source][number] = 1
            found += 1
    total = sum(sent.values())
    return Check(total, found, total - found, twice, strangers)


def spread(runs: Iterable[Run], work: str, tool: str, measure: str) -> Spread | None:
    """One measure over the runs of one tool that did not fail; None when there is none."""
    values = [
        run.values[measure]
        for run in runs
        if (run.work, run.tool) == (work, tool) and not run.failure and measure in run.values
    ]
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def ratio(ours: Spread | None, theirs: Spread | None) -> float | None:
    """Our median divided by theirs; None when one is not there or theirs is 0."""
    if ours is None or theirs is None or not theirs.median:
        return None
    return ours.median / theirs.median
