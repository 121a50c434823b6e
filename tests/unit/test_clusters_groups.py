"""Positions published to a source that gives no answer.

tests/integration/test_groups.py covers a source that answers, with a real cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.features.groups import position_groups as groups_module
from aggregator.features.groups.position_groups import Groups
from aggregator.features.service import Now
from aggregator.model.events import Event
from aggregator.model.values import SourcePartition
from aggregator.store.checkpoint.start_state import CheckpointState, Entry, Snapshot
from support.reading import wait_for

SNAPSHOT = Snapshot("union", 1, 1, 1, clean=True, hub_ends={})
COMMITTED = CheckpointState({SourcePartition("eu", "orders", 0): Entry(7, 1, SNAPSHOT)})


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


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def groups(events: list[Event], monkeypatch: pytest.MonkeyPatch) -> Iterator[Groups]:
    monkeypatch.setattr(groups_module, "EVERY_SECONDS", 0.05)
    groups = Groups(events.append)
    yield groups
    groups.stop()
    wait_for(lambda: not publishers(), "its threads have ended")


def publishers() -> list[str]:
    return [it.name for it in threading.enumerate() if it.name.startswith("group-")]


def test_nothing_is_published_to_a_source_that_did_not_ask_for_it(groups: Groups) -> None:
    config = config_of()
    groups.follow(Now(config, None, COMMITTED))
    assert publishers() == []


def test_a_source_that_does_not_answer_is_a_value_with_the_reason(
    groups: Groups, events: list[Event]
) -> None:
    config = config_of("sources.eu.publish_group=true")
    groups.follow(Now(config, None, COMMITTED))

    def failures() -> Mapping[str, str]:
        groups.follow(Now(config, None, COMMITTED))
        return groups.source_errors()

    wait_for(failures, "it has failed")
    assert list(groups.source_errors()) == ["eu"]
    assert "127.0.0.1:10" in groups.source_errors()["eu"]
    assert failures() and [it.kind for it in events] == ["group_failed"]


def test_a_config_that_asks_for_it_no_more_ends_it(groups: Groups) -> None:
    groups.follow(Now(config_of("sources.eu.publish_group=true"), None, COMMITTED))
    assert publishers() == ["group-eu"]
    groups.follow(Now(config_of(), None, COMMITTED))
    wait_for(lambda: not publishers(), "its thread has ended")
    assert groups.source_errors() == {}
