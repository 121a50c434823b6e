"""What /metrics says of a status, read back by Prometheus' own parser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.api.metrics import metrics_text
from aggregator.config.schema import MetricsConfig
from aggregator.status.copied import Copied
from aggregator.status.schema import AuditStatus, Status
from support.statuses import BOUNDS, NOW, SECOND, status_with, whole_status

DAY = 86_400
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(status: Status | None, earlier: Status | None = None, /, **config: Any) -> Samples:
    text = metrics_text(status, MetricsConfig(**config), earlier).decode()
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
        ("records_read_total", {"source": "s0"}, 3),
        ("records_skipped_total", {"source": "s0"}, 3),
        ("lag_offsets", {"source": "s0", "topic": "t0"}, 10),
        ("lag_unknown_partitions", {"source": "s0", "topic": "t0"}, 1),
        ("lanes", {"state": "RUNNING"}, 1),
        ("lane_restarts_total", {"lane": "union"}, 4),
        ("checkpoint_age_seconds", {}, 7),
        ("checkpoint_failing", {}, 0),
        (
            "complete_up_to_timestamp_seconds",
            {"source": "s0", "hub_topic": "hub.t0"},
            NOW.timestamp(),
        ),
        ("topic_complete_up_to_timestamp_seconds", {"hub_topic": "hub.t0"}, NOW.timestamp()),
        ("duplicates_dropped_total", {"source": "s0", "topic": "t0"}, 3),
        ("records_without_event_total", {"source": "s0", "topic": "t0"}, 1),
        ("dedup_events", {"hub_topic": "hub.t0"}, 1_000),
        ("dedup_bytes", {"hub_topic": "hub.t0"}, 32_000),
        ("records_late_total", {"source": "s0"}, 6),
        ("gaps", {"state": "open"}, 1),
        ("gaps", {"state": "decided"}, 2),
        ("lost_timestamp_seconds", {"source": "s0"}, NOW.timestamp() - 2 * DAY),
        ("audit_timestamp_seconds", {}, NOW.timestamp() - DAY),
        ("audit_wrong", {}, 0),
        ("audit_records", {"finding": "expected"}, 99),
        ("audit_records", {"finding": "missing"}, 0),
        ("audit_records", {"finding": "not_judged"}, 0),
        ("audit_partitions", {}, 2),
        ("audit_partitions_not_compared", {}, 0),
        ("recovery_seconds", {}, 0.5),
        ("recovery_records", {}, 5),
        ("start_time_seconds", {}, NOW.timestamp() - 3600),
    ],
)
def test_what_a_status_says(name: str, labels: dict[str, str], value: float) -> None:
    assert one(samples(whole_status()), f"aggregator_{name}", **labels) == value


def test_histograms_add_up() -> None:
    found = samples(whole_status())
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


def test_partitions_are_shown_when_they_are_asked_for_and_only_what_is_known() -> None:
    where = {"source": "s0", "topic": "t0", "partition": "1"}
    assert one(samples(whole_status()), "aggregator_partition_position", **where) is None
    found = samples(whole_status(), partitions=True)
    assert one(found, "aggregator_partition_position", **where) == 90
    assert one(found, "aggregator_partition_lag_offsets", **where) == 10
    unknown = {**where, "partition": "0"}
    assert one(found, "aggregator_partition_lag_offsets", **unknown) is None
    assert one(found, "aggregator_partition_up", **unknown) == 0


@pytest.mark.parametrize("audit", [None, AuditStatus(error="cannot be read")])
def test_where_no_audit_is_known_nothing_is_shown_of_one(audit: AuditStatus | None) -> None:
    found = samples(status_with(audit=audit))
    assert not [name for name, _ in found if name.startswith("aggregator_audit")]


def test_an_audit_that_found_something_wrong_says_what() -> None:
    found = samples(
        status_with(audit=AuditStatus(at=NOW, wrong=True, twice=3, not_compared=1, not_judged=7))
    )
    assert one(found, "aggregator_audit_wrong") == 1
    assert one(found, "aggregator_audit_records", finding="twice") == 3
    assert one(found, "aggregator_audit_records", finding="not_judged") == 7
    assert one(found, "aggregator_audit_partitions_not_compared") == 1


def test_a_lag_of_which_nothing_is_known_is_no_sample() -> None:
    status = whole_status(partitions=1)
    where = {"source": "s0", "topic": "t0"}
    assert one(samples(status), "aggregator_lag_offsets", **where) is None
    assert one(samples(status), "aggregator_lag_unknown_partitions", **where) == 1


def test_without_sources_there_is_nothing_to_show_of_them() -> None:
    found = samples(status_with(), partitions=True, names=["native", "mm2"])
    assert one(found, "aggregator_up") == 1
    assert not [name for name, _ in found if name.startswith("aggregator_source")]


def test_the_names_of_mirrormaker_2() -> None:
    found = samples(whole_status(), names=["mm2"])
    mirror = "kafka_connect_mirror_mirrorsourceconnector_"
    labels = {"source": "s0", "target": "central", "partition": "all"}
    assert one(found, f"{mirror}record_count", topic="hub.t0", **labels) == 10
    assert one(found, f"{mirror}byte_count", topic="hub.t0", **labels) == 1000
    assert one(found, f"{mirror}replication_latency_ms", topic="all", **labels) == 2
    assert one(found, f"{mirror}replication_latency_ms_avg", topic="all", **labels) == BOUNDS[1]
    assert one(found, f"{mirror}record_age_ms_avg", topic="all", **labels) is not None
    assert one(found, f"{mirror}record_age_ms_min", topic="all", **labels) == BOUNDS[0]
    assert one(found, f"{mirror}record_age_ms_max", topic="all", **labels) == BOUNDS[-1]
    # Without an earlier moment nothing is known of rates.
    assert one(found, f"{mirror}record_rate", topic="hub.t0", **labels) is None
    assert one(found, "kafka_connect_worker_connector_count") == 1
    assert not [name for name, _ in found if name.startswith("aggregator_source")]


def test_rates_under_mirrormakers_names_are_those_since_an_earlier_moment() -> None:
    now = whole_status()
    before = now.model_copy(
        update={
            "at": NOW - timedelta(seconds=5),
            "sources": (
                now.sources[0].model_copy(
                    update={"copied": (Copied(topic="t0", records=4, bytes=500),)}
                ),
            ),
        }
    )
    where = {"source": "s0", "target": "central", "topic": "hub.t0", "partition": "all"}
    mirror = "kafka_connect_mirror_mirrorsourceconnector_"
    found = samples(now, before, names=["mm2"])
    assert one(found, f"{mirror}record_rate", **where) == 6 / 5
    assert one(found, f"{mirror}byte_rate", **where) == 100
    # What counts from the beginning again has no rate, rather than one below 0.
    assert one(samples(before, now, names=["mm2"]), f"{mirror}record_rate", **where) is None


def test_a_lag_in_bytes_is_by_the_mean_size_of_what_was_copied() -> None:
    status = whole_status()
    where = {"source": "s0", "topic": "t0"}
    assert one(samples(status), "aggregator_lag_bytes", **where) == 10 * 1000 / 10
    fresh = status.sources[0].model_copy(update={"copied": ()})
    status = status.model_copy(update={"sources": (fresh,)})
    assert one(samples(status), "aggregator_lag_bytes", **where) is None


@pytest.mark.slow
def test_fifty_sources_and_five_thousand_partitions_are_little_text() -> None:
    status = whole_status(50, 10, 10)
    assert len(status.partitions) == 5000
    text = metrics_text(status, MetricsConfig(partitions=True, names=["native", "mm2"]))
    assert len(text) < 5_000_000
