"""Connectors' configs as people have them, and what each becomes here."""

from __future__ import annotations

import time
from typing import Any

import pytest

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.features.connectors.describe import connector_config
from aggregator.features.connectors.to_source import (
    Translated,
    class_of,
    literal_secrets,
    translate,
)

EMR = {
    "connector.class": "EMRReplicatorSourceConnector",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "src.kafka.bootstrap.servers": "source:9092",
    "src.zookeeper.connect": "source:2181",
    "dest.zookeeper.connect": "dest:2181",
    "topic.whitelist": "connect, a.b",
    "topic.rename.format": "${topic}.replica",
    "src.kafka.max.poll.records": "300",
}
MIRROR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "eu",
    "source.cluster.bootstrap.servers": "eu:9092",
    "target.cluster.bootstrap.servers": "hub:9092",
    "topics": "orders.*, payments",
    "topics.exclude": "orders[.]old",
    "tasks.max": "4",
    "source.consumer.auto.offset.reset": "latest",
}


def with_config(**changes: str) -> dict[str, str]:
    config = {**EMR, **{key.replace("__", "."): value for key, value in changes.items()}}
    return {key: value for key, value in config.items() if value != "-"}


def problems(found: Translated) -> dict[str, str]:
    return {it.path: f"{it.reason}; {it.hint}" for it in found.problems}


def whole(alias: str, source: Any) -> Config:
    references = {"files": ["/ca.pem"], "urls": ["https://registry:1"]}
    text = f"hub: {{bootstrap_servers: 'hub:9092'}}\napi: {{references: {references}}}"
    config = load_text(text, added={alias: source})
    assert list(config.sources) == [alias]
    return config


def test_a_replicator_of_emr() -> None:
    found = translate("connect-test", EMR)
    assert found.problems == ()
    assert found.source == {
        "bootstrap_servers": "source:9092",
        "topics": {"include": ["connect", "a[.]b"]},
        "rename": "${topic}.replica",
        "kafka": {"max.poll.records": "300"},
    }
    assert found.notes == {
        "src.zookeeper.connect": "no ZooKeeper is asked: the brokers know all",
        "dest.zookeeper.connect": "the hub is that of the aggregation's config",
    }
    config = whole("connect-test", found.source)
    assert config.rename_of("connect-test") == "${topic}.replica"


def test_a_source_connector_of_mirrormaker_2() -> None:
    found = translate("eu", MIRROR)
    assert found.problems == ()
    assert found.source == {
        "bootstrap_servers": "eu:9092",
        "topics": {
            "include": ["orders.*", "payments"],
            # What it never takes: what came from the target, and names that begin with a dot.
            "exclude": ["orders[.]old", r"(.*\.)?target\..*[^.].*", r"\..*"],
        },
        "rename": "eu.${topic}",
        "tasks": 4,
        "start": "latest",
    }
    assert whole("eu", found.source).sources["eu"].start == "latest"


@pytest.mark.parametrize(
    ("policy", "rename"),
    [
        ("org.apache.kafka.connect.mirror.DefaultReplicationPolicy", "eu-${topic}"),
        (
            "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            [{"match": ".*heartbeats", "to": "eu-${topic}"}],
        ),
    ],
)
def test_replication_policies(policy: str, rename: Any) -> None:
    words = {"replication.policy.class": policy, "replication.policy.separator": "-"}
    assert translate("eu", {**MIRROR, **words}).source["rename"] == rename


def test_a_policy_of_somebody_else_is_refused() -> None:
    found = translate("eu", {**MIRROR, "replication.policy.class": "com.acme.Policy"})
    assert "Policy names topics in a way of its own" in problems(found)["replication.policy.class"]


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        (
            {"value__converter": "org.apache.kafka.connect.json.JsonConverter"},
            "value.converter",
            "would change records",
        ),
        ({"transforms": "route"}, "transforms", "topics.transform"),
        ({"transforms__route__type": "x"}, "transforms.route.type", "topics.transform"),
        ({"connector__class": "Jdbc"}, "connector.class", "no connector is called Jdbc"),
        ({"topic__whitelist": "-"}, "topic.whitelist", "no topic is named"),
        ({"src__kafka__bootstrap__servers": "-"}, "src.kafka.bootstrap.servers", "not given"),
        ({"tasks__max": "many"}, "tasks.max", "'many' is no number above 0"),
        # A digit to Python, and no number.
        ({"tasks__max": "²"}, "tasks.max", "'²' is no number above 0"),
        ({"name": "other"}, "name", "is other, and the connector is called connect-test"),
        ({"aggregator__on_gaps": "skip"}, "aggregator.on_gaps", "did you mean aggregator.on_gap?"),
        (
            {"src__kafka__sasl__jaas__config": 'x required password="p";'},
            "src.kafka.sasl.jaas.config",
            "holds a secret",
        ),
    ],
)
def test_what_is_refused_names_its_key(changes: dict[str, str], key: str, words: str) -> None:
    found = problems(translate("connect-test", with_config(**changes)))
    assert list(found) == [key]
    assert words in found[key]


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    found = translate("a b", {"transforms": "x", "connector.class": "Y"})
    assert list(problems(found)) == [
        "name",
        "connector.class",
        "transforms",
        "topic.whitelist",
        "src.kafka.bootstrap.servers",
    ]


def test_what_is_not_known_has_no_effect_and_is_noted() -> None:
    found = translate("connect-test", with_config(topic__whitelst="x", vendor__thing="y"))
    assert found.notes["topic.whitelst"] == "is not known; did you mean topic.whitelist?"
    assert found.notes["vendor.thing"] == "is not known"


def test_however_long_a_value_is_it_is_read_at_once() -> None:
    """Who may only read may have it checked, and nothing else runs in Python meanwhile."""
    began = time.monotonic()
    long = ("${" * 100_000, r"\Q" * 100_000, "(," * 50_000, f"a{' ' * 200_000}b", "a" * 200_000)
    for value in long:
        found = translate("eu", {**MIRROR, "topics": value})
        assert found.problems == ()
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("key", ["target.cluster.alias", "replication.policy.separator"])
def test_a_regex_for_names_that_no_topic_has_is_left_out(key: str) -> None:
    found = translate("eu", {**MIRROR, "topics": ".*", key: "x-" * 200_000})
    assert max(map(len, found.source["topics"]["exclude"])) < 3_000
    # It stays for the longest names.
    found = translate("eu", {**MIRROR, "topics": ".*", key: "x-" * 80})
    assert any("x-x" in it for it in found.source["topics"]["exclude"])


def test_a_list_of_mirrormaker_2_means_the_same_in_few_pieces() -> None:
    names = [f"t{it}" for it in range(300)]
    found = translate("eu", {**MIRROR, "topics": f"(x,{','.join(names)},y),z"})
    (include,) = found.source["topics"]["include"]
    assert include == f"(x|{'|'.join(names)}|y)|z"
    found = translate("eu", {**MIRROR, "topics": r" a , \Qb,c\E,\Qd\E ,,(e,f)"})
    assert found.source["topics"]["include"] == ["a", r"\Qb|c\E", r"\Qd\E", "(e|f)"]


def test_what_only_confluents_own_parts_read_has_no_effect_and_is_noted() -> None:
    watching = "io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor"
    more = {
        "src.kafka.timestamps.topic.replication.factor": "1",
        "src.consumer.interceptor.classes": watching,
        "src.consumer.confluent.monitoring.interceptor.bootstrap.servers": "metrics:9092",
        "consumer.override.bootstrap.servers": "source:9092",
    }
    found = translate("connect-test", {**EMR, **more})
    assert (found.problems, found.source) == ((), translate("connect-test", EMR).source)
    assert more.keys() <= found.notes.keys()
    # One that could change records is for the config to refuse.
    own = {**more, "src.consumer.interceptor.classes": f"{watching},com.acme.Mine"}
    assert "interceptor.classes" in translate("connect-test", {**EMR, **own}).source["consumer"]


def test_of_two_words_for_one_thing_the_first_counts() -> None:
    found = translate("connect-test", with_config(source__cluster__bootstrap__servers="b:1"))
    assert found.source["bootstrap_servers"] == "source:9092"
    assert found.notes["source.cluster.bootstrap.servers"] == "src.kafka.bootstrap.servers is given"


def test_a_problem_of_the_whole_config_leads_back_to_its_key() -> None:
    found = translate("connect-test", with_config(aggregator__weight="no"))
    assert found.key_of("kafka.max.poll.records") == "src.kafka.max.poll.records"
    assert found.key_of("bootstrap_servers") == "src.kafka.bootstrap.servers"
    assert found.key_of("topics.include[0]") == "topic.whitelist"
    assert found.key_of("rename") == "topic.rename.format"
    assert found.key_of("weight") == "aggregator.weight"
    assert found.key_of("start") == ""


@pytest.mark.parametrize(
    ("config", "literal"),
    [
        ({"src.kafka.ssl.keystore.password": "x"}, True),
        ({"src.kafka.ssl.keystore.password": "${file:/run/secrets:key}"}, False),
        ({"src.kafka.ssl.keystore.password": "a${env:B}"}, True),
        ({"src.kafka.sasl.jaas.config": 'a.b required username="u" password="p";'}, True),
        ({"src.kafka.sasl.jaas.config": 'a.b required username="u" password="${env:P}";'}, False),
        ({"src.kafka.sasl.jaas.config": "${file:/run/jaas}"}, False),
        ({"src.kafka.ssl.keystore.location": "/a"}, False),
        ({"src.kafka.sasl.oauthbearer.token.endpoint.url": "http://me:pw@host/token"}, True),
        ({"src.kafka.sasl.oauthbearer.token.endpoint.url": "http://me:${env:P}@host"}, False),
    ],
)
def test_secrets_that_stand_there_as_they_are(config: dict[str, str], literal: bool) -> None:
    assert literal_secrets(config) == (list(config) if literal else [])


def test_a_class_may_be_given_without_its_package_or_with_another_one() -> None:
    assert class_of("MirrorSourceConnector") is not None
    assert class_of("com.acme.EMRReplicatorSourceConnector") == "EMRReplicatorSourceConnector"
    assert class_of("com.acme.Other") is None


def test_a_source_of_the_yaml_is_a_connector_that_comes_back_as_the_same_source() -> None:
    yaml = """
hub: {bootstrap_servers: "hub:1"}
sources:
  eu:
    bootstrap_servers: a:1,b:2
    title: The North
    topics: {include: [orders, "pay.*"], exclude: old}
    shared_cluster_id: true
    rename: eu.${topic}
    start: latest
    new_topics: start
    on_gap: skip
    weight: 3
    tasks: 5
    publish_group: true
    groups: {sync: [a, "b.*"], exclude: c, every: 20s}
    acls: {sync: true}
    schemas: {registry: "https://registry:1", ca: /ca.pem}
    max_records_per_second: 10
    max_bytes_per_second: 2kB
    catch_up_records_per_second: 5
    kafka: {client.rack: a}
    consumer: {max.poll.records: 7}
"""
    source = load_text(yaml).sources["eu"]
    # Each key: one that is new has to come back as well.
    assert source.model_fields_set == type(source).model_fields.keys()
    config = connector_config("eu", source, "eu.${topic}")
    found = translate("eu", config)
    assert (found.problems, found.notes) == ((), {})
    again = whole("eu", found.source).sources["eu"]
    apart = {"topics", "groups"}
    assert again.model_dump(exclude=apart) == source.model_dump(exclude=apart)
    assert again.topics.include == ["orders,pay.*"]
    assert (again.groups.wanted, again.groups.every) == (source.groups.wanted, 20.0)


def test_rules_for_names_come_back_as_the_same_rules() -> None:
    rules = """[{match: 'cdc[.](?<n>.*)', to: "raw.${n}"}, {match: "(.*)", to: "${cluster}.$1"}]"""
    yaml = f"""
hub: {{bootstrap_servers: "hub:1"}}
sources: {{eu: {{bootstrap_servers: "e:1", topics: {{include: "a"}}, rename: {rules}}}}}
"""
    source = load_text(yaml).sources["eu"]
    found = translate("eu", connector_config("eu", source, ""))
    assert (found.problems, found.notes) == ((), {})
    assert whole("eu", found.source).sources["eu"].rename == source.rename
