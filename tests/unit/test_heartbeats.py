"""Heartbeats: their bytes, who gets one, their topic, and a hub that gives no answer.

What arrives at a real hub, and that MirrorMaker reads it, is in
tests/integration/test_heartbeats_at_the_hub.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.features.heartbeats import heartbeats as heartbeats_module
from aggregator.features.heartbeats.heartbeats import (
    Heartbeats,
    HeartbeatWriter,
    beating,
    key_of,
    value_of,
)
from aggregator.features.service import Now
from aggregator.kafka.admin import ClusterAdmin
from aggregator.model.errors import ConfigError
from aggregator.model.events import Event
from aggregator.model.values import ClusterFacts, SourcePartition, SourceState, TopicFacts
from aggregator.plan.actions import CreateTopic
from aggregator.plan.topics.heartbeats_topic import plan_heartbeats
from aggregator.plan.topics.quarantine_topics import AsidePlan
from aggregator.plan.topics.source_configs import Contribution
from aggregator.store.checkpoint.start_state import CheckpointState
from support.reading import wait_for

EU, US = SourcePartition("eu", "orders", 0), SourcePartition("us", "orders", 0)
FREE = ClusterFacts("(hub)", "H", 1, {})


def config_of(*sets: str) -> Config:
    return load_text(
        "",
        [
            "hub.bootstrap_servers=127.0.0.1:9",
            "sources.eu.bootstrap_servers=127.0.0.1:10",
            "sources.eu.topics.include=.*",
            "supervision.connect_timeout=0.2s",
            *sets,
        ],
    )


def on(*sets: str) -> Config:
    return config_of("heartbeats=true", *sets)


def test_a_key_is_both_aliases_each_behind_its_length() -> None:
    assert key_of("eu") == b"\x00\x02eu\x00\x03hub"
    assert key_of("", "größe") == b"\x00\x00\x00\x07gr\xc3\xb6\xc3\x9fe"


def test_a_value_is_a_version_and_a_timestamp() -> None:
    assert value_of(0x0102030405060708) == bytes([0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    assert value_of(1_769_860_800_000) == bytes.fromhex("0000 0000019c13ec9e00")


@pytest.mark.parametrize("state", SourceState)
def test_a_source_has_a_heartbeat_while_it_answers_and_is_read(state: SourceState) -> None:
    going = state in (SourceState.RUNNING, SourceState.CATCHING_UP)
    states = {"eu": state, "us": SourceState.RUNNING}
    assert beating(states, {EU, US}) == ({"eu", "us"} if going else {"us"})


def test_a_source_of_which_nothing_is_read_has_none() -> None:
    assert beating(dict.fromkeys(("eu", "us"), SourceState.RUNNING), {US}) == {"us"}
    # A source that the config has no more.
    assert beating({}, {EU}) == set()


def plan(config: Config, hub: ClusterFacts = FREE, **contributions: Any) -> AsidePlan:
    return plan_heartbeats(config, contributions, hub)


def test_the_topic_is_made_as_mirrormaker_makes_it() -> None:
    made = CreateTopic("heartbeats", 1, None, {"cleanup.policy": "compact"})
    assert plan(on()) == AsidePlan(actions=(made,))
    (action,) = plan(on("topics.replication_factor=3")).actions
    assert isinstance(action, CreateTopic) and action.replication_factor == 3
    there = ClusterFacts("(hub)", "H", 1, {"heartbeats": TopicFacts("heartbeats", "", 1, 1)})
    assert plan(on(), there) == AsidePlan()
    assert plan(config_of()) == AsidePlan()


def test_where_no_topics_are_created_it_is_said_what_is_missing() -> None:
    found = plan(on("topics.create=false"))
    assert found.actions == ()
    assert found.warnings == (
        "no heartbeats are written: hub topic heartbeats does not exist and topics.create is "
        "false; create it with 1 partition and cleanup.policy=compact",
    )


def test_a_topic_of_a_source_that_would_flow_into_it_is_refused() -> None:
    other = (Contribution("eu", TopicFacts("heartbeats", "", 1, 1)),)
    assert plan(config_of(), heartbeats=other) == AsidePlan()
    found = plan(on(), heartbeats=other)
    assert found.actions == ()
    (refusal,) = found.refusals
    assert "eu/heartbeats flows into it as well" in refusal
    assert "set heartbeats: false" in refusal


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("topics.quarantine=heartbeats", "topics.quarantine: hub topic heartbeats is that of"),
        ("sources.eu.topics.include=[orders, heartbeats]", "sources.eu.topics.include: flows into"),
        ("topics.rename=heartbeats", "sources.eu.topics.include: flows into hub topic heartbeats"),
        ("sources.eu.rename=heartbeats", "sources.eu.topics.include: flows into hub topic"),
    ],
)
def test_a_config_that_needs_the_topic_for_something_else_is_refused(
    setting: str, path: str
) -> None:
    assert not config_of(setting).heartbeats
    with pytest.raises(ConfigError) as caught:
        on(setting)
    (problem,) = caught.value.problems
    assert str(problem).startswith(path) and "set heartbeats: false" in problem.hint


def test_the_heartbeats_of_mirrormaker_may_be_copied_under_another_name() -> None:
    assert on("sources.eu.topics.include=heartbeats", "topics.rename=${cluster}.${topic}")


class Beating:
    """The heartbeats of a run whose hub is not there."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.heartbeats = Heartbeats(self.events.append)

    def follow(self, config: Config) -> None:
        self.heartbeats.follow(Now(config, None, CheckpointState(), frozenset({"eu"})))


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Iterator[Beating]:
    for name in ("EVERY_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(heartbeats_module, name, 0.05)
    beats = Beating()
    yield beats
    beats.heartbeats.stop()
    wait_for(lambda: not threads(), "its thread has ended")


def threads() -> list[str]:
    return [it.name for it in threading.enumerate() if it.name == "heartbeats"]


def test_without_the_setting_there_is_no_thread(beats: Beating) -> None:
    beats.follow(config_of())
    assert threads() == []


def test_a_hub_that_does_not_answer_is_a_state_and_one_event(beats: Beating) -> None:
    beats.follow(on())
    wait_for(lambda: "127.0.0.1:9" in beats.heartbeats.failure, "it has failed")
    assert beats.heartbeats.written == frozenset()
    (event,) = beats.events
    assert event.kind == "heartbeats_failed" and beats.heartbeats.failure in event.message


def test_a_config_that_asks_for_none_any_more_ends_it(beats: Beating) -> None:
    beats.follow(on())
    assert threads() == ["heartbeats"]
    beats.follow(config_of())
    wait_for(lambda: not threads(), "its thread has ended")
    assert beats.heartbeats.failure == ""


def test_no_heartbeat_is_written_for_a_source_about_which_nothing_was_said_for_long(
    beats: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats_module, "STALE_SECONDS", -1.0)
    beat, beaten = HeartbeatWriter._beat, []

    def counted(writer: HeartbeatWriter, admin: ClusterAdmin) -> None:
        beat(writer, admin)
        beaten.append(writer.written)

    monkeypatch.setattr(HeartbeatWriter, "_beat", counted)
    beats.follow(on())
    wait_for(lambda: len(beaten) > 1, "its time has come twice")
    beats.heartbeats.stop()
    assert set(beaten) == {frozenset()}
    assert beats.heartbeats.failure == "" and beats.events == []
