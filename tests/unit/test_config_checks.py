"""Kafka settings that are refused, mistyped or surprising; a hub that is its own source."""

from __future__ import annotations

import json

import pytest

from aggregator.config import load_text, warnings
from aggregator.config.kafka_names import READERS
from aggregator.model.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def text_of(kafka: str = "{}", consumer: str = "{}", hub: str = "hub:9092") -> str:
    return f"""
hub: {{bootstrap_servers: "{hub}"}}
sources:
  eu:
    bootstrap_servers: "eu:9092"
    topics: {{include: a}}
    kafka: {kafka}
    consumer: {consumer}
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_text(text, env={})
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            "auto.offset.reset: latest",
            "auto.offset.reset: refused: positions come from the"
            " checkpoint (use start: of the source)",
        ),
        (
            "bootstrap.servers: x",
            "bootstrap.servers: refused: belongs outside this map"
            " (use bootstrap_servers: of the cluster)",
        ),
        (
            "enable.auto.commit: false",
            "enable.auto.commit: refused: offsets are kept in the"
            " checkpoint, never in a group (remove it)",
        ),
        ("group.id: x", "group.id: refused: no consumer group is used (we use none; remove it)"),
        (
            "interceptor.classes: x",
            "interceptor.classes: refused: it could change a record behind our back (remove it)",
        ),
        (
            "key.deserializer: x",
            "key.deserializer: refused: records are copied as bytes"
            " (the aggregator sets it itself; remove it)",
        ),
        (
            "value.serializer: x",
            "value.serializer: refused: records are copied as bytes"
            " (the aggregator sets it itself; remove it)",
        ),
        (
            "minPartitions: 9",
            "minPartitions: refused: splitting a partition breaks the order of"
            " its records (remove it)",
        ),
        (
            "transactional.id: x",
            "transactional.id: refused: nothing is written in transactions,"
            " so every write would fail (the aggregator sets it itself; remove it)",
        ),
        (
            "enable.idempotence: false",
            "enable.idempotence: refused: a retried request could write twice (remove it)",
        ),
        ("acks: 1", "acks: refused: a record could be lost with one broker (remove it)"),
        ("retries: 0", "retries: refused: any hiccup of a broker would end the query (remove it)"),
        (
            "max.in.flight.requests.per.connection: 6",
            "max.in.flight.requests.per.connection:"
            " refused: an idempotent producer keeps order with at most 5 (remove it)",
        ),
        (
            "kafka.client.id: x",
            "kafka.client.id: a setting has no 'kafka.' in front here (did you mean client.id?)",
        ),
        (
            "secrity.protocol: SSL",
            "secrity.protocol: unknown Kafka setting (did you mean security.protocol?)",
        ),
        (
            "SSL.Truststore_location: x",
            "SSL.Truststore_location: unknown Kafka setting"
            " (did you mean ssl.truststore.location?)",
        ),
        (
            "sasl.username: x",
            "sasl.username: is a setting of librdkafka (the Java name is sasl.jaas.config)",
        ),
        (
            "sasl.mechanisms: x",
            "sasl.mechanisms: is a setting of librdkafka (the Java name is sasl.mechanism)",
        ),
        ("request.timeout.ms: 10s", "request.timeout.ms: '10s' is not a whole number"),
    ],
)
def test_refused_settings(setting: str, expected: str) -> None:
    assert problems_of(text_of(f"{{{setting}}}")) == [f"sources.eu.kafka.{expected}"]


@pytest.mark.parametrize(
    "setting",
    [
        "acks: all",
        "acks: -1",
        "enable.idempotence: true",
        "retries: 3",
        "max.in.flight.requests.per.connection: 5",
        "schema.registry.url: x",
        "oauth.client.id: x",
        "oauth.token.endpoint.uri: x",
        "my.plugin: x",
    ],
)
def test_settings_that_pass(setting: str) -> None:
    load_text(text_of(f"{{{setting}}}"), env={})


def test_every_map_of_settings_is_checked() -> None:
    text = text_of("{acks: 0}", "{group.id: x}").replace(
        'hub:9092"', 'hub:9092", kafka: {retries: 0}, producer: {linger.msec: 1}'
    )
    assert [problem.split(": ")[0] for problem in problems_of(text)] == [
        "hub.kafka.retries",
        "hub.producer.linger.msec",
        "sources.eu.kafka.acks",
        "sources.eu.consumer.group.id",
    ]


@pytest.mark.parametrize(
    ("place", "setting", "wanted"),
    [
        ("consumer", "fetch.max.bytes: 1MB", "consumer.fetch.max.bytes: '1MB'"),
        ("kafka", "max.partition.fetch.bytes: '1e6'", "kafka.max.partition.fetch.bytes: '1e6'"),
        ("kafka", "request.timeout.ms: 5s", "kafka.request.timeout.ms: '5s'"),
        ("consumer", "request.timeout.ms: 1.5", "consumer.request.timeout.ms: '1.5'"),
    ],
)
def test_a_number_of_kafka_with_a_unit_is_refused_once(
    place: str, setting: str, wanted: str
) -> None:
    """A client refuses it with the words of its library, and only when it is made."""
    (problem,) = problems_of(text_of(**{place: f"{{{setting}}}"}))
    assert problem.startswith(f"sources.eu.{wanted} is not a whole number")


def test_numbers_of_kafka_may_be_negative_where_it_takes_them() -> None:
    load_text(text_of(consumer="{send.buffer.bytes: -1, fetch.max.wait.ms: ' 7 '}"), env={})


@pytest.mark.parametrize("name", sorted(READERS))
def test_no_name_of_a_java_client_is_unknown(name: str) -> None:
    text = text_of(f"{{{name}: '7'}}")
    try:
        config = load_text(text, env={})
    except ConfigError as error:
        assert "unknown" not in str(error)
    else:
        assert not [line for line in warnings(config) if "unknown" in line]


@pytest.mark.parametrize(
    ("hub", "named"),
    [("eu:9092", "eu:9092"), ("x:1, EU:9092", "eu:9092"), ("y:1", "")],
)
def test_the_hub_is_not_its_own_source(hub: str, named: str) -> None:
    if not named:
        load_text(text_of(hub=hub), env={})
        return
    assert problems_of(text_of(hub=hub)) == [
        f"sources.eu.bootstrap_servers: {named} is the hub (a hub cannot be its own source)"
    ]


def test_names_of_this_machine_are_one_host() -> None:
    text = text_of(hub="localhost:9092").replace("eu:9092", "127.0.0.1:9092")
    assert problems_of(text) == [
        "sources.eu.bootstrap_servers: localhost:9092 is the hub (a hub cannot be its own source)"
    ]


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("retries: 3", "no client of a source reads this, so it has no effect; take it out"),
        ("linger.ms: 3", "no client of a source reads this, so it has no effect; take it out"),
        (
            "session.timeout.ms: 9",
            "has no effect: partitions are assigned by hand, not by a consumer group; take it out",
        ),
        (
            "max.poll.interval.ms: 9",
            "has no effect: partitions are assigned by hand, not by a consumer group; take it out",
        ),
        (
            "auto.commit.interval.ms: 9",
            "has no effect: positions are kept in the checkpoint; take it out",
        ),
    ],
)
def test_a_setting_without_effect_is_warned_of(setting: str, reason: str) -> None:
    name = setting.split(":")[0]
    config = load_text(text_of(f"{{{setting}}}"), env={})
    assert warnings(config) == [f"sources.eu.kafka.{name}: {reason}"]


def test_what_the_clients_read_is_not_warned_of() -> None:
    kafka = "{client.dns.lookup: use_all_dns_ips, request.timeout.ms: 9000, fetch.min.bytes: 5}"
    assert warnings(load_text(text_of(kafka, "{max.poll.records: 5}"), env={})) == []
    hub = text_of().replace('hub:9092"', 'hub:9092", kafka: {linger.ms: 5, retries: 7}')
    assert warnings(load_text(hub, env={})) == [
        "hub.kafka.retries: a producer that gives up ends its lane; take it out, so that it waits"
    ]


@pytest.mark.parametrize(
    ("kafka", "expected"),
    [
        (
            "{sasl.mechanism: PLAIN, sasl.jaas.config: x}",
            ["sasl.mechanism and 1 more: without effect unless security.protocol is SASL_SSL"],
        ),
        (
            "{security.protocol: SSL, sasl.mechanism: PLAIN}",
            ["sasl.mechanism: without effect unless security.protocol is SASL_SSL"],
        ),
        (
            "{security.protocol: PLAINTEXT, ssl.key.password: x}",
            ["ssl.key.password: without effect unless security.protocol is SSL or SASL_SSL"],
        ),
        ("{security.protocol: SSL, ssl.key.password: x}", []),
    ],
)
def test_a_login_or_tls_that_is_not_used_is_warned_of(kafka: str, expected: list[str]) -> None:
    """A broker that takes connections without it as well would be read all the same."""
    found = warnings(load_text(text_of(kafka), env={}))
    assert found == [f"sources.eu.kafka.{it}" for it in expected]


def test_a_quiet_config_has_no_warnings() -> None:
    assert warnings(load_text(text_of(), env={})) == []


def test_a_server_that_many_sources_name_is_one_warning() -> None:
    source = {"bootstrap_servers": "s:1,t:1", "topics": {"include": "x"}}
    sources = {f"s{number}": source for number in range(50)}
    tree = {"hub": {"bootstrap_servers": "hub:1"}, "sources": sources}
    assert warnings(load_text(json.dumps(tree), env={})) == [
        "sources.s0 and 49 more: share s:1; topics that several of them take arrive twice"
    ]


def test_warnings() -> None:
    config = load_text(
        f"""
hub:
  bootstrap_servers: "hub:1"
  kafka:
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    sasl.jaas.config: {PLAIN} username="u" password="p";
    my.plugin: x
  producer: {{partitioner.class: x, fetch.min.bytes: 1}}
sources:
  a: {{bootstrap_servers: "s:1,t:1", topics: {{include: x}}}}
  b:
    bootstrap_servers: "t:1"
    topics: {{include: x}}
    kafka: {{security.protocol: SSL, ssl.endpoint.identification.algorithm: ""}}
    consumer: {{isolation.level: read_uncommitted, ssl.key.password: x}}
api: {{listen: "0.0.0.0:8083", read_token: aaaaaaaaaaaaaaaa, write_token: aaaaaaaaaaaaaaaa}}
""",
        env={},
    )
    assert warnings(config) == [
        "sources.b: shares t:1 with sources.a; topics that both take arrive twice",
        "hub.kafka.my.plugin: unknown to Kafka's clients, passed on for a plugin to read",
        "hub.kafka.security.protocol: the password travels unencrypted; use SASL_SSL",
        "hub.producer.partitioner.class: has no effect: topics.partition_by says where a record"
        " goes; take it out",
        "hub.producer.fetch.min.bytes: no producer reads this, so it has no effect",
        "sources.b.kafka.ssl.endpoint.identification.algorithm: the broker's name is not checked"
        " against its certificate",
        "sources.b.consumer.isolation.level: records of aborted transactions are copied",
        "sources.b.consumer.ssl.key.password: the admin client needs it too; put it under kafka",
        "api.listen: on 0.0.0.0:8083 tokens travel unencrypted; set api.tls",
        "api.read_token: equals write_token, so every reader may change things",
    ]
