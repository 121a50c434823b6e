"""Starts a lane: commits where it begins, builds its query, and has it observed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from aggregator.audit.document import LaneState
from aggregator.connector.driver import Connector
from aggregator.engine.board import Board, LaneNote
from aggregator.engine.events import Event, EventSink
from aggregator.engine.observer import Observer
from aggregator.engine.tail import Ends
from aggregator.failpoint import failpoint
from aggregator.model import Lane, Positions, Route, Skip, SourcePartition
from aggregator.stream.frames import plan_readings
from aggregator.stream.lane import LaneQuery, LaneSettings


@dataclass(frozen=True, slots=True)
class RunningLane:
    """A lane with the routes its query was built from, and the query."""

    lane: Lane
    routes: tuple[Route, ...]
    query: LaneQuery


@dataclass(frozen=True, slots=True)
class Start:
    """From where a lane starts: positions, what it leaves out, and since when the hub has that.

    `older` are the hub's ends before anything beyond the positions of those with a skip set came.
    """

    positions: Positions
    skips: Mapping[SourcePartition, Skip] = field(default_factory=dict)
    older: Mapping[SourcePartition, Ends] = field(default_factory=dict)


class Launch:
    """Starts the lanes of an engine, each life under a number of its own."""

    def __init__(
        self,
        spark: SparkSession,
        connector: Connector,
        observer: Observer,
        board: Board,
        emit: EventSink,
    ) -> None:
        self._spark = spark
        self._connector = connector
        self._observer = observer
        self._board = board
        self._emit = emit
        self._generation = 0

    def start(
        self,
        lane: Lane,
        start: Start,
        routes: Sequence[Route],
        settings: LaneSettings,
        running: Collection[str],
    ) -> RunningLane:
        """Commit the start of a lane, then start its query; `running` are the lanes that run.

        Raises CheckpointError or ClusterError when the start cannot be committed, and whatever
        Spark says against the query; the lane then does not run.
        """
        self._generation += 1
        own = self.own(lane, routes)
        positions = start.positions.only(set(lane.partitions))
        restarts = self._board.lanes[lane.name].restarts if lane.name in self._board.lanes else 0
        self._forget(lane, running)
        self._note(lane, LaneState.STARTING, restarts)
        failpoint("before-begin")
        snapshot = self._observer.begin(lane.name, self._generation, positions, start.older)
        failpoint("after-begin")
        query = LaneQuery.start(
            self._spark,
            self._connector,
            lane,
            self._generation,
            plan_readings(own, positions),
            settings,
            start.skips,
            snapshot,
        )
        failpoint("after-start")
        self._observer.watch(query)
        self._note(lane, LaneState.RUNNING, restarts)
        self._emit(
            Event(
                "lane_started",
                f"lane {lane.name} reads {len(lane.partitions)} partitions of "
                f"{', '.join(lane.clusters)}",
                {"lane": lane.name, "generation": self._generation},
            )
        )
        return RunningLane(lane, own, query)

    def own(self, lane: Lane, routes: Sequence[Route]) -> tuple[Route, ...]:
        """The routes of a lane, as its query is built from them now."""
        topics = {(sp.cluster, sp.topic) for sp in lane.partitions}
        own = [route for route in routes if (route.cluster, route.topic) in topics]
        return self._board.careful.routes(own)

    def _forget(self, lane: Lane, running: Collection[str]) -> None:
        """Lanes that are over, and whose partitions this one reads now, are no news any more."""
        for name, note in list(self._board.lanes.items()):
            if name not in running and set(note.partitions) & set(lane.partitions):
                del self._board.lanes[name]

    def _note(self, lane: Lane, state: LaneState, restarts: int) -> None:
        note = LaneNote(state, self._generation, lane.partitions, restarts)
        self._board.lanes[lane.name] = note
