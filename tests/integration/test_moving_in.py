"""Moving in from other tools at real clusters: MirrorMaker 2 from its jars, and the old commands.

Each walk is what people typed for the old tool, with its own words.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.load import load
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from support.application import Running, gone_with_the_block
from support.forked import ForkedProcess
from support.java_options import QUICK_START
from support.mirror_maker import SMALL, connect_worker, mirror_maker, write_properties
from support.reading import read_topic, wait_for, wait_until_topic_has
from support.running import catch_up

LOAD_SECONDS = 0.05
BEGAN_MS = 1_767_225_600_000


def cli(*args: str, exit_code: int = 0) -> Any:
    """The JSON that a command prints."""
    result = CliRunner().invoke(app, [*args, "-o", "json"])
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


class Load:
    """Records that are written all the time into partitions 0 and 1 of a topic of each source."""

    def __init__(self, sources: dict[str, EmbeddedCluster], topic: str) -> None:
        self.sources, self.topic = sources, topic
        self.written: list[bytes] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.wait(LOAD_SECONDS):
            for alias, cluster in self.sources.items():
                values = [f"{alias}-{partition}-{number}".encode() for partition in (0, 1)]
                rows = [NewRecord(value, partition=at) for at, value in enumerate(values)]
                produce(cluster.bootstrap_servers, self.topic, rows)
                self.written += values
            number += 1


def values_of(cluster: EmbeddedCluster, topic: str) -> Counter[bytes | None]:
    return Counter(record.value for record in read_topic(cluster.bootstrap_servers, topic))


def sources_of(cluster: EmbeddedCluster, topic: str) -> set[bytes]:
    return {value[:2] for value in values_of(cluster, topic) if value}


def test_after_mirror_maker_2_nothing_is_missing_and_nothing_comes_twice(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    sources = {"eu": source_a, "us": source_b}
    # Internal topics are named by the aliases, and other tests have the same clusters.
    alias = {name: f"{name}-{unique[-8:]}" for name in sources}
    for cluster in sources.values():
        # Nothing is ever written to partition 2, so nothing is stored of it.
        create_topic(cluster.bootstrap_servers, unique, partitions=3)
    settings = {
        **SMALL,
        "clusters": ", ".join([*alias.values(), "central"]),
        "central.bootstrap.servers": hub.bootstrap_servers,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    }
    for name, cluster in sources.items():
        settings[f"{alias[name]}.bootstrap.servers"] = cluster.bootstrap_servers
        settings[f"{alias[name]}->central.enabled"] = "true"
        settings[f"{alias[name]}->central.topics"] = unique
    old = write_properties(tmp_path / "mm2.properties", settings)
    new = tmp_path / "aggregator.yaml"
    load_ = Load(sources, unique)
    with load_.flowing():
        with mirror_maker(old):
            wait_until_topic_has(hub.bootstrap_servers, unique, 100)
            wait_for(lambda: sources_of(hub, unique) == {b"eu", b"us"}, "both are copied")
        before = values_of(hub, unique)
        made = cli("import", str(old), "--out", str(new))
        assert [it["target"] for it in made["configs"]] == ["central"]
        sets = ("--set", f"checkpoint.path={tmp_path / 'state'}", "--set", "api.listen=off")
        shown = cli("import", str(old), "--positions", "-c", str(new), *sets)
        assert shown["dry_run"] is True
        done = cli("import", str(old), "--positions", "-c", str(new), *sets, "--yes")
        for it in done["sources"]:
            assert it["refused"] == ""
            assert {move["kind"] for move in it["moves"]["moves"]} == {"TAKEN_OVER"}
            assert "stopped cleanly" in it["how_far_off"]
            assert it["moves"]["tail"] == 0
        # Stored is the last offset that was read; ours is the next one.
        positions = {
            (it["source"], move["partition"]): move["new"]
            for it in done["sources"]
            for move in it["moves"]["moves"]
        }
        for name, of in alias.items():
            for partition in (0, 1):
                head = f"{name}-{partition}-".encode()
                count = sum(1 for value in before if value and value.startswith(head))
                assert positions[of, partition] == count
        # What has a position keeps it.
        again = cli("import", str(old), "--positions", "-c", str(new), *sets, "--yes")
        assert all(not it["moves"]["moves"] for it in again["sources"])
        assert all("left alone" in it["moves"]["notes"][0] for it in again["sources"])
    result = catch_up(
        load(new, [*sets[1::2], f"spark.conf.spark.driver.extraJavaOptions={QUICK_START}"])
    )
    assert (result.exit_code, result.problems) == (0, ())
    assert values_of(hub, unique) == Counter(load_.written)
    # Each is where MirrorMaker 2 would have put it.
    for record in read_topic(hub.bootstrap_servers, unique):
        assert f"-{record.partition}-".encode() in (record.value or b"")


def test_after_a_kill_it_finds_what_the_hub_holds_beyond_the_stored_positions(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """MirrorMaker 2's part is played: it has copied 15 of 20 records, and stored the tenth."""
    alias = f"eu-{unique[-8:]}"
    rows = [NewRecord(b"%d" % at, partition=0, timestamp=BEGAN_MS + at) for at in range(20)]
    for cluster, topic, some in (
        (source_a, unique, rows),
        (hub, f"{alias}.{unique}", rows[:15]),
        (hub, f"mm2-offsets.{alias}.internal", []),
    ):
        # The records are from the past, and are to stay.
        create_topic(cluster.bootstrap_servers, topic, config={"retention.ms": "-1"})
        produce(cluster.bootstrap_servers, topic, some)
    stored = [
        NewRecord(value, json.dumps([connector, place]).encode())
        for connector, place, value in (
            ("MirrorSourceConnector", {"cluster": alias, "partition": 0, "topic": unique}, b"{}"),
            (
                "MirrorSourceConnector",
                {"cluster": alias, "partition": 0, "topic": unique},
                b'{"offset":9}',
            ),
            (
                "MirrorSourceConnector",
                {"cluster": alias, "partition": 0, "topic": "not-selected"},
                b'{"offset":5}',
            ),
            ("Other", {"cluster": alias, "partition": 0, "topic": unique}, b'{"offset":3}'),
        )
    ]
    produce(hub.bootstrap_servers, f"mm2-offsets.{alias}.internal", stored)
    old = write_properties(
        tmp_path / "mm2.properties",
        {
            "clusters": f"{alias}, hub",
            f"{alias}.bootstrap.servers": source_a.bootstrap_servers,
            "hub.bootstrap.servers": hub.bootstrap_servers,
            f"{alias}->hub.enabled": "true",
            f"{alias}->hub.topics": unique,
        },
    )
    new = tmp_path / "aggregator.yaml"
    sets = ("--set", f"checkpoint.path={tmp_path / 'state'}", "--set", "api.listen=off")
    shown = cli("import", str(old), "--out", str(new), "--positions", *sets)
    (found,) = shown["sources"]
    assert [(it["partition"], it["new"]) for it in found["moves"]["moves"]] == [(0, 10)]
    assert found["moves"]["notes"] == [
        f"{alias}/not-selected is not selected, or is not there: left alone"
    ]
    assert "no more than the 10 offsets" in found["how_far_off"]
    assert "hold more: 1, with 5 records" in found["compared"]
    assert found["moves"]["commit"] is None


def test_a_connect_cluster_is_asked_for_what_it_runs(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    settings = {
        **SMALL,
        "name": f"from-eu-{unique}",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "eu",
        "source.cluster.bootstrap.servers": source_a.bootstrap_servers,
        "target.cluster.bootstrap.servers": hub.bootstrap_servers,
        "topics": unique,
        "tasks.max": "2",
    }
    connector = write_properties(tmp_path / "connector.properties", settings)
    file = tmp_path / "aggregator.yaml"
    (port,) = free_ports(1)
    with connect_worker(tmp_path, hub.bootstrap_servers, port, connector) as url:

        def imported() -> bool:
            words = ["import", url, "--version", "4.3", "--out", str(file), "--force"]
            return CliRunner().invoke(app, words).exit_code == 0

        wait_for(imported, "the worker runs the connector")
    config = load(file)
    assert config.name == f"from-eu-{unique}"
    assert config.hub.bootstrap_servers == hub.bootstrap_servers
    assert (list(config.sources), config.sources["eu"].tasks) == (["eu"], 2)
    assert config.topics.rename == "${cluster}.${topic}"


@contextmanager
def stand_in(folder: Path, *words: str) -> Iterator[Running]:
    """One of the old commands as a child process, with its state in a folder of its own."""
    log = folder / f"{words[0]}-{len(list(folder.glob('*.log')))}.log"
    options = ("--set", "api.listen=off", "--set", "stream.checkpoint_interval=1s")
    java = f"spark.conf.spark.driver.extraJavaOptions={QUICK_START}"
    own = {"XDG_STATE_HOME": str(folder)}
    process = ForkedProcess([*words, *options, "--set", java], log, own, again=True)
    with gone_with_the_block(Running(process, log, again=True)) as running:
        yield running


def commit(cluster: EmbeddedCluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Have a group commit these next offsets, as a consumer of MirrorMaker 1 did."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    rows = [TopicPartition(topic, partition, at) for partition, at in offsets.items()]
    consumer.assign(rows)
    consumer.commit(offsets=rows, asynchronous=False)
    consumer.close()


def test_the_walk_of_mirror_maker_1(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    first, second = f"one-{unique}", f"two-{unique}"
    group = f"mirror-{unique[-8:]}"
    for cluster, topic in ((source_a, first), (source_b, second)):
        create_topic(cluster.bootstrap_servers, topic, partitions=4)
    create_topic(hub.bootstrap_servers, first, partitions=2)
    create_topic(hub.bootstrap_servers, second, partitions=2)
    # What the old process has copied: the first 30 of partition 0, and no more of it.
    rows = [NewRecord(b"old-%d" % at, partition=0) for at in range(30)]
    rows += [NewRecord(b"new-%d" % at, partition=0) for at in range(20)]
    produce(source_a.bootstrap_servers, first, rows)
    commit(source_a, group, first, {0: 30})
    consumers = [
        write_properties(
            tmp_path / f"{name}-consumer.properties",
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "zookeeper.connect": "localhost:2181",
                "partition.assignment.strategy": "roundrobin",
            },
        )
        for name, cluster in (("a", source_a), ("b", source_b))
    ]
    producer = write_properties(
        tmp_path / "producer.properties",
        {"bootstrap.servers": hub.bootstrap_servers, "acks": "-1", "retries": "2147483647"},
    )
    words = (
        "mirror-maker",
        *("--consumer.config", str(consumers[0]), "--consumer.config", str(consumers[1])),
        *("--producer.config", str(producer), "--num.streams", "4"),
        *("--whitelist", f"{first},{second}", "--new.consumer"),
    )
    with stand_in(tmp_path, *words) as running:
        running.until_logged("lane_started")
        assert "no effect: --new.consumer" in running.text
        assert "zookeeper.connect: no ZooKeeper is asked" in running.text
        assert f"state: {tmp_path / 'aggregator' / group}" in running.text
        produce(source_a.bootstrap_servers, first, [NewRecord(b"by hand", partition=3)])
        produce(source_b.bootstrap_servers, second, [NewRecord(b"other", partition=1)])
        wait_until_topic_has(hub.bootstrap_servers, first, 21)
        wait_until_topic_has(hub.bootstrap_servers, second, 1)
    produce(source_a.bootstrap_servers, first, [NewRecord(b"later", partition=2)])
    # A second start resumes where it was, and the other commands know it by its file.
    with stand_in(tmp_path, *words) as running:
        wait_until_topic_has(hub.bootstrap_servers, first, 22)
        file = tmp_path / "aggregator" / group / "aggregator.yaml"
        assert file.stat().st_mode & 0o077 == 0
        rows_of = cli("positions", "show", "-c", str(file))["positions"]
        assert {(it["cluster"], it["topic"]) for it in rows_of} == {("a", first), ("b", second)}
    expected = Counter([*(b"new-%d" % at for at in range(20)), b"by hand", b"later"])
    assert values_of(hub, first) == expected
    assert values_of(hub, second) == Counter([b"other"])


def test_a_handler_of_mirror_maker_1_is_refused_with_the_reason(tmp_path: Path) -> None:
    consumer = write_properties(tmp_path / "consumer.properties", {"bootstrap.servers": "a:1"})
    producer = write_properties(tmp_path / "producer.properties", {"bootstrap.servers": "b:1"})
    words = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
    words += ["--whitelist", ".*", "--message.handler", "x.Handler"]
    result = CliRunner().invoke(app, ["mirror-maker", *words])
    assert result.exit_code == 2
    assert "topics.transform" in result.stderr


@pytest.mark.parametrize("command", ["mirror-maker", "replicator", "import"])
def test_each_of_the_old_commands_says_what_it_takes(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "--consumer.config" in result.stdout


def test_the_walk_of_the_replicator_executable(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    topic = f"test-topic-{unique}"
    create_topic(source_a.bootstrap_servers, topic, config={"retention.ms": "-1"})
    consumer = write_properties(
        tmp_path / "consumer.properties", {"bootstrap.servers": source_a.bootstrap_servers}
    )
    producer = write_properties(
        tmp_path / "producer.properties", {"bootstrap.servers": hub.bootstrap_servers}
    )
    replication = write_properties(
        tmp_path / "replication.properties",
        {
            "topic.rename.format": "${topic}.replica",
            "replication.factor": "1",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "confluent.topic.replication.factor": "1",
            "topic.whitelist": "of-the-file",
        },
    )
    words = (
        *("replicator", "--cluster.id", "replicator", "--consumer.config", str(consumer)),
        *("--producer.config", str(producer), "--replication.config", str(replication)),
        *("--whitelist", topic),
    )
    with stand_in(tmp_path, *words) as running:
        running.until_logged("lane_started")
        rows = [NewRecord(b"%d" % at) for at in range(1, 10_001)]
        produce(source_a.bootstrap_servers, topic, rows)
        wait_until_topic_has(hub.bootstrap_servers, f"{topic}.replica", 10_000)
    found = [it.value for it in read_topic(hub.bootstrap_servers, f"{topic}.replica")]
    assert found == [b"%d" % at for at in range(1, 10_001)]
