"""Lanes that start, end, and give partitions up, each in its time; their tasks are played."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.audit.document import LaneState
from aggregator.config import load_text
from aggregator.connector.driver import Orders
from aggregator.connector.reports import (
    DONE,
    HELD,
    OUT_OF_RANGE,
    READING,
    REFUSED,
    LaneReport,
)
from aggregator.connector.spec import Clients, Reading
from aggregator.engine.board import Board, LaneNote
from aggregator.engine.events import Event
from aggregator.engine.lanes import Lanes
from aggregator.engine.launch import RunningLane, Start
from aggregator.errors import AggregatorError, CheckpointError
from aggregator.model import Lane, Positions, Route, Skip, SourcePartition, TopicPartition
from aggregator.plan.pace import Limit, Pace
from aggregator.stream.lane import LaneQuery, LaneSettings
from support.reports import lane_report, task

SECONDS = 30.0
SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=.*",
)
SETTINGS = LaneSettings(Clients({}, {}), (), 1, Pace(), {"eu": 4})


def partitions_of(name: str) -> tuple[SourcePartition, SourcePartition]:
    """The two partitions of a lane: of a topic with its name."""
    return SourcePartition("eu", name, 0), SourcePartition("eu", name, 1)


def route(topic: str, **fields: Any) -> Route:
    return Route("eu", topic, topic, **{"partitions": 2, "hub_partitions": 1, **fields})


class Stream:
    """Spark's side of a query: it is active until it is stopped, or until it fails."""

    def __init__(self) -> None:
        self.isActive = True
        self.error: Exception | None = None
        self.deaf = False

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = self.deaf

    def fail(self, words: str) -> None:
        self.isActive, self.error = False, RuntimeError(f"a stage failed\nCaused by: {words}")


class FakeConnector:
    """Tasks that report what the test says, and the orders that they got."""

    def __init__(self) -> None:
        self.reports: dict[str, LaneReport] = {}
        self.orders: dict[str, list[Orders]] = {}
        self.forgotten: list[str] = []

    def report(self, lane: str, _generation: int, _tasks: int) -> LaneReport:
        return self.reports.get(lane, LaneReport((), whole=False))

    def order(self, key: str, orders: Orders) -> None:
        self.orders.setdefault(key, []).append(orders)

    def poll(self) -> None:
        pass

    def forget(self, key: str, lane: str, _generation: int) -> None:
        self.forgotten.append(key)
        self.reports.pop(lane, None)


class World:
    """The lanes a, b and c, which run, with two partitions each."""

    def __init__(self) -> None:
        self.committed: list[tuple[str, bool]] = []
        self.left: list[tuple[str, frozenset[SourcePartition]]] = []
        self.begun: list[tuple[str, int, Positions, Mapping[SourcePartition, Any]]] = []
        self.failure: AggregatorError | None = None
        self.events: list[Event] = []
        self.ticks = 0
        self.board = Board(load_text("", SETS))
        self.connector = FakeConnector()
        observer: Any = SimpleNamespace(
            finish=self.finish, left=self.note_left, begin=self.begin, watch=lambda _: None
        )
        self.streams = {name: Stream() for name in ("a", "b", "c")}
        nobody: Any = None
        connector: Any = self.connector
        self.lanes = Lanes(nobody, connector, observer, self.board, self.events.append)
        for number, name in enumerate(self.streams):
            lane = Lane(name, partitions_of(name))
            running = RunningLane(lane, (route(name),), self.query(lane, number))
            self.lanes._running[name] = running
            self.board.lanes[name] = LaneNote(LaneState.RUNNING, number, lane.partitions)
            self.tells(name)

    def query(self, lane: Lane, generation: int) -> LaneQuery:
        stream: Any = self.streams[lane.name]
        folder: Any = SimpleNamespace(remove=lambda: None)
        connector: Any = self.connector
        dealt = {(0, 0): lane.partitions}
        key = f"{lane.name}#{generation}"
        return LaneQuery(connector, lane, generation, key, stream, folder, dealt, SETTINGS)

    def tells(self, name: str, first: str = READING, second: str = READING, **told: Any) -> None:
        """The states of a lane's partitions, as its task reports them."""
        states = zip(partitions_of(name), (first, second), strict=True)
        others = {sp: state for sp, state in states if state != READING}
        positions = dict.fromkeys(partitions_of(name), 7)
        self.connector.reports[name] = lane_report(task(positions, states=others, **told))

    def ends(self, name: str) -> None:
        self.tells(name, HELD, HELD, ended=True)

    def orders(self, name: str) -> list[Orders]:
        return self.connector.orders.get(self.lanes.running[name].query.key, [])

    def begin(
        self, name: str, generation: int, positions: Positions, older: Mapping[Any, Any]
    ) -> int:
        self._maybe_fail()
        self.begun.append((name, generation, positions, older))
        return 77

    def finish(self, query: LaneQuery, *, clean: bool) -> None:
        self._maybe_fail()
        self.committed.append((query.lane.name, clean))

    def note_left(self, query: LaneQuery, partitions: Collection[SourcePartition]) -> None:
        self._maybe_fail()
        self.left.append((query.lane.name, frozenset(partitions)))

    def _maybe_fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    def tick(self) -> None:
        """One lane ends after the other: the next one when the one before is committed."""
        self.ticks += 1
        assert self.ticks < 4 * SECONDS, f"only {self.committed} are committed"
        for name, stream in self.streams.items():
            report = self.connector.reports.get(name)
            if report is not None and not report.ended:
                self.ends(name)
                return
            if not stream.deaf and (name, True) not in self.committed:
                return


@pytest.fixture
def world() -> World:
    return World()


# --- ending ---------------------------------------------------------------------------------


def test_each_lane_is_committed_when_it_has_ended_and_not_with_the_last(world: World) -> None:
    assert world.lanes.end(SECONDS, world.tick) == {}
    # `tick` lets none end before the one in front of it is committed.
    assert world.committed == [("a", True), ("b", True), ("c", True)]
    assert (world.lanes.running, world.lanes.partitions) == ({}, set())
    assert {note.state for note in world.board.lanes.values()} == {LaneState.DONE}
    assert world.connector.forgotten == ["a#0", "b#1", "c#2"]


def test_a_lane_that_does_not_stop_is_raised_when_the_others_are_committed(world: World) -> None:
    world.streams["a"].deaf = True
    with pytest.raises(AggregatorError, match="lane a does not stop"):
        world.lanes.end(SECONDS, world.tick)
    assert world.committed == [("b", True), ("c", True)]


def test_a_lane_that_ends_goes_on_as_a_running_one_until_it_has_ended(world: World) -> None:
    world.lanes.leave(["a"], SECONDS)
    world.lanes.leave(["a"], SECONDS)
    assert (set(world.lanes.ending), world.lanes.left()) == ({"a"}, {})
    assert world.orders("a") == [Orders(end=True)]
    assert world.board.lanes["a"].state is LaneState.DRAINING
    assert world.lanes.running.keys() == {"a", "b", "c"}
    # It is no failed one when Spark's query ends before that is seen.
    world.streams["a"].isActive = False
    assert world.lanes.ended() == {}
    world.streams["a"].isActive = True
    for name in world.streams:
        world.ends(name)
    assert world.lanes.end(SECONDS, world.tick) == {}
    assert sorted(world.committed) == [("a", True), ("b", True), ("c", True)]


def test_a_lane_whose_tasks_do_not_end_in_time_is_stopped_and_not_clean(world: World) -> None:
    world.lanes.leave(["a"], 0.0)
    assert world.lanes.left() == {"a": "its tasks did not end in time"}
    assert world.committed == [("a", False)]
    assert not world.streams["a"].isActive
    assert world.board.lanes["a"].state is LaneState.FAILED


def test_a_lane_that_fails_while_it_ends_is_not_clean_and_says_why(world: World) -> None:
    world.lanes.leave(["a"], SECONDS)
    world.streams["a"].fail("the hub is full")
    assert world.lanes.left() == {"a": "the hub is full"}
    assert world.committed == [("a", False)]


def test_a_lane_that_ends_by_itself_is_not_clean_and_says_why(world: World) -> None:
    began = time.monotonic()
    assert world.lanes.ended() == {}
    world.streams["b"].fail("the hub is full")
    assert world.lanes.ended() == {"b": "the hub is full"}
    assert (world.lanes.ended(), world.committed) == ({}, [("b", False)])
    assert world.lanes.running.keys() == {"a", "c"}
    assert world.board.lanes["b"].reason == "the hub is full"
    assert all(world.lanes.read_until[sp] >= began for sp in partitions_of("b"))


def test_an_end_that_cannot_be_committed_is_told(world: World) -> None:
    world.failure = CheckpointError("the disk is full")
    world.lanes.leave(["a"], SECONDS)
    world.ends("a")
    words = "its last position is not committed: the disk is full"
    assert world.lanes.left() == {"a": words}
    assert (world.board.lanes["a"].state, world.board.lanes["a"].reason) == (
        LaneState.FAILED,
        words,
    )


def test_killed_lanes_commit_nothing(world: World) -> None:
    world.lanes.leave(["a"], SECONDS)
    world.lanes.hold({"b": frozenset(partitions_of("b")[:1])})
    world.lanes.kill()
    assert not any(stream.isActive for stream in world.streams.values())
    assert (world.committed, world.left, world.lanes.left(), world.lanes.held()) == (
        [],
        [],
        {},
        set(),
    )
    assert not world.lanes.running


# --- giving partitions up -------------------------------------------------------------------


def test_a_lane_gives_partitions_up_and_goes_on_without_them(world: World) -> None:
    stays, goes = partitions_of("a")
    world.lanes.hold({"a": frozenset({goes})})
    world.lanes.hold({"a": frozenset({goes})})
    assert world.orders("a") == [Orders(held=frozenset({goes}))]
    assert world.lanes.holding == {"a": {goes}}
    # Until its task has told, it is read.
    assert (world.lanes.held(), goes in world.lanes.partitions, world.left) == (set(), True, [])
    world.tells("a", second=HELD)
    assert world.lanes.held() == {goes}
    assert (world.lanes.held(), world.lanes.holding) == (set(), {})
    assert world.left == [("a", frozenset({goes}))]
    running = world.lanes.running["a"]
    assert (running.lane, running.query.lane) == (Lane("a", (stays,)), Lane("a", (stays,)))
    assert world.board.lanes["a"].partitions == (stays,)
    assert world.lanes.read_until.keys() == {goes}
    assert running.query.active
    # And what is held stays so when more is.
    world.lanes.pace(Pace({"eu": Limit(100.0)}))
    assert world.orders("a")[-1] == Orders(held=frozenset({goes}), rates={(0, 0): (50.0, None)})


def test_a_partition_that_is_read_no_more_anyway_is_given_up_at_once(world: World) -> None:
    first, second = partitions_of("a")
    world.lanes.hold({"a": frozenset({first, second})})
    world.tells("a", OUT_OF_RANGE, DONE)
    assert world.lanes.held() == {first, second}


def test_one_that_is_refused_is_given_up_when_its_task_has_the_order(world: World) -> None:
    # Until then it is tried again, and might be read.
    world.lanes.hold({"a": frozenset(partitions_of("a")[:1])})
    world.tells("a", REFUSED)
    assert world.lanes.held() == set()
    world.tells("a", HELD)
    assert world.lanes.held() == set(partitions_of("a")[:1])


def test_what_was_given_up_and_cannot_be_committed_is_tried_again(world: World) -> None:
    goes = partitions_of("a")[1]
    world.lanes.hold({"a": frozenset({goes})})
    world.tells("a", second=HELD)
    world.failure = CheckpointError("the disk is full")
    assert world.lanes.held() == set()
    assert [(it.kind, it.message) for it in world.events] == [
        ("checkpoint_error", "the disk is full")
    ]
    assert goes in world.lanes.partitions
    world.failure = None
    assert world.lanes.held() == {goes}


def test_a_lane_that_ends_meanwhile_gives_up_all_of_it(world: World) -> None:
    for name in ("a", "b"):
        world.lanes.hold({name: frozenset(partitions_of(name)[:1])})
        world.tells(name, HELD)
    world.lanes.leave(["a"], SECONDS)
    world.streams["b"].fail("the hub is full")
    assert world.lanes.ended().keys() == {"b"}
    assert (world.lanes.held(), world.lanes.holding, world.left) == (set(), {}, [])
    assert world.orders("a")[-1] == Orders(end=True, held=frozenset(partitions_of("a")[:1]))


# --- being done, and being another one ------------------------------------------------------


def test_lanes_are_done_when_all_is_read_up_to_its_end(world: World) -> None:
    for name, states in {"a": (DONE, READING), "b": (DONE, DONE), "c": (DONE, HELD)}.items():
        world.tells(name, *states)
    assert world.lanes.done() == ["b", "c"]
    world.connector.reports["b"] = lane_report(*world.connector.reports["b"].tasks, expected=2)
    world.lanes.leave(["c"], SECONDS)
    assert world.lanes.done() == []


def test_a_lane_starts_anew_for_more_partitions_or_another_route_and_not_for_less(
    world: World,
) -> None:
    first, second = partitions_of("a")
    lane, routes = Lane("a", (first, second)), [route("a"), route("b")]

    def is_changed(lane: Lane, *routes: Route) -> bool:
        return world.lanes.is_changed(lane, routes)

    assert not is_changed(lane, *routes)
    assert not is_changed(Lane("a", (first,)), *routes)
    assert not is_changed(lane, route("a", partitions=9), route("b", hub_partitions=9))
    assert is_changed(lane, route("a", hub_partitions=9))
    assert is_changed(lane, route("a", origin="header"), route("b", hub_partitions=9))
    assert is_changed(Lane("a", (first, second, first._replace(partition=2))), *routes)
    assert is_changed(Lane("d", (first,)), *routes)
    # What it is giving up it cannot go on with.
    world.lanes.hold({"a": frozenset({second})})
    assert is_changed(lane, *routes)
    assert not is_changed(Lane("a", (first,)), *routes)


def test_a_pace_is_told_to_the_tasks_and_no_other_lanes_are_needed_for_it(world: World) -> None:
    world.lanes.pace(Pace({"eu": Limit(100.0, 4_000.0)}))
    world.lanes.pace(Pace({"eu": Limit(100.0, 4_000.0)}))
    world.lanes.pace(Pace())
    # Two of the four partitions that are read in all.
    assert world.orders("a") == [Orders(rates={(0, 0): (50.0, 2_000.0)}), Orders()]


# --- starting -------------------------------------------------------------------------------


@pytest.fixture
def asked(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What queries were asked to start with; they start without Spark."""
    asked: list[Any] = []

    def start(
        _spark: object,
        _connector: object,
        lane: Lane,
        generation: int,
        readings: list[Reading],
        _settings: LaneSettings,
        skips: Mapping[SourcePartition, Skip],
        snapshot: int,
    ) -> LaneQuery:
        asked.append((generation, [reading.positions for reading in readings], skips, snapshot))
        assert world.begun, "its start is committed first"
        if lane.name == "bad":
            raise AggregatorError("no place")
        world.streams[lane.name] = Stream()
        return world.query(lane, generation)

    monkeypatch.setattr(LaneQuery, "start", start)
    return asked


def test_a_lane_starts_when_its_start_is_committed_with_what_it_is_to_leave_out(
    world: World, asked: list[Any]
) -> None:
    first, second = partitions_of("d")
    positions = Positions({first: 5, second: 6, partitions_of("a")[0]: 7})
    skips, older = {first: Skip([(6, 9)])}, {first: {TopicPartition("d", 0): 40}}
    start = Start(positions, skips, older)
    own = Positions({first: 5, second: 6})
    world.board.lanes["old"] = LaneNote(LaneState.FAILED, 1, (first,), reason="it failed")
    world.board.lanes["d"] = LaneNote(LaneState.FAILED, 1, (second,), restarts=3)
    world.lanes.start(Lane("d", (first, second)), start, [route("a"), route("d")], SETTINGS)
    assert world.begun == [("d", 1, own, older)]
    assert asked == [(1, [own], skips, 77)]
    assert world.lanes.running["d"].routes == (route("d"),)
    assert {first, second} <= world.lanes.partitions
    # A lane that is over, and whose partitions this one reads, is no news any more.
    assert world.board.lanes.keys() == {"a", "b", "c", "d"}
    note = world.board.lanes["d"]
    assert (note.state, note.generation, note.restarts) == (LaneState.RUNNING, 1, 3)
    assert [event.kind for event in world.events] == ["lane_started"]


def test_one_that_cannot_start_does_not_run_and_the_next_has_another_number(
    world: World, asked: list[Any]
) -> None:
    lane = Lane("bad", partitions_of("d"))
    start = Start(Positions(dict.fromkeys(lane.partitions, 0)))
    with pytest.raises(AggregatorError, match="no place"):
        world.lanes.start(lane, start, [route("d")], SETTINGS)
    assert "bad" not in world.lanes.running
    assert world.board.lanes["bad"].state is LaneState.STARTING
    world.lanes.start(Lane("d", lane.partitions), start, [route("d")], SETTINGS)
    assert [generation for generation, *_ in asked] == [1, 2]
    world.failure = CheckpointError("the disk is full")
    with pytest.raises(CheckpointError):
        world.lanes.start(lane, start, [route("d")], SETTINGS)
    # Nothing is asked to start whose start is not committed.
    assert len(asked) == 2


def test_a_source_is_dealt_to_as_many_tasks_as_its_config_says() -> None:
    def reading(cluster: str) -> Reading:
        return Reading(
            cluster, "", (), Positions({SourcePartition(cluster, "a", it): 0 for it in range(6)})
        )

    settings = replace(SETTINGS, tasks=2, own_tasks={"far": 4})
    assert [len(hand) for hand in settings.deal(reading("eu"))] == [3, 3]
    assert [len(hand) for hand in settings.deal(reading("far"))] == [2, 2, 1, 1]
