"""Lag per source partition, and its totals. Pure: no client, no clock.

Lag is counted in offsets: compaction and transaction markers take offsets too, so it may be more
than the records that are left. Only a running instance knows for how long it has been behind.
Unknown is null, never 0.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from pydantic import Field

from aggregator.model.alike import made_of
from aggregator.model.values import OffsetRange, SourcePartition
from aggregator.plan.health.delays import Delay, longest
from aggregator.status.rates import NOT_RUNNING, Eta, LagSample, Rates, eta, rates
from aggregator.status.schema import NOT_BEGUN, Document, PartitionStatus, Status
from aggregator.status.sizes import sizes_of, sum_sized

Number = TypeVar("Number", int, float)

ALL = "(all)"
"""The name of the sum; no source can have it as its alias."""
SHORTEST_SECONDS = 2.0
"""Positions of a running instance are reported about once a second."""


NO_ROWS = "Its partitions are listed once it is RUNNING."


class LagRow(Document):
    """One source partition."""

    cluster: str
    topic: str
    partition: int
    position: int | None = None
    log_end: int | None = None
    lag: int | None = None
    lag_bytes: int | None = Field(
        default=None, description="an estimate: by the mean size of records"
    )
    seconds_behind: float | None = None
    seconds_behind_at_least: bool = False
    consumed_per_second: float | None = None
    produced_per_second: float | None = None
    lane: str = ""
    state: str = ""
    reason: str = ""

    @property
    def source_partition(self) -> SourcePartition:
        """Which partition this is about."""
        return SourcePartition(self.cluster, self.topic, self.partition)


class LagTotal(Document):
    """The sum over a source, or over all: of the known part, with the count of the unknown.

    `seconds_behind` is the longest of them.
    """

    cluster: str
    partitions: int
    unknown: int = Field(description="partitions whose lag is not known")
    lag: int | None
    lag_bytes: int | None
    seconds_behind: float | None = None
    seconds_behind_at_least: bool = False
    consumed_per_second: float | None
    produced_per_second: float | None
    eta_seconds: float | None
    eta: str


class LagReport(Document):
    """Lag at one moment. Positions are those of a running instance, or of the checkpoint."""

    name: str
    running: bool
    at: datetime
    rows: tuple[LagRow, ...]
    totals: tuple[LagTotal, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """Records read at a position: their mean size in bytes; `empty` = none is left to read."""

    mean_bytes: float | None = None
    empty: bool = False


def report_of(status: Status, earlier: Status | None = None) -> LagReport:
    """The lag of a running instance as it knows it; rates since an `earlier` status of it."""
    before = {_sp(part): part for part in earlier.partitions} if earlier is not None else {}
    size = sizes_of(status)
    shortest = SHORTEST_SECONDS
    rows = []
    for part in status.partitions:
        old = before.get(_sp(part))
        rate = Rates()
        if old is not None and earlier is not None:
            rate = rates(_reading(earlier, old), _reading(status, part), shortest)
        rows.append(
            made_of(
                LagRow,
                part,
                lag_bytes=size(part.cluster, part.topic, part.lag),
                consumed_per_second=rate.consumed,
                produced_per_second=rate.produced,
            )
        )
    notes = () if rows or status.phase not in NOT_BEGUN else (f"It is {status.phase}. {NO_ROWS}",)
    return make_report(status.name, rows, running=True, at=status.at, notes=notes)


def only(report: LagReport, source: str | None, topic: str | None) -> LagReport:
    """The report of one source, one topic, or both; None is any."""
    if source is None and topic is None:
        return report
    rows = [
        row for row in report.rows if source in (None, row.cluster) and topic in (None, row.topic)
    ]
    return make_report(report.name, rows, running=report.running, at=report.at, notes=report.notes)


def only_into(report: LagReport, status: Status, hub_topic: str) -> LagReport:
    """The report of the source partitions that are copied to a hub topic."""
    into = {_sp(part) for part in status.partitions if part.hub_topic == hub_topic}
    rows = [row for row in report.rows if row.source_partition in into]
    return make_report(report.name, rows, running=report.running, at=report.at, notes=report.notes)


def measured(
    report: LagReport,
    ends: Mapping[SourcePartition, OffsetRange],
    failures: Mapping[SourcePartition, str],
    at: datetime,
) -> LagReport:
    """The report with log ends that were read after its positions; what failed is unknown."""
    rows = [_with_end(row, ends.get(row.source_partition), failures) for row in report.rows]
    return make_report(report.name, rows, running=report.running, at=at, notes=report.notes)


def with_bytes(report: LagReport, samples: Mapping[SourcePartition, Sample]) -> LagReport:
    """The report with bytes: lag x mean record size of the partition, else of its topic.

    A lag of which nothing can be read (transaction markers, compacted records) is no lag.
    """
    by_topic: dict[tuple[str, str], list[float]] = {}
    for sp, sample in samples.items():
        if sample.mean_bytes is not None:
            by_topic.setdefault((sp.cluster, sp.topic), []).append(sample.mean_bytes)
    rows = []
    for row in report.rows:
        sample = samples.get(row.source_partition, Sample())
        sizes = by_topic.get((row.cluster, row.topic), [])
        mean = sample.mean_bytes
        if mean is None and sizes:
            mean = sum(sizes) / len(sizes)
        if sample.empty and row.lag:
            reason = row.reason or f"the last {row.lag} offsets hold no records"
            none = {"lag": 0, "lag_bytes": 0, "seconds_behind_at_least": False, "reason": reason}
            known = row.seconds_behind is not None
            rows.append(row.model_copy(update=none | ({"seconds_behind": 0.0} if known else {})))
        elif row.lag == 0:
            rows.append(row.model_copy(update={"lag_bytes": 0}))
        elif row.lag is not None and mean is not None:
            rows.append(row.model_copy(update={"lag_bytes": round(row.lag * mean)}))
        else:
            rows.append(row)
    return make_report(report.name, rows, running=report.running, at=report.at, notes=report.notes)


def make_report(
    name: str, rows: Iterable[LagRow], *, running: bool, at: datetime, notes: Sequence[str] = ()
) -> LagReport:
    """Rows in order, with a total per source and one over all (when there are several)."""
    ordered = tuple(sorted(rows, key=lambda row: row.source_partition))
    groups: dict[str, list[LagRow]] = {}
    for row in ordered:
        groups.setdefault(row.cluster, []).append(row)
    totals = [total(cluster, found, running=running) for cluster, found in groups.items()]
    if len(groups) > 1:
        totals.append(total(ALL, ordered, running=running))
    return LagReport(
        name=name, running=running, at=at, rows=ordered, totals=tuple(totals), notes=tuple(notes)
    )


def total(cluster: str, rows: Sequence[LagRow], *, running: bool) -> LagTotal:
    """The sum of some rows; its ETA is unknown while any of their lags is."""
    lag = sum_known(row.lag for row in rows)
    unknown = sum(row.lag is None for row in rows)
    consumed = sum_known(row.consumed_per_second for row in rows)
    produced = sum_known(row.produced_per_second for row in rows)
    when = eta(None if unknown else lag, consumed, produced)
    if not running and lag and not unknown:
        when = Eta(NOT_RUNNING)
    behind = longest(delay_of(row) for row in rows)
    return LagTotal(
        cluster=cluster,
        partitions=len(rows),
        unknown=unknown,
        lag=lag,
        lag_bytes=sum_sized((row.lag, row.lag_bytes) for row in rows),
        seconds_behind=behind.seconds if behind is not None else None,
        seconds_behind_at_least=behind is not None and behind.at_least,
        consumed_per_second=consumed,
        produced_per_second=produced,
        eta_seconds=when.seconds,
        eta=when.text,
    )


def delay_of(row: LagRow | LagTotal) -> Delay | None:
    """For how long it has been behind; None when that is not known."""
    if row.seconds_behind is None:
        return None
    return Delay(row.seconds_behind, row.seconds_behind_at_least)


def _with_end(
    row: LagRow, log: OffsetRange | None, failures: Mapping[SourcePartition, str]
) -> LagRow:
    if log is None:
        reason = failures.get(row.source_partition, "its log end is not known")
        return row.model_copy(
            update={"log_end": None, "lag": None, "lag_bytes": None, "reason": reason}
        )
    change: dict[str, object] = {"log_end": log.latest, "lag": None, "lag_bytes": None}
    if row.position is not None and row.position <= log.latest:
        change["lag"] = log.latest - row.position
        if row.position < log.earliest:
            change["reason"] = f"offsets {row.position} to {log.earliest - 1} are deleted"
    elif row.position is not None:
        change["reason"] = "the position is beyond the log's end: was the topic created again?"
    return row.model_copy(update=change)


def _reading(status: Status, part: PartitionStatus) -> LagSample:
    return LagSample(status.at.timestamp(), part.position, part.log_end)


def _sp(part: PartitionStatus) -> SourcePartition:
    return SourcePartition(part.cluster, part.topic, part.partition)


def states_of(partitions: Iterable[PartitionStatus]) -> dict[str, int]:
    """How many are in which state."""
    return dict(Counter(str(it.state) for it in partitions))


def longest_behind(partitions: Iterable[PartitionStatus]) -> float | None:
    """How far behind the last of them is, as far as known."""
    known = (it.seconds_behind for it in partitions if it.seconds_behind is not None)
    return max(known, default=None)


def sum_known(values: Iterable[Number | None]) -> Number | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
