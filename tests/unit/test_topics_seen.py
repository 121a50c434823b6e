"""Which topics came since their source was first read, and where they begin.

The table is a real one; the step is played in a world of plain values.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from aggregator.plan.lifecycle import commands as c
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.snapshot import TopicsSeen
from aggregator.store.seen_topics import SeenTable
from aggregator.store.state_store import StateStore
from support.flow_world import EU, PARTITIONS, US, World


def seen(**topics: str) -> TopicsSeen:
    """Sources, each with an id of its own, and their topics."""
    names = {alias: frozenset(text.split()) for alias, text in topics.items()}
    return TopicsSeen(names, {alias: alias.upper() for alias in names})


def test_the_table_keeps_what_was_seen_over_a_restart(tmp_path: Path) -> None:
    table = SeenTable(StateStore(str(tmp_path / "state")))
    assert table.load() == TopicsSeen()
    table.add(seen(eu="a b", us="a"))
    table.add(seen(eu="c"))
    assert SeenTable(StateStore(str(tmp_path / "state"))).load() == seen(eu="a b c", us="a")
    # Behind the alias is another cluster by now.
    table.add(TopicsSeen({"eu": frozenset({"x"})}, {"eu": "other"}))
    found = table.load()
    assert found.topics == {"eu": frozenset({"x"}), "us": frozenset({"a"})}
    assert found.cluster_ids["eu"] == "other"


def test_only_what_is_new_is_kept_and_what_came_only_with_its_positions() -> None:
    now = TopicsSeen(seen(eu="a b new").topics, {"eu": "EU"}, frozenset({("eu", "new")}))
    assert now.beyond(TopicsSeen(), ()) == seen(eu="a b")
    assert now.beyond(seen(eu="a"), ()) == seen(eu="b")
    assert now.beyond(seen(eu="a b"), ()) == TopicsSeen()
    assert now.beyond(seen(eu="a b"), {("eu", "new")}) == seen(eu="new")
    other = TopicsSeen(seen(eu="a").topics, {"eu": "another"})
    assert now.beyond(other, ()) == seen(eu="a b")
    assert seen(eu="a").plus(seen(eu="b", us="c")) == seen(eu="a b", us="c")
    assert other.plus(seen(eu="b")) == seen(eu="b")


def started(kept: TopicsSeen, **settings: Any) -> World:
    """A world in which all starts at latest, with what earlier runs have seen."""
    starts: dict[str, Any] = {"sources.eu.start": "latest", "sources.us.start": "latest"}
    world = World(Random(7), **starts, **settings)
    world.calm, world.kept = True, kept
    for log in world.logs.values():
        log.end = 9
    world.restart()
    world.until_all(Stage.READING)
    return world


def begins(world: World) -> dict[str, set[int]]:
    """Where the partitions of each source began."""
    starts = [it for it in world.given if isinstance(it, c.Start)]
    found = {sp: at for it in starts for sp, at in it.positions.items()}
    return {alias: {found[sp] for sp in own} for alias, own in (("eu", EU), ("us", US))}


def test_a_topic_that_came_while_nothing_ran_is_read_from_its_beginning() -> None:
    kept = TopicsSeen({"eu": frozenset({"old"})}, {"eu": "eu"})
    assert begins(started(kept)) == {"eu": {0}, "us": {9}}


@pytest.mark.parametrize(
    "kept",
    [
        TopicsSeen(),
        TopicsSeen({"eu": frozenset({"orders"})}, {"eu": "eu"}),
        TopicsSeen({"eu": frozenset({"old"})}, {"eu": "another cluster"}),
    ],
)
def test_a_topic_that_was_there_before_begins_as_its_source_says(kept: TopicsSeen) -> None:
    assert begins(started(kept)) == {"eu": {9}, "us": {9}}


def test_by_the_setting_a_new_topic_begins_as_its_source_says() -> None:
    kept = TopicsSeen({"eu": frozenset({"old"})}, {"eu": "eu"})
    settings: dict[str, Any] = {"sources.eu.new_topics": "start"}
    assert begins(started(kept, **settings)) == {"eu": {9}, "us": {9}}


def test_what_was_seen_is_kept_once() -> None:
    world = started(TopicsSeen())
    for _ in range(80):
        world.turn()
    orders = frozenset({"orders"})
    assert world.kept == TopicsSeen({"eu": orders, "us": orders}, {"eu": "eu", "us": "us"})
    assert len([it for it in world.given if isinstance(it, c.Remember)]) == 1
    assert world.state.of(Stage.READING) == set(PARTITIONS)
