"""Clients of clusters are kept from one question to the next, while they answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException

from aggregator.config import load_text
from aggregator.kafka.admin import (
    HUB,
    AdminPool,
    ClusterAdmin,
    ClusterCallError,
    by_partition,
    client_of,
    each_cluster,
)
from aggregator.kafka.admin.all_clusters import failures_of
from aggregator.model.errors import ClusterError
from aggregator.model.values import FailureKind, SourcePartition, TopicPartition

CONFIG = load_text(
    "",
    [
        "hub.bootstrap_servers=127.0.0.1:9",
        "sources.eu.bootstrap_servers=127.0.0.1:10",
        "sources.eu.topics.include=orders",
        "sources.us.bootstrap_servers=127.0.0.1:11",
        "sources.us.topics.include=orders",
    ],
)


@pytest.fixture
def pool() -> Iterator[AdminPool]:
    with AdminPool(CONFIG) as made:
        yield made


def is_closed(admin: ClusterAdmin) -> bool:
    try:
        admin.client.poll(0)
    except ClusterCallError:
        return True
    return False


def test_who_asks_again_has_the_same_client(pool: AdminPool) -> None:
    with pool.use("eu") as first, pool.use(HUB) as hub:
        assert first is not hub
    with pool.use("eu") as second, client_of(CONFIG, HUB, pool) as again:
        assert (second, again) == (first, hub)
    assert not is_closed(first)


def test_one_that_failed_is_closed_and_the_next_is_new(pool: AdminPool) -> None:
    with pytest.raises(KafkaException), pool.use("eu") as failing:
        raise KafkaException
    assert is_closed(failing)
    with pool.use("eu") as next_one:
        assert next_one is not failing


def test_two_at_once_have_two_and_one_is_kept(pool: AdminPool) -> None:
    with pool.use("eu") as one:
        with pool.use("eu") as other:
            assert one is not other
        assert not is_closed(other)
    assert is_closed(one)
    with pool.use("eu") as kept:
        assert kept is other


def test_with_the_pool_all_are_closed_and_one_in_use_when_it_was_used() -> None:
    pool = AdminPool(CONFIG)
    with pool.use(HUB) as kept:
        pass
    with pool.use("eu") as used:
        pool.close()
        assert is_closed(kept)
        assert not is_closed(used)
    assert is_closed(used)


def test_without_a_pool_it_is_closed_with_the_block() -> None:
    with client_of(CONFIG, "eu", None) as admin:
        assert not is_closed(admin)
    assert is_closed(admin)


def test_a_cluster_that_hangs_or_fails_costs_its_own_answer_only() -> None:
    over = threading.Event()

    def ask(admin: ClusterAdmin) -> str:
        if admin.alias == "eu":
            over.wait()
        if admin.alias == "us":
            raise ValueError("odd")
        return f"asked {admin.alias}"

    began = time.monotonic()
    replies = each_cluster(CONFIG, ("eu", "us", HUB), ask, seconds=2.0)
    assert time.monotonic() - began < 60
    over.set()
    assert replies.ok == {HUB: "asked (hub)"}
    assert [*replies.failed] == ["eu", "us"]
    failures = failures_of(replies)
    assert failures["eu"].kind is FailureKind.TIMEOUT
    assert failures["us"].reason == "ValueError: odd"
    assert replies.of(HUB) == "asked (hub)"
    with pytest.raises(ClusterError, match="no answer within 3 s"):
        replies.of("eu")
    with pytest.raises(ClusterError, match="us: odd"):
        replies.of("us")


def test_clusters_are_asked_by_the_clients_that_are_there(pool: AdminPool) -> None:
    with pool.use("eu") as kept:
        pass
    used = each_cluster(CONFIG, ("eu",), lambda admin: admin, clients=pool).of("eu")
    assert used is kept
    assert not is_closed(used)
    assert is_closed(each_cluster(CONFIG, ("eu",), lambda admin: admin).of("eu"))


def test_what_sources_answer_is_named_by_its_partitions() -> None:
    found = {"eu": {TopicPartition("orders", 1): 5}, "us": {TopicPartition("orders", 1): 7}}
    assert by_partition(found) == {
        SourcePartition("eu", "orders", 1): 5,
        SourcePartition("us", "orders", 1): 7,
    }
