"""What the hub does not take for a while, or not at all, holds up nothing else and keeps order."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import PartitionMetadata

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import (
    ONCE,
    NewRecord,
    admin,
    create_topic,
    end_offsets,
    produce,
)
from aggregator.features.groups.cutover import translate_groups
from aggregator.features.groups.hub_offsets import ApplyRules
from aggregator.kafka.admin import HUB, discover, hub_facts, open_admin
from aggregator.kafka.admin.preflight import check_cluster
from aggregator.model.values import SourcePartition
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from bench.spark_master import HOST
from support.application import SHORT_BATCHES, application
from support.archived import executors
from support.changing import alter_topic, create_at
from support.groups import commit_at, of_the_only
from support.load import load, records
from support.proxied import ProxiedCluster
from support.reading import SECONDS, read_topic, wait_for, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.silence import listening
from support.verdict import assert_copied, judge
from support.workers import spark_workers

LOG = logging.getLogger(__name__)
BATCHES_SECONDS = 6.0
ANSWER_SECONDS = 10.0
STUCK_PAUSE_SECONDS = 5.0
"""Answers that are under way are waited for, and a producer is made: half a second on a machine
that has the time. A lane that is started again takes six.
"""
STUCK_MS = "1000"
"""Four times as long a hub may refuse the same records; Kafka's default would be two minutes."""
OLD_SECONDS = 2 * 86_400
"""A broker has forgotten by then who wrote a record of that age."""


@pytest.fixture(scope="module")
def hub3() -> Iterator[ProxiedCluster]:
    """A hub of three brokers; tests end the third, and start it again."""
    with ProxiedCluster("three", brokers=3) as cluster:
        assert isinstance(cluster, ProxiedCluster)
        yield cluster


@contextmanager
def without_third(cluster: EmbeddedCluster, topic: str, in_sync: list[int]) -> Iterator[None]:
    """Its third broker is gone, and the others know what that means for a topic."""
    servers = ",".join(cluster.admin_servers.split(",")[:2])
    kafka = admin(servers)

    def shows(check: Callable[[PartitionMetadata], bool]) -> bool:
        # A request may be lost with a broker, so each has a part of the time only.
        with suppress(KafkaException):
            return check(
                kafka.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions[0]
            )
        return False

    # On a busy machine another one may be out of sync just now: then no leader would be left.
    wait_for(lambda: shows(lambda it: set(it.isrs) == set(it.replicas)), "all are in sync")
    cluster.brokers[2].kill()
    try:
        wait_for(
            lambda: shows(lambda it: it.isrs == in_sync or it.leader < 0), "it is seen to be gone"
        )
        yield
    finally:
        cluster.brokers[2].start()


def committed(config: Config, topic: str) -> int:
    """The position of a topic's only partition, as a start would find it."""
    table = CheckpointTable.open(config.checkpoint.path)
    assert table is not None
    return table.load().positions[SourcePartition("eu", topic, 0)]


@pytest.mark.timeout(600)
def test_a_hub_partition_without_leader_holds_up_no_other_topic_at_a_batch_end(
    source_a: EmbeddedCluster, hub3: ProxiedCluster, tmp_path: Path, unique: str
) -> None:
    well, ill = f"{unique}.well", f"{unique}.ill"
    create_at(hub3, well, [1])
    create_at(hub3, ill, [3])
    for topic in (well, ill):
        create_topic(source_a.bootstrap_servers, topic, partitions=1)
    config = make_config(
        hub3,
        tmp_path / "state",
        {"eu": source(source_a, f"{unique}[.](well|ill)", tasks=1)},
        topics={"sync_configs": False},
        api={"listen": "off"},
    )
    servers = hub3.admin_servers.split(",")[0]
    with (
        application(config, tmp_path / "app", program=SHORT_BATCHES) as running,
        load([source_a], well, turn=20),
        load([source_a], ill),
    ):

        def silence() -> float:
            with listening(servers, well, 1) as heard:
                wait_for(lambda: heard.counts["eu"] > 0, "records flow")
                time.sleep(BATCHES_SECONDS)
                return heard.silence("eu")

        before = silence()
        for topic in (well, ill):
            wait_until_topic_has(hub3.admin_servers, topic, 500)
            commit_at(source_a.bootstrap_servers, unique, topic, {0: 100})
        with without_third(hub3, ill, []):
            meanwhile = silence()
            # What has come so far is committed, though its task waits for the other topic.
            (written,) = end_offsets(source_a.bootstrap_servers, well).values()
            wait_for(lambda: committed(config, well) >= written, "its position is committed")
            moved = of_the_only(
                translate_groups(config, [unique], None, ApplyRules(), SECONDS, LOG.warning)
            )
        # A group's place in one hub topic does not depend on another one.
        assert moved.topics == (well,)
        assert [it.topic for it in moved.refused] == [ill]
        assert "does not report its offsets" in moved.refused[0].reason
        LOG.warning("longest silence: %.2f s before, %.2f s meanwhile", before, meanwhile)
        # Batches end all the time, also before.
        assert meanwhile < before + BATCHES_SECONDS / 2
        assert not running.has_logged("lane_failed"), running.text
    assert catch_up(config).exit_code == 0
    for topic in (well, ill):
        assert_copied({"eu": (source_a.bootstrap_servers, topic)}, (hub3.admin_servers, topic), 500)


@pytest.mark.timeout(600)
def test_a_client_whose_controller_hangs_asks_another_broker(
    source_a: EmbeddedCluster, hub3: ProxiedCluster, tmp_path: Path, unique: str
) -> None:
    create_at(hub3, unique, [1])
    servers = hub3.admin_servers.split(",")
    parts = {"eu": source(source_a, unique)}
    config = make_config(hub3, tmp_path / "state", parts, api={"listen": "off"})
    with open_admin(config, HUB) as client:
        # The one that this client asks; in the next answer it may be another one.
        hung = client.metadata(SECONDS).controller_id
        hub3.brokers[hung - 1].pause()
        try:
            known = client.describe_topics([unique], 10.0).topics
            # A start makes a client, whose first server hangs.
            first = [servers[hung - 1], *(it for it in servers if it != servers[hung - 1])]
            hub = config.hub.model_copy(update={"bootstrap_servers": ",".join(first)})
            start = config.model_copy(update={"hub": hub})
            found = discover(start, aliases=[HUB])
        finally:
            hub3.brokers[hung - 1].resume()
    assert known.keys() == {unique}
    assert unique in hub_facts(found).topics


@pytest.mark.timeout(600)
def test_first_batches_come_in_order_when_the_first_of_them_is_refused_for_a_moment(
    source_a: EmbeddedCluster, hub3: ProxiedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=1)
    produce(source_a.bootstrap_servers, unique, records(20_000))
    create_at(hub3, unique, [1, 3], min_insync_replicas="2")
    config = make_config(
        hub3,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        topics={"sync_configs": False},
        api={"listen": "off"},
    )
    proxy = hub3.proxies[0]
    with without_third(hub3, unique, [1]):
        proxy.hold_after(1)
        with run_in_background(config) as running:
            wait_for(lambda: proxy.held > 0, "the first request came, and another one waits")
            # Nothing shows that the first one is answered, nor that the broker knows its config.
            time.sleep(0.3)
            alter_topic(hub3.admin_servers, unique, {"min.insync.replicas": "1"})
            time.sleep(0.3)
            proxy.release()
            wait_until_topic_has(hub3.admin_servers.split(",")[0], unique, 20_000, 60)
            assert "lane_failed" not in running.kinds()
    assert_copied({"eu": (source_a.bootstrap_servers, unique)}, (hub3.admin_servers, unique))


@pytest.mark.timeout(600)
def test_too_few_replicas_stop_only_what_they_refuse_and_old_records_not_even_that(
    source_a: EmbeddedCluster, hub3: ProxiedCluster, tmp_path: Path, unique: str
) -> None:
    well, old, ill, past = names = [f"{unique}.{name}" for name in ("well", "old", "ill", "past")]
    for topic in (well, old):
        create_at(hub3, topic, [1])
    for topic in (ill, past):
        create_at(hub3, topic, [1, 3], min_insync_replicas="2")
    for topic in names:
        create_topic(source_a.bootstrap_servers, topic, partitions=1)
    config = make_config(
        hub3,
        tmp_path / "state",
        {"eu": source(source_a, f"{unique}[.].*", tasks=1)},
        hub={"producer": {"request.timeout.ms": STUCK_MS}},
        topics={"sync_configs": False},
        api={"listen": "off"},
    )
    (shown,) = [it for it in check_cluster(config, HUB, SECONDS) if it.name == "followers"]
    assert f"others of its leader wait up to {STUCK_MS} ms" in shown.detail
    first = hub3.admin_servers.split(",")[0]
    ago = round((time.time() - OLD_SECONDS) * 1000)

    def write(topic: str, timestamp: int = 0) -> None:
        new = [it._replace(timestamp=timestamp) for it in records(100)]
        produce(source_a.bootstrap_servers, topic, new)

    with run_in_background(config) as running:
        with load([source_a], well, turn=20):
            write(ill)
            for topic in (well, ill):
                wait_until_topic_has(first, topic, 100)
            with without_third(hub3, ill, [1]), listening(first, well, 1) as heard:
                write(past, ago)
                write(old, ago)
                wait_until_topic_has(first, old, 100)
                wait_for(lambda: heard.counts["eu"] > 0, "records flow")
                assert "partitions_stuck" not in running.kinds()
                before = heard.silence("eu")
                # Of this one the hub knows the producer, and might refuse for ever what follows.
                write(ill)
                running.wait_for(
                    lambda: "partitions_stuck" in running.kinds(), "it is given up once"
                )
                running.wait_for(
                    lambda: running.kinds().count("lane_started") > 1, "it is tried again"
                )
                write(old, ago)
                wait_until_topic_has(first, old, 200)
                meanwhile = heard.silence("eu")
            LOG.warning("longest silence: %.2f s before, %.2f s meanwhile", before, meanwhile)
            wait_until_topic_has(hub3.admin_servers, ill, 200)
            wait_until_topic_has(hub3.admin_servers, past, 100)
        # What was written last has arrived, before the run is asked to stop.
        (written,) = end_offsets(source_a.bootstrap_servers, well).values()
        wait_until_topic_has(hub3.admin_servers, well, written)
        stuck = [it.message for it in running.events if it.kind == "partitions_stuck"]
        assert "lane_failed" not in running.kinds()
    assert meanwhile < before + STUCK_PAUSE_SECONDS
    assert len(stuck) == 1
    assert f"{ill}-0 has not taken the same records for" in stuck[0]
    for topic in names:
        assert_copied({"eu": (source_a.bootstrap_servers, topic)}, (hub3.admin_servers, topic), 100)


@contextmanager
def spark_of(where: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The settings of a Spark with executors, where these are asked for.

    A worker starts them. A master in this JVM does so only if that was begun for it, and another
    test may have begun it.
    """
    if where != "executors":
        yield {}
        return
    with spark_workers(folder, count=1, cores=4) as workers:
        far = {**executors(), "spark.executor.memory": "512m", "spark.driver.host": HOST}
        yield {"master": workers.url, "conf": far}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("where", ["executors", "dedup"])
def test_what_is_refused_ends_the_lane_of_others_once_where_no_task_can_give_it_up(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub3: ProxiedCluster,
    tmp_path: Path,
    unique: str,
    where: str,
) -> None:
    well, ill = f"{unique}.well", f"{unique}.ill"
    create_at(hub3, well, [1])
    create_at(hub3, ill, [1, 3], min_insync_replicas="2")
    clusters = {"eu": source_a, "us": source_b}
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, ill, partitions=1)
    create_topic(source_a.bootstrap_servers, well, partitions=1)
    dedup = {"overrides": {ill: {"dedup": {"by": "key", "window": "1h"}}}}
    soon = {"delivery.timeout.ms": "5000"} if where == "executors" else {}
    first = hub3.admin_servers.split(",")[0]

    def write(alias: str, key: str) -> None:
        produce(clusters[alias].bootstrap_servers, ill, [NewRecord(key.encode(), key.encode())])

    def config_with(spark: dict[str, Any]) -> Config:
        return make_config(
            hub3,
            tmp_path / "state",
            {alias: source(it, f"{unique}[.].*", tasks=1) for alias, it in clusters.items()},
            hub={"producer": {"request.timeout.ms": STUCK_MS, **soon}},
            topics={"sync_configs": False, "duplicates": f"{unique}.duplicates"}
            | (dedup if where == "dedup" else {}),
            spark=spark,
            api={"listen": "off"},
        )

    with (
        spark_of(where, tmp_path / "spark") as spark,
        run_in_background(config_with(spark)) as running,
        load([source_a], well, turn=20),
    ):

        def failed() -> Counter[object]:
            return Counter(it.fields["lane"] for it in running.events if it.kind == "lane_failed")

        write("eu", "a")
        wait_until_topic_has(first, ill, 1)
        with without_third(hub3, ill, [1]):
            write("eu", "b")
            if where == "dedup":
                write("us", "b")
            running.wait_for(lambda: "partitions_stuck" in running.kinds(), "it is given up")
            if where == "executors":
                # From then on its own lane alone is tried again and again.
                running.wait_for(lambda: failed()["eu"], "it is refused again")
            before = wait_until_topic_has(first, well, 1)
            wait_until_topic_has(first, well, before + 500)
        wait_until_topic_has(hub3.admin_servers, ill, 2)
        if where == "dedup":
            wait_until_topic_has(hub3.admin_servers, f"{unique}.duplicates", 1)
        stuck = [it.message for it in running.events if it.kind == "partitions_stuck"]
        assert failed().pop("union") == 1
        assert failed().keys() <= {"union", "eu"}
    assert len(stuck) == 1
    assert stuck[0].startswith(f"lane union continues without eu/{ill}-0, which gets a lane")
    assert Counter(it.key for it in read_topic(hub3.admin_servers, ill)) == {b"a": 1, b"b": 1}
    assert_copied({"eu": (source_a.bootstrap_servers, well)}, (hub3.admin_servers, well), 500)


@contextmanager
def some_without_a_key(servers: str, topic: str) -> Iterator[None]:
    """Two thousand records a second, one in a hundred without a key, until the block ends."""
    stop = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": servers, **ONCE, "linger.ms": 1})
        number = 0
        while not stop.wait(0.005):
            for _ in range(10):
                key = None if number % 100 == 0 else b"%d" % number
                producer.produce(topic, b"%d" % number, key, partition=0)
                number += 1
            producer.poll(0)
        assert producer.flush(SECONDS) == 0

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.timeout(600)
def test_good_records_of_a_refused_batch_stay_before_those_that_follow(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=1)
    create_topic(hub.bootstrap_servers, unique, partitions=1)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        name=unique,
        # What follows a refused batch waits here until that has an answer.
        hub={"producer": {"max.in.flight.requests.per.connection": "1"}},
        topics={"sync_configs": False},
        api={"listen": "off"},
    )
    with run_in_background(config) as running:
        with some_without_a_key(source_a.bootstrap_servers, unique):
            wait_until_topic_has(hub.bootstrap_servers, unique, 2_000)
            alter_topic(hub.bootstrap_servers, unique, {"cleanup.policy": "compact"})
            running.wait_for(lambda: "records_checked" in running.kinds(), "one is refused")
            aside = f"{unique}.quarantine"
            wait_until_topic_has(hub.bootstrap_servers, aside, 20)
        written = sum(end_offsets(source_a.bootstrap_servers, unique).values())
        running.wait_for(
            lambda: (
                sum(sum(end_offsets(hub.bootstrap_servers, it).values()) for it in (unique, aside))
                >= written
            ),
            "all are there",
        )
    verdict = judge(
        {"eu": read_topic(source_a.bootstrap_servers, unique)},
        read_topic(hub.bootstrap_servers, unique),
    )
    left_out = {record.origin.offset for record in read_topic(hub.bootstrap_servers, aside)}
    problems = dict(verdict.problems)
    assert {offset for _, _, offset in verdict.missing} == left_out
    problems.pop("missing", None)
    assert not problems, problems
