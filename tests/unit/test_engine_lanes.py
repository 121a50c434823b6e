"""Lanes that end, each in its time; the queries are played."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.audit.document import LaneState
from aggregator.config import load_text
from aggregator.engine.board import Board, LaneNote
from aggregator.engine.lanes import Lanes, RunningLane
from aggregator.errors import AggregatorError
from aggregator.model import Lane, SourcePartition
from aggregator.plan.pace import Pace

SECONDS = 30.0
SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
)


class Query:
    """A query whose batch ends when the test says so."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.over = threading.Event()
        self.error: Exception | None = None

    def drain(self, _timeout_seconds: float) -> bool:
        assert self.over.wait(SECONDS)
        if self.error is not None:
            raise self.error
        return True

    def failure(self) -> None:
        return None

    def close(self) -> None:
        pass


class World:
    def __init__(self) -> None:
        self.committed: list[tuple[str, bool]] = []
        self.ticks = 0
        board = Board(load_text("", SETS), "realtime")
        observer: Any = SimpleNamespace(finish=self.finish)
        nobody: Any = None
        self.lanes = Lanes(nobody, observer, board, lambda _: None)
        self.board, self.queries = board, {name: Query(name) for name in ("a", "b", "c")}
        for number, (name, query) in enumerate(self.queries.items()):
            lane = Lane(name, (SourcePartition("eu", "orders", number),))
            played: Any = query
            self.lanes._running[name] = RunningLane(lane, (), Pace("realtime"), played)
            board.lanes[name] = LaneNote(LaneState.RUNNING, number, lane.partitions)

    def finish(self, query: Query, *, clean: bool) -> None:
        self.committed.append((query.name, clean))

    def tick(self) -> None:
        """One lane ends after the other: the next one when the one before is committed."""
        self.ticks += 1
        assert self.ticks < 4 * SECONDS, f"only {self.committed} are committed"
        for name, query in self.queries.items():
            if not query.over.is_set():
                query.over.set()
                return
            if query.error is None and (name, True) not in self.committed:
                return


def test_each_lane_is_committed_when_it_has_ended_and_not_with_the_last() -> None:
    world = World()
    assert world.lanes.end(SECONDS, world.tick) == {}
    # `tick` lets none end before the one in front of it is committed.
    assert world.committed == [("a", True), ("b", True), ("c", True)]
    assert (world.lanes.running, world.lanes.partitions) == ({}, set())


def test_a_lane_that_does_not_stop_is_raised_when_the_others_are_committed() -> None:
    world = World()
    world.queries["a"].error = AggregatorError("lane a does not stop")
    with pytest.raises(AggregatorError, match="lane a does not stop"):
        world.lanes.end(SECONDS, world.tick)
    assert world.committed == [("b", True), ("c", True)]


def test_a_lane_that_ends_goes_on_as_a_running_one_until_it_has_ended() -> None:
    world = World()
    world.lanes.leave(["a"], SECONDS)
    world.lanes.leave(["a"], SECONDS)
    assert (set(world.lanes.ending), world.lanes.left()) == ({"a"}, {})
    assert world.board.lanes["a"].state is LaneState.DRAINING
    assert world.lanes.running.keys() == {"a", "b", "c"}
    for query in world.queries.values():
        query.over.set()
    assert world.lanes.end(SECONDS, world.tick) == {}
    assert sorted(world.committed) == [("a", True), ("b", True), ("c", True)]
