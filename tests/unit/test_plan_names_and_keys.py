"""Hub topic names by Kafka's rules, and the partition a key goes to by Kafka's murmur2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.plan.lanes.murmur2 import murmur2, partition_for_key
from aggregator.plan.topics.naming import (
    colliding_names,
    hub_topic_name,
    source_topic,
    topic_name_problem,
)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("${topic}", "orders"),
        ("${cluster}.${topic}", "eu.orders"),
        ("${topic}.replica", "orders.replica"),
        ("all", "all"),
    ],
)
def test_hub_topic_name(template: str, name: str) -> None:
    assert hub_topic_name(template, "eu", "orders") == name


def test_a_topic_that_looks_like_a_template_is_not_filled_in_twice() -> None:
    assert hub_topic_name("${topic}-${cluster}", "eu", "${cluster}") == "${cluster}-eu"


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "a" * 249, "..."])
def test_legal_names(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "says"),
    [("", "empty"), (".", "no topic"), ("..", "no topic"), ("a" * 250, "250"), ("a b/é", "'/'")],
)
def test_illegal_names(name: str, says: str) -> None:
    assert says in str(topic_name_problem(name))


def test_names_that_metrics_cannot_distinguish() -> None:
    assert colliding_names(["a.b", "a_b", "a-b", "c"]) == [("a.b", "a_b")]
    assert colliding_names(["a.b", "a.b"]) == []


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_as_in_kafkas_own_tests(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_a_key_lands_on_an_existing_partition(key: bytes, partitions: int) -> None:
    assert -(2**31) <= murmur2(key) < 2**31
    assert 0 <= partition_for_key(key, partitions) < partitions


def test_a_negative_hash_loses_its_sign_bit_as_in_java() -> None:
    assert partition_for_key(b"21", 12) == ((-973932308) & 0x7FFFFFFF) % 12


@pytest.mark.parametrize(
    ("template", "hub_topic", "topic"),
    [
        ("${topic}", "orders", "orders"),
        ("${cluster}.${topic}", "eu.orders", "orders"),
        ("${cluster}.${topic}", "us.orders", None),
        ("${topic}.replica", "orders", None),
        ("${topic}.${topic}", "a.a", "a"),
        ("${topic}.${topic}", "a.b", None),
        ("all", "all", ""),
        ("all", "al", None),
    ],
)
def test_the_source_topic_behind_a_hub_topic(
    template: str, hub_topic: str, topic: str | None
) -> None:
    assert source_topic(template, "eu", hub_topic) == topic
