"""Answers of the hub are lost on the way, while it forgets the producers of old records."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, end_offsets
from aggregator.features.quarantine import retry
from aggregator.features.quarantine.content import Content
from aggregator.kafka.admin import discover
from aggregator.kafka.admin.pool import HUB
from aggregator.kafka.admin.preflight import check_cluster
from aggregator.model.values import Discovery, TopicPartition
from aggregator.plan.lanes.producer import EXPIRY
from aggregator.plan.plan import make_plan
from support.clusters import ClusterFactory
from support.load import THREE_DAYS_MS, load
from support.proxied import ProxiedCluster
from support.reading import read_topic, wait_for
from support.running import make_config, run_in_background, source
from support.verdict import assert_copied
from support.whole_batches import LARGE, config_of, seen, whole_part

FORGETFUL = {"producer.id.expiration.check.interval.ms": "1000"}
FORGOTTEN_SECONDS = 2.5
CUTS = 3
PARTITIONS = 3


@pytest.fixture
def hub() -> Iterator[ProxiedCluster]:
    """It looks every second for producers that it may forget."""
    with ProxiedCluster("forgetful", config=FORGETFUL) as cluster:
        assert isinstance(cluster, ProxiedCluster)
        yield cluster


@pytest.mark.timeout(600)
def test_old_records_whose_answer_is_lost_are_not_written_twice(
    source_a: EmbeddedCluster, hub: ProxiedCluster, tmp_path: Path, unique: str
) -> None:
    keep = {"retention.ms": "-1"}
    create_topic(source_a.bootstrap_servers, unique, partitions=PARTITIONS, config=keep)
    create_topic(hub.admin_servers, unique, partitions=PARTITIONS, config=keep)
    config = make_config(
        hub, tmp_path / "state", {"eu": source(source_a, unique)}, api={"listen": "off"}
    )

    def held() -> int:
        return sum(end_offsets(hub.admin_servers, unique).values())

    def wait_for_more(count: int) -> None:
        before = held()
        wait_for(lambda: held() > before + count, f"{count} more come to the hub")

    (proxy,) = hub.proxies
    with run_in_background(config) as running:
        with load([source_a], unique, age_ms=THREE_DAYS_MS):
            for _ in range(CUTS):
                wait_for_more(1_000)
                # What is under way is written, and so is what comes next: no one hears of it.
                proxy.mute()
                # Nothing shows when the hub has forgotten who wrote that.
                time.sleep(FORGOTTEN_SECONDS)
                proxy.heal()
        running.wait_for(lambda: running.status.sources[0].lag == 0, "all is copied")
    assert_copied({"eu": (source_a.bootstrap_servers, unique)}, (hub.admin_servers, unique), 3_000)


@pytest.mark.timeout(600)
def test_whole_batches_whose_answer_is_lost_are_sent_again_and_there_once(
    source_a: EmbeddedCluster, hub: ProxiedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=PARTITIONS)
    create_topic(hub.admin_servers, unique, partitions=PARTITIONS)
    config = config_of(hub, tmp_path / "state", {"eu": (source_a, unique)})

    def held() -> int:
        return sum(end_offsets(hub.admin_servers, unique).values())

    def wait_for_more(count: int) -> None:
        before = held()
        wait_for(lambda: held() > before + count, f"{count} more come to the hub")

    (proxy,) = hub.proxies
    with run_in_background(config) as running:

        def lag() -> int | None:
            return running.status.sources[0].lag

        with load([source_a], unique, per_second=3_000, size=200, client=LARGE):
            for _ in range(CUTS):
                wait_for_more(4_000)
                proxy.mute()
                # By then each task waits for the answer to a batch that is written.
                running.wait_for(lambda: (lag() or 0) > 5_000, "records wait")
                proxy.heal()
        running.wait_for(lambda: lag() == 0, "all is copied")
        assert running.status.sources[0].retried > 0
        assert "lane_failed" not in running.kinds()
    found = read_topic(hub.admin_servers, unique)
    assert seen(found) == seen(read_topic(source_a.bootstrap_servers, unique))
    assert whole_part(found) > 0.5


def test_a_quarantined_record_is_not_sent_again_when_its_answer_is_lost(
    hub: ProxiedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(hub.admin_servers, unique, partitions=1, config={"retention.ms": "-1"})
    config = make_config(hub, tmp_path / "state", {"eu": source("nowhere:9092", "orders")})
    producer = retry.record_producer(config)
    place, then = TopicPartition(unique, 0), int(time.time() * 1000) - THREE_DAYS_MS
    content = Content(b"a", b"1", (), then)
    assert retry.send(producer, place, content) == (0, None)
    (proxy,) = hub.proxies
    proxy.mute()
    # By then the hub has forgotten who wrote it.
    threading.Timer(FORGOTTEN_SECONDS, proxy.heal).start()
    _, error = retry.send(producer, place, content)
    assert error is not None and error.code() in retry.NOT_DELIVERED
    assert end_offsets(hub.admin_servers, unique) == {0: 2}


def test_what_the_hub_remembers_is_asked_and_a_short_time_is_named(
    cluster_factory: ClusterFactory, tmp_path: Path
) -> None:
    short = cluster_factory("short", config={"producer.id.expiration.ms": "3600000"})
    config = make_config(short, tmp_path / "state", {"eu": source("nowhere:9092", "orders")})
    facts = discover(config, aliases=[HUB]).ok[HUB]
    assert facts.producer_expiry_ms == 3_600_000
    (checked,) = [it for it in check_cluster(config, HUB, 30.0) if it.name == EXPIRY]
    assert checked.detail == "3600000 ms"
    assert f"set {EXPIRY} of the hub's brokers to 86400000 or more" in checked.hint
    (warning,) = [it for it in make_plan(config, Discovery({}), facts).warnings if EXPIRY in it]
    assert warning == checked.hint
