"""What /metrics says of a status, read back by Prometheus' own parser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.config.schema import MetricsConfig
from aggregator.connector.reports import bucket_bounds
from aggregator.documents.document import (
    CheckpointStatus,
    Copied,
    GapsStatus,
    LaneState,
    LaneStatus,
    Latency,
    PartitionState,
    PartitionStatus,
    Percentiles,
    Phase,
    RecoveryStatus,
    SourceStatus,
    Status,
)
from aggregator.model import SourceState
from aggregator.serve.metrics import metrics_text

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOUNDS = bucket_bounds()
SECOND = next(at for at, bound in enumerate(BOUNDS) if bound >= 1000)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def counts(**at: int) -> tuple[int, ...]:
    found = [0] * (len(BOUNDS) + 1)
    for place, count in at.items():
        found[int(place.removeprefix("b"))] = count
    return tuple(found)


def status_of(sources: int = 1, topics: int = 1, partitions: int = 2) -> Status:
    aliases = [f"s{at}" for at in range(sources)]
    return Status(
        name="central",
        phase=Phase.RUNNING,
        version="1.2",
        host="here",
        pid=1,
        started_at=NOW - timedelta(hours=1),
        at=NOW,
        checkpoint_interval_seconds=5.0,
        sources=tuple(
            SourceStatus(
                alias=alias,
                state=SourceState.CATCHING_UP,
                since=NOW,
                seconds_behind=1.5,
                skipped=3,
                copied=tuple(
                    Copied(topic=f"t{it}", records=10, bytes=1000) for it in range(topics)
                ),
                latency=Latency(flight_ms=Percentiles(p50=2, p95=3, p99=4)),
                age_counts=counts(b0=5, **{f"b{SECOND}": 2}, **{f"b{len(BOUNDS)}": 1}),
                flight_counts=counts(b1=4),
            )
            for alias in aliases
        ),
        lanes=(
            LaneStatus(
                name="union",
                state=LaneState.RUNNING,
                generation=1,
                clusters=tuple(aliases),
                partitions=2,
                restarts=4,
            ),
        ),
        partitions=tuple(
            PartitionStatus(
                cluster=alias,
                topic=f"t{topic}",
                partition=number,
                hub_topic=f"hub.t{topic}",
                state=PartitionState.RUNNING if number else PartitionState.QUARANTINED,
                position=90,
                log_end=100 if number else None,
            )
            for alias in aliases
            for topic in range(topics)
            for number in range(partitions)
        ),
        checkpoint=CheckpointStatus(path="/s", committed_at=NOW - timedelta(seconds=7)),
        recovery=RecoveryStatus(
            at=NOW, partitions=1, tail=20, found=5, holed=0, replayed=0, seconds=0.5
        ),
        gaps=GapsStatus(total=3, open=1, lost=9),
    )


def samples(status: Status | None, **config: Any) -> Samples:
    text = metrics_text(status, MetricsConfig(**config)).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def one(found: Samples, name: str, /, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


def test_before_the_first_status_it_is_up_and_no_more() -> None:
    found = samples(None)
    assert one(found, "aggregator_up") == 1.0
    assert not [name for name, _ in found if name.startswith("aggregator_s")]
    assert one(found, "process_cpu_seconds_total") is not None


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("info", {"name": "central", "version": "1.2"}, 1),
        ("phase", {"phase": "RUNNING"}, 1),
        ("phase", {"phase": "FAILED"}, 0),
        ("source_up", {"source": "s0"}, 1),
        ("source_state", {"source": "s0", "state": "CATCHING_UP"}, 1),
        ("source_state", {"source": "s0", "state": "PAUSED"}, 0),
        ("source_partitions", {"source": "s0", "state": "QUARANTINED"}, 1),
        ("source_partitions", {"source": "s0", "state": "STUCK"}, 0),
        ("seconds_behind", {"source": "s0"}, 1.5),
        ("records_written_total", {"source": "s0", "topic": "t0"}, 10),
        ("written_bytes_total", {"source": "s0", "topic": "t0"}, 1000),
        ("records_skipped_total", {"source": "s0"}, 3),
        ("lag_offsets", {"source": "s0", "topic": "t0"}, 10),
        ("lag_unknown_partitions", {"source": "s0", "topic": "t0"}, 1),
        ("lanes", {"state": "RUNNING"}, 1),
        ("lane_restarts_total", {"lane": "union"}, 4),
        ("checkpoint_age_seconds", {}, 7),
        ("checkpoint_failing", {}, 0),
        ("gaps", {"state": "open"}, 1),
        ("gaps", {"state": "decided"}, 2),
        ("recovery_seconds", {}, 0.5),
        ("recovery_records", {}, 5),
        ("start_time_seconds", {}, NOW.timestamp() - 3600),
    ],
)
def test_what_a_status_says(name: str, labels: dict[str, str], value: float) -> None:
    assert one(samples(status_of()), f"aggregator_{name}", **labels) == value


def test_histograms_add_up() -> None:
    found = samples(status_of())
    name = "aggregator_record_age_seconds"
    assert one(found, f"{name}_count", source="s0") == 8
    buckets = sorted(
        (float(dict(labels)["le"]), value)
        for (sample, labels), value in found.items()
        if sample == f"{name}_bucket"
    )
    assert buckets[0] == (BOUNDS[3] / 1000, 5.0)
    assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    assert buckets[-2][1:] == (7.0,) and buckets[-1] == (float("inf"), 8.0)
    total = (5 * BOUNDS[0] + 2 * BOUNDS[SECOND] + BOUNDS[-1]) / 1000
    assert one(found, f"{name}_sum", source="s0") == pytest.approx(total)


def test_partitions_are_told_when_they_are_asked_for_and_only_what_is_known() -> None:
    where = {"source": "s0", "topic": "t0", "partition": "1"}
    assert one(samples(status_of()), "aggregator_partition_position", **where) is None
    found = samples(status_of(), partitions=True)
    assert one(found, "aggregator_partition_position", **where) == 90
    assert one(found, "aggregator_partition_lag_offsets", **where) == 10
    unknown = {**where, "partition": "0"}
    assert one(found, "aggregator_partition_lag_offsets", **unknown) is None
    assert one(found, "aggregator_partition_up", **unknown) == 0


def test_the_names_of_mirrormaker_2() -> None:
    found = samples(status_of(), names=["mm2"])
    mirror = "kafka_connect_mirror_mirrorsourceconnector_"
    labels = {"source": "s0", "target": "central", "partition": "all"}
    assert one(found, f"{mirror}record_count", topic="hub.t0", **labels) == 10
    assert one(found, f"{mirror}byte_count", topic="hub.t0", **labels) == 1000
    assert one(found, f"{mirror}replication_latency_ms", topic="all", **labels) == 2
    assert one(found, f"{mirror}replication_latency_ms_avg", topic="all", **labels) == BOUNDS[1]
    assert one(found, "kafka_connect_worker_connector_count") == 1
    assert not [name for name, _ in found if name.startswith("aggregator_source")]


def test_fifty_sources_and_five_thousand_partitions_are_little_text() -> None:
    status = status_of(50, 10, 10)
    assert len(status.partitions) == 5000
    text = metrics_text(status, MetricsConfig(partitions=True, names=["native", "mm2"]))
    assert len(text) < 5_000_000
