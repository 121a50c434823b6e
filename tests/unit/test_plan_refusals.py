"""What the hub refuses costs only itself: whatever it is, all other topics are taken as planned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.schema import Config
from aggregator.kafka.discovery.prepare import Settled, settle
from aggregator.model.values import ClusterFacts, Discovery, TopicFacts
from aggregator.plan import make_plan
from aggregator.plan.actions import Action, AlterConfigs, Applied, CreateTopic, GrowTopic
from aggregator.plan.refusals import (
    NOTHING_REFUSED,
    RETRY_SECONDS,
    LeftOutConfig,
    Refusals,
    words_of,
)
from aggregator.plan.topics.hub_topics import flowing_of
from aggregator.plan.topics.naming import topic_name_problem
from support.examples import examples

CAP = 8_388_608


def config(**topics: Any) -> Config:
    sources = {
        alias: {"bootstrap_servers": "a:1", "topics": {"include": ".*"}} for alias in ("eu", "us")
    }
    return Config.model_validate(
        {"hub": {"bootstrap_servers": "h:1"}, "sources": sources, "topics": topics}
    )


def topic(name: str, partitions: int = 1, **facts: Any) -> TopicFacts:
    return TopicFacts(name, f"id-{name}", partitions, 1, **facts)


@dataclass
class Hub:
    """A hub that refuses what a test says, as a broker of Kafka 4.3 does, one thing at a time."""

    topics: dict[str, TopicFacts] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    tiny: bool = False
    cap: int = 2**31 - 1
    unwanted: frozenset[str] = frozenset()
    grows: bool = True
    passing: set[str] = field(default_factory=set)
    asked: list[Action] = field(default_factory=list)

    def attempt(self, actions: Sequence[Action]) -> list[Applied]:
        self.asked += actions
        return [self._one(action) for action in actions]

    def _one(self, action: Action) -> Applied:
        if action.name in self.passing:
            return Applied(action, False, False, "not the controller")
        why = self._why_not(action)
        if not why:
            self._do(action)
        return Applied(action, not why, not why, why, bool(why))

    def _do(self, action: Action) -> None:
        before = self.topics.get(action.name, topic(action.name))
        new: Mapping[str, str] = {}
        match action:
            case CreateTopic(partitions=partitions, configs=configs):
                before, new = replace(before, partitions=partitions), configs
            case AlterConfigs(changes=changes):
                new = {key: it for key, (_, it) in changes.items()}
            case GrowTopic(to_partitions=after):
                before = replace(before, partitions=after)
        self.topics[action.name] = replace(
            before,
            configs={**before.configs, **new},
            max_message_bytes=int(new.get("max.message.bytes", before.max_message_bytes)),
            retention_ms=int(new.get("retention.ms", before.retention_ms)),
            cleanup_policy=new.get("cleanup.policy", before.cleanup_policy),
            timestamp_type=new.get("message.timestamp.type", before.timestamp_type),
        )

    def _why_not(self, action: Action) -> str:
        if isinstance(action, GrowTopic):
            return "" if self.grows else "too many partitions"
        configs = (
            {key: new for key, (_, new) in action.changes.items()}
            if isinstance(action, AlterConfigs)
            else action.configs
        )
        if isinstance(action, CreateTopic):
            if problem := topic_name_problem(action.name):
                return problem
            key = action.name.replace(".", "_")
            if any(it.replace(".", "_") == key for it in self.topics if it != action.name):
                return f"Topic '{action.name}' collides with existing topics"
            if action.name in self.unwanted:
                return "it is not wanted here"
        for name, value in configs.items():
            if name in self.unknown:
                return f"Unknown topic config name: {name}"
            if name == "segment.bytes" and self.tiny and int(value) < 1_048_576:
                return f"Invalid value {value} for configuration {name}: at least 1048576"
            if name == "max.message.bytes" and int(value) > self.cap:
                return f"Config property '{name}' with value '{value}' exceeded max limit of {CAP}."
        return ""


def settled(
    hub: Hub,
    *sources: ClusterFacts,
    refusals: Refusals = NOTHING_REFUSED,
    cfg: Config | None = None,
    before: Settled | None = None,
) -> Settled:
    """What comes of a look at these sources."""
    cfg = cfg or config()
    flowing = flowing_of(before.plan.routes) if before is not None else frozenset()
    facts = ClusterFacts("(hub)", "H", 1, dict(hub.topics))
    plan = make_plan(
        cfg,
        Discovery({it.alias: it for it in sources}),
        facts,
        flowing=flowing,
        refusals=refusals,
    )
    return settle(plan, cfg, refusals, hub.attempt, flowing)


def having(alias: str, *topics: TopicFacts) -> ClusterFacts:
    return ClusterFacts(alias, alias.upper(), 1, {it.name: it for it in topics})


def taken(found: Settled) -> set[str]:
    return {route.topic for route in found.plan.routes}


TINY = topic("tiny", configs={"segment.bytes": "100000", "retention.ms": "5"}, retention_ms=5)


def test_a_config_that_the_hub_names_is_left_out_and_the_rest_is_as_planned() -> None:
    hub = Hub(tiny=True)
    found = settled(hub, having("eu", TINY, topic("ok")))
    assert taken(found) == {"tiny", "ok"}
    assert "segment.bytes" not in hub.topics["tiny"].configs
    assert hub.topics["tiny"].configs["retention.ms"] == "5"
    (warning,) = found.plan.warnings
    assert warning.startswith("hub topic tiny: the hub refuses segment.bytes=100000 (Invalid value")


def test_what_is_refused_is_not_asked_for_again_unless_it_is_another_or_some_time_has_passed() -> (
    None
):
    hub = Hub(tiny=True)
    first = settled(hub, having("eu", TINY))
    hub.asked.clear()
    again = settled(hub, having("eu", TINY), refusals=first.refusals, before=first)
    assert (hub.asked, again.plan.warnings) == ([], first.plan.warnings)
    other = topic("tiny", configs={"segment.bytes": "200000"})
    settled(hub, having("eu", other), refusals=first.refusals, before=first)
    assert [it.name for it in hub.asked] == ["tiny"]
    at = max(it.at for it in first.refusals.configs.values())
    assert first.refusals.at(at + RETRY_SECONDS - 1) == first.refusals
    assert not first.refusals.at(at + RETRY_SECONDS + 1)


def test_configs_that_the_hub_does_not_know_are_reported_once_for_all_topics() -> None:
    hub = Hub(unknown=frozenset({"message.format.version", "redpanda.remote.read"}))
    odd = {"message.format.version": "2.8", "redpanda.remote.read": "true"}
    found = settled(hub, having("eu", *(topic(f"t{at}", configs=odd) for at in range(9))))
    assert len(taken(found)) == 9
    assert found.plan.warnings == (
        "the hub does not know the topic config message.format.version, which t0 and 8 more would "
        "have: it is left out",
        "the hub does not know the topic config redpanda.remote.read, which t0 and 8 more would "
        "have: it is left out",
    )


@pytest.mark.parametrize("size", [CAP, 20_000_000, 2**31 - 1])
def test_a_size_is_made_as_large_as_the_hub_takes(size: int) -> None:
    hub = Hub(cap=CAP)
    found = settled(hub, having("eu", topic("large", max_message_bytes=size), topic("ok")))
    assert taken(found) == {"large", "ok"}
    assert hub.topics["large"].max_message_bytes == CAP
    assert hub.topics["central.quarantine"].max_message_bytes == CAP
    hub.asked.clear()
    again = settled(
        hub,
        having("eu", topic("large", max_message_bytes=size), topic("ok")),
        refusals=found.refusals,
        before=found,
    )
    assert not hub.asked
    assert any(f"{CAP} is set" in it for it in again.plan.warnings)


def test_a_limit_that_the_hub_does_not_name_is_looked_for_below_our_headers() -> None:
    found = NOTHING_REFUSED
    action = CreateTopic("a", 1, None, {"max.message.bytes": str(CAP + 2048)})
    for expected in (str(CAP), None):
        refused = Applied(action, False, False, "max.message.bytes is too large", True)
        found = found.after([refused], config().topics, 0.0)
        left_out: list[LeftOutConfig] = []
        wanted = CreateTopic("a", 1, None, {"max.message.bytes": str(CAP + 2048)})
        adapted = found.adapted(wanted, {}, left_out)
        assert isinstance(adapted, CreateTopic)
        assert adapted.configs.get("max.message.bytes") == expected
        action = adapted
    assert "it is left out" in words_of(left_out)[0]


def test_a_size_that_was_made_smaller_never_lowers_what_a_topic_takes() -> None:
    hub = Hub({"a": topic("a", max_message_bytes=CAP + 5)}, cap=CAP)
    settled(hub, having("eu", topic("a", max_message_bytes=20_000_000)))
    assert hub.topics["a"].max_message_bytes == CAP + 5


@pytest.mark.parametrize(
    ("hub", "cfg"),
    [
        (Hub(unwanted=frozenset({"tiny"})), config()),
        # What the config asks for is not taken back behind its back.
        (Hub(tiny=True), config(overrides={"tiny": {"configs": {"segment.bytes": 5}}})),
    ],
)
def test_a_topic_that_the_hub_does_not_want_is_left_out_with_the_reason(
    hub: Hub, cfg: Config
) -> None:
    found = settled(hub, having("eu", topic("tiny"), topic("ok")), cfg=cfg)
    assert taken(found) == {"ok"}
    (refused,) = found.plan.refused
    assert refused.sources == (("eu", "tiny"),)
    assert refused.reason.startswith("the hub refuses to create it: ")
    assert found.plan.refusals == ()


def test_a_topic_that_cannot_grow_or_be_altered_flows_as_it_is() -> None:
    hub = Hub({"a": topic("a", 1, max_message_bytes=1_050_636)}, tiny=True, grows=False)
    source = topic("a", 4, configs={"segment.bytes": "100000"})
    found = settled(hub, having("eu", source, topic("ok", 4)), cfg=config(grow=True))
    assert {it.topic: it.hub_partitions for it in found.plan.routes} == {"a": 1, "ok": 4}
    text = " ".join(found.plan.warnings)
    assert "refuses to grow a: 1 -> 4 partitions: too many partitions" in text
    assert "the hub refuses segment.bytes=100000" in text


def test_what_may_pass_is_tried_again_at_the_next_look() -> None:
    hub = Hub(passing={"a"})
    first = settled(hub, having("eu", topic("a"), topic("ok")))
    assert taken(first) == {"ok"}
    hub.passing.clear()
    later = settled(hub, having("eu", topic("a"), topic("ok")), refusals=first.refusals.at(0.0))
    assert taken(later) == {"a", "ok"}


def test_without_the_quarantine_topic_nothing_starts() -> None:
    found = settled(Hub(unwanted=frozenset({"central.quarantine"})), having("eu", topic("ok")))
    (refusal,) = found.plan.refusals
    assert "create central.quarantine" in refusal
    assert "it is not wanted here" in refusal


@pytest.mark.parametrize(
    ("reason", "names"),
    [
        ("Invalid value 1 for configuration retention.ms: no", True),
        ("'retention.ms' is too long.", True),
        ("Unknown topic config name: delete.retention.ms", False),
        ("Unknown topic config name: retention.ms.more", False),
        ("policy", False),
    ],
)
def test_which_config_an_answer_names(reason: str, names: bool) -> None:
    refused = Applied(CreateTopic("a", 1, None, {"retention.ms": "1"}), False, False, reason, True)
    assert bool(NOTHING_REFUSED.after([refused], config().topics, 0.0).configs) is (
        names and "Unknown" not in reason
    )


NAMES = st.sampled_from(
    ["ok", "a.b", "a_b", "A", "a", "a..b", "-x", "1", "_", "l" * 245, "central_quarantine", "tiny"]
)
CONFIGS = st.dictionaries(
    st.sampled_from(["segment.bytes", "message.format.version", "x.y", "retention.ms"]),
    st.sampled_from(["100000", "2000000"]),
)
TOPICS = st.dictionaries(
    NAMES,
    st.builds(
        lambda configs, partitions, size, policy: (configs, partitions, size, policy),
        CONFIGS,
        st.integers(1, 3),
        st.sampled_from([1_048_588, CAP, 20_000_000, 2**31 - 1]),
        st.sampled_from(["delete", "compact"]),
    ),
)
HUBS = st.builds(
    Hub,
    st.just({}),
    st.frozensets(st.sampled_from(["message.format.version", "x.y"])),
    st.booleans(),
    st.sampled_from([CAP, 2**31 - 1]),
    st.frozensets(NAMES),
    st.booleans(),
)


@examples(300)
@given(TOPICS, TOPICS, TOPICS, HUBS, st.sampled_from(["${topic}", "${cluster}.${topic}"]))
def test_whatever_is_wrong_with_some_the_healthy_ones_are_taken_and_keep_their_place(
    eu: dict[str, Any], us: dict[str, Any], later: dict[str, Any], hub: Hub, rename: str
) -> None:
    hub.topics = {}
    cfg = config(rename=rename, grow=True)

    def facts(alias: str, found: dict[str, Any]) -> ClusterFacts:
        return having(
            alias,
            *(
                topic(name, count, configs=own, max_message_bytes=size, cleanup_policy=policy)
                for name, (own, count, size, policy) in found.items()
            ),
        )

    healthy = topic("healthy")
    first = settled(hub, facts("eu", eu), having("us", healthy), cfg=cfg)
    look = [facts("eu", {**later, **eu}), facts("us", us)]
    look[1] = having("us", healthy, topic("new"), *look[1].topics.values())
    second = settled(hub, *look, refusals=first.refusals.at(0.0), cfg=cfg, before=first)
    for found in (first, second):
        assert not found.plan.refusals
        assert "healthy" in taken(found)
        # Each is taken or named, and what is taken is at the hub.
        routes = {(it.cluster, it.topic) for it in found.plan.routes}
        named = {source for it in found.plan.refused for source in it.sources}
        assert routes.isdisjoint(named)
        assert {it.hub_topic for it in found.plan.routes} <= hub.topics.keys()
        skipped = {(it.cluster, it.topic) for it in found.plan.skipped}
        topics = {(it, name) for it, at in found.plan.sources.items() for name in at.topics}
        assert topics == routes | named | skipped
    assert "new" in taken(second)
    # What flows keeps flowing, unless the policy of its own cluster's topic has changed.
    assert {(it.cluster, it.topic) for it in first.plan.routes} <= {
        (it.cluster, it.topic) for it in second.plan.routes
    }
    hub.asked.clear()
    third = settled(hub, *look, refusals=second.refusals, cfg=cfg, before=second)
    assert not hub.asked
    assert third.plan.routes == second.plan.routes
    assert not any(re.search(r"\s{2}", it) for it in third.plan.warnings)
