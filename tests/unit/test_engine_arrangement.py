"""Lanes in step with what is to run, none of them waited for; the checkpoint is a real table."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.checkpoint.rows import HUB
from aggregator.checkpoint.table import CheckpointTable
from aggregator.config import load_text
from aggregator.engine.arrangement import Arrangement
from aggregator.engine.board import Board
from aggregator.engine.events import Event
from aggregator.engine.identity import Identity
from aggregator.engine.launch import Start
from aggregator.engine.observer import Observer
from aggregator.engine.sources import SourcesWatch
from aggregator.engine.supervision import Supervision
from aggregator.engine.tail import Ends, HubSnapshot
from aggregator.errors import AggregatorError, CheckpointError
from aggregator.model import (
    ClusterFacts,
    Lane,
    Positions,
    Route,
    Skip,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan.pace import Pace
from aggregator.plan.plan import Plan
from aggregator.plan.slots import SlotPlan
from aggregator.stream.lane import LaneSettings

EU = [SourcePartition("eu", "orders", number) for number in range(4)]
US = [SourcePartition("us", "orders", number) for number in range(4)]
FACTS = {
    alias: ClusterFacts(alias, alias, 1, {"orders": TopicFacts("orders", alias, 4, 1)})
    for alias in ("eu", "us")
}
ROUTES = tuple(Route(alias, "orders", "orders", 4, 1) for alias in FACTS)
PLAN = Plan(FACTS["eu"], FACTS, {}, ROUTES, {}, (), (), SlotPlan("local[4]", 4, 2))
BEGIN = Positions(dict.fromkeys([*EU, *US], 7))


class FakeLanes:
    """Lanes without queries, which end and give up what they hold when the test says so."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.running: dict[str, Any] = {}
        self.ending: set[str] = set()
        self.holding: dict[str, frozenset[SourcePartition]] = {}
        self.starts: list[tuple[str, int]] = []
        self.given: list[tuple[Start, LaneSettings]] = []
        self.failure: AggregatorError | None = None

    def is_changed(self, lane: Lane, _routes: Sequence[Route]) -> bool:
        running = self.running.get(lane.name)
        if running is None or set(lane.partitions) - set(running.lane.partitions):
            return True
        return bool(set(lane.partitions) & self.holding.get(lane.name, frozenset()))

    def leave(self, names: Collection[str], _timeout_seconds: float) -> None:
        self.ending |= set(names)

    def hold(self, less: Mapping[str, frozenset[SourcePartition]]) -> None:
        for name, partitions in less.items():
            self.holding[name] = self.holding.get(name, frozenset()) | partitions

    def start(self, lane: Lane, start: Start, _routes: object, settings: LaneSettings) -> None:
        if self.failure is not None:
            raise self.failure
        self._observer.begin(lane.name, 1, start.positions.only(set(lane.partitions)), start.older)
        self.running[lane.name] = SimpleNamespace(lane=lane)
        self.starts.append((lane.name, len(lane.partitions)))
        self.given.append((start, settings))

    @property
    def partitions(self) -> set[SourcePartition]:
        return {sp for it in self.running.values() for sp in it.lane.partitions}

    def has_ended(self, name: str) -> None:
        self.ending.remove(name)
        self.holding.pop(name, None)
        del self.running[name]

    def has_left(self, name: str) -> None:
        lane, less = self.running[name].lane, self.holding.pop(name)
        left = tuple(sp for sp in lane.partitions if sp not in less)
        self.running[name] = SimpleNamespace(lane=Lane(name, left))


class World:
    """Sources with lanes of their own, or all in one where a test says so."""

    def __init__(self, folder: Path, lanes: str = "source", until_done: bool = False) -> None:
        config = load_text(
            "",
            [
                "hub.bootstrap_servers=127.0.0.1:9",
                *(f"sources.{alias}.bootstrap_servers=127.0.0.1:10" for alias in FACTS),
                *(f"sources.{alias}.topics.include=orders" for alias in FACTS),
                f"checkpoint.path={folder}",
                f"stream.lanes={lanes}",
            ],
        )
        table = CheckpointTable.create(str(folder))
        table.claim_epoch("the test")
        ids = {("eu", "orders"): "eu", ("us", "orders"): "us"}
        identity = Identity({HUB: "H", "eu": "eu", "us": "us"}, ids, {"orders": 1})
        self.events: list[Event] = []
        self.failed: list[tuple[str, str]] = []
        nobody: Any = None
        emit = self.events.append
        self.observer = Observer(table, self.read, nobody, identity, 1.0, 3600.0, emit)
        self.lanes = FakeLanes(self.observer)
        self.resting: set[SourcePartition] = set()
        self.skips: dict[SourcePartition, tuple[Skip, Ends]] = {}
        self.board, sources = Board(config), SourcesWatch(config)
        self.supervision = Supervision()
        parts: Any = SimpleNamespace(observer=self.observer, sources=sources, board=self.board)
        starts: Any = SimpleNamespace(resting=lambda: self.resting, appeared={("us", "new")})
        paces: Any = SimpleNamespace(now=Pace())
        recovery: Any = SimpleNamespace(take=self.take)
        lanes_: Any = self.lanes
        self.arrangement = Arrangement(
            config,
            parts,
            lanes_,
            starts,
            self.supervision,
            paces,
            recovery,
            lambda lane, reason: self.failed.append((lane.name, reason)),
            emit,
            threading.Event(),
            until_done=until_done,
        )

    def read(self, _: Mapping[str, int]) -> HubSnapshot:
        return HubSnapshot(1, {})

    def take(self, partitions: Collection[SourcePartition]) -> tuple[Any, Any]:
        found = {sp: self.skips.pop(sp) for sp in partitions if sp in self.skips}
        return {sp: it[0] for sp, it in found.items()}, {sp: it[1] for sp, it in found.items()}

    def follow(
        self,
        *wanted: SourcePartition,
        first: bool = False,
        ends: Mapping[SourcePartition, int] | None = None,
    ) -> None:
        self.arrangement.follow(set(wanted), PLAN, BEGIN, ends or {}, first=first)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.follow(*EU[:2], US[0], first=True)
    assert world.lanes.starts == [("eu", 2), ("us", 1)]
    return world


def test_a_lane_is_replaced_when_it_has_ended_and_another_one_starts_before(world: World) -> None:
    world.follow(*EU[:3], US[0])
    assert world.lanes.ending == {"eu"}
    world.board.planned(PLAN, {})
    told = {str(it.reason) for it in world.board.document().partitions if it.reason}
    assert told == {"starts in lane eu when another has let it go"}
    assert world.board.waiting.keys() == {EU[2]}
    # One that has failed meanwhile.
    del world.lanes.running["us"]
    world.arrangement.again()
    assert world.arrangement.to_run() == set(EU[:3])
    world.follow(*EU[:3], US[0])
    assert world.lanes.starts[2:] == [("us", 1)]
    world.lanes.has_ended("eu")
    world.arrangement.again()
    assert world.lanes.starts[3:] == [("eu", 3)]
    assert world.board.waiting == {}
    assert world.arrangement.to_run() == {*EU[:3], US[0]}


def test_where_a_partition_begins_that_has_to_wait_is_committed_at_once(world: World) -> None:
    world.follow(*EU[:3], US[0])
    assert world.observer.state.positions[EU[2]] == 7
    # It is not read yet: nothing of it has to be recovered.
    assert world.observer.state.unclean == {*EU[:2], US[0]}
    seq = world.observer.state.seq
    world.follow(*EU[:3], US[0])
    assert world.observer.state.seq == seq


def test_so_is_that_of_a_topic_that_came_while_its_source_was_paused(world: World) -> None:
    came, other = (SourcePartition("us", topic, 0) for topic in ("new", "chosen-now"))
    positions = BEGIN.merged({came: 0, other: 9})
    world.arrangement.follow({*EU[:2], US[0]}, PLAN, positions, {}, first=False)
    assert world.observer.state.positions[came] == 0
    # What was there before, and is selected only now, begins where `start` says, when it begins.
    assert other not in world.observer.state.positions


def test_a_beginning_that_cannot_be_committed_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CheckpointError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(world.observer, "moved", fail)
        world.follow(*EU[:3], US[0])
    assert [event.message for event in world.events] == [
        "where 1 new partitions begin is not committed yet: the disk is full"
    ]
    assert EU[2] not in world.observer.positions
    world.follow(*EU[:3], US[0])
    assert world.observer.state.positions[EU[2]] == 7


def test_what_waits_is_left_out_when_its_source_is(world: World) -> None:
    world.follow(*EU[:3], US[0])
    world.arrangement.without({"eu"})
    world.lanes.has_ended("eu")
    world.arrangement.again()
    assert world.arrangement.to_run() == {US[0]}
    assert len(world.lanes.starts) == 2


def test_partitions_of_a_lane_that_did_not_end_well_wait_and_the_others_start(world: World) -> None:
    world.follow(*EU[:3], US[0])
    world.lanes.has_ended("eu")
    world.resting = set(EU[:2])
    world.arrangement.again(but=EU[:2])
    assert world.lanes.starts[2:] == [("eu", 1)]
    assert world.arrangement.to_run() == {EU[2], US[0]}


# --- one lane of all sources ----------------------------------------------------------------


@pytest.fixture
def union(tmp_path: Path) -> World:
    world = World(tmp_path, "auto")
    world.follow(*EU[:2], *US[:2], first=True)
    assert world.lanes.starts == [("union", 4)]
    return world


def test_what_is_new_gets_a_lane_beside_the_one_that_runs(union: World) -> None:
    union.follow(*EU[:3], *US[:2])
    assert union.lanes.starts[1:] == [("eu", 1)]
    assert (union.lanes.ending, union.lanes.holding, union.board.waiting) == (set(), {}, {})
    # What comes later of the same source joins it there.
    union.follow(*EU, *US[:2])
    assert union.lanes.ending == {"eu"}
    union.lanes.has_ended("eu")
    union.arrangement.again()
    assert union.lanes.starts[2:] == [("eu", 2)]


def test_a_source_that_is_to_leave_is_given_up_and_the_others_go_on(union: World) -> None:
    union.arrangement.without({"us"})
    assert union.lanes.ending == set()
    assert union.lanes.holding == {"union": frozenset(US[:2])}
    # It is read until the lane has told where it was given up.
    assert set(US[:2]) <= union.lanes.partitions
    assert union.arrangement.to_run() == set(EU[:2])
    union.lanes.has_left("union")
    union.arrangement.again()
    # When it comes back it does not stop the others again.
    union.follow(*EU[:2], *US[:2])
    assert union.lanes.starts[1:] == [("us", 2)]
    assert (union.lanes.ending, union.lanes.holding) == (set(), {})


def test_what_comes_back_while_it_is_given_up_waits_for_that(union: World) -> None:
    union.arrangement.without({"us"})
    union.follow(*EU[:2], *US[:2])
    assert union.board.waiting == {}
    assert len(union.lanes.starts) == 1
    assert union.arrangement.to_run() == {*EU[:2], *US[:2]}
    union.lanes.has_left("union")
    union.arrangement.again()
    assert union.lanes.starts[1:] == [("us", 2)]
    assert union.lanes.ending == set()


def test_sources_of_a_lane_that_failed_start_in_lanes_of_their_own(union: World) -> None:
    lane = union.lanes.running.pop("union").lane
    union.supervision.failed(lane, explained=False)
    union.follow(*EU[:2], *US[:2])
    assert union.lanes.starts[1:] == [("eu", 2), ("us", 2)]


# --- what a lane starts with ----------------------------------------------------------------


def test_a_lane_starts_without_what_a_recovery_has_found_and_with_its_bound(world: World) -> None:
    skip, ends = Skip([(9, 12)]), {TopicPartition("orders", 0): 5}
    world.skips = {EU[2]: (skip, ends), US[1]: (skip, ends)}
    world.lanes.running.clear()
    world.follow(*EU[:3])
    start, _ = world.lanes.given[-1]
    assert (start.skips, start.older) == ({EU[2]: skip}, {EU[2]: ends})
    assert world.skips.keys() == {US[1]}


def test_where_the_observer_knows_better_a_lane_starts_from_there(world: World) -> None:
    world.observer.recovered(Positions({EU[0]: 50}))
    world.lanes.running.clear()
    world.follow(EU[0], EU[2])
    start, _ = world.lanes.given[-1]
    assert (start.positions[EU[0]], start.positions[EU[2]]) == (50, 7)


def test_what_is_to_end_ends_where_the_first_look_saw_its_log_end(tmp_path: Path) -> None:
    world = World(tmp_path, until_done=True)
    world.follow(EU[0], first=True, ends={EU[0]: 100})
    del world.lanes.running["eu"]
    world.follow(EU[0], EU[1], ends={EU[0]: 200, EU[1]: 50})
    assert [dict(it.until) for _, it in world.lanes.given] == [
        {EU[0]: 100},
        {EU[0]: 100, EU[1]: 50},
    ]


def test_a_lane_that_does_not_start_is_told_and_the_first_time_raised(world: World) -> None:
    world.lanes.failure = AggregatorError("no place")
    world.lanes.running.clear()
    with pytest.raises(AggregatorError, match="no place"):
        world.follow(EU[0], first=True)
    assert world.failed == []
    world.follow(EU[0], US[0])
    assert world.failed == [("eu", "no place"), ("us", "no place")]
