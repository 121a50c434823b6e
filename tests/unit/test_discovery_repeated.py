"""Discovery of hundreds of sources, thousands of topics: what is the same is not worked out twice.

Each short way is compared with the plain definition, and calls are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.in_force import InForce
from aggregator.config.node import settings_to_text
from aggregator.config.schema import Config
from aggregator.config.topics import TopicRules, TopicsConfig
from aggregator.features.completeness import claim_maker
from aggregator.features.completeness.claim_maker import CompletenessWatch
from aggregator.features.groups import position_groups
from aggregator.features.groups.position_groups import GroupPublisher, Groups
from aggregator.features.service import EngineProgress, Now
from aggregator.kafka.admin.all_clusters import selector
from aggregator.kafka.admin.pool import HUB
from aggregator.kafka.discovery import poller
from aggregator.kafka.discovery.poller import Planner
from aggregator.model.same_object import KEPT, once_for_each
from aggregator.model.values import (
    ClusterFacts,
    ClusterFailure,
    Discovery,
    FailureKind,
    Positions,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan import Plan, make_plan
from aggregator.plan.completeness.scope import Feeding, scope_of
from aggregator.plan.lifecycle import commands as c
from aggregator.plan.lifecycle.state import State
from aggregator.plan.refusals import NOTHING_REFUSED, Refusals, RefusedConfig
from aggregator.plan.snapshot import is_selected
from aggregator.plan.topics.feeders import MOST_TOPICS, Feeders, feeders_of
from aggregator.plan.topics.naming import Naming, naming_of
from aggregator.plan.topics.routes import hub_topic_selected
from aggregator.plan.topics.selection import Selection
from aggregator.store.checkpoint.start_state import CheckpointState, Entry, Snapshot
from support.examples import examples
from support.flow_world import running

TOPICS = ("a", "b", "a.b", "eu.a", "us.b", "all", "__c", "central.quarantine")
PATTERNS = (".*", "a", "a|b", "a.*", "(eu|us)[.].*", "", "__c")
RENAMES: tuple[Any, ...] = (
    "${topic}",
    "${cluster}.${topic}",
    "all",
    "${topic}.${topic}",
    [{"match": "a(.*)", "to": "x$1"}],
    [{"match": "(.*)", "to": "${cluster}.$1"}],
    [{"match": "b", "to": "all"}, {"match": "a", "to": "${topic}.x"}],
)
ALIASES = ("eu", "us", "de", "fr")


def config_of(sources: dict[str, dict[str, Any]], **parts: Any) -> Config:
    where = {"bootstrap_servers": "127.0.0.1:10"}
    return Config.model_validate(
        {
            "hub": {"bootstrap_servers": "127.0.0.1:9"},
            "sources": {alias: {**where, **it} for alias, it in sources.items()},
            "api": {"listen": "off"},
            **parts,
        }
    )


def source(include: str, exclude: str = "", rename: Any = None) -> dict[str, Any]:
    return {"topics": {"include": include, "exclude": exclude}, "rename": rename}


sources = st.builds(
    source,
    st.sampled_from([it for it in PATTERNS if it]),
    st.sampled_from(PATTERNS),
    st.sampled_from((None, *RENAMES)),
)
configs = st.builds(
    lambda own, rename, renamed: config_of(
        own,
        topics={"rename": rename, "overrides": {it: {"rename": f"{it}-new"} for it in renamed}},
    ),
    st.dictionaries(st.sampled_from(ALIASES), sources, min_size=1),
    st.sampled_from(RENAMES),
    st.sets(st.sampled_from(("a", "eu.a", "all", "x"))),
)
HUB_TOPICS = (*TOPICS, "x", "x.b", "de.a", "a.a", "a.x", "a-new", "all-new", "x-new", "eu.a-new")


def facts(alias: str, topics: Iterable[str]) -> ClusterFacts:
    return ClusterFacts(
        alias, f"id-{alias}", 1, {it: TopicFacts(it, f"{alias}-{it}", 2, 1) for it in topics}
    )


def may_feed(config: Config, alias: str, hub_topic: str) -> bool:
    """The plain definition: some topic of the source is selected, and may be called so."""
    streams = config.topics.kafka_streams == "leave_out"
    selection = Selection.of(config.sources[alias].topics, streams=streams)
    return any(not it or selection.matches(it) for it in may_be(config, alias, hub_topic))


def may_be(config: Config, alias: str, hub_topic: str) -> list[str | None]:
    """The names that a naming gives, with a list of overrides that is looked through."""
    naming = naming_of.__wrapped__(config, alias)  # type: ignore[attr-defined]
    renamed = config.topics.renamed
    wanted = [it for it, other in renamed.items() if other == hub_topic]
    if not wanted and hub_topic not in renamed:
        wanted = [hub_topic]
    return [it for name in wanted for it in Naming(alias, naming.steps).may_be(name)]


@examples(300)
@given(configs)
def test_who_may_feed_a_hub_topic_is_what_each_source_says_alone(config: Config) -> None:
    feeders = feeders_of(config)
    asides = ("central.quarantine", "central.duplicates")
    for hub_topic in (*HUB_TOPICS, *HUB_TOPICS):
        plain = {it for it in config.sources if may_feed(config, it, hub_topic)}
        assert feeders.of(hub_topic) == plain
        assert hub_topic_selected(config, hub_topic) == (bool(plain) or hub_topic in asides)
        for alias in config.sources:
            named = list(naming_of(config, alias).may_be(hub_topic))
            assert named == may_be(config, alias, hub_topic)


@examples(200)
@given(configs, st.dictionaries(st.sampled_from(ALIASES), st.sets(st.sampled_from(TOPICS))))
def test_the_scope_of_claims_is_that_of_each_source_and_hub_topic(
    config: Config, there: dict[str, set[str]]
) -> None:
    found = {alias: facts(alias, sorted(it)) for alias, it in there.items()}
    plan = make_plan(config, Discovery(found), facts("hub", ["all"]))
    scope = scope_of(config, plan)
    known = {*scope.feeds, *scope.untaken}
    assert {it for it in known if it[0] in plan.sources} == known
    assert scope.may_feed.keys() == {hub_topic for _, hub_topic in known}
    for hub_topic, feeding in scope.may_feed.items():
        assert feeding == {it for it in config.sources if may_feed(config, it, hub_topic)}
    names = {(alias, it): may_be(config, alias, it) for alias, it in known}
    assert scope.listed == {key for key, it in names.items() if len(it) != 1 or not it[0]}


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, ...]]:
    """The arguments of each call from now on."""
    calls: list[tuple[Any, ...]] = []
    whole: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any, **named: Any) -> Any:
        calls.append(args)
        return whole(*args, **named)

    monkeypatch.setattr(owner, name, call)
    return calls


@pytest.mark.parametrize("rename", ["${topic}", [{"match": "t(.*)", "to": "u$1"}]])
def test_sources_that_select_and_name_alike_are_asked_once_for_each_hub_topic(
    rename: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = {f"s{number}": source("t.*", rename=rename) for number in range(40)}
    config = config_of({**alike, "other": source("t1|t2")})
    there = {alias: facts(alias, [f"t{it}" for it in range(30)]) for alias in config.sources}
    hub = facts("hub", [f"{it}{number}" for it in "tu" for number in range(30)])
    plan = make_plan(config, Discovery(there), hub)
    asked = counted(monkeypatch, Naming, "may_be")
    scope = scope_of(config, plan)
    assert len(scope.feeds) == 40 * 30 + 2
    # That more may come is asked of each that flows; who may feed, of two groups of sources.
    names = {route.hub_topic for route in plan.routes}
    assert len(asked) == len(scope.feeds) + 2 * len(names)
    del asked[:]
    again = scope_of(config, plan)
    assert again == scope
    assert len(asked) == len(scope.feeds)
    del asked[:]
    # The hub is asked about at each discovery.
    for _ in range(3):
        assert all(map(selector(config, HUB), names))
    assert asked == []


def test_a_source_selects_by_one_selection_however_many_topics_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = config_of({"eu": source("a.*"), "us": source("b.*")})
    made = counted(monkeypatch, Selection, "of")
    keys = [(alias, f"{name}{at}") for alias in ("eu", "us", "de") for name in "ab" for at in "123"]
    taken = [it for it in keys if is_selected(config, it)]
    assert taken == [it for it in keys if it[0] != "de" and it[1][0] == "ab"[it[0] == "us"]]
    assert len(made) == 2


def test_where_the_alias_is_in_a_name_each_source_is_asked() -> None:
    config = config_of(
        {it: source(".*") for it in ALIASES}, topics={"rename": "${cluster}.${topic}"}
    )
    assert feeders_of(config).of("de.a") == {"de"}
    rules = [{"match": "(.*)", "to": "${cluster}.$1"}]
    config = config_of({it: source(".*", rename=rules) for it in ("eu", "us")})
    assert feeders_of(config).of("us.a") == {"eu", "us"}
    assert feeders_of(config).of("us.a") is feeders_of(config).of("eu.a")
    assert may_feed(config, "eu", "us.a")


def test_what_is_known_of_hub_topics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    feeders = Feeders([])
    for number in range(MOST_TOPICS + 2):
        assert not feeders.of(f"t{number}")
    assert len(feeders._known) == 2


# The rules of a hub topic

RULES = st.fixed_dictionaries(
    {},
    optional={
        "partitions": st.sampled_from(("source", 7)),
        "dedup": st.sampled_from(({"by": "key"}, "off", {})),
        "configs": st.dictionaries(st.sampled_from(("a", "b")), st.integers(0, 3)),
        "copy_as": st.sampled_from(("records", "batches")),
        "config_exclude": st.just(["c"]),
    },
)


def plain_rules(topics: TopicsConfig, hub_topic: str) -> TopicRules:
    """The rules as they are defined: validated for this hub topic alone."""
    common = {name: getattr(topics, name) for name in TopicRules.model_fields}
    named = [name for name, other in topics.renamed.items() if other == hub_topic]
    own = {**topics.overrides.get((named or [hub_topic])[0], {})}
    own.pop("rename", None)
    configs = {**topics.configs, **settings_to_text(own.get("configs", {}))}
    return TopicRules.model_validate({**common, **own, "configs": configs})


@examples(200)
@given(RULES, st.dictionaries(st.sampled_from("abcd"), RULES), st.sets(st.sampled_from("abcd")))
def test_rules_are_those_that_are_made_for_one_hub_topic(
    common: dict[str, Any], own: dict[str, dict[str, Any]], renamed: set[str]
) -> None:
    overrides = {
        name: {**it, "rename": f"{name}2" if name in renamed else ""} for name, it in own.items()
    }
    topics = TopicsConfig.model_validate({**common, "overrides": overrides})
    for hub_topic in ("a", "b", "a2", "b2", "c2", "d", "e"):
        assert topics.rules_for(hub_topic) == plain_rules(topics, hub_topic)


def test_rules_are_validated_once_for_each_override_and_once_for_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = TopicsConfig.model_validate(
        {"overrides": {"a": {"partitions": 3}, "b": {"rename": "c"}}}
    )
    made = counted(monkeypatch, TopicRules, "model_validate")
    asked = [
        topics.rules_for(it) for it in ("a", "b", "c", *map(str, range(100))) for _ in range(5)
    ]
    assert len(made) == 3
    assert len({id(it) for it in asked}) == 3
    # A config that was changed has rules of its own.
    assert topics.model_copy(update={"partitions": 9}).rules_for("x").partitions == 9


# What is remembered of an object


def test_an_object_is_known_by_itself_and_not_by_what_it_equals() -> None:
    calls: list[tuple[list[int], str]] = []

    @once_for_each
    def made(value: list[int], name: str) -> int:
        """Sum."""
        calls.append((value, name))
        if name == "bad":
            raise ValueError(name)
        return sum(value)

    one, other = [1, 2], [1, 2]
    assert [made(one, "a"), made(one, "a"), made(one, "b"), made(other, "a")] == [3] * 4
    assert calls == [(one, "a"), (one, "b"), (other, "a")]
    assert calls[2][0] is other
    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            made(one, "bad")
    assert len(calls) == 5
    for number in range(KEPT):
        made([number], "a")
    made(one, "a")
    assert len(calls) == 5 + KEPT + 1
    assert made.__doc__ == "Sum."


# The plan


def test_an_equal_snapshot_leaves_the_plan_the_same_object() -> None:
    world = running()
    world.until_quiet()
    plan, snapshot = world.state.plan, world.state.snapshot
    assert plan is not None and snapshot is not None
    given_before = len([it for it in world.given if isinstance(it, c.Prepare)])
    world.until(lambda: world.state.snapshot is not snapshot)
    assert len([it for it in world.given if isinstance(it, c.Prepare)]) > given_before
    newer = world.state.snapshot
    assert newer is not None and newer.began > snapshot.began
    assert world.state.plan is plan
    assert newer.plan is plan


def test_a_snapshot_that_finds_something_else_has_another_plan() -> None:
    world = running()
    world.until_quiet()
    plan = world.state.plan
    world.hub_ids = {**world.hub_ids, "other": "id"}
    world.until(lambda: world.state.plan is not plan)
    assert world.state.plan is not None and world.state.snapshot is not None
    assert "other" in world.state.plan.hub.topics
    assert world.state.snapshot.plan is world.state.plan


def test_a_plan_is_made_once_for_all_snapshots_that_find_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, planner = config_of({"eu": source("a|b")}), Planner()
    made = counted(monkeypatch, poller, "plan_with")

    def plan(
        of: Config = config,
        topics: str = "ab",
        hub: str = "a",
        flowing: frozenset[Any] = frozenset(),
        failed: str = "",
        refusals: Refusals = NOTHING_REFUSED,
    ) -> Plan:
        failures = {it: ClusterFailure(it, FailureKind.TIMEOUT, "late") for it in failed.split()}
        found = Discovery({"eu": facts("eu", topics)}, failures)
        return planner.plan(of, found, facts("hub", hub), flowing, refusals)

    first = plan()
    assert plan() is first
    assert len(made) == 1
    refused = RefusedConfig("1", None, "no", 0.0)
    for other in (
        {"topics": "a"},
        {"hub": "ab"},
        {"flowing": frozenset({("eu", "a", "a")})},
        {"failed": "us"},
        {"refusals": Refusals({"retention.ms": refused})},
        {"of": config.model_copy()},
    ):
        plan()
        before = len(made)
        found = plan(**other)
        assert plan(**other) is found
        assert len(made) == before + 1, other
    # Of those before the last nothing is kept.
    assert plan() == first


def test_claims_are_about_the_same_while_the_plan_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of({"eu": source("a")}, checkpoint={"path": str(tmp_path)})
    watch = CompletenessWatch(InForce(config), lambda _: None, (1_000,))
    watch.keeper.earlier = ()
    scoped = counted(monkeypatch, claim_maker, "scope_of")
    plan = make_plan(config, Discovery({"eu": facts("eu", "a")}), facts("hub", "a"))
    state = State(config, plan=plan)
    for at, now in enumerate((state, replace(state), replace(state, plan=replace(plan)))):
        progress = EngineProgress(now, {}, Positions(), {}, None, 2.0 * at, 1)
        watch.follow(Now(config, now.plan, CheckpointState(), progress=progress))
    assert [it[1] for it in scoped] == [plan, plan]
    assert isinstance(watch._scope, Feeding)


# Positions


def state_of(**positions: int) -> CheckpointState:
    snapshot = Snapshot("union", 1, 1, 1, clean=True, hub_ends={})
    return CheckpointState(
        {
            SourcePartition(alias, "a", number): Entry(at + number, 1, snapshot)
            for alias, at in positions.items()
            for number in range(2)
        }
    )


def test_one_position_is_that_of_all() -> None:
    state = state_of(eu=5, us=9)
    for sp in (*state.entries, SourcePartition("eu", "b", 0)):
        assert state.position(sp) == state.positions.get(sp)


def test_what_is_committed_is_split_by_source_once_for_each_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published: dict[str, Any] = {}
    monkeypatch.setattr(
        GroupPublisher,
        "publish",
        lambda self, positions: published.update({self._alias: positions}),
    )
    split = counted(monkeypatch, position_groups, "_by_source")
    groups = Groups(lambda _: None)
    config = config_of({it: {**source("a"), "publish_group": True} for it in ("eu", "us", "de")})
    first, newer = state_of(eu=5, us=9), state_of(eu=7, us=9)
    for state in (first, first, newer, newer):
        groups.follow(Now(config, None, state))
    assert len(split) == 2
    own = {TopicPartition("a", 0): 7, TopicPartition("a", 1): 8}
    assert (published["eu"], published["de"]) == (own, {})
    assert Counter(map(len, published.values())) == {2: 2, 0: 1}
    # Who asks for nothing costs nothing.
    groups.follow(Now(config_of({"eu": source("a")}), None, state_of(eu=1)))
    assert len(split) == 2
