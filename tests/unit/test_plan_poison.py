"""What the hub would refuse of a route, and the quarantine topic: only rules that can apply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.datapath.spark.lane_settings import lane_settings
from aggregator.model.values import ClusterFacts, Discovery, Limits, PoisonRule, TopicFacts
from aggregator.plan.actions import AlterConfigs, CreateTopic
from aggregator.plan.plan import Plan, make_plan
from aggregator.plan.topics.refused_records import (
    CUT_OFF,
    NO_ANSWER,
    NOT_NEXT,
    STUCK,
    after_refusal,
    is_of_the_hub,
    is_refusal,
)

HOUR = 3_600_000
MAX = 1_048_588
ROOM = {"max_message_bytes": 2 * MAX}
PLAIN: dict[str, Any] = {"producer": {"compression.type": "none"}}


def config(hub: dict[str, Any] | None = None, **topics: Any) -> Config:
    tree = {
        "hub": {"bootstrap_servers": "h:1", **(hub or {})},
        "sources": {"eu": {"bootstrap_servers": "a:1", "topics": {"include": ".*"}}},
        "topics": topics,
    }
    return Config.model_validate(tree)


def topic(name: str, **facts: Any) -> TopicFacts:
    return TopicFacts(name, name, 2, 1, **facts)


def plan(
    cfg: Config,
    hub: dict[str, Any] | None = None,
    quarantine: dict[str, Any] | None = None,
    **source: Any,
) -> Plan:
    """The plan for a source topic `orders`, with the hub's topics as they are now, if they are."""
    eu = ClusterFacts("eu", "EU", 1, {"orders": topic("orders", **source)})
    topics = {"orders": hub, "central.quarantine": quarantine}
    there = {name: topic(name, **facts) for name, facts in topics.items() if facts is not None}
    return make_plan(cfg, Discovery({"eu": eu}), ClusterFacts("hub", "H", 1, there))


def rule(cfg: Config, hub: dict[str, Any] | None = None, **source: Any) -> PoisonRule:
    (route,) = plan(cfg, hub, **source).routes
    return route.poison


def test_what_a_created_topic_takes_from_its_source_needs_no_rule() -> None:
    source: dict[str, Any] = {"compression_type": "uncompressed"}
    assert rule(config(PLAIN), **source).limits == Limits()
    assert rule(config(), **source).limits == Limits()


def test_a_producer_that_does_not_compress_meets_records_that_were_compressed() -> None:
    assert rule(config(PLAIN)).limits == Limits(max_bytes=MAX + 2048)
    # As the broker weighs it, whatever the producer does.
    assert rule(config(sync_configs=False), {"compression_type": "uncompressed"}).limits == Limits(
        max_bytes=MAX
    )


def test_with_compression_the_size_is_not_known_until_something_is_refused() -> None:
    found = rule(config(sync_configs=False), {"max_message_bytes": 100_000})
    assert found.limits == Limits()
    # What does not compress grows a little.
    assert found.once_refused.max_bytes is not None
    assert 98_000 < found.once_refused.max_bytes < 99_900


def test_the_limits_are_those_after_the_plans_actions() -> None:
    small = {"max_message_bytes": 100_000, "timestamp_after_max_ms": HOUR}
    altered = rule(config(PLAIN), small, compression_type="uncompressed")
    assert altered.limits == Limits()
    by_hand = rule(config(PLAIN, sync_configs=False), small, compression_type="uncompressed")
    assert by_hand.limits == Limits(max_bytes=100_000, ahead_ms=HOUR - 1_000)


@pytest.mark.parametrize(
    ("hub", "source", "ahead"),
    [
        ({"timestamp_after_max_ms": HOUR}, {}, True),
        ({"timestamp_after_max_ms": HOUR}, {"timestamp_after_max_ms": HOUR}, False),
        ({"timestamp_after_max_ms": HOUR}, {"timestamp_type": "LogAppendTime"}, False),
        ({"timestamp_after_max_ms": HOUR, "timestamp_type": "LogAppendTime"}, {}, False),
        ({}, {}, False),
    ],
)
def test_a_bound_ahead_counts_where_the_source_allows_more(
    hub: dict[str, Any], source: dict[str, Any], ahead: bool
) -> None:
    limits = rule(config(sync_configs=False), {**ROOM, **hub}, **source).limits
    assert limits == (Limits(ahead_ms=HOUR - 1_000) if ahead else Limits())


def test_a_bound_behind_counts_always_because_records_age() -> None:
    hub = {**ROOM, "timestamp_before_max_ms": HOUR}
    found = rule(config(sync_configs=False), hub, timestamp_before_max_ms=HOUR)
    assert found.limits == Limits(behind_ms=HOUR - 5_000)
    assert found.once_refused.behind_ms == HOUR - 605_000
    tiny = rule(config(sync_configs=False), {**ROOM, "timestamp_before_max_ms": 1_000})
    assert tiny.limits == Limits(behind_ms=500)


def test_a_key_is_required_where_only_the_hub_compacts() -> None:
    hub = {**ROOM, "cleanup_policy": "compact,delete"}
    assert rule(config(), hub).limits == Limits(key_required=True)
    both = rule(config(), hub, cleanup_policy="compact")
    assert (both.limits, both.once_refused.key_required) == (Limits(), True)
    changed = rule(config(transform="a:b"), hub, cleanup_policy="compact")
    assert changed.limits == Limits(key_required=True)


def test_the_producers_own_bound_counts_too() -> None:
    hub = {"producer": {"compression.type": "none", "max.request.size": "50000"}}
    assert rule(config(hub)).limits == Limits(max_bytes=50_000 - 17)


def test_stop_has_no_quarantine_topic() -> None:
    result = plan(config(on_poison="stop"))
    assert result.routes[0].poison.quarantine == ""
    assert [action.name for action in result.actions] == ["orders"]
    overridden = plan(config(overrides={"orders": {"on_poison": "stop"}}))
    assert [action.name for action in overridden.actions] == ["orders"]


def test_the_quarantine_topic_is_created_to_keep_everything() -> None:
    result = plan(config(replication_factor=1))
    assert result.actions[-1] == CreateTopic(
        "central.quarantine",
        1,
        1,
        {
            "cleanup.policy": "delete",
            "max.message.bytes": str(MAX + 4096),
            "message.timestamp.type": "LogAppendTime",
            "retention.bytes": "-1",
            "retention.ms": "-1",
        },
    )
    assert result.routes[0].poison.quarantine == "central.quarantine"
    assert result.hub_topics["central.quarantine"].partitions == 1
    plain = plan(config(PLAIN)).routes[0].poison
    assert plain.quarantine_bytes == MAX + 4096
    named = plan(config(quarantine="poison.${name}"))
    assert named.actions[-1].name == "poison.central"


def test_an_existing_quarantine_topic_is_mended_or_warned_of() -> None:
    quarantine = {"max_message_bytes": 500}
    synced = plan(config(), quarantine=quarantine)
    assert synced.actions[-1] == AlterConfigs(
        "central.quarantine",
        {
            "max.message.bytes": (None, str(MAX + 4096)),
            "message.timestamp.type": (None, "LogAppendTime"),
        },
    )
    by_hand = plan(config(PLAIN, sync_configs=False), quarantine=quarantine)
    assert [action.name for action in by_hand.actions] == ["orders"]
    assert any("LogAppendTime" in it or "CreateTime" in it for it in by_hand.warnings)
    assert by_hand.routes[0].poison.quarantine_bytes == 500
    fits = {"max_message_bytes": MAX + 4096, "timestamp_type": "LogAppendTime"}
    assert [action.name for action in plan(config(), quarantine=fits).actions] == ["orders"]


@pytest.mark.parametrize(
    ("topics", "quarantine", "words"),
    [
        ({"create": False}, None, "set topics.on_poison: stop"),
        ({}, {"cleanup_policy": "compact"}, "set cleanup.policy=delete"),
    ],
)
def test_a_quarantine_topic_that_cannot_be_is_refused(
    topics: dict[str, Any], quarantine: dict[str, Any] | None, words: str
) -> None:
    refusals = plan(config(**topics), {}, quarantine).refusals
    assert any(words in refusal and "quarantine topic" in refusal for refusal in refusals)


def test_a_topic_that_would_flow_into_the_quarantine_topic_is_left_out() -> None:
    found = plan(config(quarantine="orders"))
    assert (found.routes, found.refusals) == ((), ())
    assert "it would flow into the quarantine topic orders" in found.refused[0].reason


@pytest.mark.parametrize("name", ["${topic}.q", "with space", "", "a" * 250])
def test_a_bad_quarantine_name_is_refused_with_the_config(name: str) -> None:
    with pytest.raises(ValueError, match="quarantine"):
        config(quarantine=name)


def test_the_placeholder_of_the_name_is_no_reference() -> None:
    cfg = load_text(
        """
        name: shop
        hub: {bootstrap_servers: "h:1"}
        sources: {eu: {bootstrap_servers: "a:1", topics: {include: x}}}
        topics: {quarantine: "${name}.dead", duplicates: "${name}.twice"}
        """
    )
    assert cfg.topics.quarantine == "${name}.dead"
    assert cfg.topics.duplicates == "${name}.twice"


def test_a_lane_is_not_started_again_for_what_its_query_does_not_use() -> None:
    before = PoisonRule("q", Limits(max_bytes=5), 100, Limits(max_bytes=5))
    assert before == PoisonRule("q", Limits(max_bytes=5), 200, Limits(max_bytes=6))
    assert before != PoisonRule("q", Limits(max_bytes=6), 100, Limits(max_bytes=5))


def producer(cfg: Config, of: Plan) -> Mapping[str, str]:
    return lane_settings(cfg, of, of.pace, {}).clients.producer


def test_a_batch_never_exceeds_what_any_hub_topic_takes() -> None:
    """A producer cannot split it: what is larger would be refused for ever (KAFKA-8350)."""
    cfg = config(sync_configs=False)
    assert producer(cfg, plan(cfg, {"max_message_bytes": 20_000}))["batch.size"] == "20000"
    assert producer(cfg, plan(cfg))["batch.size"] == "131072"


def test_requests_have_room_for_what_a_source_takes() -> None:
    found = producer(config(), plan(config(), max_message_bytes=100_000_000))
    assert int(found["max.request.size"]) >= 200_000_000
    assert int(found["buffer.memory"]) >= 400_000_000


@pytest.mark.parametrize("size", [1_200_000_000, 2**31 - 1])
def test_a_producer_starts_and_leaves_the_heap_to_others_whatever_a_source_would_take(
    size: int,
) -> None:
    found = producer(config(), plan(config(), max_message_bytes=size))
    # An eighth, and a quarter, of two gigabytes.
    assert found["max.request.size"] == str(2**28)
    assert found["buffer.memory"] == str(2**29)


@pytest.mark.parametrize(
    ("failure", "refused"),
    [
        ("org.apache.kafka.common.errors.RecordTooLargeException: The message is 5 bytes", True),
        ("org.apache.kafka.common.errors.InvalidTimestampException: Timestamp 1", True),
        ("org.apache.kafka.common.InvalidRecordException: Compacted topic cannot accept", True),
        (
            "org.apache.kafka.common.KafkaException: Failed to append record because it was part "
            "of a batch which had one more more invalid records",
            True,
        ),
        ("x.OtherException: org.apache.kafka.common.InvalidRecordException: quoted", False),
        ("org.apache.kafka.common.errors.TimeoutException: Expiring 3 record(s)", False),
        ("its last batch did not end cleanly", False),
    ],
)
def test_a_refusal_is_known_by_its_class(failure: str, refused: bool) -> None:
    assert is_refusal(failure) is refused


def test_what_ended_to_have_the_hub_read_is_known_by_its_class() -> None:
    assert is_of_the_hub(f"{NO_ANSWER}: org.apache.kafka.common.errors.NetworkException: gone")
    assert is_of_the_hub(f"{STUCK}: hub partition orders-0 has not taken the same records")
    assert is_of_the_hub(f"{CUT_OFF}: hub partition orders-0 has lost records")
    assert is_of_the_hub(f"{NOT_NEXT}: The broker received an out of order sequence number.")
    assert not is_of_the_hub("org.apache.kafka.common.errors.TimeoutException: Expiring")
    assert not is_refusal(f"{NO_ANSWER}: lost")


def test_of_topics_with_a_refused_record_all_limits_are_checked() -> None:
    routes = plan(config(sync_configs=False), {"max_message_bytes": 100_000}).routes
    assert after_refusal(routes, frozenset()) == routes
    (changed,) = after_refusal(routes, frozenset({("eu", "orders")}))
    assert changed.poison.limits == routes[0].poison.once_refused
