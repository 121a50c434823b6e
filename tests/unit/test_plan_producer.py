"""The settings of a task's producers, for hubs that remember producers for some time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.load import load_text
from aggregator.model.values import TopicFacts
from aggregator.plan.lanes.producer import (
    CLOCKS_MS,
    EXPIRY_MS,
    hub_producer,
    hub_producers,
    recompressed,
    short_expiry,
)
from support.examples import examples

HUB = """
hub: {bootstrap_servers: "h:1"}
sources: {eu: {bootstrap_servers: "e:1", topics: {include: orders}}}
"""
USUAL = {"linger.ms": "1", "enable.idempotence": "true", "delivery.timeout.ms": str(2**31 - 1)}


def test_half_of_what_is_left_of_the_time_is_for_a_record_and_half_for_tries() -> None:
    found = hub_producers(USUAL, EXPIRY_MS)
    assert found.fresh_ms == (EXPIRY_MS - CLOCKS_MS) // 2
    assert found.usual == {**USUAL, "delivery.timeout.ms": str(found.fresh_ms)}


def test_a_hub_that_does_not_say_is_taken_for_one_with_kafkas_default() -> None:
    assert hub_producers(USUAL, None) == hub_producers(USUAL, EXPIRY_MS)
    assert short_expiry(None) == ""


def test_the_careful_producer_sends_nothing_again_and_one_request_at_a_time() -> None:
    careful = hub_producers({**USUAL, "retries": "5"}, EXPIRY_MS).careful
    assert careful["enable.idempotence"] == "false"
    assert careful["retries"] == "0"
    assert careful["max.in.flight.requests.per.connection"] == "1"
    assert careful["request.timeout.ms"] == "300000"


def test_the_numbered_producer_sends_again_as_the_usual_one_and_one_request_at_a_time() -> None:
    for expiry in (EXPIRY_MS, 60_000):
        found = hub_producers(USUAL, expiry)
        assert found.numbered == {
            **found.usual,
            "enable.idempotence": "false",
            "max.in.flight.requests.per.connection": "1",
        }
        assert "retries" not in found.numbered


def test_a_shorter_timeout_of_the_user_stays_and_bounds_a_careful_request() -> None:
    found = hub_producers({**USUAL, "delivery.timeout.ms": "90000"}, EXPIRY_MS)
    assert found.usual["delivery.timeout.ms"] == "90000"
    assert found.careful["request.timeout.ms"] == "89999"
    assert found.careful["delivery.timeout.ms"] == "90000"


def test_a_hub_that_forgets_at_once_gets_everything_carefully_and_is_named() -> None:
    found = hub_producers(USUAL, 60_000)
    assert found.fresh_ms == 0
    assert "producer.id.expiration.ms" in short_expiry(60_000)
    assert short_expiry(EXPIRY_MS) == ""


def test_topics_whose_brokers_compress_otherwise_than_the_producer_are_found() -> None:
    kinds = ("producer", "uncompressed", "lz4", "zstd")
    topics = [TopicFacts(kind, kind, 1, 1, compression_type=kind) for kind in kinds]
    assert recompressed(topics, "lz4") == {"uncompressed", "zstd"}
    assert recompressed(topics[:1], "zstd") == frozenset()


@examples(200)
@given(expiry=st.integers(1, 2**31 - 1), delivery=st.integers(30_001, 2**31 - 1))
def test_the_usual_producer_gives_up_before_the_hub_forgets(expiry: int, delivery: int) -> None:
    found = hub_producers({**USUAL, "delivery.timeout.ms": str(delivery)}, expiry)
    if found.fresh_ms:
        tries = int(found.usual["delivery.timeout.ms"])
        assert found.fresh_ms + tries <= expiry - min(CLOCKS_MS, expiry // 4)
        assert tries >= 30_001
        assert tries <= delivery


def test_both_come_out_of_the_settings_of_the_hub() -> None:
    config = load_text(HUB)
    found = hub_producers(hub_producer(config, [], []), None)
    assert found.usual["acks"] == found.careful["acks"] == "all"
    assert found.usual["enable.idempotence"] == "true"


def test_zstd_is_used_at_its_cheapest_level_unless_one_is_given() -> None:
    zstd = "hub: {bootstrap_servers: h:1, producer: {compression.type: zstd%s}}\nsources: {}\n"
    assert hub_producer(load_text(zstd % ""), [], [])["compression.zstd.level"] == "1"
    given = zstd % ", compression.zstd.level: 5"
    assert hub_producer(load_text(given), [], [])["compression.zstd.level"] == "5"
    assert "compression.zstd.level" not in hub_producer(load_text(HUB), [], [])
