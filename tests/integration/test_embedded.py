"""Embedded clusters: real, independent, restartable, refusing on demand, and never left behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import (
    SECONDS,
    NewRecord,
    admin,
    create_topic,
    delete_topic,
    end_offsets,
    grow_topic,
    produce,
)
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import ClusterError
from support.broker_classes import broker_options
from support.processes import is_there
from support.read_all import read_all
from support.reading import topics_of

ClusterFactory = Callable[..., EmbeddedCluster]

RECORDS = [NewRecord(b"v%d" % n, b"k%d" % n) for n in range(200)]


@pytest.fixture(scope="module")
def sturdy(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    return lasting_clusters("victim")


@pytest.fixture
def victim(sturdy: EmbeddedCluster) -> EmbeddedCluster:
    """A cluster whose broker may be killed and paused; it runs again for the next test."""
    (broker,) = sturdy.brokers
    broker.resume()
    broker.start()
    return sturdy


def test_two_clusters_at_once_are_apart(
    source_a: EmbeddedCluster, source_b: EmbeddedCluster, unique: str
) -> None:
    assert source_a.cluster_id != source_b.cluster_id
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    produce(source_a.bootstrap_servers, unique, RECORDS)
    assert sum(end_offsets(source_a.bootstrap_servers, unique).values()) == len(RECORDS)
    with pytest.raises(ClusterError, match="UNKNOWN_TOPIC_OR_PART"):
        end_offsets(source_b.bootstrap_servers, unique)


def test_records_come_back_as_written(source_a: EmbeddedCluster, unique: str) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    headers: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]
    produce(
        source_a.bootstrap_servers,
        unique,
        [NewRecord(None, b"k", headers=headers, timestamp=1_700_000_000_000), NewRecord(b"v")],
    )
    first, second = read_all(source_a.bootstrap_servers, unique)
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"k", None, 1_700_000_000_000)
    assert first.headers() == headers
    assert (second.key(), second.value(), second.headers()) == (None, b"v", None)


def test_topics_grow_and_go(source_a: EmbeddedCluster, unique: str) -> None:
    servers = source_a.bootstrap_servers
    create_topic(servers, unique, config={"cleanup.policy": "compact"})
    grow_topic(servers, unique, 4)
    assert end_offsets(servers, unique) == dict.fromkeys(range(4), 0)
    with pytest.raises(ClusterError, match=rf"create topic {unique}: .*TOPIC_ALREADY_EXISTS"):
        create_topic(servers, unique)
    delete_topic(servers, unique)
    assert unique not in topics_of(servers)


def test_a_killed_broker_comes_back_with_its_data(victim: EmbeddedCluster, unique: str) -> None:
    (broker,) = victim.brokers
    create_topic(victim.bootstrap_servers, unique, partitions=2)
    produce(victim.bootstrap_servers, unique, RECORDS)
    pid, address = broker.pid, victim.bootstrap_servers
    broker.kill()
    assert not broker.alive
    assert not is_there(pid)
    broker.start()
    assert broker.pid != pid
    assert victim.bootstrap_servers == address
    assert {message.value() for message in read_all(address, unique)} == {
        record.value for record in RECORDS
    }


def test_a_stopped_broker_ended_cleanly(victim: EmbeddedCluster, unique: str) -> None:
    (broker,) = victim.brokers
    create_topic(victim.bootstrap_servers, unique)
    produce(victim.bootstrap_servers, unique, RECORDS)
    broker.stop()
    assert not broker.alive
    assert (broker.home / "data" / ".kafka_cleanshutdown").exists()
    broker.start()
    assert end_offsets(victim.bootstrap_servers, unique) == {0: len(RECORDS)}


def test_a_paused_broker_is_silent_until_it_is_resumed(
    victim: EmbeddedCluster, unique: str
) -> None:
    (broker,) = victim.brokers
    create_topic(victim.bootstrap_servers, unique)
    kafka = admin(victim.bootstrap_servers)
    broker.pause()
    try:
        with pytest.raises(KafkaException):
            kafka.list_topics(timeout=1.5)
        assert broker.alive
    finally:
        broker.resume()
    assert unique in kafka.list_topics(timeout=SECONDS).topics


def test_three_brokers_survive_the_loss_of_one(
    cluster_factory: ClusterFactory, unique: str
) -> None:
    three = cluster_factory("three", 3)
    create_topic(three.bootstrap_servers, unique, partitions=3)
    three.brokers[0].kill()
    produce(three.bootstrap_servers, unique, RECORDS)
    three.brokers[0].start()
    assert len(read_all(three.brokers[0].address, unique)) == len(RECORDS)
    three.stop()


def test_a_user_without_rights_is_refused(cluster_factory: ClusterFactory, unique: str) -> None:
    refusing = cluster_factory(
        "refusing",
        sasl_users={"admin": "secret-a", "reader": "secret-r"},
        super_users=["admin"],
        acls=True,
    )
    create_topic(refusing.bootstrap_servers, unique, client=refusing.client_config("admin"))
    produce(refusing.admin_servers, unique, RECORDS)
    reader = refusing.client_config("reader")
    with pytest.raises(ClusterError, match="AUTHORIZATION_FAILED"):
        produce(refusing.bootstrap_servers, unique, RECORDS[:1], client=reader)
    with pytest.raises(KafkaException):
        admin(refusing.bootstrap_servers, {**reader, "sasl.password": "wrong"}).list_topics(
            timeout=3
        )
    refusing.stop()


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    with pytest.raises(ClusterError, match=r"ended with 1; its log:[\s\S]*no.such.Class"):
        EmbeddedCluster("bad", config={"authorizer.class.name": "no.such.Class"}).start()


def test_a_kept_folder_keeps_cluster_id_and_data(tmp_path: Path, unique: str) -> None:
    with EmbeddedCluster("kept", folder=tmp_path, java_options=broker_options()) as kept:
        first_id = kept.cluster_id
        create_topic(kept.bootstrap_servers, unique)
        produce(kept.bootstrap_servers, unique, RECORDS)
    with EmbeddedCluster("kept", folder=tmp_path, java_options=broker_options()) as kept:
        assert kept.cluster_id == first_id
        assert len(read_all(kept.bootstrap_servers, unique)) == len(RECORDS)


ORPHAN = """
import sys
from aggregator.extras.embedded.cluster import EmbeddedCluster
cluster = EmbeddedCluster("orphan", 2, java_options=sys.argv[1:]).start()
cluster.brokers[1].pause()
print(*[broker.pid for broker in cluster.brokers], cluster.brokers[0].home.parent, flush=True)
sys.stdin.read()
"""


def test_brokers_end_with_a_parent_that_was_killed() -> None:
    """Even one that is paused, and the temporary folder goes as well."""
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, *broker_options()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        try:
            *pids, folder = parent.stdout.readline().split()
            assert len(pids) == 2
            assert all(is_there(int(pid)) for pid in pids)
        finally:
            parent.kill()
    wait_until(
        lambda: not any(is_there(int(pid)) for pid in pids),
        seconds=60,
        what=f"{pids} are still there",
    )
    wait_until(lambda: not Path(folder).exists(), seconds=60, what=f"{folder} is still there")
