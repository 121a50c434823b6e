"""The lanes that run: start one, let some end, notice those that have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from aggregator.audit.document import LaneState
from aggregator.engine.board import Board, LaneNote
from aggregator.engine.events import Event, EventSink
from aggregator.engine.observer import Observer
from aggregator.errors import AggregatorError
from aggregator.failpoint import failpoint
from aggregator.model import Lane, Positions, Route, SourcePartition
from aggregator.plan.pace import Pace
from aggregator.stream.frames import plan_readings
from aggregator.stream.lane import LaneQuery, LaneSettings

ENDED_TIMEOUT_SECONDS = 10.0
TICK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class RunningLane:
    """A lane with the routes and the pace its query was built from, and the query."""

    lane: Lane
    routes: tuple[Route, ...]
    pace: Pace
    query: LaneQuery


class Lanes:
    """All running lanes of an engine. Used by the engine's thread alone."""

    def __init__(
        self, spark: SparkSession, observer: Observer, board: Board, emit: EventSink
    ) -> None:
        self._spark = spark
        self._observer = observer
        self._board = board
        self._emit = emit
        self._generation = 0
        self._running: dict[str, RunningLane] = {}
        self._ending: dict[str, Future[bool]] = {}
        self.read_until: dict[SourcePartition, float] = {}
        """When the last lane that read a partition had ended, by the monotonic clock."""

    @property
    def running(self) -> Mapping[str, RunningLane]:
        """Lane name -> the lane that runs; one that ends does so until `left` has told of it."""
        return self._running

    @property
    def partitions(self) -> set[SourcePartition]:
        """What the lanes read that run."""
        return {sp for lane in self._running.values() for sp in lane.lane.partitions}

    @property
    def ending(self) -> Collection[str]:
        """Names of the lanes that were told to end."""
        return self._ending.keys()

    def start(
        self, lane: Lane, positions: Positions, routes: Sequence[Route], settings: LaneSettings
    ) -> None:
        """Commit the start of a lane, then start its query.

        Raises CheckpointError or ClusterError when the start cannot be committed, and whatever
        Spark says against the query; the lane then does not run.
        """
        self._generation += 1
        own = self._own(lane, routes)
        starts = positions.only(set(lane.partitions))
        restarts = self._board.lanes[lane.name].restarts if lane.name in self._board.lanes else 0
        self._forget(lane)
        self._note(lane, LaneState.STARTING, restarts)
        failpoint("before-begin")
        self._observer.begin(lane.name, self._generation, starts)
        failpoint("after-begin")
        query = LaneQuery.start(
            self._spark, lane, self._generation, plan_readings(own, starts), settings
        )
        failpoint("after-start")
        self._running[lane.name] = RunningLane(lane, own, settings.pace.of(lane), query)
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

    def leave(self, names: Collection[str], timeout_seconds: float) -> None:
        """Let lanes end after their running batch, which may take minutes. Returns at once."""
        chosen = [self._running[name] for name in sorted(names) if name not in self._ending]
        if not chosen:
            return
        for lane in chosen:
            self._board.lanes[lane.lane.name].state = LaneState.DRAINING
        failpoint("before-drain")
        pool = ThreadPoolExecutor(len(chosen), thread_name_prefix="drain")
        for lane in chosen:
            self._ending[lane.lane.name] = pool.submit(lane.query.drain, timeout_seconds)
        pool.shutdown(wait=False)

    def left(self) -> dict[str, str]:
        """Lanes that have ended after `leave` since the last call: name -> what went wrong, or "".

        Where they got to is committed, and they are no longer among `running`. Raises
        AggregatorError for a lane that does not stop, when the others are committed.
        """
        left: dict[str, str] = {}
        error: Exception | None = None
        for name in [name for name, future in self._ending.items() if future.done()]:
            try:
                clean = self._ending.pop(name).result()
            except Exception as its_own:  # raised below: first the others
                error = error or its_own
                continue
            left[name] = self._finish(self._running[name], clean)
        if error is not None:
            raise error
        return left

    def end(self, timeout_seconds: float, tick: Callable[[], None]) -> dict[str, str]:
        """Let all lanes end, and wait for it. Returns lane name -> what went wrong, if anything.

        Each is committed as it ends: whoever is killed before the last has less to recover. `tick`
        is called now and then. Raises AggregatorError for a lane that does not stop.
        """
        self.leave(list(self._running), timeout_seconds)
        problems: dict[str, str] = {}
        error: Exception | None = None
        while self._ending:
            wait(self._ending.values(), TICK_SECONDS, return_when=FIRST_COMPLETED)
            try:
                problems |= {name: problem for name, problem in self.left().items() if problem}
            except Exception as its_own:  # raised below: first the others
                error = error or its_own
            tick()
        if error is not None:
            raise error
        return problems

    def ended(self) -> dict[str, str]:
        """Lanes that ended by themselves since the last call: name -> why they failed, or "".

        Their last positions are committed, and they are no longer among `running`.
        """
        ended = {}
        for name, lane in list(self._running.items()):
            if name in self._ending or lane.query.active:
                continue
            clean = lane.query.drain(ENDED_TIMEOUT_SECONDS)
            ended[name] = self._finish(lane, clean)
        return ended

    def is_changed(self, lane: Lane, routes: Sequence[Route], pace: Pace) -> bool:
        """Whether a planned lane is not running, or not as it is planned now."""
        running = self._running.get(lane.name)
        if running is None or running.lane != lane or running.pace != pace.of(lane):
            return True
        return not _same(running.routes, self._own(lane, routes))

    def kill(self) -> None:
        """End all lanes at once and commit nothing."""
        self._ending.clear()
        for name in list(self._running):
            lane = self._running.pop(name)
            lane.query.kill()
            lane.query.close()

    def _finish(self, lane: RunningLane, clean: bool) -> str:
        name = lane.lane.name
        failure = lane.query.failure()
        problem = failure or ("" if clean else "its last batch did not end cleanly")
        del self._running[name]
        self.read_until.update(dict.fromkeys(lane.lane.partitions, time.monotonic()))
        try:
            failpoint("before-final-commit")
            self._observer.finish(lane.query, clean=clean and failure is None)
            failpoint("after-final-commit")
        except AggregatorError as error:
            problem = problem or f"its last position is not committed: {error}"
        note = self._board.lanes[name]
        note.reason = problem
        if news := self._board.careful.suspect(lane.lane.partitions, problem):
            note.careful = True
            self._emit(news)
        note.state = LaneState.FAILED if problem else LaneState.DONE
        lane.query.close()
        return problem

    def _own(self, lane: Lane, routes: Sequence[Route]) -> tuple[Route, ...]:
        topics = {(sp.cluster, sp.topic) for sp in lane.partitions}
        own = [route for route in routes if (route.cluster, route.topic) in topics]
        return self._board.careful.routes(own)

    def _forget(self, lane: Lane) -> None:
        """Lanes that are over, and whose partitions this one reads now, are no news any more."""
        for name, note in list(self._board.lanes.items()):
            if name not in self._running and set(note.partitions) & set(lane.partitions):
                del self._board.lanes[name]

    def _note(self, lane: Lane, state: LaneState, restarts: int) -> None:
        note = LaneNote(state, self._generation, lane.partitions, restarts)
        self._board.lanes[lane.name] = note


def _same(before: Sequence[Route], after: Sequence[Route]) -> bool:
    """Whether two sets of routes make the same query.

    Source partition counts do not matter: a lane names the partitions that it reads.
    """
    return [replace(r, partitions=0) for r in before] == [replace(r, partitions=0) for r in after]
