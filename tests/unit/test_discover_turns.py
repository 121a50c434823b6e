"""Of thousands of topics the configs are asked for in turns, and none is taken for another's."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace

import pytest

from aggregator.kafka.admin import topic_facts as describe
from aggregator.kafka.admin.parallel import in_parts, seconds_for
from aggregator.kafka.admin.topic_facts import ConfigTurns, Described
from aggregator.model.values import TopicFacts

NAMES = [f"t{at}" for at in range(7)]


@pytest.fixture(autouse=True)
def three_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "CONFIGS_AT_ONCE", 3)


def described(asked: Collection[str], retention: int, partitions: int = 1) -> Described:
    """What a cluster answers: without its configs a topic has Kafka's defaults."""
    return Described(
        {
            name: TopicFacts(name, f"id-{name}", partitions, 1, retention_ms=retention)
            if name in asked
            else TopicFacts(name, f"id-{name}", partitions, 1)
            for name in NAMES
        },
        effective={name: {"retention.ms": str(retention)} for name in asked},
    )


def test_all_are_asked_for_at_first_and_then_some_in_turns() -> None:
    turns = ConfigTurns()
    assert turns.due(NAMES) == {*NAMES}
    turns.take(described(NAMES, 1), NAMES)
    met: list[str] = []
    for look in range(2, 5):
        due = turns.due([*NAMES, "new"])
        assert "new" in due and len(due) == 4
        asked = due - {"new"}
        met += asked
        found = turns.take(described(asked, look, partitions=look), asked).topics
        assert {found[name].retention_ms for name in asked} == {look}
        # Of the others it is what was answered last; their partitions are known each time.
        assert all(1 <= found[name].retention_ms < look for name in {*NAMES} - asked)
        assert {it.partitions for it in found.values()} == {look}
    assert {*met} == {*NAMES}


def test_a_topic_that_was_made_again_is_asked_about() -> None:
    turns = ConfigTurns()
    turns.take(described(NAMES, 1), NAMES)
    answers = {name: SimpleNamespace(topic_id=f"id-{name}") for name in NAMES}
    answers["t6"].topic_id = "another"
    assert turns.others(answers, turns.due(NAMES)) == ["t6"]


def test_configs_that_were_not_answered_are_asked_for_again() -> None:
    turns = ConfigTurns()
    turns.take(described(NAMES, 1), NAMES)
    due = turns.due(NAMES)
    turns.take(described(due - {"t1"}, 2), due)
    assert "t1" in turns.due(NAMES) and len(turns.due(NAMES)) == 4


def test_large_questions_are_asked_in_parts_and_have_the_time_for_it() -> None:
    assert list(in_parts("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert seconds_for(2.0) == seconds_for(2.0, topics=200, partitions=500) == 2.0
    assert seconds_for(2.0, topics=201) == seconds_for(2.0, partitions=1000) == 4.0
