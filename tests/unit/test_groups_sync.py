"""Groups that are kept up at the hub, with clusters that give no answer; those that do are real
(tests/integration/test_groups_at_the_hub.py)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import ListConsumerGroupsResult

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.datapath.connector.hub_origins import ProcessOrigins
from aggregator.features.groups import group_sync
from aggregator.features.groups.group_sync import GroupSync, _Inputs
from aggregator.features.groups.translate import sight_of
from aggregator.features.service import Now
from aggregator.kafka.admin import admin, open_admin
from aggregator.model.errors import ClusterError, ConfigError
from aggregator.model.events import Event
from aggregator.model.values import (
    ClusterFacts,
    ClusterFailure,
    Discovery,
    FailureKind,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan.plan import Plan, make_plan
from aggregator.status.schema import GroupSyncStatus
from aggregator.store.checkpoint.start_state import CheckpointState, Entry, Snapshot
from support.reading import wait_for


def config_of(*sets: str) -> Config:
    return load_text(
        "",
        [
            "hub.bootstrap_servers=127.0.0.1:9",
            "sources.eu.bootstrap_servers=127.0.0.1:10",
            "sources.eu.topics.include=orders",
            "supervision.connect_timeout=0.2s",
            *sets,
        ],
    )


def plan_of(config: Config) -> Plan:
    facts = ClusterFacts("eu", "c", 1, {"orders": TopicFacts("orders", "t", 2, 1)})
    hub = ClusterFacts("(hub)", "h", 1, {"orders": TopicFacts("orders", "u", 2, 1)})
    return make_plan(config, Discovery({"eu": facts, "(hub)": hub}), hub, cores=2)


def shown(sync: GroupSync) -> GroupSyncStatus:
    status = sync.status()
    assert status is not None
    return status


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def sync(events: list[Event]) -> Iterator[GroupSync]:
    sync = GroupSync(events.append, ProcessOrigins)
    yield sync
    sync.stop()
    wait_for(lambda: not threads(), "its thread has ended")


def threads() -> list[str]:
    return [it.name for it in threading.enumerate() if it.name == "sync-groups"]


def test_nothing_is_asked_of_a_source_that_names_no_groups(sync: GroupSync) -> None:
    config = config_of()
    sync.follow(Now(config, plan_of(config), CheckpointState()))
    assert (sync.status(), threads()) == (None, [])
    # Nor before anything is planned.
    sync.follow(Now(config_of("sources.eu.groups.sync=a"), None, CheckpointState()))
    assert threads() == []


def test_a_source_that_gives_no_answer_is_a_state_and_one_event(
    sync: GroupSync, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    # It ends when the connection is known to be refused, however busy the machine is.
    monkeypatch.setattr(admin, "GRACE_SECONDS", 0.0)
    config = config_of(
        "sources.eu.groups.sync=a.*",
        "sources.eu.groups.every=1s",
        "supervision.connect_timeout=2s",
    )
    sync.follow(Now(config, plan_of(config), CheckpointState()))
    wait_for(lambda: shown(sync).error, "it has failed")
    first = shown(sync).at
    assert "127.0.0.1:10" in shown(sync).error
    wait_for(lambda: shown(sync).at != first, "it is tried again")
    assert [it.kind for it in events] == ["group_sync_failed"]


def test_while_the_plan_stays_only_positions_are_read_again(sync: GroupSync) -> None:
    config = config_of("sources.eu.groups.sync=a.*")
    plan, own = plan_of(config), SourcePartition("eu", "orders", 0)
    snapshot = Snapshot("union", 1, 1, 1, clean=True, hub_ends={})
    moved = CheckpointState({own: Entry(7, 1, snapshot)})
    first = sync._sight_of(_Inputs(config, plan, CheckpointState()))
    second = sync._sight_of(_Inputs(config, plan, moved))
    assert second == sight_of(config, plan, ("eu",), moved)
    assert second.ids is first.ids
    facts = {"orders": TopicFacts("orders", "created again", 2, 1)}
    other = replace(plan, hub=replace(plan.hub, topics=facts))
    third = sync._sight_of(_Inputs(config, other, moved))
    assert third == sight_of(config, other, ("eu",), moved)
    assert second.is_like(first)
    assert not third.is_like(second)
    without = config_of("sources.eu.groups.sync=")
    assert sync._sight_of(_Inputs(without, other, moved)).config is without


TWO = (
    "sources.eu.groups.sync=a.*",
    "sources.us.bootstrap_servers=127.0.0.1:11",
    "sources.us.topics.include=orders",
    "sources.us.groups.sync=a.*",
)


class Sources:
    """Clusters with these groups, of which they list some; each has committed 3."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups = {"a1", "a2"}
        self.listed = {"a1", "a2"}
        self.unlisted = ""
        self.asked: list[list[str]] = []
        monkeypatch.setattr(group_sync, "open_admin", lambda *_: SimpleNamespace())
        monkeypatch.setattr(group_sync, "unlisted", lambda *_: self.unlisted)
        monkeypatch.setattr(
            group_sync, "group_states", lambda *_: dict.fromkeys(self.listed, "EMPTY")
        )
        monkeypatch.setattr(group_sync, "committed_by_all", self.committed)

    def committed(
        self, alias: str, cluster: object, groups: list[str], *_: object
    ) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, ClusterError]]:
        self.asked.append(groups)
        own = {TopicPartition("orders", 0): 3}
        return {it: own if it in self.groups else {} for it in groups}, {}


@pytest.fixture
def translated(sync: GroupSync, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The groups that are translated, at each turn with any."""
    turns: list[list[str]] = []

    def note(_: object, due: list[str]) -> str:
        turns.append(due)
        return ""

    monkeypatch.setattr(sync, "_translated", note)
    return turns


def turn(sync: GroupSync, config: Config, plan: Plan) -> str:
    """Take a turn; returns what the status says is wrong."""
    sync._inputs = _Inputs(config, plan, CheckpointState())
    sync._turn()
    return shown(sync).error


def test_a_source_that_was_away_since_the_start_may_have_every_group(
    sync: GroupSync, translated: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Translated by the others alone, a group would leap over what it has not read of that one."""
    sources, config = Sources(monkeypatch), config_of(*TWO)
    plan = plan_of(config)
    away = ClusterFailure("us", FailureKind.UNREACHABLE, "connection refused")
    assert turn(sync, config, plan) == "us has not answered yet"
    assert turn(sync, config, replace(plan, failed={"us": away})) == str(away)
    assert (translated, len(sources.asked)) == ([], 2)
    both = replace(plan, sources={**plan.sources, "us": plan.sources["eu"]})
    assert turn(sync, config, both) == ""
    assert translated == [["a1", "a2"]]


def test_a_source_that_is_away_holds_back_only_groups_that_it_may_have(
    sync: GroupSync, translated: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Sources(monkeypatch)
    config = config_of(*TWO, "sources.us.groups.sync=a2|b.*")
    plan = plan_of(config)
    why = "us has not answered yet"
    assert turn(sync, config, plan) == why
    assert translated == [["a1"]]
    assert [(it.group, it.error) for it in shown(sync).groups] == [("a2", why)]
    both = replace(plan, sources={**plan.sources, "us": plan.sources["eu"]})
    assert turn(sync, config, both) == ""
    assert translated[1:] == [["a1", "a2"]]
    # It is away again and has other patterns: its answer for the old ones is not used.
    config = config_of(*TWO, "sources.us.groups.sync=b.*")
    assert turn(sync, config, plan) == why
    assert translated[2:] == [["a1"]]


def test_a_group_that_is_left_out_of_a_list_is_asked_for_by_its_name(
    sync: GroupSync, translated: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, config = Sources(monkeypatch), config_of("sources.eu.groups.sync=a.*")
    plan = plan_of(config)
    assert turn(sync, config, plan) == ""
    sources.listed = {"a2"}
    assert turn(sync, config, plan) == ""
    assert sources.asked == [["a1", "a2"]] * 2
    assert sync._commits["eu"].keys() == {"a1", "a2"}
    # It was deleted.
    sources.groups = {"a2"}
    turn(sync, config, plan)
    assert sync._commits["eu"].keys() == {"a2"}
    turn(sync, config, plan)
    assert sources.asked[2:] == [["a1", "a2"], ["a2"]]
    assert translated[0] == ["a1", "a2"]


def test_a_source_that_cannot_list_all_groups_has_not_answered_yet(
    sync: GroupSync, translated: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, config = Sources(monkeypatch), config_of("sources.eu.groups.sync=a.*")
    plan, sources.unlisted = plan_of(config), "1 of 50 partitions have no leader"
    assert turn(sync, config, plan) == "eu: 1 of 50 partitions have no leader"
    assert (translated, sources.asked) == ([], [])
    sources.unlisted = ""
    assert turn(sync, config, plan) == ""
    # From then on all are known by their names.
    sources.unlisted = "1 of 50 partitions have no leader"
    assert turn(sync, config, plan) == ""
    assert sync._commits["eu"].keys() == {"a1", "a2"}


def test_a_list_without_an_answer_from_any_broker_is_no_answer() -> None:
    late = KafkaError(KafkaError._TIMED_OUT)

    def listing(**parts: list[Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(ListConsumerGroupsResult(**parts))
        return future

    with open_admin(config_of(), "eu") as client:
        with pytest.raises(ClusterError, match=r"^eu: (timeout|unreachable): "):
            client.wait({"": listing(errors=[late])}, 1)
        # What one broker has answered is there, and why another has not.
        found: Any = client.wait({"": listing(valid=["a group"], errors=[late])}, 1)[""]
        assert (found.valid, found.errors) == (["a group"], [late])


def test_a_pattern_that_is_no_regex_is_a_problem_of_its_setting() -> None:
    with pytest.raises(ConfigError, match=r"sources\.eu\.groups\.sync: '\*' is not a regex"):
        config_of("sources.eu.groups.sync=*")
    config = config_of("sources.eu.groups.sync=a,b.*", "sources.eu.groups.exclude=[b1, b2]")
    groups = config.sources["eu"].groups
    assert (groups.wanted, groups.unwanted) == (("a", "b.*"), ("b1", "b2"))
