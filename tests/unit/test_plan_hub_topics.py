"""Hub topics: counts, configs by rule, what is created, grown, altered, warned about, refused."""

from typing import Any

import pytest

from aggregator.config.kafka_settings import DEFAULTS
from aggregator.config.topics import TopicsConfig
from aggregator.model.values import ClusterFacts, TopicFacts
from aggregator.plan.actions import AlterConfigs, Applied, CreateTopic, GrowTopic
from aggregator.plan.refusals import NOTHING_REFUSED, Refusals
from aggregator.plan.topics.hub_topics import HubTopicsPlan, plan_hub_topics
from aggregator.plan.topics.source_configs import (
    HEADER_SLACK_BYTES,
    UNLIMITED_MS,
    Contribution,
    wanted_configs,
)

SIZE = str(1_048_588 + HEADER_SLACK_BYTES)
KEPT = {
    "max.message.bytes": SIZE,
    "message.timestamp.after.max.ms": str(UNLIMITED_MS),
    "message.timestamp.before.max.ms": str(UNLIMITED_MS),
    "message.timestamp.type": "CreateTime",
}
FITS: dict[str, Any] = {"max_message_bytes": int(SIZE)}


def topic(name: str = "orders", partitions: int = 6, **facts: Any) -> TopicFacts:
    return TopicFacts(name, f"id-{name}", partitions, 1, **facts)


def source(cluster: str = "eu", partitions: int = 6, **facts: Any) -> Contribution:
    return Contribution(cluster, topic("orders", partitions, **facts))


def plan(
    *sources: Contribution, hub: TopicFacts | None = None, brokers: int = 1, **options: Any
) -> HubTopicsPlan:
    topics = {hub.name: hub} if hub else {}
    return plan_hub_topics(
        TopicsConfig(**options), {"orders": sources}, ClusterFacts("hub", "H", brokers, topics)
    )


def create(result: HubTopicsPlan) -> CreateTopic:
    (action,) = result.actions
    assert isinstance(action, CreateTopic)
    return action


@pytest.mark.parametrize(("partitions", "wanted"), [("source", 6), (4, 4), (12, 12)])
def test_a_missing_topic_is_created(partitions: Any, wanted: int) -> None:
    result = plan(source("eu", 6), source("us", 3), partitions=partitions)
    assert create(result) == CreateTopic("orders", wanted, None, KEPT)
    assert result.topics["orders"].partitions == wanted
    assert not result.refusals and not result.warnings


def test_overrides_count_for_their_topic_only() -> None:
    result = plan(
        source(), partitions=4, overrides={"orders": {"partitions": 8}, "x": {"partitions": 1}}
    )
    assert create(result).partitions == 8


def test_replication_factor() -> None:
    assert create(plan(source(), replication_factor=3, brokers=3)).replication_factor == 3
    refused = plan(source(), replication_factor=3, brokers=2)
    assert refused.actions == ()
    assert "topics.replication_factor = 3" in refused.refusals[0]
    assert "2 brokers" in refused.refusals[0]


def test_create_false_and_missing_is_left_out_with_the_fix() -> None:
    result = plan(source(), create=False)
    assert (result.actions, result.refusals) == ((), ())
    assert "topics.create: true" in result.refused[0].reason


def test_what_needs_more_brokers_waits_beside_what_is_there() -> None:
    hub = ClusterFacts("hub", "H", 2, {"orders": topic(**FITS)})
    clicks = Contribution("eu", topic("clicks"))
    rules = TopicsConfig(replication_factor=3)
    found = plan_hub_topics(rules, {"orders": [source()], "clicks": [clicks]}, hub)
    assert (found.refusals, [*found.topics]) == ((), ["orders"])
    assert "the hub has 2 brokers now" in found.refused[0].reason


def test_a_small_limit_still_leaves_room_for_a_whole_batch() -> None:
    small = source(max_message_bytes=1_000)
    assert create(plan(small)).configs["max.message.bytes"] == DEFAULTS["producer"]["batch.size"]
    raised = plan(small, hub=topic(max_message_bytes=2_000)).actions
    assert raised == (AlterConfigs("orders", {"max.message.bytes": (None, "131072")}),)
    # What is enough for the records is not touched.
    assert plan(small, hub=topic(max_message_bytes=4_000)).actions == ()


def test_configs_are_taken_over_except_the_excluded() -> None:
    configs = {
        "segment.bytes": "1000",
        "min.insync.replicas": "2",
        "message.timestamp.type": "LogAppendTime",
        "confluent.tier.enable": "true",
        "retention.ms": "5",
    }
    action = create(plan(source(configs=configs, retention_ms=5)))
    assert action.configs == {**KEPT, "segment.bytes": "1000", "retention.ms": "5"}


def test_without_sync_configs_only_what_we_need_is_set() -> None:
    result = plan(source(configs={"segment.bytes": "1000"}), sync_configs=False)
    assert create(result).configs == KEPT


def test_the_effective_size_counts_even_when_the_topic_does_not_set_it() -> None:
    result = plan(source("eu"), source("us", max_message_bytes=5_000_000))
    assert create(result).configs["max.message.bytes"] == str(5_000_000 + HEADER_SLACK_BYTES)
    assert "5000000, wins" in result.warnings[0]


def test_an_excluded_size_is_not_set() -> None:
    result = plan(source(), config_exclude=["max[.]message[.]bytes"])
    assert "max.message.bytes" not in create(result).configs


@pytest.mark.parametrize(
    ("first", "second", "wins"),
    [("10", "20", "20"), ("20", "10", "20"), ("-1", "20", "-1"), ("20", "-1", "-1")],
)
@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes"])
def test_the_longer_retention_wins(name: str, first: str, second: str, wins: str) -> None:
    wanted = wanted_configs(
        "orders", [source("eu", configs={name: first}), source("us", configs={name: second})], ()
    )
    assert wanted.configs[name] == wins
    (warning,) = wanted.warnings
    assert f"{first} at eu/orders" in warning and f"{second} at us/orders" in warning


def test_a_source_that_does_not_set_retention_counts_with_its_effective_value() -> None:
    wanted = wanted_configs(
        "orders", [source("eu", configs={"retention.ms": "5"}), source("us", retention_ms=9)], ()
    )
    assert wanted.configs["retention.ms"] == "9"
    wanted = wanted_configs(
        "orders", [source("eu", configs={"retention.bytes": "5"}), source("us")], ()
    )
    assert wanted.configs["retention.bytes"] == "-1"


def test_otherwise_the_first_source_wins_with_a_warning_that_names_both() -> None:
    sources = [
        source("eu", configs={"segment.bytes": "1"}),
        source("us", configs={"segment.bytes": "2"}),
    ]
    wanted = wanted_configs("orders", sources, ())
    assert wanted.configs["segment.bytes"] == "1"
    assert "1 at eu/orders and 2 at us/orders" in wanted.warnings[0]
    assert wanted_configs("orders", sources[::-1], ()).configs["segment.bytes"] == "2"
    assert wanted_configs("orders", [sources[1], source("x")], ()).warnings == ()


@pytest.mark.parametrize(
    ("first", "second", "policy", "warned"),
    [
        ("delete", "delete", None, False),
        ("compact", "compact", "compact", False),
        ("compact,delete", "delete, compact", "compact,delete", False),
        ("compact", "compact,delete", "compact", True),
        ("compact", "delete", None, True),
        ("delete", "compact,delete", None, True),
    ],
)
def test_cleanup_policy(first: str, second: str, policy: str | None, warned: bool) -> None:
    wanted = wanted_configs(
        "orders", [source("eu", cleanup_policy=first), source("us", cleanup_policy=second)], ()
    )
    assert wanted.configs.get("cleanup.policy") == policy
    assert bool(wanted.warnings) is warned


def test_a_compacted_topic_of_several_sources_is_left_out_unless_confirmed() -> None:
    sources = (source("eu", cleanup_policy="compact"), source("us", cleanup_policy="compact"))
    found = plan(*sources)
    (refused,) = found.refused
    assert (found.topics, found.contributions, found.actions) == ({}, {}, ())
    assert not found.refusals
    assert refused.sources == (("eu", "orders"), ("us", "orders"))
    assert "eu/orders, us/orders" in str(refused)
    assert "topics.merge_compacted" in str(refused)
    assert not plan(*sources, merge_compacted=True).refused
    assert not plan(sources[0]).refused
    assert not plan(source("eu", cleanup_policy="compact"), source("us")).refused


def test_the_others_are_planned_beside_a_topic_that_is_left_out() -> None:
    compact = [source(alias, cleanup_policy="compact") for alias in ("eu", "us")]
    clicks = Contribution("eu", topic("clicks", 2))
    found = plan_hub_topics(
        TopicsConfig(), {"orders": compact, "clicks": [clicks]}, ClusterFacts("hub", "H", 1, {})
    )
    assert found.topics.keys() == found.contributions.keys() == {"clicks"}
    assert [action.name for action in found.actions] == ["clicks"]


def test_a_source_that_flows_already_keeps_flowing_when_another_comes() -> None:
    sources = [source(alias, cleanup_policy="compact") for alias in ("eu", "us")]
    hub = topic(cleanup_policy="compact", **FITS)
    facts = ClusterFacts("hub", "H", 1, {"orders": hub})

    def refused(*flowing: tuple[str, str, str]) -> list[tuple[tuple[str, str], ...]]:
        found = plan_hub_topics(TopicsConfig(), {"orders": sources}, facts, flowing)
        return [it.sources for it in found.refused]

    assert refused(("us", "orders", "orders")) == [(("eu", "orders"),)]
    # Both were confirmed once, and are so no more; or it flows to another place.
    both = (("eu", "orders"), ("us", "orders"))
    assert refused(("us", "orders", "orders"), ("eu", "orders", "orders")) == [both]
    assert refused(("us", "orders", "us.orders")) == [both]


def test_an_existing_compacted_hub_topic_counts_as_well() -> None:
    hub = topic(cleanup_policy="compact", **FITS)
    result = plan(source("eu"), source("us"), hub=hub)
    assert "overwrite" in str(result.refused[0])
    assert result.actions == ()
    alone = plan(source("eu"), hub=hub)
    assert any("without a key" in warning for warning in alone.warnings)
    assert any("cleanup.policy is compact" in warning for warning in alone.warnings)


def test_configs_that_are_asked_for_win_at_creation_and_later() -> None:
    asked: dict[str, Any] = {"configs": {"retention.ms": 1000, "segment.bytes": 5}}
    eu = source("eu", configs={"retention.ms": "9000", "segment.bytes": "7"}, retention_ms=9000)
    made = create(plan(eu, **asked)).configs
    assert (made["retention.ms"], made["segment.bytes"]) == ("1000", "5")
    hub = topic(configs={"retention.ms": "9000"}, retention_ms=9000, **FITS)
    found = plan(eu, hub=hub, sync_configs=False, **asked)
    changes = {"retention.ms": ("9000", "1000"), "segment.bytes": (None, "5")}
    assert found.actions == (AlterConfigs("orders", changes),)
    assert found.topics["orders"].retention_ms == 1000
    (warning,) = found.warnings
    assert "older records that have arrived are deleted" in warning
    now = topic(configs={k: new for k, (_, new) in changes.items()}, retention_ms=1000, **FITS)
    assert plan(eu, hub=now, **asked).actions == ()


def test_configs_of_an_override_lie_over_those_of_all() -> None:
    topics = TopicsConfig(
        configs={"retention.ms": "1", "segment.bytes": "2"},
        config_exclude=["a"],
        overrides={"orders": {"configs": {"retention.ms": 3}, "config_exclude": ["b"]}},
    )
    assert topics.rules_for("orders").configs == {"retention.ms": "3", "segment.bytes": "2"}
    assert topics.rules_for("orders").config_exclude == ["b"]
    assert topics.rules_for("clicks").configs == {"retention.ms": "1", "segment.bytes": "2"}
    assert topics.rules_for("clicks").config_exclude == ["a"]


def test_no_size_is_larger_than_kafka_can_say() -> None:
    most = 2**31 - 1
    assert create(plan(source(max_message_bytes=most))).configs["max.message.bytes"] == str(most)
    raised = plan(source(max_message_bytes=most), hub=topic(**FITS))
    assert raised.actions == (AlterConfigs("orders", {"max.message.bytes": (None, str(most))}),)
    assert f"a source accepts {most}" in raised.warnings[0]


def test_a_fitting_topic_needs_nothing() -> None:
    result = plan(source(), hub=topic(**FITS))
    assert (result.actions, result.warnings, result.refusals) == ((), (), ())


@pytest.mark.parametrize("grow", [True, False])
def test_growth_is_opt_in(grow: bool) -> None:
    result = plan(source(partitions=8), hub=topic(partitions=6, **FITS), grow=grow)
    assert result.actions == ((GrowTopic("orders", 6, 8),) if grow else ())
    assert result.topics["orders"].partitions == (8 if grow else 6)
    assert "key -> partition map changes" in result.warnings[0]


def test_more_partitions_than_wanted_are_fine() -> None:
    result = plan(source(partitions=3), hub=topic(partitions=9, **FITS), partitions=4, grow=True)
    assert result.topics["orders"].partitions == 9
    assert result.actions == () and result.warnings == ()


@pytest.mark.parametrize(
    ("hub", "change"),
    [
        ({}, {"max.message.bytes": (None, SIZE)}),
        (
            {**FITS, "timestamp_after_max_ms": 3_600_000},
            {"message.timestamp.after.max.ms": (None, str(UNLIMITED_MS))},
        ),
        (
            {**FITS, "timestamp_before_max_ms": 86_400_000},
            {"message.timestamp.before.max.ms": (None, str(UNLIMITED_MS))},
        ),
        (
            {
                **FITS,
                "timestamp_type": "LogAppendTime",
                "configs": {"message.timestamp.type": "LogAppendTime"},
            },
            {"message.timestamp.type": ("LogAppendTime", "CreateTime")},
        ),
    ],
)
def test_limits_of_an_existing_topic_are_altered_or_warned(
    hub: dict[str, Any], change: dict[str, tuple[str | None, str]]
) -> None:
    synced = plan(source(), hub=topic(**hub))
    assert synced.actions == (AlterConfigs("orders", change),)
    assert "it is altered" in synced.warnings[0]
    by_hand = plan(source(), hub=topic(**hub), sync_configs=False)
    assert by_hand.actions == ()
    assert "topics.sync_configs: true" in by_hand.warnings[0]


def test_equal_broker_defaults_for_future_timestamps_are_left() -> None:
    hour: dict[str, Any] = {"timestamp_after_max_ms": 3_600_000}
    assert plan(source(**hour), hub=topic(**FITS, **hour)).actions == ()


def test_configs_are_synced_later_but_never_lowered() -> None:
    configs = {"retention.ms": "100", "segment.bytes": "7", "cleanup.policy": "compact"}
    hub = topic(retention_ms=50, configs={"retention.ms": "50", "segment.bytes": "9"}, **FITS)
    wanted = source(configs=configs, retention_ms=100, cleanup_policy="compact")
    result = plan(wanted, hub=hub)
    assert result.actions == (
        AlterConfigs("orders", {"retention.ms": ("50", "100"), "segment.bytes": ("9", "7")}),
    )
    assert result.topics["orders"].retention_ms == 100
    assert "left as it is" in result.warnings[0]
    larger = topic(retention_ms=-1, configs={"retention.ms": "-1", "segment.bytes": "7"}, **FITS)
    assert plan(wanted, hub=larger).actions == ()
    bytes_ = source(configs={"retention.bytes": "5"})
    assert plan(bytes_, hub=topic(**FITS)).actions == ()
    assert plan(bytes_, hub=topic(configs={"retention.bytes": "4"}, **FITS)).actions == (
        AlterConfigs("orders", {"retention.bytes": ("4", "5")}),
    )


def test_an_illegal_hub_name_is_left_out() -> None:
    hub = ClusterFacts("hub", "H", 1, {})
    result = plan_hub_topics(TopicsConfig(), {"a" * 250: [source()], "a": [source("us")]}, hub)
    assert ([*result.topics], result.refusals) == (["a"], ())
    assert "topics.rename" in result.refused[0].reason


def test_of_names_that_differ_by_dot_and_underscore_one_is_taken_and_stays() -> None:
    nothing = ClusterFacts("hub", "H", 1, {})
    both = {"a_b": [source("eu")], "a.b": [source("us")], "ok": [source("eu")]}

    def taken(hub: ClusterFacts, *flowing: tuple[str, str, str], **options: Any) -> list[str]:
        found = plan_hub_topics(TopicsConfig(), both, hub, flowing, **options)
        (refused,) = found.refused
        assert options or f"topics.overrides.{refused.hub_topic}.rename" in refused.reason
        return [*found.topics]

    assert taken(nothing) == ["a_b", "ok"]
    assert taken(nothing, ("us", "orders", "a.b")) == ["a.b", "ok"]
    there = ClusterFacts("hub", "H", 1, {"a.b": topic("a.b", **FITS)})
    assert taken(there) == taken(there, ("eu", "orders", "a_b")) == ["a.b", "ok"]
    # A name that cannot be had does not hold up the other.
    refusing = refused_create("a_b", "Topic 'a_b' is not wanted")
    assert taken(nothing, refusals=refusing) == ["a.b", "ok"]


def refused_create(name: str, why: str) -> Refusals:
    (action,) = plan_hub_topics(
        TopicsConfig(), {name: [source()]}, ClusterFacts("hub", "H", 1, {})
    ).actions
    return NOTHING_REFUSED.after([Applied(action, False, False, why, True)], TopicsConfig(), 0.0)


def test_a_topic_of_somebody_else_at_the_hub_keeps_its_name() -> None:
    existing = ClusterFacts("hub", "H", 1, {"a_b": topic("a_b", **FITS)})
    result = plan_hub_topics(TopicsConfig(), {"a.b": [source()]}, existing)
    assert not result.topics
    assert "differs from hub topic a_b only by '.' and '_'" in result.refused[0].reason
    ours = plan_hub_topics(
        TopicsConfig(), {"a.b": [source()]}, ClusterFacts("hub", "H", 1, {}), aside=["a_b"]
    )
    assert not ours.topics
    both = ClusterFacts("hub", "H", 1, {n: topic(n, **FITS) for n in ("a_b", "a.b")})
    result = plan_hub_topics(TopicsConfig(), {"a.b": [source()]}, both)
    assert not result.refusals and "metrics" in result.warnings[0]


def test_actions_read_as_sentences() -> None:
    assert str(CreateTopic("a", 3, None)) == "create a: 3 partitions, replication factor default"
    assert str(GrowTopic("a", 3, 4)) == "grow a: 3 -> 4 partitions"
    assert str(AlterConfigs("a", {"x": (None, "1")})) == "alter a: x default -> 1"
