"""The names that MirrorMaker 2's metrics have in Prometheus, so that its dashboards keep working.

By the pattern that Strimzi's exporter uses: kafka_connect_mirror_mirrorsourceconnector_*, with the
hub's topic. Where MirrorMaker names a partition, `all` is shown: what is copied is counted by
topic.
"""

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from aggregator.datapath.connector.reports import bucket_bounds
from aggregator.status.percentiles import largest, most, smallest
from aggregator.status.schema import Percentiles, SourceStatus, Status

MIRROR = "kafka_connect_mirror_mirrorsourceconnector_"
LABELS = ("source", "target", "topic", "partition")
ALL = "all"
SUFFIXES = ("", "_avg", "_min", "_max")


def mirror_maker(status: Status, earlier: Status | None = None) -> Iterator[Metric]:
    """Metrics of a status under MirrorMaker 2's names; latencies in ms, as there.

    Rates are those since an `earlier` status, about a minute ago. Of latencies the value without a
    suffix is the median of the last minute; `_avg`, `_min` and `_max` are since the start.
    """
    hub_topics = {(it.cluster, it.topic): it.hub_topic for it in status.partitions}
    seconds = (status.at - earlier.at).total_seconds() if earlier is not None else 0.0
    before = {
        (source.alias, it.topic): it
        for source in (earlier.sources if earlier is not None else ())
        for it in source.copied
    }
    for name, words, field in (
        ("record", "Records copied.", "records"),
        ("byte", "Bytes of their keys and values.", "bytes"),
    ):
        count = GaugeMetricFamily(f"{MIRROR}{name}_count", words, labels=LABELS)
        rate = GaugeMetricFamily(f"{MIRROR}{name}_rate", f"{words} A second.", labels=LABELS)
        for source in status.sources:
            for it in source.copied:
                topic = hub_topics.get((source.alias, it.topic), it.topic)
                labels, value = [source.alias, status.name, topic, ALL], getattr(it, field)
                count.add_metric(labels, value)
                old = before.get((source.alias, it.topic))
                grown = value - getattr(old, field) if old is not None else -1
                if seconds > 0 and grown >= 0:
                    rate.add_metric(labels, grown / seconds)
        yield count
        yield rate
    yield from _latencies("record_age_ms", "Age of records as they arrive.", status, "age")
    yield from _latencies("replication_latency_ms", "Time from fetch to hub.", status, "flight")
    for name, words, number in (
        ("connector_count", "Sources.", len(status.sources)),
        ("task_count", "Lanes.", len(status.lanes)),
    ):
        yield GaugeMetricFamily(f"kafka_connect_worker_{name}", words, value=number)


def _latencies(name: str, words: str, status: Status, kind: str) -> Iterator[Metric]:
    for suffix in SUFFIXES:
        metric = GaugeMetricFamily(f"{MIRROR}{name}{suffix}", words, labels=LABELS)
        for source in status.sources:
            if (value := _latency(source, kind, suffix)) is not None:
                metric.add_metric([source.alias, status.name, ALL, ALL], value)
        yield metric


def _latency(source: SourceStatus, kind: str, suffix: str) -> float | None:
    counts: Sequence[int] = getattr(source, f"{kind}_counts")
    bounds = bucket_bounds()
    if suffix == "":
        percentiles: Percentiles | None = getattr(source.latency, f"{kind}_ms")
        return percentiles.p50 if percentiles is not None else None
    if suffix == "_min":
        return smallest(counts, bounds)
    if suffix == "_max":
        return largest(counts, bounds)
    total = sum(counts)
    return most(counts, bounds) / total if total else None
