"""Runs the lanes of a plan: starts them, keeps them in step with the clusters, stops them.

The engine's own thread decides; the lookout, the source watches and the observer are threads that
hand it values. `run` in `aggregator.engine.run` builds one and numbers the steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

from aggregator.audit.document import Phase, Status
from aggregator.config.schema import Config
from aggregator.engine.arrangement import Arrangement
from aggregator.engine.changes import Changes
from aggregator.engine.events import Event, EventSink
from aggregator.engine.failures import Failures
from aggregator.engine.gaps import Gaps
from aggregator.engine.lanes import Lanes
from aggregator.engine.look import Look
from aggregator.engine.orphans import orphans_of
from aggregator.engine.pace import Paces
from aggregator.engine.parts import Parts
from aggregator.engine.recovery import Recovery
from aggregator.engine.starts import Starts
from aggregator.engine.steering import Steering
from aggregator.engine.supervision import Supervision
from aggregator.errors import AggregatorError, RefusedError
from aggregator.model import SourcePartition

LOOP_SECONDS = 0.25
STATUS_SECONDS = 1.0


class Engine:
    """The lanes of one aggregation, from their start to their stop."""

    def __init__(
        self,
        config: Config,
        parts: Parts,
        emit: EventSink,
        on_status: Callable[[Status], None],
        stop: threading.Event,
        *,
        until_done: bool,
        fresh: bool = False,
    ) -> None:
        self._config = config
        self._fresh = fresh
        self._parts = parts
        self._emit = emit
        self._on_status = on_status
        self._stop = stop
        self._board = parts.board
        self._paces = Paces(config, parts.board, emit)
        self._lanes = Lanes(parts.spark, parts.connector, parts.observer, parts.board, emit)
        self._gaps = Gaps(config, parts.observer, parts.sources, parts.board, emit)
        asked = (parts.connector, parts.observer, parts.hub, parts.board)
        told = (emit, stop, self._gaps, self._lanes.read_until)
        self._recovery = Recovery(config, *asked, *told)
        orphans = orphans_of(config, parts.connector, self._lanes.read_until)
        known = (orphans, self._gaps, emit, self._lanes.read_until)
        self._starts = Starts(config, parts.observer, *known)
        self._supervision = Supervision()
        self._failures = Failures(
            config, self._starts, self._supervision, parts.board, emit, until_done=until_done
        )
        self._changes = Changes(config, parts.spark, parts.hub, emit)
        self._steering = Steering(self, parts, self._starts, self._recovery, self._changes, emit)
        deciders = (self._starts, self._supervision, self._paces, self._recovery)
        self._arrangement = Arrangement(
            config,
            parts,
            self._lanes,
            *deciders,
            self._failures.lane,
            emit,
            stop,
            until_done=until_done,
        )
        self._until_done, self._look_awaited, self._next_status = until_done, False, 0.0
        self._leaving, self._finished = frozenset[str](), set[str]()

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

    def supervise(self) -> None:
        """Keep the lanes running until told to stop; or until all have ended, if they are to."""
        while not self._stop.wait(LOOP_SECONDS):
            self._turn()
            self._parts.control.handle(self._steering)
            if self._until_done and not self._lanes.running and not self._waiting():
                return

    def end(self) -> dict[str, str]:
        """Stop cleanly: every lane tells where it is. Returns lane -> what went wrong."""
        self._parts.control.close()
        self._board.phase = Phase.STOPPING
        self._board.waiting = {}
        self.tell(now=True)
        self._recovery.cancel()
        return self._lanes.end(self._config.supervision.stop_timeout, self.tell)

    def leave(self, aliases: Collection[str]) -> None:
        """Let the lanes of these sources end; what shares a lane with them goes on without.

        Returns when they have ended; the others are looked after meanwhile. RefusedError when all
        are to stop before that.
        """
        self._leaving = frozenset(aliases)
        try:
            self._arrangement.without(aliases)
            while any(sp.cluster in aliases for sp in self.running):
                if self._stop.wait(LOOP_SECONDS):
                    raise RefusedError(["it is stopping: what was asked for holds when it starts"])
                self._turn()
        finally:
            self._leaving = frozenset()

    def _turn(self) -> None:
        """Follow what was found, and look after all that runs; raise what ends everything."""
        if (conflict := self._parts.writer.error or self._parts.observer.conflict) is not None:
            self._lanes.kill()
            raise conflict
        if (failure := self._parts.observer.failure) is not None:
            raise AggregatorError(f"checkpoints have stopped: {failure}") from failure
        newest = self._parts.lookout.latest()
        if isinstance(newest, Look):
            self._follow(newest, first=False)
        elif newest is not None:
            self._emit(Event("look_failed", f"nothing new can be found: {newest}"))
        self._notice_ends()
        self._notice_stopped()
        self._notice_done()
        self._notice_left()
        if self._paces.follow(self.running):
            self._lanes.pace(self._paces.now)
        news = self._recovery.ended()
        if self._gaps.watch.act(self._lanes.running):
            # At once: what is read from now on must not be taken for what was read before.
            self._arrangement.again(but=self._gaps.watch.suspects(self.running))
            news = True
        if news or self._starts.outdated:
            self.look_again()
        if self._starts.due():
            self._parts.lookout.wake()
        self.tell()

    def look_again(self) -> None:
        """Have a look at the clusters soon; nothing is done before it has been followed."""
        self._look_awaited = True
        self._parts.lookout.wake()

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._config = config
        self._paces.reconfigure(config)
        self._lanes.pace(self._paces.now)
        self._arrangement.reconfigure(config)
        self._failures.reconfigure(config)

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
            board.figures = observer.figures.at(moment, board.catching_up)
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
        self._look_awaited = False
        self._recovery.forget_cut(look)
        recover = partial(self._recover, look, first)
        out = {**dict.fromkeys(self._leaving, "its lanes are to end"), **self._steering.out}
        ready = partial(getattr, self._recovery, "copied")
        positions, wanted = self._starts.settle(look, self.running, recover, ready, out)
        self._board.held = self._starts.held
        if first and not self._fresh:
            self._recovery.doubt(wanted, positions, look)
        # What lanes are giving up starts when they have: that comes with a new look.
        wanted -= {sp for less in self._lanes.holding.values() for sp in less}
        self._paces.starting(wanted - self.running, positions, look.ends)
        self._arrangement.follow(wanted, plan, positions, look.ends, first=first)

    def _notice_left(self) -> None:
        """Start what waited for lanes to end; what did not get on well waits for a new look."""
        lanes, unwell = dict(self._lanes.running), set[SourcePartition]()
        left = self._lanes.left()
        for name, problem in left.items():
            lane = lanes[name].lane
            if problem:
                # Its partitions rest until they are recovered, in whatever lane they are to be.
                self._failures.lane(lanes[name], problem)
                unwell |= set(lane.partitions)
            elif name in self._finished:
                self._starts.ended(lane.partitions)
                self._emit(Event("lane_ended", f"lane {name} has ended", {"lane": name}))
        if left or self._lanes.held():
            self._arrangement.again(but=unwell | self._starts.done)
            self._parts.lookout.wake()
        if unwell:
            self.look_again()

    def _notice_stopped(self) -> None:
        """Take out partitions of which the next record cannot be written; the others go on."""
        stopped = self._lanes.stopped()
        for sp, reason in stopped.items():
            self._failures.partition(sp, reason)
        if stopped:
            self._board.held = self._starts.held
            self._arrangement.again(but=stopped)

    def _notice_done(self) -> None:
        """Let lanes end that have read all that they were to read."""
        done = self._lanes.done() if self._until_done else []
        if done:
            self._finished |= set(done)
            self._lanes.leave(done, self._config.supervision.stop_timeout)

    def _notice_ends(self) -> None:
        running = dict(self._lanes.running)
        for name, problem in self._lanes.ended().items():
            self._failures.lane(running[name], problem)

    def _waiting(self) -> bool:
        """Whether something that does not run now, of a run that is to end, is still to run."""
        under_way = self._recovery.under_way or self._look_awaited
        return under_way or self._failures.are_waiting()

    @property
    def running(self) -> set[SourcePartition]:
        """Partitions that are read now."""
        return self._lanes.partitions

    def _recover(
        self, look: Look, first: bool, wanted: Collection[SourcePartition]
    ) -> set[SourcePartition]:
        """Recover what is to start and did not end cleanly; returns what cannot start yet.

        Beside running lanes it goes on in the background: they must not wait for it.
        """
        unclean = self._parts.observer.state.unclean & set(wanted)
        unclean -= self.running | self._recovery.ready
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
