"""`/metrics`: the status document as Prometheus metrics, in seconds and bytes.

Nothing is counted here: each scrape shows the newest status. Per source and topic, so that there
are as many series as topics; per partition only when the config asks for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
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

ONE, EACH, TOPIC = (), ("source",), ("source", "topic")
PARTITION = (*TOPIC, "partition")
WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "up": ("1 while the process answers.", ONE),
    "info": ("Name and version.", ("name", "version")),
    "phase": ("1 for the phase it is in.", ("phase",)),
    "source_up": ("1 while a source runs, or catches up.", EACH),
    "source_state": ("1 for the state a source is in.", ("source", "state")),
    "source_partitions": ("Partitions of a source in a state.", ("source", "state")),
    "seconds_behind": (
        "Since when a log reaches beyond what is copied, the longest of a source.",
        EACH,
    ),
    "lost_timestamp_seconds": (
        "When the newest gap was found in which offsets of a source are, or may be, lost.",
        EACH,
    ),
    "records_read": (
        "Records read: written, or left out for the hub held them or they came from it.",
        EACH,
    ),
    "bytes_read": ("Bytes of keys and values read, of what was left out as well.", EACH),
    "records_skipped": ("Records left out because the hub held them.", EACH),
    "records_looped": ("Records left out because they came from the hub.", EACH),
    "hub_producer_retries": ("Records sent again after an error of the hub.", EACH),
    "records_quarantined": ("Records that the hub refused.", EACH),
    "lost_offsets": ("Offsets lost in gaps, as far as known.", EACH),
    "records_written": ("Records written to the hub.", TOPIC),
    "written_bytes": ("Bytes of their keys and values.", TOPIC),
    "lag_offsets": ("Offsets behind, of the partitions with a known lag.", TOPIC),
    "lag_bytes": ("The same, by the mean size of what was copied.", TOPIC),
    "lag_unknown_partitions": ("Partitions whose lag is not known.", TOPIC),
    "start_time_seconds": ("When it started.", ONE),
    "lanes": ("Lanes in a state.", ("state",)),
    "lane_restarts": ("Starts of lanes after a failure.", ("lane",)),
    "checkpoint_timestamp_seconds": ("When positions were last committed.", ONE),
    "checkpoint_age_seconds": ("How long ago that was.", ONE),
    "checkpoint_failing": ("1 while a commit is tried again.", ONE),
    "gaps": ("Gaps ever found, open or decided.", ("state",)),
    "audit_timestamp_seconds": ("When the hub was last verified.", ONE),
    "audit_wrong": ("1 when something was wrong then.", ONE),
    "audit_records": ("Records, by what was found of them then.", ("finding",)),
    "audit_partitions": ("Source partitions that were judged then.", ONE),
    "audit_partitions_not_compared": ("Of these silent, or with a conflict.", ONE),
    "recovery_seconds": ("How long the last recovery took.", ONE),
    "recovery_offsets": ("Offsets of the hub that it read.", ONE),
    "recovery_records": ("Records it found beyond the checkpoint.", ONE),
    "recovery_replayed_records": ("Missing records written since.", ONE),
    "complete_up_to_timestamp_seconds": (
        "All that a source acknowledged with a timestamp up to then is in the hub topic.",
        ("source", "hub_topic"),
    ),
    "topic_complete_up_to_timestamp_seconds": (
        "The same of all sources together.",
        ("hub_topic",),
    ),
    "records_late": ("Records that came below such a claim, at least.", EACH),
    "duplicates_dropped": (
        "Records dropped because the hub held their event already.",
        TOPIC,
    ),
    "records_without_event": ("Records that dedup found no event in, and wrote.", TOPIC),
    "dedup_events": ("Events of a hub topic that are remembered.", ("hub_topic",)),
    "dedup_bytes": ("Memory that these events take.", ("hub_topic",)),
    "partition_position": ("The next offset to copy.", PARTITION),
    "partition_log_end": ("The end of its log.", PARTITION),
    "partition_lag_offsets": ("Offsets behind.", PARTITION),
    "partition_up": ("1 while it is read.", PARTITION),
}
"""What each metric is, and its labels. Services have theirs themselves."""

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
        yield _one("up", 1.0)
        if self._status is None:
            return
        if "native" in self._config.names:
            yield from native(self._status, partitions=self._config.partitions)
        if "mm2" in self._config.names:
            yield from mirror_maker(self._status, self._earlier)


def native(status: Status, *, partitions: bool) -> Iterator[Metric]:
    """Our own metrics of a status."""
    yield _gauge("info", [((status.name, status.version), 1.0)])
    yield _states("phase", Phase, [((), status.phase)])
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
    yield _gauge("source_up", [((it.alias,), float(it.state.is_well)) for it in sources])
    yield _states("source_state", SourceState, [((it.alias,), it.state) for it in sources])
    held = Counter((it.cluster, it.state) for it in status.partitions)
    keys = [(it.alias, state) for it in sources for state in PartitionState]
    yield _gauge("source_partitions", [(key, float(held[key])) for key in keys])
    yield _gauge("seconds_behind", [((it.alias,), it.seconds_behind) for it in sources])
    yield _gauge("lost_timestamp_seconds", [((it.alias,), _seconds(it.lost_at)) for it in sources])
    read = [((it.alias,), float(it.records + it.skipped + it.looped)) for it in sources]
    yield _counter("records_read", read)
    for name, field in (
        ("bytes_read", "read_bytes"),
        ("records_skipped", "skipped"),
        ("records_looped", "looped"),
        ("hub_producer_retries", "retried"),
        ("records_quarantined", "quarantined"),
        ("lost_offsets", "lost"),
    ):
        yield _counter(name, [((it.alias,), float(getattr(it, field))) for it in sources])
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
    copied = [((it.alias, own.topic), own) for it in status.sources for own in it.copied]
    yield _counter("records_written", [(key, float(own.records)) for key, own in copied])
    yield _counter("written_bytes", [(key, float(own.bytes)) for key, own in copied])
    lags: Counter[tuple[str, str]] = Counter()
    size = sizes_of(status)
    unknown: Counter[tuple[str, str]] = Counter()
    for it in status.partitions:
        key = (it.cluster, it.topic)
        unknown[key] += it.lag is None
        if it.lag is not None:
            lags[key] += it.lag
    yield _gauge("lag_offsets", [(key, float(lag)) for key, lag in lags.items()])
    yield _gauge("lag_bytes", [(key, size(*key, lag)) for key, lag in lags.items()])
    yield _gauge("lag_unknown_partitions", [(key, float(it)) for key, it in unknown.items()])


def _of_the_whole(status: Status) -> Iterator[Metric]:
    yield _one("start_time_seconds", _seconds(status.started_at))
    lanes = Counter(it.state for it in status.lanes)
    yield _gauge("lanes", [((state,), float(lanes[state])) for state in LaneState])
    yield _counter("lane_restarts", [((it.name,), float(it.restarts)) for it in status.lanes])
    at = status.checkpoint.committed_at
    yield _one("checkpoint_timestamp_seconds", _seconds(at))
    yield _one("checkpoint_age_seconds", None if at is None else (status.at - at).total_seconds())
    yield _one("checkpoint_failing", float(bool(status.checkpoint.error)))
    gaps = status.gaps
    decided = float(gaps.total - gaps.open)
    yield _gauge("gaps", [(("open",), float(gaps.open)), (("decided",), decided)])
    yield from _of_the_audit(status.audit)
    found = status.recovery
    if found is not None:
        yield _one("recovery_seconds", found.seconds)
        yield _one("recovery_offsets", found.tail)
        yield _one("recovery_records", found.found)
        yield _one("recovery_replayed_records", found.replayed)


def _of_the_audit(audit: AuditStatus | None) -> Iterator[Metric]:
    known = audit if audit is not None and audit.at is not None else None
    yield _one("audit_timestamp_seconds", _seconds(known.at) if known is not None else None)
    if known is not None:
        yield _one("audit_wrong", float(known.wrong))
        yield _gauge("audit_records", [((it,), float(getattr(known, it))) for it in FINDINGS])
        yield _one("audit_partitions", float(known.partitions))
        yield _one("audit_partitions_not_compared", float(known.not_compared))


def _of_completeness(status: Status) -> Iterator[Metric]:
    if status.completeness is None:
        return
    topics, late = status.completeness.topics, status.completeness.late
    own = [((it.source, it.topic), _seconds(it.up_to)) for it in topics if it.source]
    yield _gauge("complete_up_to_timestamp_seconds", own)
    all_of = [((it.topic,), _seconds(it.up_to)) for it in topics if it.source is None]
    yield _gauge("topic_complete_up_to_timestamp_seconds", all_of)
    yield _counter("records_late", [((it,), float(count)) for it, count in sorted(late.items())])


def _of_figure(figure: Figure) -> Metric:
    family = CounterMetricFamily if figure.count else GaugeMetricFamily
    return _filled(family(PREFIX + figure.name, figure.words, labels=figure.labels), figure.rows)


def _of_dedup(status: Status) -> Iterator[Metric]:
    if not status.dedup:
        return
    counts = [((it.alias, own.topic), own) for it in status.sources for own in it.copied]
    yield _counter("duplicates_dropped", [(key, float(own.dropped)) for key, own in counts])
    yield _counter("records_without_event", [(key, float(own.without_id)) for key, own in counts])
    yield _gauge("dedup_events", [((it.hub_topic,), float(it.events)) for it in status.dedup])
    yield _gauge("dedup_bytes", [((it.hub_topic,), float(it.bytes)) for it in status.dedup])


def _of_partitions(status: Status) -> Iterator[Metric]:
    rows = [((it.cluster, it.topic, str(it.partition)), it) for it in status.partitions]
    yield _gauge("partition_position", [(key, it.position) for key, it in rows])
    yield _gauge("partition_log_end", [(key, it.log_end) for key, it in rows])
    yield _gauge("partition_lag_offsets", [(key, it.lag) for key, it in rows])
    running = PartitionState.RUNNING
    yield _gauge("partition_up", [(key, float(it.state is running)) for key, it in rows])


def _one(name: str, value: float | None) -> Metric:
    return _gauge(name, [((), value)])


def _gauge(name: str, rows: Rows) -> Metric:
    words, labels = WORDS[name]
    return _filled(GaugeMetricFamily(PREFIX + name, words, labels=labels), rows)


def _counter(name: str, rows: Rows) -> Metric:
    words, labels = WORDS[name]
    return _filled(CounterMetricFamily(PREFIX + name, words, labels=labels), rows)


def _filled(metric: GaugeMetricFamily | CounterMetricFamily, rows: Rows) -> Metric:
    for key, value in rows:
        # What is not known is left out: a 0 would be a claim.
        if value is not None:
            metric.add_metric(list(key), value)
    return metric


def _states(name: str, states: type[StrEnum], rows: Iterable[tuple[Sequence[str], str]]) -> Metric:
    every = [((*key, it), float(it == now)) for key, now in rows for it in states]
    return _gauge(name, every)


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
