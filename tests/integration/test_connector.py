"""The connector on brokers: batch ends and interrupts at any moment, and what stays behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.datapath.connector.connector import Connector
from aggregator.datapath.connector.reports import LaneReport
from aggregator.datapath.spark.frames import plan_readings
from aggregator.datapath.spark.lane import LaneQuery
from aggregator.datapath.spark.lane_settings import lane_settings
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, end_offsets, produce
from aggregator.kafka.discovery.prepare import prepare
from aggregator.model.values import Lane, Positions
from aggregator.plan.plan import Plan
from support.load import load, records
from support.reading import wait_for, wait_until_topic_has
from support.running import Run, catch_up, make_config, run_in_background, source
from support.sessions import running_session
from support.turns import turns
from support.verdict import assert_copied

LANES_AT_ONCE, ROUNDS = 10, 10
INTERRUPTS = turns(4, 8)
CLIENTS = ("kafka-producer-network-thread", "kafka-coordinator-heartbeat-thread")
"""How threads of Kafka's Java clients are called; a consumer without a group has none."""


def two_sources(
    a: EmbeddedCluster, b: EmbeddedCluster, hub: EmbeddedCluster, folder: Path, topic: str
) -> Config:
    create_topic(a.bootstrap_servers, topic, partitions=4)
    create_topic(b.bootstrap_servers, topic, partitions=2)
    sources = {"eu": source(a, topic), "us": source(b, topic)}
    return make_config(hub, folder, sources, topics={"partitions": 3}, api={"listen": "off"})


def one_source(cluster: EmbeddedCluster, hub: EmbeddedCluster, folder: Path, topic: str) -> Config:
    """With twenty records to copy."""
    for each in (cluster, hub):
        create_topic(each.bootstrap_servers, topic, partitions=2)
    produce(cluster.bootstrap_servers, topic, records(20))
    return make_config(hub, folder, {"eu": source(cluster, topic)})


def assert_whole(config: Config, hub: EmbeddedCluster, topic: str, at_least: int) -> None:
    assert catch_up(config).exit_code == 0
    where = {alias: (it.bootstrap_servers, topic) for alias, it in config.sources.items()}
    assert_copied(where, (hub.bootstrap_servers, topic), at_least=at_least)


def test_a_batch_may_end_in_the_midst_of_everything(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aggregator.datapath.spark.lane.BATCH_SECONDS", 1)
    config = two_sources(source_a, source_b, hub, tmp_path, unique)
    with load([source_a, source_b], unique), run_in_background(config) as running:
        running.wait_for(lambda: ended_batches() >= 10, "batches end")
        wait_until_topic_has(hub.bootstrap_servers, unique, 10_000)
        assert "lane_failed" not in running.kinds()
    assert_whole(config, hub, unique, at_least=10_000)


def ended_batches() -> int:
    """How many batches the query that runs has ended."""
    (query,) = SparkSession.builder.getOrCreate().streams.active
    progress = query.lastProgress
    return 0 if progress is None else int(progress.batchId) + 1


@pytest.mark.again
def test_interrupted_at_any_moment_nothing_is_missing_or_twice_or_out_of_order(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Tried again at once, so that many fit into a test.
    monkeypatch.setattr("aggregator.plan.lifecycle.failures.DELAYS_SECONDS", (0.1,))
    config = two_sources(source_a, source_b, hub, tmp_path, unique)

    def interrupt(running: Run, number: int) -> None:
        streams = SparkSession.builder.getOrCreate().streams
        running.wait_for(lambda: streams.active, "a lane runs")
        before = running.kinds().count("lane_failed")
        # At another moment of its life each time: while it starts, fills holes, or flows.
        deadline = time.monotonic() + 0.35 * number
        wait_for(lambda: time.monotonic() > deadline, "its moment has come")
        for query in streams.active:
            query.stop()
        running.wait_for(lambda: running.kinds().count("lane_failed") > before, "it is noticed")

    with load([source_a, source_b], unique), run_in_background(config) as running:
        for number in range(INTERRUPTS):
            interrupt(running, number)
        arrived = wait_until_topic_has(hub.bootstrap_servers, unique, 1)
        wait_until_topic_has(hub.bootstrap_servers, unique, arrived + 2_000)
        assert "recovered" in running.kinds()
    assert_whole(config, hub, unique, at_least=2_000)


def test_of_lanes_that_have_ended_no_client_and_no_thread_is_left(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    config = one_source(source_a, hub, tmp_path, unique)
    with running_session(slots=2 * LANES_AT_ONCE) as spark:
        connector, before = Connector(spark), threads(spark)
        for turn in range(ROUNDS):
            run_lanes(config, spark, connector, turn * LANES_AT_ONCE)
        wait_until_topic_has(hub.bootstrap_servers, unique, 20 * LANES_AT_ONCE * ROUNDS)
        wait_for(lambda: threads(spark) <= before, "all threads are gone")
        assert not spark.streams.active


def test_a_lane_reads_nothing_of_another_cluster_than_it_was_planned_for(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    config = one_source(source_a, hub, tmp_path, unique)
    plan = prepare(config).plan
    # As where the address leads elsewhere by the time that the lane starts.
    eu = replace(plan.sources["eu"], cluster_id="another")
    with running_session(slots=1) as spark:
        connector = Connector(spark)
        lane = start_lane(config, spark, connector, replace(plan, sources={"eu": eu}), "alone", 0)
        error = f"cluster {source_a.cluster_id} answers in place of another"

        def says_so() -> bool:
            connector.poll()
            return error in str(lane.report.errors)

        wait_for(says_so, "it says so")
        assert lane.report.records == 0
        lane.stop()
        lane.close()
    assert end_offsets(hub.bootstrap_servers, unique) == {0: 0, 1: 0}


def start_lane(
    config: Config, spark: SparkSession, connector: Connector, plan: Plan, name: str, number: int
) -> LaneQuery:
    """Start a lane that reads all that is planned from the beginning; `number` is its life's."""
    settings = lane_settings(config, plan, plan.pace, {})
    partitions = tuple(sp for route in plan.routes for sp in route.source_partitions())
    readings = plan_readings(plan.routes, Positions(dict.fromkeys(partitions, 0)))
    lane = Lane(name, partitions)
    return LaneQuery.start(spark, connector, lane, number, readings, settings, {}, 0)


def run_lanes(config: Config, spark: SparkSession, connector: Connector, first: int) -> None:
    """Start some lanes at once, let each copy everything, and end them."""
    plan = prepare(config).plan
    queries = [
        start_lane(config, spark, connector, plan, f"lane-{at}", first + at)
        for at in range(LANES_AT_ONCE)
    ]

    def all_are(check: Callable[[LaneReport], bool]) -> bool:
        connector.poll()
        return all(check(query.report) for query in queries)

    wait_for(lambda: all_are(lambda it: it.records == 20), "each has copied")
    partitions = [sp for route in plan.routes for sp in route.source_partitions()]

    def report_ends() -> bool:
        connector.poll()
        found = connector.fetches
        return found.hears("eu", time.monotonic()) and found.cover(partitions)

    wait_for(report_ends, "fetches report where the logs end")
    assert sum(it.end or 0 for it in connector.fetches.ends.values()) == 20
    for query in queries:
        query.end()
    wait_for(lambda: all_are(lambda it: it.ended), "each has ended")
    for query in queries:
        query.stop()
        query.close()
    wait_for(
        lambda: not any(connector.is_open(query.key, 60.0) for query in queries), "all are closed"
    )


def threads(spark: SparkSession) -> set[str]:
    """The threads of Kafka's clients and of streaming queries in the JVM."""
    found = str(spark._jvm.java.lang.Thread.getAllStackTraces().keySet().toString())  # type: ignore[union-attr]
    names = [each for each in found.split("Thread[") if each]
    return {it for it in names if any(own in it for own in (*CLIENTS, "stream execution thread"))}
