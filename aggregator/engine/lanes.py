"""The lanes that run: let some end or read less, notice those that have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from aggregator.audit.document import LaneState
from aggregator.connector.driver import Connector
from aggregator.connector.reports import POISONED
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.engine.launch import Launch, RunningLane, Start
from aggregator.engine.observer import Observer
from aggregator.errors import AggregatorError
from aggregator.failpoint import failpoint
from aggregator.model import Lane, Route, SourcePartition
from aggregator.plan.pace import Pace
from aggregator.stream.lane import LaneSettings

TICK_SECONDS = 0.05


class Lanes:
    """All running lanes of an engine. Used by the engine's thread alone."""

    def __init__(
        self,
        spark: SparkSession,
        connector: Connector,
        observer: Observer,
        board: Board,
        emit: EventSink,
    ) -> None:
        self._connector = connector
        self._observer = observer
        self._board = board
        self._emit = emit
        self._launch = Launch(spark, connector, observer, board, emit)
        self._running: dict[str, RunningLane] = {}
        self._ending: dict[str, float] = {}
        self._holding: dict[str, frozenset[SourcePartition]] = {}
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

    @property
    def holding(self) -> Mapping[str, frozenset[SourcePartition]]:
        """Partitions that lanes were told to read no more, and of which this is not done yet."""
        return self._holding

    def start(
        self, lane: Lane, start: Start, routes: Sequence[Route], settings: LaneSettings
    ) -> None:
        """Let one lane more run; raises as `Launch.start` does, and then it does not."""
        running = self._launch.start(lane, start, routes, settings, self._running)
        self._running[lane.name] = running

    def leave(self, names: Collection[str], timeout_seconds: float) -> None:
        """Let lanes end, each as soon as its tasks have told where they are. Returns at once."""
        chosen = [self._running[name] for name in sorted(names) if name not in self._ending]
        for lane in chosen:
            self._board.lanes[lane.lane.name].state = LaneState.DRAINING
        if chosen:
            failpoint("before-drain")
        for lane in chosen:
            lane.query.end()
            self._ending[lane.lane.name] = time.monotonic() + timeout_seconds

    def hold(self, less: Mapping[str, frozenset[SourcePartition]]) -> None:
        """Let lanes read no more of some partitions while they go on. Returns at once."""
        for name, partitions in less.items():
            before = self._holding.get(name, frozenset())
            if partitions - before:
                self._running[name].query.hold(partitions)
                self._holding[name] = before | partitions
                leaving = sorted({sp.cluster for sp in self._holding[name]})
                self._board.lanes[name].leaving = tuple(leaving)

    def pace(self, pace: Pace) -> None:
        """Read at this pace from now on."""
        for lane in self._running.values():
            lane.query.pace(pace)

    def left(self) -> dict[str, str]:
        """Lanes that have ended after `leave` since the last call: name -> what went wrong, or "".

        Where they got to is committed, and they are no longer among `running`. Raises
        AggregatorError for a lane that does not stop, when the others are committed.
        """
        left: dict[str, str] = {}
        error: Exception | None = None
        for name, deadline in list(self._ending.items()):
            query = self._running[name].query
            clean = query.report.ended
            if not clean and query.active and time.monotonic() < deadline:
                continue
            del self._ending[name]
            try:
                query.stop()
            except AggregatorError as its_own:  # raised below: first the others
                error = error or its_own
                continue
            left[name] = self._finish(self._running[name], clean)
        if error is not None:
            raise error
        return left

    def held(self) -> set[SourcePartition]:
        """Partitions that lanes have given up after `hold` since the last call, and go on without.

        Where they are is committed; what cannot be is tried again with the next call.
        """
        done: set[SourcePartition] = set()
        for name, partitions in list(self._holding.items()):
            lane = self._running.get(name)
            if lane is None or name in self._ending:
                del self._holding[name]
            elif lane.query.has_left(partitions):
                try:
                    self._observer.left(lane.query, partitions)
                except AggregatorError as error:
                    self._emit(Event("checkpoint_error", str(error)))
                    continue
                del self._holding[name]
                self._lessen(lane, partitions)
                done |= partitions
        return done

    def end(self, timeout_seconds: float, tick: Callable[[], None]) -> dict[str, str]:
        """Let all lanes end, and wait for it. Returns lane name -> what went wrong, if anything.

        Each is committed as it ends: whoever is killed before the last has less to recover. `tick`
        is called now and then. Raises AggregatorError for a lane that does not stop.
        """
        self.leave(list(self._running), timeout_seconds)
        problems: dict[str, str] = {}
        error: Exception | None = None
        while self._ending:
            time.sleep(TICK_SECONDS)
            self._connector.poll()
            try:
                problems |= {name: problem for name, problem in self.left().items() if problem}
            except Exception as its_own:  # raised below: first the others
                error = error or its_own
            tick()
        if error is not None:
            raise error
        return problems

    def ended(self) -> dict[str, str]:
        """Lanes that ended by themselves since the last call: name -> why they failed.

        Their last positions are committed, and they are no longer among `running`.
        """
        ended = {}
        for name, lane in list(self._running.items()):
            if name not in self._ending and not lane.query.active:
                ended[name] = self._finish(lane, clean=False)
        return ended

    def stopped(self) -> dict[SourcePartition, str]:
        """Partitions that their readers have stopped at a record, and why; not those that leave."""
        found: dict[SourcePartition, str] = {}
        for name, lane in self._running.items():
            if name not in self._ending:
                report, leaving = lane.query.report, self._holding.get(name, frozenset())
                reasons = report.reasons
                found |= {
                    sp: reasons.get(sp, state)
                    for sp, state in report.states.items()
                    if state == POISONED and sp in lane.lane.partitions and sp not in leaving
                }
        return found

    def done(self) -> list[str]:
        """Lanes that have read everything up to the ends that they were given."""
        return [
            name
            for name, lane in self._running.items()
            if name not in self._ending and lane.query.is_done()
        ]

    def is_changed(self, lane: Lane, routes: Sequence[Route]) -> bool:
        """Whether a planned lane is not running, or has to start anew to be as it is planned now.

        One that is to read less than it does needs no start.
        """
        running = self._running.get(lane.name)
        if running is None or set(lane.partitions) - set(running.lane.partitions):
            return True
        if set(lane.partitions) & self._holding.get(lane.name, frozenset()):
            return True
        topics = {(sp.cluster, sp.topic) for sp in lane.partitions}
        before = [it for it in running.routes if (it.cluster, it.topic) in topics]
        return not _same(before, self._launch.own(lane, routes))

    def kill(self) -> None:
        """End all lanes at once and commit nothing."""
        self._ending.clear()
        self._holding.clear()
        for name in list(self._running):
            lane = self._running.pop(name)
            lane.query.stop()
            lane.query.close()

    def _lessen(self, lane: RunningLane, partitions: frozenset[SourcePartition]) -> None:
        name = lane.lane.name
        less = Lane(name, tuple(sp for sp in lane.lane.partitions if sp not in partitions))
        self._running[name] = replace(lane, lane=less)
        lane.query.lane = less
        self.read_until.update(dict.fromkeys(partitions, time.monotonic()))
        note = self._board.lanes[name]
        note.partitions, note.leaving = less.partitions, ()

    def _finish(self, lane: RunningLane, clean: bool) -> str:
        name = lane.lane.name
        failure = lane.query.failure()
        problem = "" if clean else failure or "its tasks did not end in time"
        del self._running[name]
        self._holding.pop(name, None)
        self.read_until.update(dict.fromkeys(lane.lane.partitions, time.monotonic()))
        try:
            failpoint("before-final-commit")
            self._observer.finish(lane.query, clean=clean)
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


def _same(before: Sequence[Route], after: Sequence[Route]) -> bool:
    """Whether two sets of routes make the same query.

    Source partition counts do not matter: a lane names the partitions that it reads.
    """
    return [replace(r, partitions=0) for r in before] == [replace(r, partitions=0) for r in after]
