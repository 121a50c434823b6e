"""Lanes that start, end, and give partitions up, each in its time; their tasks are played."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.datapath.connector.connector import Orders
from aggregator.datapath.connector.reports import HELD, READING, LaneReport
from aggregator.datapath.connector.spec import Clients, Reading
from aggregator.datapath.spark.lane import LaneQuery, LaneSettings
from aggregator.engine.running_lanes import Lanes
from aggregator.features.schemas.translator import Translator
from aggregator.model.errors import AggregatorError, CheckpointError
from aggregator.model.events import Event
from aggregator.model.values import (
    Lane,
    Positions,
    Route,
    Skip,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.lanes.rate_limits import Limit, Pace
from aggregator.plan.lifecycle.commands import Hole, Start, Started
from aggregator.plan.lifecycle.inputs import LaneSeen
from support.reports import lane_report, task

SECONDS = 30.0
SETTINGS = LaneSettings(Clients({}, {}, {"eu": "eu-id"}), (), 1, Pace(), {"eu": 4})


def partitions_of(name: str) -> tuple[SourcePartition, SourcePartition]:
    """The two partitions of a lane: of a topic with its name."""
    return SourcePartition("eu", name, 0), SourcePartition("eu", name, 1)


def route(topic: str) -> Route:
    return Route("eu", topic, topic, 2, 1)


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

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self.streams = streams
        self.reports: dict[str, LaneReport] = {}
        self.orders: dict[str, list[Orders]] = {}
        self.forgotten: list[str] = []
        self.news = 0

    def report(self, lane: str, _generation: int, _tasks: int) -> LaneReport:
        return self.reports.get(lane, LaneReport((), whole=False))

    def order(self, key: str, orders: Orders) -> None:
        self.orders.setdefault(key, []).append(orders)

    def is_over(self, key: str) -> bool:
        return not self.streams[key.partition("#")[0]].isActive

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
        self.into: set[str] = set()
        self.failure: AggregatorError | None = None
        self.ticks = 0
        self.events: list[Event] = []
        self.streams = {name: Stream() for name in ("a", "b", "c")}
        self.connector = FakeConnector(self.streams)
        observer: Any = SimpleNamespace(
            finish=self.finish, left=self.note_left, begin=self.begin, watch=lambda _: None
        )
        unused: Any = None
        connector: Any = self.connector
        self.lanes = Lanes(unused, connector, observer, Translator(unused, self.events.append))
        for number, name in enumerate(self.streams):
            self.lanes._running[name] = self.query(Lane(name, partitions_of(name)), number)
            self.reports(name)

    def query(self, lane: Lane, generation: int) -> LaneQuery:
        stream: Any = self.streams[lane.name]
        folder: Any = SimpleNamespace(remove=lambda: None)
        connector: Any = self.connector
        dealt = {(0, 0): lane.partitions}
        key = f"{lane.name}#{generation}"
        return LaneQuery(connector, lane, generation, key, stream, folder, dealt, SETTINGS)

    def reports(
        self, name: str, first: str = READING, second: str = READING, **fields: Any
    ) -> None:
        """The states of a lane's partitions, as its task reports them."""
        states = zip(partitions_of(name), (first, second), strict=True)
        others = {sp: state for sp, state in states if state != READING}
        positions = dict.fromkeys(partitions_of(name), 7)
        self.connector.reports[name] = lane_report(task(positions, states=others, **fields))

    def ends(self, name: str) -> None:
        self.reports(name, HELD, HELD, ended=True)

    def orders(self, name: str) -> list[Orders]:
        return self.connector.orders.get(self.lanes._running[name].key, [])

    def begin(
        self,
        name: str,
        generation: int,
        positions: Positions,
        older: Mapping[Any, Any],
        into: Collection[str],
    ) -> int:
        self._maybe_fail()
        self.into = set(into)
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

    def tick(self, ended: Mapping[str, str]) -> None:
        """One lane ends after the other: the next one when the one before is committed."""
        self.ticks += 1
        assert self.ticks < 4 * SECONDS, f"only {self.committed} are committed"
        for name, stream in self.streams.items():
            report = self.connector.reports.get(name)
            if report is not None and not report.ended:
                self.ends(name)
                return
            if not stream.deaf and name not in ended:
                return


@pytest.fixture
def world() -> World:
    return World()


# --- ending ---------------------------------------------------------------------------------


def test_each_lane_is_committed_when_it_has_ended_and_not_with_the_last(world: World) -> None:
    assert world.lanes.end_all(SECONDS, world.tick) == {"a": "", "b": "", "c": ""}
    # `tick` lets none end before the one in front of it is committed.
    assert world.committed == [("a", True), ("b", True), ("c", True)]
    assert not world.lanes.names
    assert world.connector.forgotten == ["a#0", "b#1", "c#2"]


def test_a_lane_that_does_not_stop_is_raised_when_the_others_are_committed(world: World) -> None:
    world.streams["a"].deaf = True
    with pytest.raises(AggregatorError, match="lane a does not stop"):
        world.lanes.end_all(SECONDS, world.tick)
    assert world.committed == [("b", True), ("c", True)]


def test_a_lane_that_has_to_end_is_asked_to_and_runs_until_it_has(world: World) -> None:
    world.lanes.end("a")
    world.lanes.end("a")
    assert world.orders("a") == [Orders(end=True)]
    assert set(world.lanes.names) == {"a", "b", "c"}
    seen = world.lanes.seen()["a"]
    assert (seen.active, seen.whole, seen.ended) == (True, True, False)
    world.ends("a")
    assert world.lanes.seen()["a"].ended
    assert world.lanes.finish("a", clean=True) == ""
    assert (world.committed, world.connector.forgotten) == ([("a", True)], ["a#0"])
    assert not world.streams["a"].isActive


def test_when_all_is_to_end_a_lane_that_is_late_is_stopped_and_not_clean(world: World) -> None:
    late = "its tasks did not end in time"
    assert world.lanes.end_all(0.0, world.tick) == {"a": late, "b": late, "c": late}
    assert world.committed == [("a", False), ("b", False), ("c", False)]


def test_a_lane_that_has_failed_says_why_and_is_not_clean(world: World) -> None:
    world.streams["b"].fail("the hub is full")
    seen = world.lanes.seen()
    assert (seen["b"].active, seen["b"].failure) == (False, "the hub is full")
    assert (seen["a"].active, seen["a"].failure) == (True, None)
    assert world.lanes.finish("b", clean=False) == "the hub is full"
    assert world.committed == [("b", False)]


def test_an_end_that_cannot_be_committed_is_reported(world: World) -> None:
    world.failure = CheckpointError("the disk is full")
    words = "its last position is not committed: the disk is full"
    assert world.lanes.finish("a", clean=True) == words
    # A failure of its own is the better reason.
    world.streams["b"].fail("the hub is full")
    assert world.lanes.finish("b", clean=False) == "the hub is full"
    assert set(world.lanes.names) == {"c"}


def test_killed_lanes_commit_nothing(world: World) -> None:
    world.lanes.end("a")
    world.lanes.kill()
    assert not any(stream.isActive for stream in world.streams.values())
    assert (world.committed, world.left) == ([], [])
    assert not world.lanes.names


# --- giving partitions up, and the pace -----------------------------------------------------


def test_a_lane_gives_partitions_up_and_continues_without_them(world: World) -> None:
    _, goes = partitions_of("a")
    world.lanes.hold("a", {goes})
    world.lanes.hold("a", {goes})
    assert world.orders("a") == [Orders(held=frozenset({goes}))]
    world.reports("a", second=HELD)
    assert world.lanes.seen()["a"].states == {goes: HELD}
    world.lanes.release("a", {goes})
    assert world.left == [("a", frozenset({goes}))]
    assert world.lanes.seen()["a"].active
    # And what is held stays so when more is asked for.
    world.lanes.pace(Pace({"eu": Limit(100.0)}))
    assert world.orders("a")[-1] == Orders(held=frozenset({goes}), rates={(0, 0): (50.0, None)})
    world.lanes.end("a")
    assert world.orders("a")[-1].held == {goes}


def test_what_is_given_up_and_cannot_be_committed_is_the_callers(world: World) -> None:
    world.failure = CheckpointError("the disk is full")
    with pytest.raises(CheckpointError):
        world.lanes.release("a", {partitions_of("a")[1]})


def test_a_pace_is_sent_to_the_tasks_and_no_other_lanes_are_needed_for_it(world: World) -> None:
    world.lanes.pace(Pace({"eu": Limit(100.0, 4_000.0)}))
    world.lanes.pace(Pace({"eu": Limit(100.0, 4_000.0)}))
    world.lanes.pace(Pace())
    # Two of the four partitions that are read in all.
    assert world.orders("a") == [Orders(rates={(0, 0): (50.0, 2_000.0)}), Orders()]


def test_a_report_is_news_until_it_was_seen(world: World) -> None:
    seen = [world.lanes.has_news]
    world.connector.news += 1
    seen.append(world.lanes.has_news)
    world.lanes.seen()
    assert [*seen, world.lanes.has_news] == [False, True, False]


def test_schema_ids_are_news_until_the_tasks_have_them(world: World) -> None:
    world.lanes._translator.known = {"eu": {}}
    seen = [world.lanes.has_news]
    world.lanes.translate()
    assert [*seen, world.lanes.has_news] == [True, False]


def test_nothing_is_known_of_a_lane_before_its_first_report(world: World) -> None:
    world.connector.reports.clear()
    assert world.lanes.seen()["a"] == LaneSeen(True)


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
    positions = Positions({first: 5, second: 6})
    hole = Hole(5, 1, Skip([(6, 9)]), {TopicPartition("d", 0): 40})
    start = Start(Lane("d", (first, second)), positions, (route("d"),), {first: hole})
    assert world.lanes.start(start, SETTINGS) == Started(1, "d#1")
    assert world.begun == [("d", 1, positions, {first: hole.ends})]
    assert world.into == route("d").hub_topics
    assert asked == [(1, [positions], {first: hole.skip}, 77)]
    assert "d" in world.lanes.names


def test_one_that_cannot_start_does_not_run_and_the_next_has_another_number(
    world: World, asked: list[Any]
) -> None:
    partitions = partitions_of("d")
    positions = Positions(dict.fromkeys(partitions, 0))
    bad = Start(Lane("bad", partitions), positions, (route("d"),))
    with pytest.raises(AggregatorError, match="no place"):
        world.lanes.start(bad, SETTINGS)
    assert "bad" not in world.lanes.names
    world.lanes.start(replace(bad, lane=Lane("d", partitions)), SETTINGS)
    assert [generation for generation, *_ in asked] == [1, 2]
    world.failure = CheckpointError("the disk is full")
    with pytest.raises(CheckpointError):
        world.lanes.start(bad, SETTINGS)
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
