"""Whole clusters move: the pages of docs/ are walked command by command, under load."""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition

from aggregator.datapath.spark.java_options import DRIVER
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.model.errors import EXIT_DATA
from support.application import gone_with_the_block
from support.clusters import ClusterFactory
from support.java_options import QUICK_START
from support.load import records
from support.mirror_maker import write_properties
from support.reading import read_topic, wait_for
from support.traffic import MovingConsumer, MovingProducer, wait_a_moment_of
from support.walks import DOCS, Walk

CONF = Path(__file__).parents[2] / "conf"
PER_SECOND = 300
QUICK = ("--set", f"spark.conf.{DRIVER}={QUICK_START}")


def write_config(folder: Path, name: str, tree: dict[str, Any]) -> str:
    """Write a config with what makes it quick, and a port of its own; returns the file's name."""
    file = folder / name
    tree["api"] = {"listen": f"127.0.0.1:{free_twice()}"}
    tree["checkpoint"] = {"path": str(folder / file.stem)}
    tree["spark"] = {"conf": {DRIVER: QUICK_START}}
    tree["stream"] = {"checkpoint_interval": "1s"}
    tree["topics"] = {**tree.get("topics", {}), "refresh_interval": "2s", "replication_factor": 1}
    file.write_text(yaml.safe_dump(tree, sort_keys=False), "utf-8")
    return str(file)


def free_twice() -> int:
    """A port with no listener, and none on the next one, which the way back takes."""
    while True:
        (port,) = free_ports(1)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port + 1))
            return port


def yaml_of(page: str) -> list[str]:
    """The YAML blocks of a page."""
    return re.findall(r"^```yaml\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.M | re.S)


def commit(cluster: EmbeddedCluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Have a group commit these next offsets, as the consumer of an old tool did."""
    client = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    rows = [TopicPartition(topic, partition, at) for partition, at in offsets.items()]
    client.assign(rows)
    client.commit(offsets=rows, asynchronous=False)
    client.close()


def is_kept_up(said: str) -> bool:
    """Whether the hub has the places of a group, as `groups translate -o json` says."""
    rows = json.loads(said)["partitions"] if said else []
    return bool(rows) and all(it["verdict"] == "same" for it in rows)


def lag_of(said: str) -> int:
    """The whole lag that `aggregator lag -o json` says; what is unknown is much."""
    lags = [row["lag"] for row in json.loads(said)["rows"]]
    assert lags
    return sum(10**9 if lag is None else lag for lag in lags)


@pytest.mark.timeout(300)
def test_a_migration_under_load_misses_nothing_and_reads_again_as_many_as_reported(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path
) -> None:
    """conf/migration.yaml and docs/migrate.md, with consumers and producers that move."""
    suffix = uuid.uuid4().hex[:8]
    orders, clicks = f"orders.{suffix}", f"clicks.{suffix}"
    billing, board = f"billing-{suffix}", f"board-{suffix}"
    old, new = source_a.bootstrap_servers, hub.bootstrap_servers
    create_topic(old, orders, partitions=6)
    create_topic(old, clicks, partitions=4)
    text = (CONF / "migration.yaml").read_text("utf-8").replace("${OLD_PASSWORD}", "x")
    tree = yaml.safe_load(text)
    tree["hub"]["bootstrap_servers"] = new
    source = tree["sources"]["old"]
    del source["kafka"]
    source |= {"bootstrap_servers": old}
    source["topics"]["include"] = f"(orders|clicks)[.]{suffix}"
    # Fewer partitions than before: here something has to be read again.
    tree["topics"]["overrides"] = {clicks: {"partitions": 2, "partition_by": "key"}}
    names = {
        "migration.yaml": write_config(tmp_path, "migration.yaml", tree),
        "billing": billing,
        "orders": orders,
    }
    producers = {it: MovingProducer(it, PER_SECOND) for it in (orders, clicks)}
    readers = {orders: MovingConsumer(billing, orders), clicks: MovingConsumer(board, clicks)}
    with ExitStack() as ends, Walk("migrate.md", names) as walk:
        for topic in (orders, clicks):
            for moving in (producers[topic], readers[topic]):
                moving.start(old)
                ends.callback(moving.stop)
        walk.run("check")
        walk.run("plan")
        running = walk.start("run", tmp_path / "run.log")
        ends.enter_context(gone_with_the_block(running))
        running.until_logged("running")
        wait_a_moment_of(producers[orders], 300)
        walk.run("lag")
        assert billing in walk.run("groups list")
        # The consumers, one group after the other, while records are still written.
        readers[orders].stop()
        walk.run("groups cutover billing")
        report = json.loads(walk.run("groups cutover billing", "-o", "json"))
        assert (report["done"], report["again"]) == (True, 0)
        readers[orders].start(new)
        # It has a backlog, of which it reads what comes first: some partitions are further.
        readers[clicks].stop()
        wait_a_moment_of(producers[clicks], 600)
        so_far = len(readers[clicks].numbers())
        readers[clicks].start(old, most=200)
        readers[clicks].until(so_far + 200)
        readers[clicks].stop()
        more = json.loads(
            walk.also("groups", "cutover", board, "-c", "migration.yaml", "-o", "json")
        )
        assert more["done"]
        readers[clicks].start(new)
        # The producers, one after the other.
        for topic in (orders, clicks):
            producers[topic].stop()
            before = producers[topic].written
            if topic == orders:
                walk.until("lag --source old --topic orders", lambda said: lag_of(said) == 0)
            else:
                ask = ("lag", "-c", "migration.yaml", "--topic", clicks, "-o", "json")
                wait_for(lambda: lag_of(walk.also(*ask)) == 0, "it is copied")  # noqa: B023
            producers[topic].start(new)
            wait_for(lambda: producers[topic].written > before + 300, "it writes there")  # noqa: B023
        walk.run("pause old")
        for topic in (orders, clicks):
            producers[topic].stop()
            readers[topic].until(producers[topic].written)
            readers[topic].stop()
        verified = json.loads(walk.run("verify", "-o", "json"))
        assert verified["exit_code"] == 0
        assert lag_of(walk.run("lag", "-o", "json")) == 0
    assert running.exit_code == 0
    for topic, announced in ((orders, 0), (clicks, more["again"])):
        assert set(readers[topic].numbers()) == set(range(producers[topic].written))
        assert readers[topic].doubles() == announced
    assert announced > 0
    assert readers[orders].order_kept()


@pytest.mark.timeout(300)
def test_a_source_that_dies_fails_over_and_all_goes_back_when_it_lives_again(
    cluster_factory: ClusterFactory, hub: EmbeddedCluster, tmp_path: Path
) -> None:
    """docs/disaster-recovery.md, with a producer, a group, and a broker that is killed."""
    suffix = uuid.uuid4().hex[:8]
    orders, billing, name = f"orders.{suffix}", f"billing-{suffix}", f"dr-{suffix}"
    hub_topic = f"{name}-eu.{orders}"
    site = cluster_factory("site")
    old, new = site.bootstrap_servers, hub.bootstrap_servers
    create_topic(old, orders, partitions=3)
    (text,) = yaml_of("disaster-recovery.md")
    tree = yaml.safe_load(text) | {"name": name}
    tree["hub"]["bootstrap_servers"] = new
    source = tree["sources"]["eu"]
    source |= {"bootstrap_servers": old, "rename": name + "-eu.${topic}"}
    source["topics"]["include"] = orders
    source["groups"]["every"] = "1s"
    tree["supervision"] = {"connect_timeout": "5s"}
    there, back = write_config(tmp_path, "dr.yaml", tree), str(tmp_path / "back.yaml")
    names = {"dr.yaml": there, "back.yaml": back, "billing": billing}
    producer, reader = MovingProducer(orders, PER_SECOND), MovingConsumer(billing, orders)
    with ExitStack() as ends, Walk("disaster-recovery.md", names) as walk:
        ends.callback(producer.stop)
        ends.callback(reader.stop)
        producer.start(old)
        reader.start(old)
        walk.run("check")
        running = walk.start("run", tmp_path / "run.log")
        ends.enter_context(gone_with_the_block(running))
        running.until_logged("running")
        wait_a_moment_of(producer, 300)
        producer.stop()
        reader.until(producer.written)
        reader.stop()
        ask = ("groups", "translate", billing, "-c", there, "-o", "json")
        wait_for(lambda: is_kept_up(walk.also(*ask, code=None)), "the hub has the group")
        walk.run("status")
        site.brokers[0].kill()
        # Producers that find it dead wait for no one.
        producer.topic = hub_topic
        producer.start(new)
        wait_a_moment_of(producer, 100)
        shown = json.loads(walk.run("failover eu", "-o", "json"))
        assert (shown["alive"], shown["dry_run"]) == (False, True)
        assert {it["state"] for it in shown["steps"]} == {"left out", "would be done"}
        done = json.loads(walk.run("failover eu", "-o", "json"))
        assert [it["state"] for it in done["steps"]] == ["left out", "left out", "done", "done"]
        assert [it["group"] for it in done["hub_groups"]] == [billing]
        again = json.loads(walk.also("failover", "eu", "-c", there, "-o", "json"))
        assert [it["state"] for it in again["steps"]][1:] == ["was done"] * 3
        reader.topic = hub_topic
        reader.start(new)
        wait_a_moment_of(producer, 300)
        # It lives again, with records of a producer that no one has stopped, and dies once more.
        forgotten = [NewRecord(b"%d" % (1_000_000 + it), b"late-%d" % it) for it in range(30)]
        site.brokers[0].start()
        produce(old, orders, forgotten[:15])
        walk.also("resume", "eu", "-c", there)
        early = {int(it.value or b"") for it in forgotten[:15]}
        wait_for(lambda: early <= set(reader.numbers()), "the first of them are read at the hub")
        site.brokers[0].kill()
        flapped = json.loads(walk.also("failover", "eu", "-c", there, "-o", "json"))
        assert [it["state"] for it in flapped["steps"]] == [*["left out"] * 2, "done", "done"]
        site.brokers[0].start()
        produce(old, orders, forgotten[15:])
        tried = json.loads(walk.run("failback eu", "-o", "json"))
        assert tried["dry_run"]
        assert not Path(back).exists()
        made = json.loads(walk.run("failback eu", "-o", "json"))
        assert [it["state"] for it in made["steps"]] == ["done"] * 4
        twice = json.loads(walk.also("failback", "eu", "-c", there, "--write", back, "-o", "json"))
        assert {it["state"] for it in twice["steps"]} == {"was done"}
        walk.run("check")
        returning = walk.start(
            "run", tmp_path / "back.log", "--set", "stream.checkpoint_interval=1s"
        )
        ends.enter_context(gone_with_the_block(returning))
        returning.until_logged("running")
        late = {int(it.value or b"") for it in forgotten}
        wait_for(lambda: late <= set(reader.numbers()), "the late ones are read at the hub")
        reader.stop()
        cutover = json.loads(walk.run("groups cutover billing", "-o", "json"))
        assert cutover["done"]
        doubles = reader.doubles()
        reader.topic = orders
        reader.start(old)
        producer.stop()
        walk.until("lag", lambda said: lag_of(said) == 0)
        producer.topic = orders
        producer.start(old)
        wait_a_moment_of(producer, 100)
        producer.stop()
        reader.until(producer.written + len(forgotten))
        reader.stop()
        walk.run("groups apply billing")
        # An instance that cannot be asked is found before any group has moved.
        unheard = ("failover", "eu", "-c", there, "--set", "api.listen=off")
        walk.also(*unheard, code=EXIT_DATA)
        # A cluster that lives fails over as well: it is waited for, and its groups come along.
        planned = json.loads(walk.also("failover", "eu", "-c", there, "-o", "json"))
        assert [it["state"] for it in planned["steps"]] == ["done"] * 4
        assert [it["group"] for it in planned["groups"]] == [billing]
        assert (planned["behind"], planned["done"]) == ([], True)
    wanted = {*range(producer.written), *late}
    assert set(reader.numbers()) == wanted
    assert reader.doubles() - doubles == cutover["again"]
    # Nothing goes round: each cluster has each number once.
    for servers, topic in ((old, orders), (new, hub_topic)):
        values = Counter(int(it.value or b"") for it in read_topic(servers, topic))
        assert set(values) == wanted, topic
        assert set(values.values()) == {1}, topic


@pytest.mark.timeout(300)
def test_a_cloud_account_is_onboarded_site_by_site(
    source_a: EmbeddedCluster, source_b: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path
) -> None:
    """conf/cloud-onboarding.yaml and docs/onboard-cloud.md."""
    suffix = uuid.uuid4().hex[:8]
    telemetry, alarms = f"telemetry.{suffix}", f"alarms.{suffix}"
    text = (CONF / "cloud-onboarding.yaml").read_text("utf-8")
    tree = yaml.safe_load(re.sub(r"\$\{(?!topic|cluster)[^}]*\}", "x", text))
    tree["hub"] |= {"bootstrap_servers": hub.bootstrap_servers, "kafka": {}}
    for alias, cluster in (("plant-a", source_a), ("plant-b", source_b)):
        source = tree["sources"][alias]
        source |= {"bootstrap_servers": cluster.bootstrap_servers, "kafka": {}}
        source["topics"] = {"include": telemetry}
        create_topic(cluster.bootstrap_servers, telemetry, partitions=2)
        produce(cluster.bootstrap_servers, telemetry, records(40))
    create_topic(source_a.bootstrap_servers, alarms)
    produce(source_a.bootstrap_servers, alarms, records(5))
    tree["topics"].pop("overrides", None)
    tree["supervision"] = {"stuck_after": "60s"}
    names = {
        "cloud-onboarding.yaml": write_config(tmp_path, "cloud-onboarding.yaml", tree),
        "telemetry": telemetry,
        "alarms": alarms,
        "kafka.plant-c.example:9092": source_a.bootstrap_servers,
    }

    def count(alias: str, topic: str = telemetry) -> int:
        return len(read_topic(hub.bootstrap_servers, f"{alias}.{topic}"))

    with ExitStack() as ends, Walk("onboard-cloud.md", names) as walk:
        walk.run("check")
        walk.run("plan")
        running = walk.start("run", tmp_path / "run.log")
        ends.enter_context(gone_with_the_block(running))
        running.until_logged("running")
        for cluster in (source_a, source_b):
            produce(cluster.bootstrap_servers, telemetry, records(10))
        wait_for(lambda: (count("plant-a"), count("plant-b")) == (10, 10), "what is new comes")
        walk.run("sources add")
        wait_for(lambda: count("plant-c", alarms) == 5, "the new one flows")
        walk.run("lag")
        walk.run("reload")
        assert json.loads(walk.run("verify", "-o", "json"))["exit_code"] == 0
        walk.run("pause")
        walk.run("positions set")
        walk.run("resume")
        wait_for(lambda: count("plant-a") == 50, "the past comes, and nothing twice")


def strimzi_of(alias: str, source: str, target: str, topics: str) -> str:
    """A resource of Strimzi with one flow, whose offsets are in a topic of its own."""
    clusters = [
        {"alias": alias, "bootstrapServers": source},
        {
            "alias": "central",
            "bootstrapServers": target,
            "config": {"offset.storage.topic": f"offsets-of-{alias}"},
        },
    ]
    flow = {"sourceCluster": alias, "targetCluster": "central", "topicsPattern": topics}
    mirrors = [{**flow, "sourceConnector": {"config": {}}}]
    spec = {"version": "4.1.0", "clusters": clusters, "mirrors": mirrors}
    head = {"apiVersion": "kafka.strimzi.io/v1beta2", "kind": "KafkaMirrorMaker2"}
    return json.dumps({**head, "metadata": {"name": "my-mirror"}, "spec": spec})


@pytest.mark.timeout(300)
def test_the_pages_for_other_tools_are_walked(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their files are those that the pages name; what the tools have stored is played."""
    suffix = uuid.uuid4().hex[:8]
    orders, group, alias = f"orders.{suffix}", f"mirror-{suffix}", f"eu-{suffix}"
    eu, central = source_a.bootstrap_servers, hub.bootstrap_servers
    create_topic(eu, orders)
    create_topic(central, orders)
    produce(eu, orders, records(20))
    commit(source_a, group, orders, {0: 20})
    create_topic(central, f"mm2-offsets.{alias}.internal")
    place = json.dumps(
        ["MirrorSourceConnector", {"cluster": alias, "partition": 0, "topic": orders}]
    )
    stored = [NewRecord(b'{"offset":19}', place.encode())]
    produce(central, f"mm2-offsets.{alias}.internal", stored)
    (tmp_path / "configs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    write_properties(
        tmp_path / "mm2.properties",
        {
            "clusters": f"{alias}, central",
            f"{alias}.bootstrap.servers": eu,
            "central.bootstrap.servers": central,
            f"{alias}->central.enabled": "true",
            f"{alias}->central.topics": orders,
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        },
    )
    for file in ("a-consumer", "b-consumer", "consumer", "c"):
        of = source_b.bootstrap_servers if file == "b-consumer" else eu
        own = {"bootstrap.servers": of, "group.id": group}
        write_properties(tmp_path / f"{file}.properties", own)
    for file in ("producer", "p"):
        write_properties(tmp_path / f"{file}.properties", {"bootstrap.servers": central})
    write_properties(tmp_path / "replication.properties", {"topic.rename.format": "${topic}"})
    connector = {
        "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
        "src.kafka.bootstrap.servers": eu,
        "topic.whitelist": orders,
    }
    mirror = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": alias,
        "target.cluster.alias": "central",
        "source.cluster.bootstrap.servers": eu,
        "target.cluster.bootstrap.servers": central,
        "topics": orders,
    }
    (tmp_path / "connect-test.json").write_text(json.dumps({"name": "t", "config": connector}))
    (tmp_path / "mirror-source.json").write_text(json.dumps({"name": "m", "config": mirror}))
    write_properties(
        tmp_path / "connect-distributed.properties",
        {"bootstrap.servers": central, "offset.storage.topic": "connect-offsets"},
    )
    names = {"orders,payments.*": orders, "test-topic": orders, "broker:9092": central}
    names |= {"connect-test": group, "replicator": group}
    state = ("--set", f"checkpoint.path={tmp_path / 'state'}", "--set", "api.listen=off")
    with Walk("coming-from-mirrormaker.md", names) as walk:
        for begin, more in (
            ("import", ()),
            ("check", ()),
            ("plan", state),
            ("import mm2.properties --positions", state),
            ("import mm2.properties --positions", state),
            ("run", (*state, "--until-caught-up")),
        ):
            walk.run(begin, *more)
    # What MirrorMaker 2 had copied does not come again.
    assert len(read_topic(central, orders)) == 0
    with Walk("coming-from-mirrormaker-2.md", names) as walk:
        walk.run("import", "--force")
        walk.run("import")
        walk.run("import mm2.properties --positions", *state)
        walk.run("import", "--force")
    with Walk("coming-from-mirrormaker-1.md", names) as walk:
        walk.run("mirror-maker", *QUICK, "--set", "api.listen=off", "--until-caught-up")
        walk.run("import", "--force")
    with Walk("coming-from-replicator.md", names) as walk:
        walk.run("import", "--force")
        walk.run("import", "--force")
        running = [*QUICK, "--set", "api.listen=off", "--until-caught-up"]
        walk.run("replicator", *running)
        walk.run("import", "--set", f"checkpoint.path={tmp_path / 'other'}")
        walk.run("replicator", *running, "--state", str(tmp_path / "own"))
    (tmp_path / "my-mirror.yaml").write_text(strimzi_of(alias, eu, central, orders))
    topic = f"offsets-of-{alias}"
    create_topic(central, topic)
    key = json.dumps([f"{alias}->central.MirrorSourceConnector", json.loads(place)[1]])
    produce(central, topic, [NewRecord(b'{"offset":4}', key.encode())])
    with Walk("coming-from-strimzi.md", names) as walk:
        walk.run("import", "--force")
        walk.run("check")
        other = ("--set", f"checkpoint.path={tmp_path / 'strimzi'}", "--set", "api.listen=off")
        walk.run("import my-mirror.yaml --positions", *other)
        said = walk.run("import my-mirror.yaml --positions", *other, "-o", "json")
    ((move,),) = [it["moves"]["moves"] for it in json.loads(said)["sources"]]
    assert (move["new"], move["kind"]) == (5, "TAKEN_OVER")
