"""Files of MirrorMaker 1, MirrorMaker 2 and replicators become a config that loads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggregator.config import options_table
from aggregator.config.load import load_text
from aggregator.config.properties import parse_properties
from aggregator.config.schema import Config
from aggregator.extras.importers.configs import Settings, aliases_of
from aggregator.extras.importers.import_request import ImportRequest, finished
from aggregator.extras.importers.import_yaml import Finished, Secrets
from aggregator.extras.importers.kind_of_file import Kind, sorted_file
from aggregator.features.connectors.mirror_maker_source import NEWEST
from aggregator.model.errors import ConfigError
from aggregator.plan.topics.naming import naming_of
from aggregator.plan.topics.selection import Selection

DOCS = Path(__file__).parents[2] / "docs"
CONSUMER = """
bootstrap.servers=a:9092
group.id=mirror
auto.offset.reset=earliest
max.partition.fetch.bytes=2000000
fetch.max.bytes=50000000
receive.buffer.bytes=1048576
session.timeout.ms=30000
heartbeat.interval.ms=3000
request.timeout.ms=60000
partition.assignment.strategy=org.apache.kafka.clients.consumer.RoundRobinAssignor
"""
PRODUCER = """
bootstrap.servers=hub:9092
acks=-1
retries=2147483647
max.in.flight.requests.per.connection=1
max.block.ms=9223372036854775807
queue.enqueue.timeout.ms=-1
max.request.size=5000000
send.buffer.bytes=1048576
compression.type=lz4
"""
MM2 = """
# several targets, several sources
clusters = eu, us-east, central
eu.bootstrap.servers = eu1:9092,eu2:9092
us-east.bootstrap.servers = us:9092
central.bootstrap.servers = hub:9092
security.protocol = SSL
eu.security.protocol = SASL_SSL
eu.sasl.mechanism = SCRAM-SHA-512
eu.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="mm" password="top-secret";
us-east.consumer.max.poll.records = 2000
us-east.consumer.group.id = whatever
us-east.producer.linger.ms = 3
central.producer.linger.ms = 20
central.producer.acks = all
central.offset.flush.interval.ms = 10000
central.offset.storage.topic = my-offsets
eu->central.enabled = true
eu->central.topics = orders, payments.*
us-east->central.enabled = true
us-east->central.tasks.max = 7
central->eu.enabled = true
central->eu.topics = back
eu->us-east.topics = never
consumer.fetch.min.bytes = 1
tasks.max = 4
topics.exclude = secret.*
groups = .*
groups.exclude = console-.*
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 15
emit.checkpoints.interval.seconds = 10
emit.heartbeats.enabled = true
replication.factor = 3
checkpoints.topic.replication.factor = 3
heartbeats.topic.replication.factor = 3
offset-syncs.topic.replication.factor = 3
sync.topic.configs.enabled = false
sync.topic.acls.enabled = false
refresh.topics.interval.seconds = 60
refresh.groups.interval.seconds = 60
config.properties.exclude = retention.ms, confluent\\\\..*
exactly.once.source.support = enabled
no.such.word = 1
"""
EMR = {
    "name": "connect-test",
    "config": {
        "connector.class": "EMRReplicatorSourceConnector",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "src.kafka.bootstrap.servers": "origin:9092",
        "src.zookeeper.connect": "origin:2181",
        "dest.zookeeper.connect": "hub:2181",
        "topic.whitelist": "connect,other.one",
        "topic.rename.format": "${topic}.replica",
        "src.kafka.max.poll.records": "300",
    },
}
WORKER = """
bootstrap.servers=hub:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.topic=connect-offsets-1
config.storage.topic=connect-configs
status.storage.topic=connect-status
offset.flush.interval.ms=10000
producer.linger.ms=5
ssl.keystore.password=in-the-worker
"""


class Files:
    """Old files in a folder, and what they become."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | dict[str, Any]) -> Path:
        text = content if isinstance(content, str) else json.dumps(content)
        (self.folder / name).write_text(text, "utf-8")
        return self.folder / name

    def mm1(self, options: dict[str, str], consumer: str = CONSUMER) -> Finished:
        (found,) = finished(
            ImportRequest(
                consumers=[self.write("consumer.properties", consumer)],
                producer=self.write("producer.properties", PRODUCER),
                options=options,
            ),
            Secrets.ENV,
        )
        return found

    def of(self, name: str, content: Any, *more: Path, **options: Any) -> tuple[Finished, ...]:
        secrets = options.pop("secrets", Secrets.ENV)
        files = [self.write(name, content), *more]
        return finished(ImportRequest(files=files, **options), secrets)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def loaded(found: Finished) -> Config:
    """The config of the YAML that was made, with its secrets set."""
    return load_text(found.text, env={it.name: "word" for it in found.secrets})


def reasons(found: Finished) -> dict[str, str]:
    return {it.where.key: it.reason for it in found.notes}


def decisions(found: Finished) -> set[str]:
    return {it.where.key for it in found.notes if it.decide}


def taken(config: Config, alias: str, *topics: str) -> list[str]:
    selection = Selection.of(config.sources[alias].topics)
    return [topic for topic in topics if selection.matches(topic)]


def test_properties_are_read_as_java_reads_them() -> None:
    text = (
        "# a comment\n! another\n\n  a = 1\nb:2\nc 3\nd\\ e=4\\\n   5\n"
        "path=C\\:\\\\x\nu=\\u0041\\n\nempty=\nalone\na=last=one\n"
    )
    assert parse_properties(text) == {
        "a": "last=one",
        "b": "2",
        "c": "3",
        "d e": "45",
        "path": "C:\\x",
        "u": "A\n",
        "empty": "",
        "alone": "",
    }


def test_every_option_of_mirror_maker_1_is_taken_over_or_named(files: Files) -> None:
    found = files.mm1(
        {
            "whitelist": '"orders, payments[.].*"',
            "blacklist": "payments.old",
            "num.streams": "4",
            "num.producers": "2",
            "abort.on.send.failure": "true",
            "offset.commit.interval.ms": "10000",
            "rebalance.listener": "x.Listener",
            "rebalance.listener.args": "a",
            "new.consumer": "true",
            "queue.size": "100",
        }
    )
    config = loaded(found)
    assert config.name == "mirror"
    assert config.hub.bootstrap_servers == "hub:9092"
    assert config.hub.producer == {
        "retries": "2147483647",
        "max.in.flight.requests.per.connection": "1",
        "max.block.ms": "9223372036854775807",
        "max.request.size": "5000000",
        "send.buffer.bytes": "1048576",
        "compression.type": "lz4",
    }
    source = config.sources["a-9092"]
    assert source.consumer == {
        "max.partition.fetch.bytes": "2000000",
        "fetch.max.bytes": "50000000",
        "receive.buffer.bytes": "1048576",
        "request.timeout.ms": "60000",
    }
    assert (source.start, source.tasks) == ("earliest", 4)
    assert taken(config, "a-9092", "orders", "payments.eu", "payments.old", "x") == [
        "orders",
        "payments.eu",
    ]
    assert config.supervision.failure == "abort"
    assert config.stream.checkpoint_interval == 10
    assert (config.topics.rename, config.topics.sync_configs) == ("${topic}", False)
    named = reasons(found)
    assert named.keys() == {
        "acks",
        "queue.enqueue.timeout.ms",
        "group.id",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "partition.assignment.strategy",
        "--num.producers",
        "--rebalance.listener",
        "--rebalance.listener.args",
        "--new.consumer",
        "--queue.size",
    }
    for key, reason in named.items():
        assert f"{key}: {reason}" in found.text
    assert not decisions(found)
    assert [(it.alias, it.group) for it in found.stored] == [("a-9092", "mirror")]


def test_a_handler_of_mirror_maker_1_has_to_be_decided(files: Files) -> None:
    found = files.mm1({"whitelist": ".*", "message.handler": "x.H", "message.handler.args": "a"})
    assert decisions(found) == {"--message.handler"}
    assert "topics.transform" in found.text
    loaded(found)


def test_old_words_of_mirror_maker_1_are_understood(files: Files) -> None:
    old = (
        "zookeeper.connect=z:2181\nbootstrap.servers=a:9092\nauto.offset.reset=smallest\n"
        "fetch.message.max.bytes=9\nsocket.receive.buffer.bytes=10\nconsumer.timeout.ms=-1\n"
        "shallow.iterator.enable=false\n"
    )
    found = files.mm1({"blacklist": "a,b"}, old)
    source = loaded(found).sources["a-9092"]
    assert source.start == "earliest"
    assert source.consumer == {"max.partition.fetch.bytes": "9", "receive.buffer.bytes": "10"}
    assert taken(loaded(found), "a-9092", "a", "b", "c") == ["c"]
    assert {"zookeeper.connect", "consumer.timeout.ms", "shallow.iterator.enable"} <= reasons(
        found
    ).keys()


def test_two_sources_of_mirror_maker_1_are_two_sources(files: Files) -> None:
    (found,) = finished(
        ImportRequest(
            consumers=[
                files.write("consumer-eu.properties", CONSUMER),
                files.write("us_consumer.properties", CONSUMER.replace("a:9092", "b:9092")),
            ],
            producer=files.write("producer.properties", PRODUCER),
            options={"whitelist": ".*"},
        ),
        Secrets.ENV,
    )
    sources = loaded(found).sources
    assert {alias: it.bootstrap_servers for alias, it in sources.items()} == {
        "eu": "a:9092",
        "us": "b:9092",
    }


NAMELESS = Settings("consumer.properties", {})
EU = Settings("eu-consumer.properties", {})


@pytest.mark.parametrize(
    ("given", "consumers", "known", "wanted"),
    [
        # Two calls of the tool, one for each cluster, each with a file of the same name.
        ([], [(NAMELESS, "a:9092,b:9092")], [], ["a-9092"]),
        ([], [(NAMELESS, "b.example:9092")], [], ["b-example-9092"]),
        ([], [(NAMELESS, "10.0.0.7:9092")], [], ["source-10-0-0-7-9092"]),
        ([], [(NAMELESS, "a:9092"), (NAMELESS, "a:9092")], [], ["a-9092", "a-9092-2"]),
        # What an earlier start called it stays, whatever the address is by now.
        ([], [(NAMELESS, "b:9092")], ["source"], ["source"]),
        ([], [(EU, "a:1"), (NAMELESS, "b:1")], ["eu", "source"], ["eu", "source"]),
        ([], [(NAMELESS, "b:1"), (NAMELESS, "c:1")], ["source"], ["source", "c-1"]),
        (["us"], [(NAMELESS, "b:1")], ["source"], ["us"]),
        ([], [(NAMELESS, "")], [], ["source"]),
    ],
)
def test_what_a_source_is_called(
    given: list[str], consumers: list[tuple[Settings, str]], known: list[str], wanted: list[str]
) -> None:
    assert aliases_of(given, consumers, known) == wanted


def test_without_a_reset_mirror_maker_1_begins_at_the_end(files: Files) -> None:
    found = files.mm1({"include": "x"}, "bootstrap.servers=a:9092\n")
    assert loaded(found).sources["a-9092"].start == "latest"
    assert "auto.offset.reset" in reasons(found)
    assert "no group.id" in found.stored[0].refused


def test_all_that_is_missing_is_reported_at_once(files: Files) -> None:
    with pytest.raises(ConfigError) as raised:
        finished(
            ImportRequest(
                consumers=[files.write("consumer.properties", "zookeeper.connect=z:2181\n")],
            ),
            Secrets.ENV,
        )
    text = str(raised.value)
    assert "producer.config" in text
    assert "bootstrap.servers" in text
    assert "--whitelist" in text


def test_the_flows_of_mirror_maker_2_are_a_config_for_each_target(files: Files) -> None:
    central, eu = files.of("mm2.properties", MM2)
    config = loaded(central)
    assert (central.target, eu.target) == ("central", "eu")
    assert config.name == "central"
    assert config.hub.bootstrap_servers == "hub:9092"
    assert config.hub.producer == {"linger.ms": "20"}
    assert config.hub.kafka == {"security.protocol": "SSL"}
    assert list(config.sources) == ["eu", "us-east"]
    assert config.sources["eu"].kafka["security.protocol"] == "SASL_SSL"
    assert config.sources["eu"].bootstrap_servers == "eu1:9092,eu2:9092"
    assert config.sources["us-east"].kafka == {"security.protocol": "SSL"}
    assert config.sources["us-east"].consumer == {"max.poll.records": "2000"}
    assert {alias: it.tasks for alias, it in config.sources.items()} == {"eu": 4, "us-east": 7}
    assert taken(config, "eu", "orders", "payments.x", "secret.x", "else") == [
        "orders",
        "payments.x",
    ]
    # Without `topics` it takes all; what came from the target is not sent back to it.
    assert taken(config, "us-east", "else", "central.x", "eu.central.x", "eu.x", "secret.") == [
        "else",
        "eu.x",
    ]
    assert config.topics.rename == "${cluster}.${topic}"
    assert (config.topics.partition_by, config.topics.grow) == ("source_partition", True)
    assert (config.topics.replication_factor, config.topics.sync_configs) == (3, False)
    assert config.topics.refresh_interval == 60
    assert config.topics.config_exclude == ["retention.ms", r"confluent\..*"]
    assert config.stream.checkpoint_interval == 10
    groups = config.sources["eu"].groups
    assert (groups.sync, groups.exclude, groups.every) == ([".*"], ["console-.*"], 15)
    assert config.heartbeats
    other = loaded(eu)
    assert other.hub.bootstrap_servers == "eu1:9092,eu2:9092"
    assert other.hub.known_as == ["eu"]
    assert taken(other, "central", "back", "else") == ["back"]
    assert other.checkpoint.path != config.checkpoint.path
    assert other.api.listen != config.api.listen
    stored = [(it.alias, it.topic, it.connector, it.cluster) for it in central.stored]
    assert stored == [
        ("eu", "my-offsets", "MirrorSourceConnector", "eu"),
        ("us-east", "my-offsets", "MirrorSourceConnector", "us-east"),
    ]
    assert eu.stored[0].topic == "mm2-offsets.central.internal"


def test_every_setting_of_mirror_maker_2_is_taken_over_or_named(files: Files) -> None:
    found = files.of("mm2.properties", MM2)
    came = {it.where.key for each in found for it in each.notes}
    assert {
        "emit.checkpoints.interval.seconds",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        "offset-syncs.topic.replication.factor",
        "sync.topic.acls.enabled",
        "refresh.groups.interval.seconds",
        "exactly.once.source.support",
        "no.such.word",
        "central.producer.acks",
        "central.offset.storage.topic",
        "us-east.consumer.group.id",
        "us-east.producer.linger.ms",
        "eu->us-east.topics",
        "consumer.fetch.min.bytes",
    } <= came
    assert reasons(found[0])["no.such.word"] == "is not known"
    assert decisions(found[0]) == {"topics.exclude"}
    known = files.of("mm2.properties", MM2, version=NEWEST)
    assert not any(decisions(it) for it in known)


def test_policies_of_mirror_maker_2_name_the_topics(files: Files) -> None:
    base = MM2.replace("central->eu.enabled = true", "")
    (found,) = files.of("mm2.properties", f"{base}\nreplication.policy.separator = _\n")
    assert loaded(found).topics.rename == "${cluster}_${topic}"
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    (found,) = files.of("mm2.properties", f"{base}\nreplication.policy.class = {identity}\n")
    naming = naming_of(loaded(found), "eu")
    assert [naming.of(it).name for it in ("a.b", "heartbeats")] == ["a.b", "eu.heartbeats"]
    (found,) = files.of("mm2.properties", f"{base}\nreplication.policy.class = x.Mine\n")
    assert "replication.policy.class" in decisions(found)
    assert loaded(found).topics.rename == "${topic}"


def test_acls_that_mirror_maker_2_keeps_up_are_kept_up(files: Files) -> None:
    text = MM2.replace("sync.topic.acls.enabled = false", "sync.topic.acls.enabled = true")
    (found, _) = files.of("mm2.properties", text)
    assert all(it.acls.sync for it in loaded(found).sources.values())
    assert not any(it.where.key == "sync.topic.acls.enabled" for it in found.notes)
    (off, _) = files.of("mm2.properties", MM2)
    assert not any(it.acls.sync for it in loaded(off).sources.values())


def test_transforms_and_filters_of_mirror_maker_2_have_to_be_decided(files: Files) -> None:
    flow = "eu->central"
    more = f"{flow}.transforms = a\n{flow}.transforms.a.type = x.Y\ntopic.filter.class = x.Filter\n"
    found = files.of("mm2.properties", f"{MM2}\n{more}", version=NEWEST)[0]
    names = {f"{flow}.transforms", f"{flow}.transforms.a.type", "topic.filter.class"}
    assert decisions(found) == names
    loaded(found)


def test_a_transform_that_only_renames_says_the_rule_that_does_it(files: Files) -> None:
    flow = "A->B.transforms"
    more = f"{flow} = r\n{flow}.r.type = org.apache.kafka.connect.transforms.RegexRouter\n"
    found, _ = only(files, f"{more}{flow}.r.regex = EU_(.*)\n{flow}.r.replacement = $1\n")
    assert decisions(found) == {flow}
    assert "topics.rename: [{match: 'EU_(.*)', to: '$1'}]" in reasons(found)[flow]


def test_no_flow_is_no_config(files: Files) -> None:
    with pytest.raises(ConfigError, match="no flow is enabled"):
        files.of("mm2.properties", "clusters = a, b\na.bootstrap.servers = x:1\n")


def test_a_posted_connector_and_its_worker_are_a_config(files: Files) -> None:
    worker = files.write("connect-distributed.properties", WORKER)
    (found,) = files.of("connect-test.json", EMR, worker)
    config = loaded(found)
    assert config.name == "connect-test"
    assert config.hub.bootstrap_servers == "hub:9092"
    assert config.hub.producer == {"linger.ms": "5"}
    source = config.sources["connect-test"]
    assert source.bootstrap_servers == "origin:9092"
    assert source.kafka == {"max.poll.records": "300"}
    assert taken(config, "connect-test", "connect", "other.one", "otherxone") == [
        "connect",
        "other.one",
    ]
    assert config.topics.rename == "${topic}.replica"
    assert {"src.zookeeper.connect", "dest.zookeeper.connect"} <= reasons(found).keys()
    assert "documented nowhere" in found.stored[0].refused


def test_a_connector_without_a_hub_says_what_to_give(files: Files) -> None:
    with pytest.raises(ConfigError, match="--hub HOST:PORT"):
        files.of("connect-test.json", EMR)
    (found,) = files.of("connect-test.json", EMR, hub="hub:9092")
    assert loaded(found).hub.bootstrap_servers == "hub:9092"


def test_connectors_of_mirror_maker_2_show_where_their_positions_are(files: Files) -> None:
    source = {
        "name": "east",
        "config": {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "east.1",
            "source.cluster.bootstrap.servers": "a:9092",
            "target.cluster.bootstrap.servers": "hub:9092",
            "target.cluster.ssl.keystore.password": "s",
            "producer.override.linger.ms": "7",
            "topics": "a.*",
        },
    }
    beside = {
        "name": "marks",
        "config": {"connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"},
    }
    worker = files.write("worker.properties", WORKER)
    (found,) = files.of("both.json", [source, beside], worker)
    config = loaded(found)
    assert list(config.sources) == ["east-1"]
    assert config.topics.rename == "east.1.${topic}"
    assert config.hub.producer["linger.ms"] == "7"
    (stored,) = found.stored
    assert (stored.topic, stored.connector, stored.cluster) == (
        "connect-offsets-1",
        "east",
        "east.1",
    )
    assert any("MirrorCheckpointConnector" in key for key in reasons(found))


def test_options_of_the_executable_win_over_its_files(files: Files) -> None:
    replication = (
        "topic.whitelist=from-file\ntopic.rename.format=${topic}.replica\n"
        "replication.factor=1\noffset.storage.replication.factor=1\n"
        "confluent.topic.replication.factor=1\ntopic.preserve.partitions=false\n"
    )
    (found,) = finished(
        ImportRequest(
            consumers=[files.write("consumer.properties", "bootstrap.servers=localhost:9082\n")],
            producer=files.write("producer.properties", "bootstrap.servers=localhost:9092\n"),
            replication=files.write("replication.properties", replication),
            cluster_id="replicator",
            options={
                "whitelist": "test-topic",
                "topic.regex": "more.*",
                "topic.poll.interval.ms": "5000",
                "cluster.threads": "3",
            },
        ),
        Secrets.ENV,
    )
    config = loaded(found)
    assert config.name == "replicator"
    assert config.sources["localhost-9082"].bootstrap_servers == "localhost:9082"
    assert taken(config, "localhost-9082", "test-topic", "from-file", "more1") == [
        "test-topic",
        "more1",
    ]
    assert config.topics.rename == "${topic}.replica"
    assert config.topics.replication_factor == 1
    assert config.topics.partition_by == "key"
    assert config.topics.refresh_interval == 5
    assert "--cluster.threads" in reasons(found)
    assert "--group" in found.stored[0].refused


REPLICATOR = {
    "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
    "key.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
    "value.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
    "header.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
    "src.kafka.bootstrap.servers": "dc1:9092",
    "src.kafka.timestamps.topic.replication.factor": "1",
    "src.kafka.timestamps.producer.interceptor.classes": "io.confluent.monitoring.clients.X",
    "src.consumer.group.id": "replicator-dc1-to-dc2",
    "src.consumer.interceptor.classes": "io.confluent.monitoring.clients.interceptor.Y",
    "src.consumer.confluent.monitoring.interceptor.bootstrap.servers": "metrics:9092",
    "src.consumer.confluent.monitoring.interceptor.sasl.jaas.config": 'x required password="p";',
    "src.zookeeper.session.timeout.ms": "6000",
    "consumer.override.bootstrap.servers": "dc1:9092",
    "dest.kafka.bootstrap.servers": "dc2:9092",
    "dest.kafka.replication.factor": "3",
    "dest.topic.replication.factor": "2",
    "fetch.offset.expiry.ms": "600000",
    "offset.translator.tasks.max": "0",
    "provenance.header.enable": "true",
    "provenance.header.filter.overrides": "dc2,_schemas,-",
    "schema.registry.topic": "_schemas",
    "topic.config.sync.interval.ms": "120000",
    "topic.regex": ".*",
    "topic.timestamp.type": "CreateTime",
    "confluent.topic.replication.factor": "1",
}
TAKEN_OVER = ("connector.class", "dest.topic.replication.factor", "src.kafka.bootstrap.servers")
"""With the address of the hub and converters, which have no notes."""


def test_every_setting_of_confluents_replicator_is_taken_over_or_named(files: Files) -> None:
    posted = {"name": "dc1", "config": REPLICATOR}
    worker = files.write(
        "connect-distributed.properties",
        "bootstrap.servers=dc2:9092\noffset.storage.topic=o\nproducer.linger.ms=5\n"
        "producer.interceptor.classes=io.confluent.monitoring.clients.interceptor.Z\n"
        "producer.confluent.monitoring.interceptor.bootstrap.servers=metrics:9092\n",
    )
    for more in ((), (worker,)):
        (found,) = files.of("replicator.json", posted, *more)
        config, noted = loaded(found), reasons(found)
        source = config.sources["dc1"]
        assert (source.bootstrap_servers, source.kafka, source.consumer) == ("dc1:9092", {}, {})
        assert (config.hub.bootstrap_servers, config.hub.kafka) == ("dc2:9092", {})
        assert config.hub.producer == ({"linger.ms": "5"} if more else {})
        assert config.topics.replication_factor == 2
        assert not found.secrets
        assert not decisions(found)
        silent = {it for it in REPLICATOR if it not in noted and "converter" not in it}
        assert silent == {*TAKEN_OVER, "dest.kafka.bootstrap.servers"}
        assert not [key for key, reason in noted.items() if reason.startswith("is not known")]
        assert "_schemas" in noted["topic.regex"]
        assert found.stored[0].group == "replicator-dc1-to-dc2"


def test_the_file_of_a_replication_may_name_the_addresses(files: Files) -> None:
    def of(replication: str, producer: str) -> Finished:
        (found,) = finished(
            ImportRequest(
                consumers=[files.write("eu-consumer.properties", "client.id=x\n")],
                producer=files.write("producer.properties", producer),
                replication=files.write("replication.properties", replication),
                cluster_id="replicator",
            ),
            Secrets.ENV,
        )
        return found

    source = "topic.whitelist=a\nsrc.kafka.bootstrap.servers=a:1\n"
    both = f"{source}dest.kafka.bootstrap.servers=b:1\n"
    found = of(both, "linger.ms=5\n")
    assert loaded(found).sources["eu"].bootstrap_servers == "a:1"
    assert loaded(found).hub.bootstrap_servers == "b:1"
    assert not decisions(found)
    found = of(both, "bootstrap.servers=c:1\n")
    assert loaded(found).hub.bootstrap_servers == "c:1"
    assert decisions(found) == {"dest.kafka.bootstrap.servers"}
    with pytest.raises(ConfigError, match=r"in the file of --producer\.config"):
        of(source, "linger.ms=5\n")


def test_secrets_become_variables_and_are_named(files: Files) -> None:
    found = files.of("mm2.properties", MM2)[0]
    assert "top-secret" not in found.text
    assert [it.name for it in found.secrets] == ["EU_SASL_JAAS_PASSWORD"]
    assert "export EU_SASL_JAAS_PASSWORD=" in found.text
    login = loaded(found).sources["eu"].kafka["sasl.jaas.config"]
    assert login.endswith('required username="mm" password="word";')


def test_secrets_can_stay_in_the_old_file_or_be_written_out(files: Files) -> None:
    more = "central.ssl.keystore.password = kept\n"
    found = files.of("mm2.properties", MM2 + more, secrets=Secrets.FILE)[0]
    assert "kept" not in found.text
    assert loaded(found).hub.kafka["ssl.keystore.password"] == "kept"
    # So can the login, which goes over two lines there.
    assert not found.secrets
    assert 'password="top-secret"' in loaded(found).sources["eu"].kafka["sasl.jaas.config"]
    clear = files.of("mm2.properties", MM2 + more, secrets=Secrets.CLEAR)[0]
    assert not clear.secrets
    assert 'password="top-secret"' in clear.text


def test_references_of_the_old_files_stay_and_unknown_ones_become_variables(files: Files) -> None:
    more = (
        "central.ssl.keystore.password = ${file:/etc/x.properties:a}\n"
        "central.ssl.key.password = ${vault:kv/x:key}\n"
        "central.producer.client.id = a${b}\n"
    )
    found = files.of("mm2.properties", MM2 + more)[0]
    hub = yaml.safe_load(found.text)["hub"]["kafka"]
    assert hub["ssl.keystore.password"] == "${file:/etc/x.properties:a}"
    assert hub["ssl.key.password"] == "${env:HUB_SSL_KEY_PASSWORD}"
    assert yaml.safe_load(found.text)["hub"]["producer"]["client.id"] == "a$${b}"


def test_what_our_config_refuses_is_left_out_and_named(files: Files) -> None:
    found = files.mm1(
        {"whitelist": ".*"},
        CONSUMER
        + "ssl.truststore.location=/x/trust.jks\nssl.keystore.type=BCFKS\n"
        + "ssl.keystore.location=/x/k\nssl.keystore.password=p\n"
        + "interceptor.classes=x.Y\nfetch.max.byte=1",
    )
    config = loaded(found)
    assert config.sources["a-9092"].kafka["ssl.truststore.location"] == "/x/trust.jks"
    assert "ssl.keystore.type" not in config.sources["a-9092"].kafka
    assert "PEM" in reasons(found)["ssl.keystore.type"]
    assert "ssl.keystore.type" in decisions(found)
    assert "behind our back" in reasons(found)["interceptor.classes"]
    assert "did you mean fetch.max.bytes?" in reasons(found)["fetch.max.byte"]


def test_a_login_that_the_jvm_was_given_becomes_a_variable(files: Files) -> None:
    more = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    found = files.mm1({"whitelist": ".*"}, CONSUMER + more)
    assert [it.name for it in found.secrets] == ["A_9092_SASL_JAAS_CONFIG"]
    assert "sasl.jaas.config: ${env:A_9092_SASL_JAAS_CONFIG}" in found.text


def test_what_has_to_be_there_and_is_wrong_is_reported_by_its_old_name(files: Files) -> None:
    with pytest.raises(ConfigError, match=r"--whitelist.* is not a regex"):
        files.mm1({"whitelist": "*"})
    with pytest.raises(ConfigError, match=r"consumer.properties: bootstrap.servers"):
        files.mm1({"whitelist": ".*"}, "bootstrap.servers=nonsense\n")


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("x.properties", "clusters=a,b", Kind.MM2),
        ("x.properties", "connector.class=y", Kind.CONNECTOR),
        ("x.properties", "offset.storage.file.filename=y", Kind.WORKER),
        ("x.properties", "topic.regex=y", Kind.REPLICATION),
        ("my-consumer.properties", "bootstrap.servers=y", Kind.CONSUMER),
        ("x.properties", "bootstrap.servers=y\nlinger.ms=1", Kind.PRODUCER),
        ("x.properties", "zookeeper.connect=y", Kind.CONSUMER),
    ],
)
def test_a_file_is_recognized_by_what_is_in_it(name: str, text: str, kind: Kind) -> None:
    ((found, _),) = sorted_file(name, text)
    assert found is kind


@pytest.mark.parametrize("page", sorted(DOCS.glob("coming-from-*.md")), ids=lambda it: it.stem)
def test_options_that_the_pages_name_exist(page: Path) -> None:
    """In the tables, whose left columns are words of the old tools."""
    known = {"sources.<alias>", *(row.path for row in options_table())}
    roots = {path.split(".")[0] for path in known}
    tables = re.findall(r"^\| there .*?\n\n", page.read_text("utf-8"), re.M | re.S)
    for row in "".join(tables).splitlines():
        for name in re.findall(r"`([a-z_]+(?:\.[A-Za-z_<>]+)+)", row.split(" | ")[-1]):
            generic = re.sub(r"^sources\.[A-Za-z]+", "sources.<alias>", name)
            assert generic in known or name.split(".")[0] not in roots, name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bootstrap.servers=y", "of an unknown kind"),
        ("{", "is not JSON"),
        ('{"name": "x"}', "holds no config of a connector"),
    ],
)
def test_a_file_that_is_not_known_says_what_to_do(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        sorted_file("x.properties", text)


def test_files_of_two_tools_are_refused(files: Files) -> None:
    other = files.write("producer.properties", PRODUCER)
    with pytest.raises(ConfigError, match="several tools"):
        files.of("mm2.properties", MM2, other)


# --- several files, several hubs ------------------------------------------------------------


def flow_file(source: str, hub: str = "hub", at: str = "hub:9092", more: str = "") -> str:
    return (
        f"clusters = {source}, {hub}\n{source}.bootstrap.servers = {source}.test:9092\n"
        f"{hub}.bootstrap.servers = {at}\n{source}->{hub}.enabled = true\n{more}"
    )


def many(files: Files, *texts: str | dict[str, Any] | list[Any], **options: Any) -> list[Finished]:
    """What files come to together, each in a folder of its own."""
    paths = []
    for number, text in enumerate(texts):
        name = "mm2.properties" if isinstance(text, str) else "connector.json"
        folder = files.folder / str(number)
        folder.mkdir(exist_ok=True)
        paths.append(Files(folder).write(name, text))  # type: ignore[arg-type]
    return list(finished(ImportRequest(files=paths, **options), Secrets.ENV))


def test_files_of_several_regions_with_one_hub_are_one_config(files: Files) -> None:
    (found,) = many(files, flow_file("eu"), flow_file("us"), flow_file("eu"))
    assert list(loaded(found).sources) == ["eu", "us"]
    assert [it.cluster for it in found.stored] == ["eu", "us"]
    # The same file from another machine is the same flow, once.
    assert sum("it is taken once" in it.reason for it in found.notes) == 1


def test_hubs_of_one_name_that_are_other_clusters_are_configs_of_their_own(files: Files) -> None:
    found = many(files, flow_file("eu"), flow_file("us", at="other:9092"), flow_file("x", "h.1"))
    assert [(it.name, list(loaded(it).sources)) for it in found] == [
        ("hub", ["eu", "x"]),
        ("hub-2", ["us"]),
    ]
    assert [it.target for it in found] == ["hub", "hub-2"]


def test_a_flow_that_two_files_describe_in_two_ways_needs_a_decision(files: Files) -> None:
    other = flow_file("eu", more="eu->hub.topics = orders\n")
    (found,) = many(files, flow_file("eu"), other, version=NEWEST)
    assert list(loaded(found).sources) == ["eu", "eu-2"]
    assert decisions(found) == {"eu to hub"}


MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


def mirror(source: str, target: str = "hub:9092", **more: str) -> dict[str, str]:
    return {
        "connector.class": MIRROR,
        "source.cluster.alias": source,
        "source.cluster.bootstrap.servers": f"{source}.test:9092",
        "target.cluster.bootstrap.servers": target,
        "topics": "orders",
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def test_connectors_of_one_name_are_several_sources(files: Files) -> None:
    (found,) = many(files, mirror("eu"), mirror("us"))
    assert list(loaded(found).sources) == ["eu", "us"]
    named = [{"name": "MirrorSourceConnector", "config": mirror(it)} for it in ("eu", "us")]
    (found,) = many(files, named)
    assert list(loaded(found).sources) == ["eu", "us"]
    assert {it.connector for it in found.stored} == {"MirrorSourceConnector"}


def test_connectors_with_other_targets_are_other_configs_with_their_own_logins(
    files: Files,
) -> None:
    second = mirror("us", "us-hub:9092", target__cluster__security__protocol="SSL")
    found = many(files, mirror("eu"), second, version=NEWEST)
    hubs = {it.name: loaded(it).hub for it in found}
    assert [it.bootstrap_servers for it in hubs.values()] == ["hub:9092", "us-hub:9092"]
    assert [it.kafka for it in hubs.values()] == [{}, {"security.protocol": "SSL"}]
    assert not any(decisions(it) for it in found)


def test_flows_there_and_back_are_two_configs_that_know_each_other(files: Files) -> None:
    there = mirror("a", "b.test:9092", target__cluster__alias="b")
    back = mirror("b", "a.test:9092", target__cluster__alias="a")
    found = [loaded(it) for it in many(files, there, back)]
    assert [(list(it.sources), it.hub.known_as) for it in found] == [(["a"], ["b"]), (["b"], ["a"])]


def test_one_hub_with_two_logins_needs_a_decision_and_both_are_shown(files: Files) -> None:
    first = mirror("eu", target__cluster__ssl__keystore__type="PKCS12")
    second = mirror("us", target__cluster__ssl__keystore__type="JKS")
    (found,) = many(files, first, second, version=NEWEST)
    ((where, reason),) = [(it.where.key, it.reason) for it in found.notes if it.decide]
    assert where == "target.cluster.ssl.keystore.type"
    assert reason.startswith("eu: PKCS12, us: JKS; ")


def test_what_one_flow_says_is_not_what_another_one_relies_on(files: Files) -> None:
    text = (
        flow_file("a")
        + "clusters = a, b, hub\nb.bootstrap.servers = b.test:9092\nb->hub.enabled = true\n"
        + "a->hub.sync.topic.configs.enabled = false\nb->hub.config.properties.exclude = x.*\n"
    )
    (found,) = files.of("mm2.properties", text, version=NEWEST)
    topics = loaded(found).topics
    assert topics.sync_configs
    assert {"min\\.insync\\.replicas", "x.*"} <= set(topics.config_exclude)
    open_ = {it.where.key: it.reason for it in found.notes if it.decide}
    assert open_["a->hub.sync.topic.configs.enabled"].startswith("a: false, b (by default): true;")
    assert "b: " in open_["b->hub.config.properties.exclude"]


def test_records_go_where_the_producer_of_connect_writes(files: Files) -> None:
    (found,) = many(files, mirror("a", producer__override__bootstrap__servers="c.test:9092"))
    assert loaded(found).hub.bootstrap_servers == "c.test:9092"
    assert "records go to the latter" in reasons(found)["target.cluster.bootstrap.servers"]
    worker = "bootstrap.servers=w.test:9092\noffset.storage.topic=o\nproducer.linger.ms=5\n"
    (found,) = many(files, mirror("a"), worker)
    hub = loaded(found).hub
    assert (hub.bootstrap_servers, hub.producer) == ("w.test:9092", {"linger.ms": "5"})
    assert "target.cluster.bootstrap.servers" in decisions(found)


# --- what MirrorMaker 2 makes of its words --------------------------------------------------

BASE = (
    "clusters = A, B\nA.bootstrap.servers = a.test:9092\nB.bootstrap.servers = b.test:9092\n"
    "A->B.enabled = true\n"
)


def only(files: Files, more: str, **options: Any) -> tuple[Finished, Config]:
    (found,) = files.of("mm2.properties", BASE + more, version=NEWEST, **options)
    return found, loaded(found)


@pytest.mark.parametrize(
    ("more", "start"),
    [
        ("A.auto.offset.reset = latest", "earliest"),
        ("A->B.consumer.override.auto.offset.reset = latest", "earliest"),
        ("A->B.source.cluster.auto.offset.reset = latest", "earliest"),
        ("source.consumer.auto.offset.reset = latest", "earliest"),
        ("consumer.auto.offset.reset = latest", "earliest"),
        ("A->B.consumer.auto.offset.reset = latest", "latest"),
        ("A.consumer.auto.offset.reset = latest", "latest"),
        ("A->B.source.consumer.auto.offset.reset = latest", "latest"),
    ],
)
def test_it_begins_where_mirror_maker_2_begins(files: Files, more: str, start: str) -> None:
    found, config = only(files, more)
    assert config.sources["A"].start == start
    key = more.split(" ")[0]
    assert (key in reasons(found)) is (start == "earliest")
    assert "is not known" not in reasons(found).get(key, "")


def test_old_versions_always_begin_at_the_beginning(files: Files) -> None:
    text = BASE + "A->B.consumer.auto.offset.reset = latest\nA.consumer.max.poll.records = 7\n"
    (found,) = files.of("mm2.properties", text, version=(2, 7))
    source = loaded(found).sources["A"]
    assert (source.start, source.consumer) == ("earliest", {})
    assert {"A->B.consumer.auto.offset.reset", "A.consumer.max.poll.records"} <= reasons(
        found
    ).keys()


def test_a_connector_leaves_out_what_mirror_maker_2_leaves_out(files: Files) -> None:
    config = {**mirror("A", target__cluster__alias="B")}
    del config["topics"]
    (found,) = many(files, config, version=NEWEST)
    topics = ("orders", "orders-internal", "x.replica", "B.orders", "x.B.orders", "A.x", ".foo")
    assert taken(loaded(found), "A", *topics) == ["orders", "orders-internal", "A.x"]
    (found,) = many(files, config, version=(3, 9))
    assert taken(loaded(found), "A", *topics) == ["orders", "A.x"]
    (found,) = many(files, config)
    assert decisions(found) == {"topics.exclude"}


def test_aliases_and_separators_are_those_that_are_said(files: Files) -> None:
    text = (
        "clusters = source, target\nsource.bootstrap.servers = a.test:1\n"
        "target.bootstrap.servers = b.test:1\nsource->target.enabled = true\n"
        "source.cluster.alias = usdf\ntarget.cluster.alias = ukdf\n"
    )
    (found,) = files.of("mm2.properties", text, version=NEWEST)
    config = loaded(found)
    naming = naming_of(config, "source")
    assert naming.of("orders").name == "usdf.orders"
    assert taken(config, "source", "target.x", "ukdf.x") == ["target.x"]
    (stored,) = found.stored
    assert (stored.cluster, stored.topic) == ("usdf", "mm2-offsets.source.internal")
    empty = "replication.policy.separator =\nsource.cluster.alias =\ntarget.cluster.alias =\n"
    found, config = only(files, empty)
    assert config.topics.rename == "${topic}"
    all_four = ["Bookings", "B2C", "dbB1", "B.orders"]
    assert taken(config, "A", *all_four) == all_four
    assert found.stored[0].cluster == ""


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("topics.exclude = foo.*\ntopics.blacklist = bar.*", ["bar1", "a-eu", "PAY"]),
        ("topics.exclude = x\nA->B.topics = a-(eu, us)", ["a-eu"]),
        ("topics.exclude = x\nA->B.topics = (?i)foo.*, pay", ["foo1", "PAY"]),
        ("replication.policy.class = x.DefaultReplicationPolicy ", ["foo1", "bar1", "a-eu", "PAY"]),
        ("A->B.topics = bar1,,", ["bar1"]),
    ],
)
def test_topics_in_the_corners_of_the_filter(files: Files, more: str, wanted: list[str]) -> None:
    _, config = only(files, more)
    assert taken(config, "A", "foo1", "bar1", "a-eu", "PAY", "B.x") == wanted


def test_what_is_taken_there_without_being_asked_is_noted(files: Files) -> None:
    found, _ = only(files, "refresh.topics.enabled = false\n")
    noted = reasons(found)
    assert "_schemas" in noted["topics"]
    assert "by default there" in noted["emit.heartbeats.enabled"]
    assert "by default there" in noted["replication.factor"]
    assert "by default there" in noted["sync.topic.acls.enabled"]
    assert decisions(found) == {"refresh.topics.enabled"}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("source.cluster.alias", ""),
        ("tasks.max.enforce", "never more tasks"),
        ("use.defaults.from", "only with a cluster or a flow"),
        ("consumer.poll.timeout.ms", "a reader waits"),
        ("refresh.groups.interval.seconds", "groups.every"),
        ("config.action.reload", "at each start"),
        ("emit.heartbeats.enabled", "as here, where heartbeats are off"),
        ("X.bootstrap.servers", "X is not among clusters"),
        ("A.producer.linger.ms", "nothing is written to a source"),
        ("B.consumer.max.poll.records", "nothing is read from the hub"),
        ("A.consumer.group.id", "no consumer group is used"),
        ("B.offset.storage.topic", "--positions reads this topic"),
        ("A->B.no.such.thing", "is not known"),
        ("A->X.topics", "not both in clusters"),
    ],
)
def test_a_note_says_what_is_true(files: Files, key: str, words: str) -> None:
    found, _ = only(files, f"{key} = false\n")
    if words:
        assert words in reasons(found)[key]
    else:
        assert key not in reasons(found)


@pytest.mark.parametrize(
    ("lines", "key", "winner"),
    [
        ("topics = a\nA->B.topics = b", "topics", "A->B.topics"),
        ("tasks.max = 2\nA->B.tasks.max = 3", "tasks.max", "A->B.tasks.max"),
        (
            "security.protocol = SSL\n"
            "A.security.protocol = PLAINTEXT\nB.security.protocol = PLAINTEXT",
            "security.protocol",
            "B.security.protocol",
        ),
        (
            "B.producer.linger.ms = 1\nA->B.producer.override.linger.ms = 2",
            "B.producer.linger.ms",
            "A->B.producer.override.linger.ms",
        ),
        (
            "offset.storage.topic = x\nB.offset.storage.topic = y",
            "B.offset.storage.topic",
            "offset.storage.topic",
        ),
    ],
)
def test_a_setting_that_another_one_overrides_says_which(
    files: Files, lines: str, key: str, winner: str
) -> None:
    found, _ = only(files, f"{lines}\n")
    assert reasons(found)[key] == f"{winner} is given, which counts"


def test_what_only_creates_topics_is_named(files: Files) -> None:
    found, config = only(files, "B.admin.request.timeout.ms = 5000\n")
    assert "admin client's alone" in reasons(found)["B.admin.request.timeout.ms"]
    assert config.hub.producer == {}


def test_topics_of_programs_that_mirror_maker_1_took_are_noted(files: Files) -> None:
    found = files.mm1({"whitelist": ".*"})
    (note,) = [it for it in found.notes if it.where.key == "--whitelist"]
    assert note.taken
    assert "_schemas" in note.reason
    assert "--whitelist" not in reasons(files.mm1({"whitelist": "orders"}))


def test_what_is_taken_over_is_not_among_what_is_not(files: Files) -> None:
    found = files.mm1({"whitelist": "x"}, "bootstrap.servers=a:1\nmy.plugin.word=1\n")
    before, _, after = found.text.partition("# To be known:")
    assert "my.plugin.word" not in before
    assert "my.plugin.word: is unknown" in after
    assert "auto.offset.reset: is not given" in after


def test_groups_of_a_checkpoint_connector_are_those_of_its_source(files: Files) -> None:
    beside = {
        **mirror("A"),
        "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "sync.group.offsets.enabled": "true",
        "groups": "app-.*",
    }
    (found,) = many(files, [{"name": "a", "config": mirror("A")}, {"name": "b", "config": beside}])
    assert loaded(found).sources["A"].groups.sync == ["app-.*"]
    beside["source.cluster.alias"] = "other"
    (found,) = many(files, [{"name": "a", "config": mirror("A")}, {"name": "b", "config": beside}])
    assert "sync.group.offsets.enabled" in decisions(found)


def test_a_filter_of_groups_decides_when_groups_are_kept_up(files: Files) -> None:
    found, _ = only(files, "group.filter.class = x.Mine\nsync.group.offsets.enabled = true\n")
    assert decisions(found) == {"group.filter.class"}


def test_files_are_read_as_java_reads_them(files: Files) -> None:
    text = (
        BASE.replace("a.test:9092", "PLAINTEXT://a.test:9092, ${OTHER_BROKER},")
        + "# Größe\nA.consumer.client.rack = \\u0041\\\n    B\nB.producer.client.id = \xfc\n"
    )
    (files.folder / "mm2.properties").write_bytes(text.encode("latin-1"))
    (found,) = finished(ImportRequest(files=[files.folder / "mm2.properties"]), Secrets.ENV)
    config = load_text(found.text, env={"OTHER_BROKER": "c.test:9093"})
    assert config.sources["A"].bootstrap_servers == "a.test:9092,c.test:9093"
    assert config.sources["A"].consumer["client.rack"] == "AB"
    assert config.hub.producer["client.id"] == "ü"
    assert [it.name for it in found.secrets] == ["OTHER_BROKER"]


def test_secrets_of_any_name_become_variables(files: Files) -> None:
    secrets = ("basic.auth.user.info", "schema.registry.basic.auth.user.info", "confluent.license")
    more = "".join(f"{it}=SRKEY:hunter2\n" for it in secrets)
    (found,) = finished(
        ImportRequest(
            consumers=[files.write("consumer.properties", CONSUMER + more)],
            producer=files.write("producer.properties", PRODUCER + more),
            options={"whitelist": ".*"},
        ),
        Secrets.ENV,
    )
    assert "hunter2" not in found.text
    assert "basic.auth.credentials.source" not in found.text
    assert len(found.secrets) == 2 * len(secrets)


def test_logins_of_strimzi_are_put_into_the_words_of_kafka(files: Files) -> None:
    login = (
        "A.security.protocol = SASL_SSL\nA.sasl.mechanism = OAUTHBEARER\nA.sasl.jaas.config = "
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'oauth.client.id="me" oauth.client.secret="hidden" '
        'oauth.token.endpoint.uri="https://login.test/token";\n'
        "A.sasl.login.callback.handler.class = "
        "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler\n"
    )
    found, config = only(files, login)
    assert "hidden" not in found.text
    settings = config.sources["A"].kafka
    assert settings["sasl.oauthbearer.token.endpoint.url"] == "https://login.test/token"
    assert 'clientId="me"' in settings["sasl.jaas.config"]
    assert [it.name for it in found.secrets] == ["A_SASL_JAAS_CLIENTSECRET"]


def test_a_login_line_that_is_none_is_named_at_once(files: Files) -> None:
    login = "security.protocol = SASL_SSL\nsasl.mechanism = PLAIN\n"
    login = f'{BASE}{login}A.sasl.jaas.config = x.PlainLoginModule required a="hidden"\n'
    (found,) = files.of("mm2.properties", login)
    assert "does not end with ';'" in reasons(found)["A.sasl.jaas.config"]
    assert "hidden" not in found.text


def test_an_alias_that_no_topic_can_have_is_named_by_its_key(files: Files) -> None:
    with pytest.raises(ConfigError, match=r"source\.cluster\.alias: only letters"):
        only(files, "source.cluster.alias = my eu\n")
    with pytest.raises(ConfigError, match=r"topics: names no topic"):
        only(files, "topics =\n")
