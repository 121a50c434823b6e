"""Runs the lanes of a plan: starts them, keeps them in step with the clusters, stops them.

The engine's own thread decides; the lookout, the source watches and the observer are threads that
hand it values. `run` in `aggregator.engine.run` builds one and numbers the steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aggregator.audit.document import Phase, Status
from aggregator.config.schema import Config
from aggregator.discover import ClusterAdmin, apply
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.engine.lanes import Lanes
from aggregator.engine.look import Look, Lookout, identity_of
from aggregator.engine.observer import Observer
from aggregator.engine.orphans import orphans_of
from aggregator.engine.recovery import Recovery
from aggregator.engine.settings import lane_settings
from aggregator.engine.sources import SourcesWatch
from aggregator.engine.starts import Starts
from aggregator.errors import AggregatorError, ClusterError
from aggregator.model import Lane, Route, SourcePartition
from aggregator.plan.lanes import plan_lanes, stagger
from aggregator.plan.plan import Plan
from aggregator.plan.positions import StartPlan
from aggregator.stream.lane import client_id
from aggregator.stream.transform import check_transform

LOOP_SECONDS = 0.25
STATUS_SECONDS = 1.0
FAILURES_ALLOWED = 3
"""`--until-caught-up` gives a lane so many tries; a run that goes on for ever gives it endless."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What an engine is made of; all of it is started and ended by the caller."""

    spark: SparkSession
    observer: Observer
    lookout: Lookout
    sources: SourcesWatch
    hub: ClusterAdmin
    board: Board


class Engine:
    """The lanes of one aggregation, from their start to their stop."""

    def __init__(
        self,
        config: Config,
        parts: Parts,
        trigger: str,
        emit: EventSink,
        on_status: Callable[[Status], None],
        stop: threading.Event,
    ) -> None:
        self._config = config
        self._parts = parts
        self._trigger = trigger
        self._emit = emit
        self._on_status = on_status
        self._stop = stop
        self._board = parts.board
        self._lanes = Lanes(parts.spark, parts.observer, parts.board, emit)
        self._recovery = Recovery(
            config, parts.spark, parts.observer, parts.hub, parts.board, emit, stop
        )
        self._starts = Starts(config, parts.observer, orphans_of(config, parts.spark), emit)
        self._checked_transforms: set[str] = set()
        self._next_status = 0.0
        self._slots: int | None = None

    @property
    def held(self) -> Mapping[SourcePartition, str]:
        """Partitions that do not run though they are selected, and why."""
        return self._starts.held

    def begin(self, look: Look) -> None:
        """Start every lane of the first look.

        Raises ConfigError for a transform that does not fit, ClusterError when the hub refuses a
        change that the plan needs, CheckpointError when a start cannot be committed.
        """
        self._follow(look, first=True)

    def supervise(self, *, until_done: bool) -> None:
        """Keep the lanes running until told to stop; with `until_done`, until all have ended."""
        while not self._stop.wait(LOOP_SECONDS):
            if (conflict := self._parts.observer.conflict) is not None:
                self._lanes.kill()
                raise conflict
            if (failure := self._parts.observer.failure) is not None:
                raise AggregatorError(f"checkpoints have stopped: {failure}") from failure
            self._notice_ends(until_done)
            newest = self._parts.lookout.latest()
            if isinstance(newest, Look):
                self._follow(newest, first=False)
            elif newest is not None:
                self._emit(Event("look_failed", f"nothing new can be found: {newest}"))
            if self._starts.due():
                self._parts.lookout.wake()
            self.tell()
            if until_done and not self._lanes.running and not self._waiting(until_done):
                return

    def end(self) -> dict[str, str]:
        """Stop cleanly: every lane ends after its batch. Returns lane -> what went wrong."""
        self._board.phase = Phase.STOPPING
        self.tell(now=True)
        return self._lanes.drain(list(self._lanes.running), self._patience)

    def tell(self, *, now: bool = False) -> None:
        """Bring the board up to date, and hand the status out about once a second."""
        moment = time.monotonic()
        if not now and moment < self._next_status:
            return
        self._next_status = moment + STATUS_SECONDS
        observer, board = self._parts.observer, self._board
        with board.lock:
            board.positions = observer.positions
            board.progress = observer.progress
            board.seq, board.epoch = observer.state.seq, observer.state.epoch
            board.committed_ms = observer.committed_ms
            board.checkpoint_error = observer.error
            self._parts.sources.tell(board, self._emit)
        if board.log_ends:
            observer.saw(board.log_ends)
        self._on_status(board.document())

    def _follow(self, look: Look, *, first: bool) -> None:
        """Bring the lanes in step with what a look has found."""
        plan = look.plan
        if plan.refusals and not first:
            self._emit(Event("plan_refused", "; ".join(plan.refusals)))
            return
        try:
            # Before anything is changed: a transform that does not fit is refused.
            self._check_transforms(plan)
            self._apply(plan)
        except AggregatorError as error:
            if first:
                raise
            self._emit(Event("plan_failed", str(error)))
            return
        start = self._starts.positions(look)
        self._note_look(look)
        if first:
            self._slots = plan.slots.slots if self._trigger == "realtime" else None
        wanted = self._starts.wanted(look, start, self._running(), self._slots)
        self._board.held = self.held
        try:
            self._recover(plan, wanted)
        except AggregatorError as error:
            if first:
                raise
            self._emit(Event("recovery_failed", str(error)))
            wanted -= self._parts.observer.state.unclean - self._running()
        current = [running.lane for running in self._lanes.running.values()]
        lanes = plan_lanes(
            wanted, self._config.stream.lanes, self._config.stream.max_partitions_per_lane, current
        )
        changed = [lane for lane in lanes.lanes if self._is_changed(lane, plan)]
        over = {lane.name for lane in [*lanes.ended(current), *changed]} & set(self._lanes.running)
        for name, problem in self._lanes.drain(over, self._patience).items():
            # Its partitions rest until they are recovered, in whatever lane they are to be.
            lost = next(lane for lane in current if lane.name == name)
            self._failed(lost, problem)
        resting = self._starts.resting()
        changed = [lane for lane in changed if not resting & set(lane.partitions)]
        self._start(changed, plan, start, first)

    def _start(self, lanes: list[Lane], plan: Plan, start: StartPlan, first: bool) -> None:
        # Where the observer knows a partition, it knows better: drained or recovered since.
        positions = start.positions.merged(self._parts.observer.positions)
        settings = lane_settings(self._config, plan, self._trigger)
        began = time.monotonic()
        delays = stagger(lanes, self._config.stream.checkpoint_interval)
        for lane, delay in zip(lanes, delays, strict=True):
            if self._stop.wait(max(0.0, began + delay - time.monotonic())):
                return
            try:
                self._lanes.start(lane, positions, plan.routes, settings)
            except (AggregatorError, PySparkException) as error:
                if first:
                    raise
                self._failed(lane, str(error))
        self._parts.sources.follow(self._running())

    def _notice_ends(self, until_done: bool) -> None:
        lanes = {name: running.lane for name, running in self._lanes.running.items()}
        for name, problem in self._lanes.ended().items():
            if problem:
                self._failed(lanes[name], problem)
                if not (until_done and self._starts.backoff.failures(name) >= FAILURES_ALLOWED):
                    continue
            self._starts.done |= set(lanes[name].partitions)
            self._emit(Event("lane_ended", f"lane {name} has ended", {"lane": name}))

    def _failed(self, lane: Lane, reason: str) -> None:
        delay = self._starts.backoff.failed(lane.name, frozenset(lane.partitions), time.monotonic())
        note = self._board.lanes[lane.name]
        note.restarts += 1
        self._starts.orphans.add(
            client_id(lane.name, note.generation), frozenset(lane.partitions), time.monotonic()
        )
        self._emit(
            Event(
                "lane_failed",
                f"lane {lane.name} failed, next try in {delay:.0f} s: {reason}",
                {"lane": lane.name},
            )
        )

    def _waiting(self, until_done: bool) -> bool:
        """Whether a failed lane will be tried again."""
        limit = FAILURES_ALLOWED if until_done else None
        return self._starts.backoff.waiting(limit)

    def _apply(self, plan: Plan) -> None:
        timeout = self._config.supervision.connect_timeout
        for done in apply(plan.actions, self._parts.hub, timeout):
            if not done.ok:
                raise ClusterError(f"hub: {done.action}: {done.reason}")
            if done.changed:
                self._emit(Event("hub_changed", str(done.action)))

    def _check_transforms(self, plan: Plan) -> None:
        names = {route.transform for route in plan.routes if route.transform}
        for name in sorted(names - self._checked_transforms):
            check_transform(self._parts.spark, name)
            self._checked_transforms.add(name)

    def _running(self) -> set[SourcePartition]:
        return {sp for lane in self._lanes.running.values() for sp in lane.lane.partitions}

    def _recover(self, plan: Plan, wanted: Collection[SourcePartition]) -> None:
        """Recover what is to start and did not end cleanly; then the observer knows better."""
        unclean = (self._parts.observer.state.unclean & set(wanted)) - self._running()
        if unclean:
            self._recovery.recover(unclean, plan, alone=not self._lanes.running)

    def _is_changed(self, lane: Lane, plan: Plan) -> bool:
        running = self._lanes.running.get(lane.name)
        if running is None or running.lane != lane:
            return True
        topics = {(sp.cluster, sp.topic) for sp in lane.partitions}
        routes = tuple(route for route in plan.routes if (route.cluster, route.topic) in topics)
        return not _same(running.routes, routes)

    def _note_look(self, look: Look) -> None:
        plan, board = look.plan, self._board
        for warning in plan.warnings:
            if warning not in board.warnings:
                self._emit(Event("warning", warning))
        board.planned(plan, look.unreachable)
        self._parts.sources.unreachable = dict(look.unreachable)
        self._parts.observer.update(identity_of(plan))
        self._parts.observer.saw(self._parts.sources.log_ends() or look.ends)

    @property
    def _patience(self) -> float:
        interval = self._config.stream.checkpoint_interval
        return max(self._config.supervision.stop_timeout, 2 * interval)


def _same(before: Iterable[Route], after: Iterable[Route]) -> bool:
    """Whether two sets of routes make the same query.

    Source partition counts do not matter: a lane names the partitions that it reads.
    """
    return [replace(r, partitions=0) for r in before] == [replace(r, partitions=0) for r in after]
