"""Gaps of a running instance: recorded before anything moves, on real Delta tables."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from aggregator.checkpoint.gaps import GapTable
from aggregator.checkpoint.rows import HUB
from aggregator.checkpoint.table import CheckpointTable
from aggregator.config import load_text
from aggregator.connector.driver import Connector
from aggregator.engine.board import Board
from aggregator.engine.events import Event
from aggregator.engine.gaps import Gaps
from aggregator.engine.identity import Identity, by_identity, known_ends
from aggregator.engine.look import Look
from aggregator.engine.observer import Observer
from aggregator.engine.orphans import Orphans
from aggregator.engine.sources import SourcesWatch
from aggregator.engine.starts import Starts
from aggregator.engine.tail import HubSnapshot
from aggregator.model import (
    ClusterFacts,
    OffsetRange,
    Positions,
    Ranges,
    Route,
    SourcePartition,
    TopicFacts,
)
from aggregator.plan.backoff import BackOff
from aggregator.plan.gaps import Policy, Sight
from aggregator.plan.plan import Plan
from aggregator.plan.positions import Gap, GapKind, Observed, plan_positions
from aggregator.plan.slots import SlotPlan

SP = SourcePartition("eu", "orders", 0)
OTHER = SP._replace(partition=1)
KEY = ("eu", "orders")
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROUTES = [Route("eu", "orders", "orders", 2, 1)]


def identity(topic: str) -> Identity:
    return Identity({HUB: "H", "eu": "E"}, {KEY: topic}, {"orders": 1})


class World:
    """A checkpoint that stands at 5 of topic T, and a source whose log begins at 10."""

    def __init__(self, folder: Path) -> None:
        self.config = load_text(
            "",
            [
                "hub.bootstrap_servers=127.0.0.1:9",
                "sources.eu.bootstrap_servers=127.0.0.1:10",
                "sources.eu.topics.include=orders",
                f"checkpoint.path={folder}",
            ],
        )
        table = CheckpointTable.create(str(folder))
        table.claim_epoch("the test")
        self.events: list[Event] = []
        emit, nobody = self.events.append, cast("Connector", None)
        self.observer = Observer(table, self.read, nobody, identity("T"), 1.0, 3600.0, emit)
        self.observer.moved(Positions({SP: 5, OTHER: 15}))
        self.board = Board(self.config)
        self.gaps = Gaps(
            self.config, self.observer, SourcesWatch(self.config), self.board, self.events.append
        )

    def read(self, _: Mapping[str, int]) -> HubSnapshot:
        return HubSnapshot(1, {})

    def settle(self, policy: Policy = "stop") -> dict[SourcePartition, int]:
        """Decide once; returns the positions from which partitions may run."""
        known = self.observer.state.remembered()
        logs = {SP: OffsetRange(10, 20), OTHER: OffsetRange(10, 20)}
        observed = Observed({"eu": "E"}, {KEY: "T"}, logs)
        start = plan_positions(ROUTES, known, observed, {"eu": "earliest"})
        sight = Sight(known, observed, {"eu": policy}, {SP, OTHER}, (), NOW, 1)
        self.plan = self.gaps.settle(start, sight)
        return dict(self.plan.positions)

    def told(self) -> list[str]:
        return [event.message for event in self.events if event.kind == "gap"]


def look(
    began: float,
    ends: int,
    read: Collection[SourcePartition] = (SP, OTHER),
    routes: Sequence[Route] = ROUTES,
    cluster: str = "E",
) -> Look:
    """What a look that began then has found: the logs that it could read end there."""
    topics = {route.topic: TopicFacts(route.topic, "T", route.partitions, 1) for route in routes}
    facts = ClusterFacts("eu", cluster, 1, topics)
    plan = Plan(facts, {"eu": facts}, {}, tuple(routes), {}, (), (), SlotPlan("local[4]", 4, 2))
    logs = {sp: OffsetRange(0, ends) for sp in read}
    return Look(plan, Observed({"eu": cluster}, {KEY: "T"}, logs), {}, began)


def gone() -> Orphans:
    """No task of a lane that failed is there any more."""
    return Orphans(lambda _: False)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_gap_is_told_and_shown_until_it_is_decided_and_then_the_position_is_moved(
    world: World, tmp_path: Path
) -> None:
    assert world.settle() == {OTHER: 15}
    assert world.settle() == {OTHER: 15}
    assert world.board.gapped.keys() == {SP}
    (message,) = world.told()
    (record,) = world.board.gaps
    assert "eu/orders-0: BELOW_EARLIEST [5, 10)" in message
    assert f"aggregator gaps accept {record.id}" in message
    status = world.board.document()
    assert (status.gaps.total, status.gaps.open, status.gaps.lost) == (1, 1, 5)
    # A restart tells it again, and writes no row.
    again = World.__new__(World)
    again.__dict__.update(world.__dict__)
    again.gaps = Gaps(
        world.config, world.observer, SourcesWatch(world.config), world.board, world.events.append
    )
    again.settle()
    assert world.told() == [message, message]
    assert world.settle("skip") == {SP: 10, OTHER: 15}
    assert "skip: goes on at 10" in world.told()[-1]
    assert world.observer.state.positions == Positions({SP: 10, OTHER: 15})
    assert world.board.gapped == {}
    (stored,) = GapTable(str(tmp_path), {}).load().values()
    assert (stored.found_at, stored.resolved) == (NOW, True)


def test_nothing_moves_that_cannot_be_recorded(world: World, tmp_path: Path) -> None:
    (tmp_path / "gaps").write_text("not a table")
    assert world.settle("skip") == {OTHER: 15}
    assert world.settle("skip") == {OTHER: 15}
    assert "cannot be recorded" in world.plan.held[SP]
    assert [event.kind for event in world.events] == ["gap_failed"]
    assert world.observer.state.positions[SP] == 5
    (tmp_path / "gaps").unlink()
    assert world.settle("skip") == {SP: 10, OTHER: 15}


def test_what_a_recovery_could_not_replay_is_recorded_once(world: World, tmp_path: Path) -> None:
    lost = Gap(SP, GapKind.BELOW_EARLIEST, 0, 10, "8 are gone", 5, 8, ("E", "E"), ("T", "T"))
    world.gaps.lost([])
    assert not (tmp_path / "gaps").exists()
    world.gaps.lost([lost])
    world.gaps.lost([lost])
    world.settle()
    (record,) = GapTable(str(tmp_path), {}).load().values()
    assert (record.gap, record.resolved) == (lost, False)


def test_positions_are_grouped_by_the_topic_that_they_were_read_from(world: World) -> None:
    world.observer.update(identity("U"))
    world.observer.moved(Positions({OTHER: 0}))
    entries = world.observer.state.entries
    assert [entries[sp].topic_id for sp in (SP, OTHER)] == ["T", "U"]
    new = SP._replace(partition=2)
    groups = by_identity(Positions({SP: 7, OTHER: 3, new: 0}), entries, identity("U"))
    assert [(dict(found), ids.topic_ids[KEY]) for found, ids in groups] == [
        ({SP: 7}, "T"),
        ({OTHER: 3, new: 0}, "U"),
    ]
    assert all(ids.cluster_ids == {HUB: "H", "eu": "E"} for _, ids in groups)


def test_a_log_end_that_was_told_of_another_topic_is_not_taken_over(world: World) -> None:
    entries = {sp: replace(entry, log_end=40) for sp, entry in world.observer.state.entries.items()}
    at = Positions({SP: 7, OTHER: 3})
    assert known_ends(at, identity("T"), {SP: 50}, entries) == {SP: 50, OTHER: 40}
    assert known_ends(at, identity("U"), {}, entries) == {}


def test_what_was_read_after_a_look_began_is_not_judged_by_it(world: World) -> None:
    read_until: dict[SourcePartition, float] = {}
    orphans = gone()
    starts = Starts(world.config, world.observer, orphans, world.gaps, lambda _: None, read_until)
    # A lane has read up to 15, and has ended while a look was under way that found 12.
    read_until[OTHER] = 100.5
    positions, wanted = starts.plan(look(100.0, 12), ())
    assert (positions, wanted) == (Positions({SP: 5}), {SP})
    assert (starts.outdated, world.told()) == (True, [])
    # The next one knows better.
    assert starts.plan(look(101.0, 16), ())[1] == {SP, OTHER}
    assert starts.outdated is False
    # And a log that is cut off indeed is found by it.
    assert starts.plan(look(102.0, 12), ())[1] == {SP}
    assert "BEYOND_END [12, 15)" in world.told()[0]


def test_offsets_that_could_not_be_read_are_asked_for_again_at_once_a_few_times(
    world: World,
) -> None:
    starts = Starts(world.config, world.observer, gone(), world.gaps, lambda _: None, {})
    asks = []
    for moment in (100.0, 101.0, 102.0):
        found = look(moment, 20, read=[SP])
        assert starts.plan(found, ())[1] == starts.plan(found, ())[1] == {SP}
        assert "could not be read" in starts.held[OTHER]
        asks.append(starts.outdated)
    # Then it is left to the next look at its time; who reads already needs no start.
    assert asks == [True, True, False]
    starts.plan(look(103.0, 20), ())
    starts.plan(look(104.0, 20, read=[SP]), [OTHER])
    assert not starts.outdated
    starts.plan(look(105.0, 20, read=[SP]), ())
    assert starts.outdated


def test_a_topic_that_came_while_we_ran_is_new_until_it_is_read(world: World) -> None:
    eu = world.config.sources["eu"]
    topics = eu.topics.model_copy(update={"include": ["orders.*"]})
    changed = eu.model_copy(update={"start": "latest", "topics": topics})
    config = world.config.model_copy(update={"sources": {"eu": changed}})
    starts = Starts(config, world.observer, gone(), world.gaps, lambda _: None, {})
    new = SourcePartition("eu", "orders-new", 0)
    routes = [*ROUTES, Route("eu", "orders-new", "orders-new", 1, 1)]
    starts.plan(look(100.0, 20), (SP, OTHER))
    # It joins a lane that ends first, so several looks find it before it is read.
    for began in (101.0, 102.0, 103.0):
        positions, _ = starts.plan(look(began, 20, (SP, OTHER, new), routes), (SP, OTHER))
        assert positions[new] == 0
    assert starts.appeared == {("eu", "orders-new")}
    # What another cluster behind the same name holds did not come while we ran.
    starts.plan(look(103.5, 20, (SP, OTHER, new), routes, cluster="F"), ())
    assert starts.appeared == set()
    # Of a source that is known only now nothing has come while we ran.
    starts.reconfigure(config.model_copy(update={"sources": {}}))
    starts.reconfigure(config)
    assert starts.plan(look(104.0, 20, (SP, OTHER, new), routes), (SP, OTHER))[0][new] == 20


def test_a_lane_that_failed_is_not_forgotten_while_its_tasks_may_send(world: World) -> None:
    opened = {"eu#1"}
    orphans = Orphans(lambda key: key in opened)
    starts = Starts(world.config, world.observer, orphans, world.gaps, lambda _: None, {})
    starts.backoff.failed("eu", frozenset({OTHER}), time.monotonic() - 60)
    orphans.add("eu#1", frozenset({OTHER}))
    assert starts.plan(look(100.0, 20), ())[1] == {SP}
    assert (starts.resting(), starts.due(), starts.backoff.waiting()) == ({OTHER}, False, True)
    opened.clear()
    # To ask changes nothing: only a look that lets it start does.
    assert (starts.resting(), starts.due(), starts.due()) == (set(), True, True)
    assert starts.plan(look(101.0, 20), ())[1] == {SP, OTHER}
    assert (starts.due(), starts.backoff.waiting()) == (False, False)


def test_what_becomes_due_during_a_recovery_does_not_start_without_one(world: World) -> None:
    starts = Starts(world.config, world.observer, gone(), world.gaps, lambda _: None, {})
    at = Positions({SP: 12, OTHER: 15})
    world.observer.begin("eu", 1, at)
    # Two lanes were killed; one of them rests a little longer than the other.
    starts.backoff.failed("other", frozenset({OTHER}), time.monotonic())
    asked: list[set[SourcePartition]] = []

    def recover(wanted: set[SourcePartition]) -> set[SourcePartition]:
        asked.append(wanted)
        world.observer.recovered(at.only(wanted))
        starts.backoff = BackOff()
        return set()

    found = look(time.monotonic(), 20)
    assert starts.settle(found, (), recover, dict)[1] == {SP}
    # It is looked for at once, and recovered.
    assert starts.outdated
    assert starts.settle(found, (), recover, dict)[1] == {SP, OTHER}
    assert asked == [{SP}, {SP, OTHER}]
    assert not starts.outdated


def test_what_was_recovered_with_holes_starts_and_is_not_recovered_again(world: World) -> None:
    starts = Starts(world.config, world.observer, gone(), world.gaps, lambda _: None, {})
    at = Positions({SP: 12, OTHER: 15})
    world.observer.begin("eu", 1, at)
    ready: dict[SourcePartition, Ranges] = {}

    def recover(wanted: set[SourcePartition]) -> set[SourcePartition]:
        # Of SP something is missing at the hub: the lane that starts next writes it.
        assert wanted == {SP, OTHER}
        if not ready:
            world.observer.recovered(at.only({OTHER}))
            world.observer.skipping(at.only({SP}), {SP: {}})
            ready[SP] = [(13, 14)]
        return set()

    for began in (time.monotonic(), time.monotonic()):
        assert starts.settle(look(began, 20), (), recover, lambda: ready) == (at, {SP, OTHER})
        assert world.observer.state.unclean == {SP}
        assert not starts.outdated
