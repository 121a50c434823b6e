"""The names that MirrorMaker 2's metrics have in Prometheus, so that boards made for it go on.

By the pattern that Strimzi's exporter uses: kafka_connect_mirror_mirrorsourceconnector_*, with the
hub's topic. Where MirrorMaker tells a partition, `all` stands: what is copied is counted by topic.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from aggregator.connector.reports import bucket_bounds
from aggregator.documents.document import Percentiles, SourceStatus, Status
from aggregator.documents.percentiles import most

MIRROR = "kafka_connect_mirror_mirrorsourceconnector_"
LABELS = ("source", "target", "topic", "partition")
ALL = "all"


def mirror_maker(status: Status) -> Iterator[Metric]:
    """Metrics of a status under MirrorMaker 2's names; latencies in ms, as there.

    The value without a suffix is the median of the last minute, and `_avg` is since the start.
    """
    hub_topics = {(it.cluster, it.topic): it.hub_topic for it in status.partitions}
    for name, words, field in (
        ("record_count", "Records copied.", "records"),
        ("byte_count", "Bytes of their keys and values.", "bytes"),
    ):
        metric = GaugeMetricFamily(MIRROR + name, words, labels=LABELS)
        for source in status.sources:
            for it in source.copied:
                topic = hub_topics.get((source.alias, it.topic), it.topic)
                metric.add_metric([source.alias, status.name, topic, ALL], getattr(it, field))
        yield metric
    yield from _latencies("record_age_ms", "Age of records as they arrive.", status, "age")
    yield from _latencies("replication_latency_ms", "Time from fetch to hub.", status, "flight")
    for name, words, count in (
        ("connector_count", "Sources.", len(status.sources)),
        ("task_count", "Lanes.", len(status.lanes)),
    ):
        yield GaugeMetricFamily(f"kafka_connect_worker_{name}", words, value=count)


def _latencies(name: str, words: str, status: Status, kind: str) -> Iterator[Metric]:
    median = GaugeMetricFamily(MIRROR + name, words, labels=LABELS)
    average = GaugeMetricFamily(f"{MIRROR}{name}_avg", words, labels=LABELS)
    for source in status.sources:
        labels = [source.alias, status.name, ALL, ALL]
        told: Percentiles | None = getattr(source.latency, f"{kind}_ms")
        if told is not None:
            median.add_metric(labels, told.p50)
        if (mean := _mean(source, kind)) is not None:
            average.add_metric(labels, mean)
    yield median
    yield average


def _mean(source: SourceStatus, kind: str) -> float | None:
    counts: tuple[int, ...] = getattr(source, f"{kind}_counts")
    total = sum(counts)
    return most(counts, bucket_bounds()) / total if total else None
