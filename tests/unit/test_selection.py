"""Which topics are taken: full match, exclude wins, what belongs to programs by name alone."""

import pytest

from aggregator.config.topics import TopicSelection
from aggregator.model.errors import ConfigError
from aggregator.plan.topics.selection import Selection, literal_names


@pytest.mark.parametrize(
    ("include", "exclude", "topic", "taken"),
    [
        (("orders",), (), "orders", True),
        (("orders",), (), "orders2", False),
        (("orders",), (), "my-orders", False),
        (("orders|payments[.].*",), (), "payments.eu", True),
        (("orders|payments[.].*",), (), "payments", False),
        (("a", "b"), (), "b", True),
        ((".*",), ("b.*",), "bb", False),
        ((".*",), ("b",), "bb", True),
        (("bb",), ("b.*",), "bb", False),
        ((), (), "a", False),
        ((".*",), (), "__consumer_offsets", False),
        ((".*",), (), "mm2-offsets.eu.internal", False),
        ((".*",), (), "mm2-offset-syncs.eu.internal", False),
        ((".*",), (), "eu.checkpoints.internal", False),
        ((".*",), (), "my.internal", True),
        ((".*",), (), "heartbeats", False),
        (("heart.*",), (), "heartbeats", False),
        (("heartbeats",), (), "heartbeats", True),
        (("orders|heartbeats",), (), "heartbeats", True),
        (("__consumer_offsets",), (), "__consumer_offsets", True),
        (("_schemas", ".*"), (), "_schemas", True),
        (("_schemas", ".*"), ("_sch.*",), "_schemas", False),
        ((r"\Qcdc.orders\E",), (), "cdc.orders", True),
        ((r"\Qcdc.orders\E",), (), "cdcxorders", False),
        ((r"[\p{Alpha}.]+",), (), "cdc.orders", True),
        ((r"[\p{Alpha}.]+",), (), "cdc.orders2", False),
    ],
)
def test_matches(
    include: tuple[str, ...], exclude: tuple[str, ...], topic: str, taken: bool
) -> None:
    assert Selection(include, exclude).matches(topic) is taken


THEIRS = {
    "Kafka itself": ["__consumer_offsets", "__transaction_state", "__amazon_msk_canary"],
    "MirrorMaker": [
        *("heartbeats", "eu.heartbeats", "eu.checkpoints.internal"),
        *("mm2-configs.eu.internal", "mm2-offset-syncs.eu.internal", "mm2-status.eu.internal"),
    ],
    "Kafka Connect": [
        *("connect-configs", "connect-offsets", "connect-status", "_connect_configs"),
        *("docker-connect-offsets", "my-connect-status", "my_connect_statuses"),
        *("connect-cluster-configs", "mirrormaker2-cluster-offsets", "confluent.connect-status"),
        *("prod-cp-kafka-connect-config", "eu.connect-configs"),
    ],
    "a schema registry": ["_schemas", "_schemas_eu", "kafkasql-journal"],
    "Confluent's platform": ["_confluent-metrics", "_confluent-ksql-default__command_topic"],
    "Strimzi": ["__strimzi_store_topic", "strimzi.cruisecontrol.metrics", "strimzi-canary"],
}
USERS = ["orders", "connect", "connections", "order-status", "reconnect-status-log", "schemas"]


@pytest.mark.parametrize(("owner", "topic"), [(o, t) for o, found in THEIRS.items() for t in found])
def test_a_topic_of_a_program_is_taken_only_by_its_name(owner: str, topic: str) -> None:
    why = f"a topic of {owner}, taken only when include names it"
    assert Selection((".*",)).reason_not(topic) == why
    assert Selection((f".*|{topic}",)).matches(topic)
    assert Selection((".*", topic.replace(".", "[.]"))).matches(topic)
    # What no one asked for needs no further reason.
    assert Selection(("orders",)).reason_not(topic) == "not included"


@pytest.mark.parametrize("topic", USERS)
def test_topics_of_users_are_meant_by_a_regex(topic: str) -> None:
    assert Selection((".*",)).matches(topic)


def test_what_kafka_streams_keeps_is_left_out_by_choice() -> None:
    topics = ["app-counts-changelog", "app-by-key-repartition"]
    assert all(Selection((".*",)).matches(topic) for topic in topics)
    chosen = Selection((".*", topics[0]), streams=True)
    assert [chosen.matches(topic) for topic in topics] == [True, False]
    assert "a topic of Kafka Streams" in str(chosen.reason_not(topics[1]))


def test_a_topic_its_cluster_calls_internal_is_taken_only_by_its_name() -> None:
    assert not Selection((".*",)).matches("orders", internal=True)
    assert "a topic of Kafka itself" in str(Selection((".*",)).reason_not("orders", internal=True))
    assert Selection(("orders",)).matches("orders", internal=True)


def test_the_reason_names_the_pattern() -> None:
    assert Selection((".*",), ("x", "b+")).reason_not("bb") == "excluded by 'b+'"
    assert Selection(("a",)).reason_not("b") == "not included"


def test_commas_and_lists_of_the_config() -> None:
    assert Selection.of(TopicSelection(include="a, b", exclude="c")) == Selection(
        ("a", "b"), ("c",)
    )
    assert Selection.of(TopicSelection(include=["a", "b"])) == Selection(("a", "b"), ())


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", ("orders",)),
        ("a.b", ("a.b",)),
        ("a[.]b", ("a.b",)),
        (r"a\.b", ("a.b",)),
        ("a|b", ("a", "b")),
        ("a|b.*", ("a",)),
        ("(a|b)", ()),
        (r"\Qa.b\E|c", ("a.b", "c")),
        (".*", ()),
    ],
)
def test_literal_names(pattern: str, names: tuple[str, ...]) -> None:
    assert literal_names(pattern) == names


def test_a_bad_regex_is_a_config_error_with_every_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        Selection(("a(",), ("[",))
    assert len(caught.value.problems) == 2
    assert "'a('" in str(caught.value)
