"""Executors on a standalone master with two workers: they die, their driver dies, nothing is wrong.

`local-cluster` starts its executors from the driver's own machine and dies with it; here workers
outlive the driver, as they do where people have a Spark cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic
from aggregator.model.failpoint import VARIABLE
from bench.spark_master import HOST
from support.application import SHORT_BATCHES, Application, application
from support.archived import executors
from support.java_options import QUICK_START
from support.java_tests import SOURCES, compile_tests
from support.load import load
from support.reading import topics_of, wait_for, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import assert_copied
from support.workers import Workers, spark_workers

PARTITIONS = 4
MORE = 1_500
PRODUCER = "Instantiated an idempotent producer"
"""What a task that is new in an executor logs there."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with spark_workers(tmp_path_factory.mktemp("workers")) as made:
        yield made


def on(master: str, hub: EmbeddedCluster, state: Path, sources: Any, **conf: str) -> Config:
    """A config whose tasks run there."""
    return make_config(
        hub,
        state,
        sources,
        hub={"producer": {"request.timeout.ms": "2500", "delivery.timeout.ms": "5000"}},
        topics={"partitions": PARTITIONS, "sync_configs": False},
        spark={
            "master": master,
            "conf": {
                "spark.driver.host": HOST,
                **executors(),
                "spark.executor.memory": "512m",
                **conf,
            },
        },
        api={"listen": "off"},
    )


def with_topic(clusters: Mapping[str, EmbeddedCluster], topic: str) -> dict[str, Any]:
    """Create a topic in each of them; the sources of a config that take it."""
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, topic, partitions=3)
    return {alias: source(cluster, topic) for alias, cluster in clusters.items()}


def wrong_by(hours: int, classes: Path) -> dict[str, str]:
    """Spark settings for executors whose clocks are so far ahead."""
    compile_tests([SOURCES / "skewed" / "SystemClock.java"], classes)
    return {
        "spark.executor.extraClassPath": str(classes),
        "spark.executor.extraJavaOptions": f"{QUICK_START} -Dclock.ahead.ms={hours * 3_600_000}",
    }


def has_lost(running: Application, count: int) -> bool:
    """Whether at least `count` lanes have failed in it."""
    return [event["event"] for event in running.events()].count("lane_failed") >= count


def copied_more(running: Application, hub: EmbeddedCluster, topic: str) -> None:
    """Wait until its lanes run, and for records that come after that."""
    running.until_logged("running")
    before = wait_until_topic_has(hub.bootstrap_servers, topic, 1)
    wait_until_topic_has(hub.bootstrap_servers, topic, before + MORE)
    assert running.alive, running.text


@pytest.mark.timeout(900)
def test_executors_and_driver_die_by_turns_and_each_record_arrives_once_and_in_order(
    workers: Workers,
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    sources = with_topic(clusters, unique)
    state = tmp_path / "state"
    config = on(workers.url, hub, state, sources)
    dying = on(
        workers.url,
        hub,
        state,
        sources,
        **{f"spark.executorEnv.{VARIABLE}": "task-report:40", **wrong_by(-2, tmp_path / "slow")},
    )
    with (
        load(list(clusters.values()), unique),
        application(dying, tmp_path / "dying") as running,
    ):
        # Executors die by themselves, in the midst of a report.
        copied_more(running, hub, unique)
        running.until(partial(has_lost, running, 1), "an executor is lost")
        running.kill()
        # Its executors live on for a moment. The next one starts at once.
        with application(config, tmp_path / "next") as following:
            copied_more(following, hub, unique)
            workers.kill_executor()
            following.until(partial(has_lost, following, 1), "an executor is lost")
            copied_more(following, hub, unique)
            following.terminate()
            assert following.wait(60), following.text
            assert following.exit_code == 0, following.text
    wait_for(lambda: not workers.executors(), "no executor is left")
    # One process continues what executors have begun, from the same checkpoint.
    assert catch_up(on("local[4]", hub, state, sources)).exit_code == 0
    assert topics_of(hub.bootstrap_servers)[unique] == PARTITIONS
    assert_copied(
        {alias: (cluster.bootstrap_servers, unique) for alias, cluster in clusters.items()},
        (hub.bootstrap_servers, unique),
        at_least=3 * MORE,
    )


@pytest.mark.timeout(600)
def test_tasks_stay_in_their_executors_from_batch_to_batch(
    workers: Workers,
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    """In another one each batch would begin with new clients, and maybe in a JVM just started."""
    clusters = {"eu": source_a, "us": source_b}
    sources = with_topic(clusters, unique)
    config = on(workers.url, hub, tmp_path / "state", sources)
    with (
        load(list(clusters.values()), unique),
        application(config, tmp_path / "app", program=SHORT_BATCHES) as running,
    ):
        copied_more(running, hub, unique)
        ended = workers.logged("Finished task")
        producers = workers.logged(PRODUCER)
        wait_for(lambda: workers.logged("Finished task") >= ended + 8, "eight more ends of batches")
        assert workers.logged(PRODUCER) == producers
        assert running.alive, running.text


@pytest.mark.timeout(600)
def test_clocks_of_executors_that_are_hours_ahead_change_nothing(
    workers: Workers, source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path
) -> None:
    """Spark ends a batch by the driver's clock, at which each executor looks with its own."""
    topic = "clocks"
    create_topic(source_a.bootstrap_servers, topic, partitions=3)
    sources = {"eu": source(source_a, topic)}
    skewed = wrong_by(2, tmp_path / "fast")
    config = on(workers.url, hub, tmp_path / "state", sources, **skewed)
    with load([source_a], topic), run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, topic, 2 * MORE)
        seen = running.wait_for(
            lambda: [it.latency.age_ms for it in running.status.sources if it.latency.age_ms],
            "latencies are reported",
        )
    assert running.result is not None
    assert running.result.exit_code == 0
    assert running.kinds().count("lane_started") == 1
    # As long as records take, by one clock; by two it would be hours, or nothing.
    assert 0 < seen[0].p50 < 60_000
    assert catch_up(on("local[4]", hub, tmp_path / "state", sources)).exit_code == 0
    assert_copied(
        {"eu": (source_a.bootstrap_servers, topic)},
        (hub.bootstrap_servers, topic),
        at_least=2 * MORE,
    )
