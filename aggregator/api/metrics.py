"""`/metrics`: the status document as Prometheus metrics, in seconds and bytes.

Nothing is counted here: each scrape shows the newest status. Per source and topic, so that there
are as many series as topics; per partition only when the config asks for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from aggregator.api.metrics_mm2 import mirror_maker
from aggregator.config.schema import MetricsConfig
from aggregator.datapath.connector.reports import bucket_bounds
from aggregator.model.values import SourceState
from aggregator.status.percentiles import most
from aggregator.status.schema import (
    AuditStatus,
    LaneState,
    PartitionState,
    Phase,
    SourceStatus,
    Status,
)
from aggregator.status.service_status import Figure
from aggregator.status.sizes import sizes_of

PREFIX = "aggregator_"
EVERY = 4
"""Of our buckets every n-th is shown: bounds that grow by 2.4, 18 of them."""

FINDINGS = (
    *("expected", "present", "missing", "twice", "altered", "out_of_order", "foreign"),
    "not_judged",
)

Rows = Iterable[tuple[Sequence[str], float | None]]


def metrics_text(
    status: Status | None, config: MetricsConfig, earlier: Status | None = None
) -> bytes:
    """The text of `/metrics`; before the first status only that it is up, and its process.

    MirrorMaker 2's rates are those since an `earlier` status.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_StatusCollector(status, config, earlier))
    return generate_latest(registry)


class _StatusCollector(Collector):
    def __init__(
        self, status: Status | None, config: MetricsConfig, earlier: Status | None
    ) -> None:
        self._status = status
        self._earlier = earlier
        self._config = config

    def collect(self) -> Iterator[Metric]:
        yield _gauge("up", "1 while the process answers.", (), [((), 1.0)])
        if self._status is None:
            return
        if "native" in self._config.names:
            yield from native(self._status, partitions=self._config.partitions)
        if "mm2" in self._config.names:
            yield from mirror_maker(self._status, self._earlier)


def native(status: Status, *, partitions: bool) -> Iterator[Metric]:
    """Our own metrics of a status."""
    yield _gauge(
        "info", "Name and version.", ("name", "version"), [((status.name, status.version), 1.0)]
    )
    yield _states("phase", "1 for the phase it is in.", "phase", Phase, [((), status.phase)])
    yield from _of_sources(status)
    yield from _of_topics(status)
    yield from _of_the_whole(status)
    yield from _of_completeness(status)
    for service in status.services:
        yield from map(_of_figure, service.figures())
    yield from _of_dedup(status)
    if partitions:
        yield from _of_partitions(status)


def _of_sources(status: Status) -> Iterator[Metric]:
    sources = status.sources
    up = (SourceState.RUNNING, SourceState.CATCHING_UP)
    yield _gauge(
        "source_up",
        "1 while a source runs, or catches up.",
        ("source",),
        [((it.alias,), float(it.state in up)) for it in sources],
    )
    yield _states(
        "source_state",
        "1 for the state a source is in.",
        "state",
        SourceState,
        [((it.alias,), it.state) for it in sources],
        ("source",),
    )
    held = Counter((it.cluster, it.state) for it in status.partitions)
    yield _gauge(
        "source_partitions",
        "Partitions of a source in a state.",
        ("source", "state"),
        [
            ((it.alias, state), float(held[it.alias, state]))
            for it in sources
            for state in PartitionState
        ],
    )
    yield _gauge(
        "seconds_behind",
        "Since when a log reaches beyond what is copied, the longest of a source.",
        ("source",),
        [((it.alias,), it.seconds_behind) for it in sources],
    )
    yield _gauge(
        "lost_timestamp_seconds",
        "When the newest gap was found in which offsets of a source are, or may be, lost.",
        ("source",),
        [((it.alias,), _seconds(it.lost_at)) for it in sources],
    )
    yield from _read_of_sources(sources)


def _read_of_sources(sources: Sequence[SourceStatus]) -> Iterator[Metric]:
    yield _counter(
        "records_read",
        "Records read: written, or left out for the hub held them or they came from it.",
        ("source",),
        [((it.alias,), float(it.records + it.skipped + it.looped)) for it in sources],
    )
    for name, words, field in (
        (
            "bytes_read",
            "Bytes of keys and values read, of what was left out as well.",
            "read_bytes",
        ),
        ("records_skipped", "Records left out because the hub held them.", "skipped"),
        ("records_looped", "Records left out because they came from the hub.", "looped"),
        ("hub_producer_retries", "Records sent again after an error of the hub.", "retried"),
        ("records_quarantined", "Records that the hub refused.", "quarantined"),
        ("lost_offsets", "Offsets lost in gaps, as far as known.", "lost"),
    ):
        yield _counter(
            name, words, ("source",), [((it.alias,), float(getattr(it, field))) for it in sources]
        )
    yield _histogram(
        "record_age_seconds",
        "From a record's timestamp to its acknowledgement.",
        [(it, it.age_counts) for it in sources],
    )
    yield _histogram(
        "replication_latency_seconds",
        "From a record's fetch from its source to its acknowledgement by the hub.",
        [(it, it.flight_counts) for it in sources],
    )


def _of_topics(status: Status) -> Iterator[Metric]:
    copied = [(it.alias, topic) for it in status.sources for topic in it.copied]
    labels = ("source", "topic")
    yield _counter(
        "records_written",
        "Records written to the hub.",
        labels,
        [((alias, it.topic), float(it.records)) for alias, it in copied],
    )
    yield _counter(
        "written_bytes",
        "Bytes of their keys and values.",
        labels,
        [((alias, it.topic), float(it.bytes)) for alias, it in copied],
    )
    lags: Counter[tuple[str, str]] = Counter()
    size = sizes_of(status)
    unknown: Counter[tuple[str, str]] = Counter()
    for it in status.partitions:
        key = (it.cluster, it.topic)
        unknown[key] += it.lag is None
        if it.lag is not None:
            lags[key] += it.lag
    yield _gauge(
        "lag_offsets",
        "Offsets behind, of the partitions with a known lag.",
        labels,
        [(key, float(lag)) for key, lag in lags.items()],
    )
    yield _gauge(
        "lag_bytes",
        "The same, by the mean size of what was copied.",
        labels,
        [(key, size(*key, lag)) for key, lag in lags.items()],
    )
    yield _gauge(
        "lag_unknown_partitions",
        "Partitions whose lag is not known.",
        labels,
        [(key, float(count)) for key, count in unknown.items()],
    )


def _of_the_whole(status: Status) -> Iterator[Metric]:
    yield _gauge("start_time_seconds", "When it started.", (), [((), _seconds(status.started_at))])
    lanes = Counter(it.state for it in status.lanes)
    yield _gauge(
        "lanes",
        "Lanes in a state.",
        ("state",),
        [((state,), float(lanes[state])) for state in LaneState],
    )
    yield _counter(
        "lane_restarts",
        "Starts of lanes after a failure.",
        ("lane",),
        [((it.name,), float(it.restarts)) for it in status.lanes],
    )
    checkpoint = status.checkpoint
    yield _gauge(
        "checkpoint_timestamp_seconds",
        "When positions were last committed.",
        (),
        [((), _seconds(checkpoint.committed_at))],
    )
    age = None
    if checkpoint.committed_at is not None:
        age = (status.at - checkpoint.committed_at).total_seconds()
    yield _gauge("checkpoint_age_seconds", "How long ago that was.", (), [((), age)])
    yield _gauge(
        "checkpoint_failing",
        "1 while a commit is tried again.",
        (),
        [((), float(bool(checkpoint.error)))],
    )
    gaps = status.gaps
    yield _gauge(
        "gaps",
        "Gaps ever found, open or decided.",
        ("state",),
        [
            (("open",), float(gaps.open)),
            (("decided",), float(gaps.total - gaps.open)),
        ],
    )
    yield from _of_the_audit(status.audit)
    found = status.recovery
    if found is not None:
        for name, words, value in (
            ("recovery_seconds", "How long the last recovery took.", found.seconds),
            ("recovery_offsets", "Offsets of the hub that it read.", found.tail),
            ("recovery_records", "Records it found beyond the checkpoint.", found.found),
            ("recovery_replayed_records", "Missing records written since.", found.replayed),
        ):
            yield _gauge(name, words, (), [((), float(value))])


def _of_the_audit(audit: AuditStatus | None) -> Iterator[Metric]:
    known = audit if audit is not None and audit.at is not None else None
    yield _gauge(
        "audit_timestamp_seconds",
        "When the hub was last verified.",
        (),
        [((), _seconds(known.at) if known is not None else None)],
    )
    if known is None:
        return
    yield _gauge("audit_wrong", "1 when something was wrong then.", (), [((), float(known.wrong))])
    yield _gauge(
        "audit_records",
        "Records, by what was found of them then.",
        ("finding",),
        [((name,), float(getattr(known, name))) for name in FINDINGS],
    )
    yield _gauge(
        "audit_partitions",
        "Source partitions that were judged then.",
        (),
        [((), float(known.partitions))],
    )
    yield _gauge(
        "audit_partitions_not_compared",
        "Of these silent, or with a conflict.",
        (),
        [((), float(known.not_compared))],
    )


def _of_completeness(status: Status) -> Iterator[Metric]:
    completeness = status.completeness
    if completeness is None:
        return
    yield _gauge(
        "complete_up_to_timestamp_seconds",
        "All that a source acknowledged with a timestamp up to then is in the hub topic.",
        ("source", "hub_topic"),
        [((it.source, it.topic), _seconds(it.up_to)) for it in completeness.topics if it.source],
    )
    yield _gauge(
        "topic_complete_up_to_timestamp_seconds",
        "The same of all sources together.",
        ("hub_topic",),
        [((it.topic,), _seconds(it.up_to)) for it in completeness.topics if it.source is None],
    )
    yield _counter(
        "records_late",
        "Records that came below such a claim, at least.",
        ("source",),
        [((alias,), float(count)) for alias, count in sorted(completeness.late.items())],
    )


def _of_figure(figure: Figure) -> Metric:
    make = _counter if figure.count else _gauge
    return make(figure.name, figure.words, figure.labels, figure.rows)


def _of_dedup(status: Status) -> Iterator[Metric]:
    if not status.dedup:
        return
    labels = ("source", "topic")
    counts = [((it.alias, own.topic), own) for it in status.sources for own in it.copied]
    yield _counter(
        "duplicates_dropped",
        "Records dropped because the hub held their event already.",
        labels,
        [(names, float(own.dropped)) for names, own in counts],
    )
    yield _counter(
        "records_without_event",
        "Records that dedup found no event in, and wrote.",
        labels,
        [(names, float(own.without_id)) for names, own in counts],
    )
    yield _gauge(
        "dedup_events",
        "Events of a hub topic that are remembered.",
        ("hub_topic",),
        [((it.hub_topic,), float(it.events)) for it in status.dedup],
    )
    yield _gauge(
        "dedup_bytes",
        "Memory that these events take.",
        ("hub_topic",),
        [((it.hub_topic,), float(it.bytes)) for it in status.dedup],
    )


def _of_partitions(status: Status) -> Iterator[Metric]:
    labels = ("source", "topic", "partition")
    rows = [((it.cluster, it.topic, str(it.partition)), it) for it in status.partitions]
    for name, words, field in (
        ("partition_position", "The next offset to copy.", "position"),
        ("partition_log_end", "The end of its log.", "log_end"),
        ("partition_lag_offsets", "Offsets behind.", "lag"),
    ):
        yield _gauge(name, words, labels, [(key, getattr(it, field)) for key, it in rows])
    yield _gauge(
        "partition_up",
        "1 while it is read.",
        labels,
        [(key, float(it.state is PartitionState.RUNNING)) for key, it in rows],
    )


def _gauge(name: str, words: str, labels: Sequence[str], rows: Rows) -> Metric:
    return _filled(GaugeMetricFamily(PREFIX + name, words, labels=labels), rows)


def _counter(name: str, words: str, labels: Sequence[str], rows: Rows) -> Metric:
    return _filled(CounterMetricFamily(PREFIX + name, words, labels=labels), rows)


def _filled(metric: GaugeMetricFamily | CounterMetricFamily, rows: Rows) -> Metric:
    for key, value in rows:
        # What is not known is left out: a 0 would be a claim.
        if value is not None:
            metric.add_metric(list(key), value)
    return metric


def _states(
    name: str,
    words: str,
    label: str,
    states: Iterable[str],
    rows: Iterable[tuple[Sequence[str], str]],
    labels: Sequence[str] = (),
) -> Metric:
    every = list(states)
    return _gauge(
        name,
        words,
        (*labels, label),
        [((*key, state), float(state == now)) for key, now in rows for state in every],
    )


def _histogram(name: str, words: str, rows: Iterable[tuple[SourceStatus, Sequence[int]]]) -> Metric:
    metric = HistogramMetricFamily(
        PREFIX + name, f"{words} The sum is by the buckets' bounds.", labels=("source",)
    )
    bounds = bucket_bounds()
    for source, counts in rows:
        if any(counts):
            metric.add_metric([source.alias], _buckets(counts, bounds), most(counts, bounds) / 1000)
    return metric


def _buckets(counts: Sequence[int], bounds: Sequence[int]) -> list[tuple[str, float]]:
    """Counts up to each bound that is shown, in seconds."""
    seen = list(accumulate(counts))
    shown = range(EVERY - 1, len(bounds), EVERY)
    return [*((str(bounds[at] / 1000), float(seen[at])) for at in shown), ("+Inf", float(seen[-1]))]


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
