"""The whole plan from config and discovery: matching, identities, history, JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest

from aggregator.config.rename import RenameRule
from aggregator.config.schema import Config
from aggregator.datapath.spark.lane_settings import hub_names
from aggregator.model.values import (
    ClusterFacts,
    ClusterFailure,
    Discovery,
    FailureKind,
    PoisonRule,
    Route,
    TopicFacts,
)
from aggregator.plan import Plan, make_plan
from aggregator.plan.lanes.lanes import plan_lanes
from aggregator.plan.topics.retention import duration
from aggregator.plan.topics.routes import hub_topic_selected


def config(includes: dict[str, str] | None = None, **rest: Any) -> Config:
    includes = includes or {"eu": "orders", "us": "orders"}
    sources = {
        alias: {"bootstrap_servers": "a:1", "topics": {"include": include}}
        for alias, include in includes.items()
    }
    return Config.model_validate({"hub": {"bootstrap_servers": "h:1"}, "sources": sources, **rest})


def having(alias: str, *names: str) -> ClusterFacts:
    """A cluster with these topics, of one partition each."""
    facts = {name: TopicFacts(name, f"{alias}-{name}", 1, 1) for name in names}
    return ClusterFacts(alias, alias.upper(), 1, facts)


def cluster(alias: str, cluster_id: str = "", **topics: int) -> ClusterFacts:
    facts = {
        name: TopicFacts(name, f"{alias}-{name}", count, 1, internal=name.startswith("__"))
        for name, count in topics.items()
    }
    return ClusterFacts(alias, cluster_id or alias.upper(), 1, facts)


EU = cluster("eu", orders=6, payments=2, __consumer_offsets=50)
US = cluster("us", orders=3)
HUB = cluster("hub")


def plan(cfg: Config, *found: ClusterFacts, hub: ClusterFacts = HUB, **rest: Any) -> Plan:
    return make_plan(cfg, Discovery({facts.alias: facts for facts in found}), hub, **rest)


POISON = PoisonRule("central.quarantine")
"""Quarantine, and nothing that is looked for."""


def test_two_sources_into_one_topic() -> None:
    result = plan(config(topics={"partitions": 4}), EU, US)
    assert result.routes == (
        Route("eu", "orders", "orders", 6, 4, poison=POISON),
        Route("us", "orders", "orders", 3, 4, poison=POISON),
    )
    assert [(lane.name, len(lane.partitions)) for lane in result.lanes] == [("union", 9)]
    assert result.slots.required == 2
    assert {(it.topic, it.reason) for it in result.skipped} == {
        ("payments", "not included"),
        ("__consumer_offsets", "not included"),
    }
    assert not result.warnings and not result.refusals
    result.raise_if_refused()


def test_rename_and_rules_of_the_hub_topic_reach_the_route() -> None:
    overrides = {"eu.orders": {"partition_by": "source_partition", "transform": "a:b"}}
    result = plan(config(topics={"rename": "${cluster}.${topic}", "overrides": overrides}), EU, US)
    assert result.routes == (
        Route("eu", "orders", "eu.orders", 6, 6, "source_partition", "a:b", POISON),
        Route("us", "orders", "us.orders", 3, 3, poison=POISON),
    )


def test_a_source_may_name_its_hub_topics_in_its_own_way() -> None:
    cfg = config(topics={"rename": "${cluster}.${topic}"})
    us = cfg.sources["us"].model_copy(update={"rename": "${topic}.replica"})
    cfg = cfg.model_copy(update={"sources": {**cfg.sources, "us": us}})
    assert [route.hub_topic for route in plan(cfg, EU, US).routes] == [
        "eu.orders",
        "orders.replica",
    ]
    # What is asked of the hub, too.
    names = ("eu.orders", "us.orders", "orders.replica", "central.quarantine")
    assert [hub_topic_selected(cfg, it) for it in names] == [True, False, True, True]


def test_the_form_of_the_origin_is_that_of_the_hub_topic() -> None:
    topics = {"origin": "header", "overrides": {"payments": {"origin": "headers"}}}
    result = plan(config({"eu": "orders|payments", "us": "orders"}, topics=topics), EU, US)
    forms = {(it.cluster, it.topic): it.origin for it in result.routes}
    assert forms == {
        ("eu", "orders"): "header",
        ("eu", "payments"): "headers",
        ("us", "orders"): "header",
    }
    assert [it["origin"] for it in result.to_dict()["routes"]] == ["header", "headers", "header"]


def test_a_failed_source_is_left_out_with_a_warning() -> None:
    failure = ClusterFailure("us", FailureKind.TIMEOUT, "no answer in 10 s", "is it up?")
    result = make_plan(config(), Discovery({"eu": EU}, {"us": failure}), HUB)
    assert [route.cluster for route in result.routes] == ["eu"]
    assert "us: timeout: no answer in 10 s" in result.warnings[0]
    assert "left out until it can be reached" in result.warnings[0]
    assert result.to_dict()["failed"]["us"]["kind"] == "timeout"


def test_a_topic_that_kafka_alone_writes_needs_another_name_and_the_others_are_taken() -> None:
    cfg = config({"eu": "orders|__consumer_offsets"})
    result = plan(cfg, EU)
    assert [route.topic for route in result.routes] == ["orders"]
    assert not result.refusals
    (refused,) = result.refused
    assert refused.sources == (("eu", "__consumer_offsets"),)
    assert "Kafka alone writes a topic of this name" in str(refused)
    renamed = config({"eu": "orders|__consumer_offsets"}, topics={"rename": "${cluster}.${topic}"})
    assert [it.hub_topic for it in plan(renamed, EU).routes] == [
        "eu.__consumer_offsets",
        "eu.orders",
    ]


def test_another_hub_as_a_source_is_read_without_what_it_keeps_for_itself() -> None:
    """Also one of the same name: what it has quarantined would be quarantined here."""
    other = having("eu", "orders", "central.quarantine", "heartbeats")
    result = plan(config({"eu": ".*"}), other)
    assert [route.topic for route in result.routes] == ["orders"]
    assert {it.topic: it.reason for it in result.skipped} == {
        "central.quarantine": "it would flow into the quarantine topic central.quarantine",
        "heartbeats": "a topic of MirrorMaker, taken only when include names it",
    }
    assert not result.refusals
    assert plan(config({"eu": "central[.]quarantine"}), other).refusals


def test_the_hub_as_its_own_source_is_refused() -> None:
    result = plan(config({"eu": "orders"}), EU, hub=cluster("hub", "EU"))
    assert "source eu is the hub itself" in result.refusals[0]


def at(address: str, facts: ClusterFacts, **changes: Any) -> ClusterFacts:
    """The same, with a broker there, and the cluster id of an image."""
    return replace(facts, cluster_id="stock", addresses=frozenset({address}), **changes)


def test_a_cluster_with_the_id_of_the_hub_may_be_another_one_which_one_setting_says() -> None:
    hub = at("hub:1", HUB)
    (refusal,) = plan(config({"eu": "orders"}), at("eu:1", EU), hub=hub).refusals
    assert "other brokers (eu:1; the hub: hub:1)" in refusal
    assert "set sources.eu.shared_cluster_id: true" in refusal
    cfg = config({"eu": "orders"})
    cfg.sources["eu"] = cfg.sources["eu"].model_copy(update={"shared_cluster_id": True})
    found = plan(cfg, at("eu:1", EU), hub=hub)
    assert (len(found.routes), found.refusals) == (1, ())
    # Such an id is no name of the hub, by which records would be left out as ours.
    assert hub_names(cfg, found) == ("central",)
    assert hub_names(cfg, plan(cfg, EU)) == ("central", "HUB")
    # But what has the hub's broker, or its very topic, is the hub.
    (refusal,) = plan(cfg, at("hub:1", EU), hub=hub).refusals
    assert "source eu is the hub itself (cluster id stock, broker hub:1)" in refusal
    (refusal,) = plan(cfg, at("eu:1", EU), hub=at("hub:1", EU, alias="hub")).refusals
    assert "has the same id" in refusal


def test_two_sources_with_one_id_are_two_clusters_where_a_setting_says_so() -> None:
    both = (at("eu:1", EU), at("us:1", US))
    (refusal,) = plan(config(), *both).refusals
    assert "if they are two clusters, set sources.us.shared_cluster_id: true" in refusal
    cfg = config()
    cfg.sources["us"] = cfg.sources["us"].model_copy(update={"shared_cluster_id": True})
    found = plan(cfg, *both)
    assert (len(found.routes), found.refusals, found.warnings) == (2, (), ())
    (refusal,) = plan(cfg, at("eu:1", EU), at("eu:1", US)).refusals
    assert "sources eu and us are one cluster (cluster id stock, broker eu:1)" in refusal


def test_two_aliases_of_one_cluster() -> None:
    same = cluster("us", "EU", orders=6, payments=2)
    refused = plan(config(), EU, same)
    assert "both take orders" in refused.refusals[0]
    apart = plan(config({"eu": "orders", "us": "payments"}), EU, same)
    assert not apart.refusals
    assert "do not overlap" in apart.warnings[0]


def test_a_hundred_aliases_of_one_cluster_are_one_warning_and_those_of_two_are_two() -> None:
    names = [f"s{number:03}" for number in range(100)]
    found = [cluster(name, "EU", **{name: 1}) for name in names]
    cfg = config(dict(zip(names, names, strict=True)))
    (warning,) = plan(cfg, *(replace(it, addresses=frozenset({"eu:1"})) for it in found)).warnings
    assert warning == (
        "sources s000, s001, s002, s003, s004 and 95 more are one cluster (cluster id EU, broker "
        "eu:1); their topics do not overlap now"
    )
    two = [
        replace(it, addresses=frozenset({f"eu:{number % 2}"})) for number, it in enumerate(found)
    ]
    assert [it.split(" (")[0] for it in plan(cfg, *two).warnings] == [
        "sources s000, s002, s004, s006, s008 and 45 more are one cluster",
        "sources s001, s003, s005, s007, s009 and 45 more are one cluster",
        "sources s000, s001, s003, s005, s007 and 95 more have one cluster id, EU, and other "
        "brokers",
    ]


def test_nothing_matches_now() -> None:
    result = plan(config({"eu": "no.*such"}), EU)
    assert result.routes == () and result.lanes == ()
    assert result.warnings == (
        "source eu: no topic matches sources.eu.topics now; new ones may come",
    )


def test_a_literal_topic_that_does_not_exist() -> None:
    result = plan(config({"eu": "orders|paymnets"}), EU)
    assert result.warnings == (
        "source eu: topic paymnets does not exist, or we may not see it; did you mean payments?",
    )


def test_two_topics_of_one_source_into_one() -> None:
    result = plan(config({"eu": ".*"}, topics={"rename": "all"}), EU)
    assert len(result.routes) == 2
    assert "topics orders, payments all flow into hub topic all" in result.warnings[0]
    assert not result.refusals


def test_a_topic_that_cannot_be_described_is_skipped_and_named() -> None:
    result = plan(config({"eu": "orders|payments"}), cluster("eu", orders=0, payments=2))
    assert [route.topic for route in result.routes] == ["payments"]
    assert "orders is selected but cannot be described" in result.warnings[0]


def test_a_lane_for_each_source_where_the_config_asks_for_it() -> None:
    result = plan(config(stream={"lanes": "source"}), EU, US)
    assert [(lane.name, len(lane.partitions)) for lane in result.lanes] == [("eu", 6), ("us", 3)]


def test_fewer_slots_than_sources_are_refused() -> None:
    few = plan(config(spark={"master": "local[1]"}), EU, US)
    assert "1 task slots for 2 tasks" in " ".join(few.refusals)
    enough = plan(config(spark={"master": "local[2]"}), EU, US)
    assert enough.refusals == ()
    # A source that gives no answer is not read; when it comes back it is counted again.
    assert plan(config(spark={"master": "local[1]"}), EU).refusals == ()


def test_a_transform_has_a_reader_of_its_own_and_needs_a_slot_of_its_own() -> None:
    topics = {"overrides": {"payments": {"transform": "a:b"}}}
    one = config({"eu": "orders|payments"}, topics=topics, spark={"master": "local[1]"})
    assert "1 task slots for 2 tasks" in " ".join(plan(one, EU).refusals)
    auto = plan(config({"eu": "orders|payments"}, topics=topics), EU, cores=4)
    assert (auto.slots.required, auto.tasks) == (2, 2)


def test_tasks_are_dealt_by_the_cores_and_leave_half_of_the_slots() -> None:
    assert plan(config(), EU, US, cores=8).tasks == 4
    assert plan(config(), EU, US, cores=1).tasks == 1
    assert plan(config(spark={"master": "local[8]"}), EU, US, cores=8).tasks == 2
    assert plan(config(), EU, US).tasks == 1


def test_a_source_may_have_tasks_of_its_own_and_the_others_share_the_slots_that_are_left() -> None:
    both = config(spark={"master": "local[8]"})
    far = both.sources["eu"].model_copy(update={"tasks": 6})
    both = both.model_copy(update={"sources": {**both.sources, "eu": far}})
    found = plan(both, EU, US, cores=8)
    assert (found.tasks_of("eu"), found.tasks_of("us")) == (6, 1)
    assert (found.slots.required, found.refusals) == (7, ())
    assert found.to_dict()["own_tasks"] == {"eu": 6}
    tight = both.model_copy(update={"spark": config(spark={"master": "local[4]"}).spark})
    assert "4 task slots for 7 tasks" in " ".join(plan(tight, EU, US).refusals)


def test_without_slots_to_spare_what_is_new_joins_a_lane_that_there_is() -> None:
    before = plan(config({"eu": "orders", "us": "orders"}), EU).lanes

    def lanes(slots: int) -> list[tuple[str, int]]:
        found = plan(config(spark={"master": f"local[{slots}]"}), EU, US)
        partitions = [sp for route in found.routes for sp in route.source_partitions()]
        then = plan_lanes(partitions, current=before, room=found.slots.has_room)
        return [(lane.name, len(lane.partitions)) for lane in then]

    assert lanes(3) == [("eu", 9)]
    assert lanes(4) == [("eu", 6), ("us", 3)]


@pytest.mark.parametrize(
    ("age_days", "policy", "warned"),
    [(30, "delete", True), (6, "delete", False), (30, "compact", False)],
)
def test_history_older_than_the_hub_keeps_it(age_days: int, policy: str, warned: bool) -> None:
    orders = TopicFacts("orders", "i", 6, 1, cleanup_policy=policy)
    result = plan(
        config({"eu": "orders"}),
        ClusterFacts("eu", "EU", 1, {"orders": orders}),
        ages_ms={("eu", "orders"): age_days * 86_400_000},
    )
    assert bool(result.warnings) is warned
    if warned:
        assert "oldest record is 30 days old" in result.warnings[0]
        assert "keeps 7 days" in result.warnings[0]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (604_800_000, "7 days"),
        (86_400_000, "1 day"),
        (90_000_000, "25 hours"),
        (5_400_000, "90 minutes"),
        (5_000, "5 seconds"),
        (5, "5 ms"),
    ],
)
def test_duration(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_the_plan_is_json() -> None:
    hub = ClusterFacts("hub", "HUB", 1, {"orders": TopicFacts("orders", "h", 3, 1)})
    limited = {"max_records_per_second": 50}
    result = plan(config({"eu": ".*"}, topics={"grow": True}, stream=limited), EU, hub=hub, cores=4)
    data = json.loads(json.dumps(result.to_dict()))
    assert [(action["action"], action["topic"]) for action in data["actions"]] == [
        ("grow", "orders"),
        ("alter", "orders"),
        ("create", "payments"),
        ("create", "central.quarantine"),
    ]
    assert data["routes"][0]["hub_partitions"] == 6
    assert data["lanes"][0]["partitions"][0] == "eu/orders-0"
    assert data["lanes"][0]["limits"] == {
        "eu": {"records_per_second": 50.0, "bytes_per_second": None}
    }
    assert data["slots"] == {"master": "local[256]", "slots": 256, "required": 1}
    assert data["tasks_per_source"] == 4
    assert data["sources"]["eu"] == {"cluster_id": "EU", "brokers": 1, "topics": 3}
    assert data["refusals"] == []


RULES = [
    {"match": r"cdc\.(.*)", "to": "raw.$1"},
    {"match": "(?<x>o)rders", "to": "${x}.${cluster}"},
]
"""The second is Java's way to name a group."""


def names(cfg: Config, *found: ClusterFacts) -> list[str]:
    return [route.hub_topic for route in plan(cfg, *found).routes]


def test_the_first_rule_that_matches_names_a_topic_and_the_others_keep_their_names() -> None:
    cdc = having("eu", "cdc.orders", "orders", "cdc.x.y", "xcdc.z")
    assert names(config({"eu": ".*"}, topics={"rename": RULES}), cdc) == [
        "raw.orders",
        "raw.x.y",
        "o.eu",
        "xcdc.z",
    ]


def test_rules_of_a_source_come_before_those_of_all() -> None:
    cfg = config({"eu": ".*", "us": ".*"}, topics={"rename": "${cluster}.${topic}"})
    eu = cfg.sources["eu"].model_copy(update={"rename": [RenameRule(**RULES[0])]})
    cfg = cfg.model_copy(update={"sources": {**cfg.sources, "eu": eu}})
    both = ("cdc.orders", "orders")
    found = plan(cfg, having("eu", *both), having("us", *both))
    assert [it.hub_topic for it in found.routes] == [
        "raw.orders",
        "eu.orders",
        "us.cdc.orders",
        "us.orders",
    ]
    # What is asked of the hub, too: a rule may name more than the topics that there are.
    asked = ("raw.orders", "raw.any", "eu.orders", "us.orders", "other")
    assert [hub_topic_selected(cfg, it) for it in asked] == [True, True, True, True, False]


def test_an_override_gives_one_hub_topic_another_name() -> None:
    topics = {"overrides": {"orders": {"rename": "sales", "partitions": 9}}}
    cfg = config({"eu": "orders|payments"}, topics=topics)
    found = plan(cfg, EU)
    assert [(it.hub_topic, it.hub_partitions) for it in found.routes] == [
        ("sales", 9),
        ("payments", 2),
    ]
    assert hub_topic_selected(cfg, "sales")
    assert not hub_topic_selected(cfg, "orders")


def test_of_topics_of_a_source_that_collide_one_is_taken_and_the_rules_are_named() -> None:
    cdc = having("eu", "cdc.orders", "raw.orders")
    found = plan(config({"eu": ".*"}, topics={"rename": RULES}), cdc)
    (refused,) = found.refused
    assert str(refused).startswith("eu/raw.orders into hub topic raw.orders: eu/cdc.orders has")
    assert "topics.rename and topics.rename[0]" in refused.reason
    assert [it.topic for it in found.routes] == ["cdc.orders"]
    # What flows already keeps its place.
    flowing = [("eu", "raw.orders", "raw.orders")]
    later = plan(config({"eu": ".*"}, topics={"rename": RULES}), cdc, flowing=flowing)
    assert [it.topic for it in later.routes] == ["raw.orders"]
    rules = [{"match": "([a-z])[.].*", "to": "$1"}]
    (refused,) = plan(
        config({"eu": ".*"}, topics={"rename": rules}), having("eu", "a.x", "a.y")
    ).refused
    assert "by topics.rename[0]" in refused.reason


def test_one_rule_without_a_group_may_bring_topics_together() -> None:
    rules = [{"match": "orders[.].*", "to": "orders"}]
    found = plan(
        config({"eu": ".*"}, topics={"rename": rules}),
        having("eu", "orders.a", "orders.b"),
    )
    assert not found.refusals
    assert [it.hub_topic for it in found.routes] == ["orders", "orders"]
    assert found.warnings == (
        "source eu: topics orders.a, orders.b all flow into hub topic orders",
    )


def test_a_name_that_kafka_does_not_allow_is_left_out_with_the_rule() -> None:
    rules = [{"match": "(o)?.*", "to": "$1"}]
    (refused,) = plan(config({"eu": "payments"}, topics={"rename": rules}), EU).refused
    assert refused.sources == (("eu", "payments"),)
    assert refused.reason == "the name is empty; change topics.rename[0]"
