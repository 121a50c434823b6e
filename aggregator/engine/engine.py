"""Runs the lanes of a plan: starts them, keeps them in step with the clusters, stops them.

The engine's own thread decides; the lookout, the source watches and the observer are threads that
hand it values. `run` in `aggregator.engine.run` builds one and numbers the steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

from pyspark.errors import PySparkException

from aggregator.audit.document import Phase, Status
from aggregator.config.schema import Config
from aggregator.engine.changes import Changes
from aggregator.engine.events import Event, EventSink
from aggregator.engine.gaps import Gaps
from aggregator.engine.lanes import Lanes
from aggregator.engine.look import Look
from aggregator.engine.orphans import orphans_of
from aggregator.engine.pace import Paces
from aggregator.engine.parts import Parts
from aggregator.engine.recovery import Recovery
from aggregator.engine.settings import lane_settings
from aggregator.engine.starts import Starts
from aggregator.engine.steering import Steering
from aggregator.engine.supervision import Supervision
from aggregator.errors import AggregatorError
from aggregator.model import Lane, Positions, SourcePartition
from aggregator.plan.apart import plan_lanes_apart
from aggregator.plan.plan import Plan
from aggregator.stream.lane import client_id

LOOP_SECONDS = 0.25
STATUS_SECONDS = 1.0
FAILURES_ALLOWED = 3
"""`--until-caught-up` gives a lane so many tries; a run that goes on for ever gives it endless."""


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
        *,
        fresh: bool = False,
    ) -> None:
        self._config = config
        self._fresh = fresh
        self._parts = parts
        self._emit = emit
        self._on_status = on_status
        self._stop = stop
        self._board = parts.board
        self._paces = Paces(config, trigger, parts.board, emit)
        self._lanes = Lanes(parts.spark, parts.observer, parts.board, emit)
        self._gaps = Gaps(config, parts.observer, parts.sources, parts.board, emit)
        self._recovery = Recovery(
            config, parts.spark, parts.observer, parts.hub, parts.board, emit, stop, self._gaps
        )
        known = (orphans_of(config, parts.spark), self._gaps, emit, self._lanes.read_until)
        self._starts = Starts(config, parts.observer, *known)
        self._supervision = Supervision(config, parts.sources, parts.board, emit)
        self._changes = Changes(config, parts.spark, parts.hub, emit)
        self._steering = Steering(
            self, parts, self._starts, self._recovery, self._supervision, self._changes, emit
        )
        self._look: Look | None = None
        self._look_awaited, self._next_status = False, 0.0

    @property
    def held(self) -> Mapping[SourcePartition, str]:
        """Partitions that do not run though they are selected and not paused, and why."""
        paused = self._parts.control.paused
        return {sp: why for sp, why in self._starts.held.items() if sp.cluster not in paused}

    def begin(self, look: Look) -> None:
        """Start every lane of the first look.

        Raises ConfigError for a transform that does not fit, ClusterError when the hub refuses a
        change that the plan needs, CheckpointError when a start cannot be committed.
        """
        self._follow(look, first=True)

    def supervise(self, *, until_done: bool) -> None:
        """Keep the lanes running until told to stop; with `until_done`, until all have ended."""
        while not self._stop.wait(LOOP_SECONDS):
            if (conflict := self._parts.writer.error or self._parts.observer.conflict) is not None:
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
            self._notice_outages()
            self._parts.control.handle(self._steering)
            news = self._recovery.ended() | self._gaps.watch.act(self._lanes.running)
            if news := news or self._starts.outdated:
                self._look_awaited = True
            if news or self._starts.due():
                self._parts.lookout.wake()
            self.tell()
            if until_done and not self._lanes.running and not self._waiting():
                return

    def end(self) -> dict[str, str]:
        """Stop cleanly: every lane ends after its batch. Returns lane -> what went wrong."""
        self._parts.control.close()
        self._board.phase = Phase.STOPPING
        self.tell(now=True)
        self._recovery.cancel()
        return self._lanes.drain(list(self._lanes.running), self._config.stop_seconds)

    def leave(self, aliases: Collection[str]) -> None:
        """Let the lanes of these sources end; what shares a lane with them goes on without."""
        self._keep({sp for sp in self.running if sp.cluster not in aliases})

    def _keep(self, stay: set[SourcePartition]) -> None:
        """Run no others than these, which run now, and these as things are now."""
        if self._look is not None:
            # Not by that look's offsets: they are older than the positions.
            self._rearrange(stay, self._look.plan, Positions(), first=False)

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._config = config
        self._paces.reconfigure(config)

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
            observer.saw(self._gaps.watch.own(board.log_ends))
        self._on_status(board.document())

    def _follow(self, look: Look, *, first: bool) -> None:
        """Bring the lanes in step with what a look has found."""
        plan = look.plan
        if plan.refusals and not first:
            self._emit(Event("plan_refused", "; ".join(plan.refusals)))
            return
        try:
            self._changes.make(plan)
        except AggregatorError as error:
            if first:
                raise
            self._emit(Event("plan_failed", str(error)))
            return
        self._note_look(look)
        self._paces.planned(plan, first=first)
        self._look, self._look_awaited = look, False
        recover = partial(self._recover, look, first)
        positions, wanted = self._starts.settle(look, self.running, recover, self._steering.out)
        self._board.held = self._starts.held
        if first and not self._fresh:
            self._recovery.doubt(wanted, positions, look)
        self._supervision.joined({sp.cluster for sp in wanted}, self._lanes.running)
        self._paces.starting(wanted - self.running, positions, look.ends)
        self._rearrange(wanted, plan, positions, first)

    def _rearrange(
        self, wanted: set[SourcePartition], plan: Plan, positions: Positions, first: bool
    ) -> None:
        """Run exactly the wanted partitions; lanes that need no change run on."""
        current = [running.lane for running in self._lanes.running.values()]
        stream = self._config.stream
        lanes = plan_lanes_apart(
            wanted, self._supervision.apart, stream.lanes, stream.max_partitions_per_lane, current
        )
        pace = self._paces.now
        changed = [it for it in lanes.lanes if self._lanes.is_changed(it, plan.routes, pace)]
        over = {lane.name for lane in [*lanes.ended(current), *changed]} & set(self._lanes.running)
        for name, problem in self._lanes.drain(over, self._config.stop_seconds).items():
            # Its partitions rest until they are recovered, in whatever lane they are to be.
            lost = next(lane for lane in current if lane.name == name)
            self._failed(lost, problem)
        resting = self._starts.resting()
        changed = [lane for lane in changed if not resting & set(lane.partitions)]
        self._start(changed, plan, positions, first)

    def _start(self, lanes: list[Lane], plan: Plan, positions: Positions, first: bool) -> None:
        # Where the observer knows a partition, it knows better: drained or recovered since.
        positions = positions.merged(self._parts.observer.positions)
        settings = lane_settings(self._config, plan, self._paces.now)
        for lane in lanes:
            if self._stop.is_set():
                return
            try:
                self._lanes.start(lane, positions, plan.routes, settings)
            except (AggregatorError, PySparkException) as error:
                if first:
                    raise
                self._failed(lane, str(error))
        self._parts.sources.follow(self.running)

    def _notice_outages(self) -> None:
        """Take sick sources out of the lanes they share, at once; let others come back."""
        gone, back = self._supervision.changed(self._lanes.running)
        if back:
            self._parts.lookout.wake()
        if gone:
            self.leave(self._supervision.out)
        if self._paces.follow([lane.lane for lane in self._lanes.running.values()]):
            self._keep(self.running)

    def _notice_ends(self, until_done: bool) -> None:
        lanes = {name: running.lane for name, running in self._lanes.running.items()}
        for name, problem in self._lanes.ended().items():
            if problem:
                self._failed(lanes[name], problem)
                if not (until_done and self._starts.backoff.failures(name) >= FAILURES_ALLOWED):
                    continue
            self._starts.ended(lanes[name], self._board.lanes[name].generation)
            self._emit(Event("lane_ended", f"lane {name} has ended", {"lane": name}))

    def _failed(self, lane: Lane, reason: str) -> None:
        self._supervision.failed(lane)
        delay = self._starts.backoff.failed(lane.name, frozenset(lane.partitions), time.monotonic())
        note = self._board.lanes[lane.name]
        note.restarts += 1
        self._starts.orphans.add(
            client_id(lane.name, note.generation), frozenset(lane.partitions), time.monotonic()
        )
        words = f"lane {lane.name} failed, next try in {delay:.0f} s: {reason}"
        self._emit(Event("lane_failed", words, {"lane": lane.name}))
        policed = note.careful or self._gaps.watch.explains(lane.name, note.generation, reason)
        if self._config.supervision.failure == "abort" and not policed:
            raise AggregatorError(
                f"lane {lane.name} failed, and supervision.failure is abort: {reason}"
            )

    def _waiting(self) -> bool:
        """Whether something that does not run now, of a run that is to end, is still to run."""
        return (
            self._recovery.under_way
            or self._look_awaited
            or self._starts.backoff.waiting(FAILURES_ALLOWED)
        )

    @property
    def running(self) -> set[SourcePartition]:
        """Partitions that are read now."""
        return {sp for lane in self._lanes.running.values() for sp in lane.lane.partitions}

    def _recover(
        self, look: Look, first: bool, wanted: Collection[SourcePartition]
    ) -> set[SourcePartition]:
        """Recover what is to start and did not end cleanly; returns what cannot start yet.

        Beside running lanes it goes on in the background: they must not wait for it.
        """
        unclean = (self._parts.observer.state.unclean & set(wanted)) - self.running
        if unclean and self._lanes.running:
            self._recovery.begin(unclean, look)
            return set(unclean)
        try:
            if unclean:
                self._recovery.recover(unclean, look, alone=True)
        except AggregatorError as error:
            if first:
                raise
            self._emit(Event("recovery_failed", str(error)))
            self._starts.backoff.failed("recovery", frozenset(unclean), time.monotonic())
            return set(unclean)
        return set()

    def _note_look(self, look: Look) -> None:
        plan, board = look.plan, self._board
        for warning in plan.warnings:
            if warning not in board.warnings:
                self._emit(Event("warning", warning))
        board.planned(plan, look.unreachable)
        self._gaps.watch.note(look)
