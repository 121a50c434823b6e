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
from aggregator.engine.observer import Observer
from aggregator.engine.sources import SourcesWatch
from aggregator.engine.supervision import Supervision
from aggregator.engine.tail import HubSnapshot
from aggregator.errors import CheckpointError
from aggregator.model import ClusterFacts, Lane, Positions, Route, SourcePartition, TopicFacts
from aggregator.plan.pace import Pace
from aggregator.plan.plan import Plan
from aggregator.plan.slots import SlotPlan

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
    """Lanes without queries, which end when the test says so."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.running: dict[str, Any] = {}
        self.ending: set[str] = set()
        self.starts: list[tuple[str, int]] = []

    def is_changed(self, lane: Lane, _routes: Sequence[Route], _pace: Pace) -> bool:
        return lane.name not in self.running or self.running[lane.name].lane != lane

    def leave(self, names: Collection[str], _timeout_seconds: float) -> None:
        self.ending |= set(names)

    def start(self, lane: Lane, positions: Positions, *_: object) -> None:
        self._observer.begin(lane.name, 1, positions.only(set(lane.partitions)))
        self.running[lane.name] = SimpleNamespace(lane=lane)
        self.starts.append((lane.name, len(lane.partitions)))

    @property
    def partitions(self) -> set[SourcePartition]:
        return {sp for it in self.running.values() for sp in it.lane.partitions}

    def has_ended(self, name: str) -> None:
        self.ending.remove(name)
        del self.running[name]


class World:
    def __init__(self, folder: Path) -> None:
        config = load_text(
            "",
            [
                "hub.bootstrap_servers=127.0.0.1:9",
                *(f"sources.{alias}.bootstrap_servers=127.0.0.1:10" for alias in FACTS),
                *(f"sources.{alias}.topics.include=orders" for alias in FACTS),
                f"checkpoint.path={folder}",
            ],
        )
        table = CheckpointTable.create(str(folder))
        table.claim_epoch("the test")
        ids = {("eu", "orders"): "eu", ("us", "orders"): "us"}
        identity = Identity({HUB: "H", "eu": "eu", "us": "us"}, ids, {"orders": 1})
        self.events: list[Event] = []
        self.observer = Observer(table, self.read, identity, 1.0, 3600.0, self.events.append)
        self.lanes = FakeLanes(self.observer)
        self.resting: set[SourcePartition] = set()
        self.board, sources = Board(config, "realtime"), SourcesWatch(config)
        self.supervision = Supervision(config, sources, self.board, self.events.append)
        parts: Any = SimpleNamespace(observer=self.observer, sources=sources, board=self.board)
        starts: Any = SimpleNamespace(resting=lambda: self.resting, appeared={("us", "new")})
        paces: Any = SimpleNamespace(now=Pace("realtime"))
        lanes: Any = self.lanes
        self.arrangement = Arrangement(
            config,
            parts,
            lanes,
            starts,
            self.supervision,
            paces,
            lambda lane, reason: pytest.fail(f"{lane}: {reason}"),
            self.events.append,
            threading.Event(),
        )

    def read(self, _: Mapping[str, int]) -> HubSnapshot:
        return HubSnapshot(1, {})

    def follow(self, *wanted: SourcePartition, first: bool = False) -> None:
        self.arrangement.follow(set(wanted), PLAN, BEGIN, first=first)


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
    assert told == {"starts in lane eu when a running batch has ended"}
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
    world.arrangement.follow({*EU[:2], US[0]}, PLAN, positions, first=False)
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


def test_a_source_that_waits_for_its_lane_is_not_a_new_one(world: World) -> None:
    running: Any = {"shared-1": SimpleNamespace(lane=Lane("shared-1", (EU[0], US[0])))}
    ap = SourcePartition("ap", "orders", 0)
    world.supervision.joined({EU[0], ap}, {EU[0], ap}, running)
    assert world.supervision.apart == frozenset()
    world.supervision.joined({EU[0], ap}, {EU[0]}, running)
    assert world.supervision.apart == {"ap"}
