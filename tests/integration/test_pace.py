"""Limits on brokers: in records, in bytes, while catching up, and with too few task slots."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession

from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, produce
from aggregator.engine.prepare import prepare
from support.reading import wait_until_topic_has
from support.running import Run, make_config, run_in_background, source
from support.verdict import assert_copied

RECORDS = [NewRecord(b"%096d" % at, b"%04d" % at) for at in range(1_200)]
BYTES = 100
"""Of each record, key and value."""


def test_a_limited_source_is_read_in_small_batches_and_nobody_else_is(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    limit, records = 200, 1_200
    clusters = {"eu": source_a, "us": source_b}
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=3)
        produce(cluster.bootstrap_servers, unique, RECORDS)
    create_topic(hub.bootstrap_servers, unique, partitions=3)
    config = make_config(
        hub,
        tmp_path,
        {
            "eu": source(source_a, unique, max_records_per_second=limit),
            "us": source(source_b, unique),
        },
    )
    plan = prepare(config).plan
    assert {lane.name: plan.pace.trigger_of(lane) for lane in plan.lanes} == {
        "eu": "microbatch",
        "us": "realtime",
    }
    with run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, 2 * records)
        batches = running.wait_for(lambda: batches_of("eu", records), "its batches are told")
    assert all(rows <= limit for _, rows in batches)
    # Six batches, which begin at full seconds; only the first may be late.
    begins = [began for began, _ in batches]
    assert begins[-1] - begins[0] >= records / limit - 2
    for first, last in zip(begins, begins[3:], strict=False):
        assert last - first >= 1
    where = {alias: (it.bootstrap_servers, unique) for alias, it in clusters.items()}
    assert_copied(where, (hub.bootstrap_servers, unique), at_least=2 * records)


def batches_of(lane: str, records: int) -> list[tuple[float, int]]:
    """When each batch of a lane began, in seconds, and its records; [] until these are all told."""
    streams = SparkSession.builder.getOrCreate().streams.active
    (query,) = [it for it in streams if str(it.name).startswith(f"{lane}-")]
    told = [json.loads(it.json) for it in query.recentProgress]
    found = [
        (datetime.fromisoformat(it["timestamp"]).timestamp(), int(it["numInputRows"]))
        for it in told
        if it["numInputRows"]
    ]
    return found if sum(rows for _, rows in found) == records else []


def test_a_limit_in_bytes_goes_by_the_size_of_the_records_that_are_there(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    create_topic(hub.bootstrap_servers, unique, partitions=2)
    limited = source(source_a, unique, max_bytes_per_second="30kB")
    config = make_config(hub, tmp_path, {"eu": limited})
    empty = prepare(config).plan
    assert (empty.pace.limits, empty.sizes) == ({"eu": 30}, {})
    assert "the size of its records is not known yet" in " ".join(empty.warnings)
    produce(source_a.bootstrap_servers, unique, RECORDS)
    known = prepare(config).plan
    assert (known.pace.limits, known.sizes) == ({"eu": 30_000 // BYTES}, {"eu": BYTES})
    with run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, len(RECORDS))
        batches = running.wait_for(lambda: batches_of("eu", len(RECORDS)), "its batches are told")
    assert all(rows <= 30_000 // BYTES for _, rows in batches)
    where = {"eu": (source_a.bootstrap_servers, unique)}
    assert_copied(where, (hub.bootstrap_servers, unique), at_least=len(RECORDS))


def test_history_is_read_at_its_own_limit_and_what_is_live_without(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=2)
    produce(source_a.bootstrap_servers, unique, RECORDS)
    history = source(source_a, unique, catch_up_records_per_second=100)
    sources = {"eu": history, "us": source(source_b, unique)}

    def paces() -> list[str]:
        return [event.message for event in running.events if event.kind == "source_pace"]

    with run_in_background(make_config(hub, tmp_path, sources)) as running:
        # What is live arrives while there is history.
        produce(source_b.bootstrap_servers, unique, RECORDS[:10])
        wait_until_topic_has(hub.bootstrap_servers, unique, 10)
        assert not is_real_time("eu")
        running.wait_for(lambda: len(paces()) == 2, "the history is read")
        assert paces() == [
            "source eu is 1,200 records behind: it catches up at 100 a second",
            "source eu has caught up",
        ]
        running.wait_for(lambda: is_real_time("eu"), "its lane runs freely")
        # Far more than the limit, and told at once: what is live is no backlog.
        for _ in range(3):
            produce(source_a.bootstrap_servers, unique, RECORDS)
        expected = 10 + 4 * len(RECORDS)
        wait_until_topic_has(hub.bootstrap_servers, unique, expected)
        wait_until_positions(running, expected)
        assert is_real_time("eu") and is_real_time("us")
        assert len(paces()) == 2
    where = {alias: (it.bootstrap_servers, unique) for alias, it in clusters.items()}
    assert_copied(where, (hub.bootstrap_servers, unique), at_least=expected)


def wait_until_positions(running: Run, records: int) -> None:
    """Until batches have ended and told all of it."""
    running.wait_for(
        lambda: sum(it.position or 0 for it in running.status.partitions) == records,
        "the positions are told",
    )


def is_real_time(lane: str) -> bool:
    """Whether the query of a lane is in real-time mode; False while it does not run."""
    streams = SparkSession.builder.getOrCreate().streams.active
    found = [it for it in streams if str(it.name).startswith(f"{lane}-")]
    return any("RealTime" in it._jsq.streamingQuery().trigger().toString() for it in found)


def test_with_fewer_slots_than_partitions_all_is_read_in_micro_batches(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=5)
    produce(source_a.bootstrap_servers, unique, RECORDS)
    eu = {"eu": source(source_a, unique)}
    config = make_config(hub, tmp_path, eu, spark={"master": "local[2]"})
    plan = prepare(config).plan
    assert plan.pace.trigger == "microbatch"
    assert "2 task slots for 5 source partitions" in " ".join(plan.warnings)
    with run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, len(RECORDS))
        produce(source_a.bootstrap_servers, unique, RECORDS)
        wait_until_topic_has(hub.bootstrap_servers, unique, 2 * len(RECORDS))
        assert running.status.trigger == "microbatch"
    where = {"eu": (source_a.bootstrap_servers, unique)}
    assert_copied(where, (hub.bootstrap_servers, unique), at_least=2 * len(RECORDS))
