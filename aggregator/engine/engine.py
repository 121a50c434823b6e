"""The loop of a running instance: collect what is new, let `step` decide, carry it out, tell.

The lookout, the source watches, the observer and a recovery are threads that hand over values; the
engine's own thread is the only one that decides. `run` in `aggregator.engine.run` numbers the steps
of a whole run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from aggregator.audit.document import Phase, Status
from aggregator.checkpoint.gaps import GapTable
from aggregator.config.schema import Config
from aggregator.connector.driver import Connector
from aggregator.discover import ClusterAdmin
from aggregator.engine.board import Board
from aggregator.engine.control import Control
from aggregator.engine.hands import Hands
from aggregator.engine.known import KnownOf, own_ends
from aggregator.engine.lanes import Lanes
from aggregator.engine.look import Lookout
from aggregator.engine.observer import Observer
from aggregator.engine.recovery import Recovery
from aggregator.engine.sources import SourcesWatch
from aggregator.engine.steering import Steering
from aggregator.engine.writer import Writer, lost_seconds
from aggregator.errors import AggregatorError, RefusedError
from aggregator.events import Event, EventSink
from aggregator.flow.commands import Move, Outcome, Prepare, RecordGaps
from aggregator.flow.news import News
from aggregator.flow.stage import Stage
from aggregator.flow.state import State
from aggregator.flow.step import step
from aggregator.model import SourcePartition
from aggregator.plan.look import Look
from aggregator.plan.plan import Plan
from aggregator.plan.suspects import seen_of

LOOP_SECONDS = 0.25
STATUS_SECONDS = 1.0
STEPS_IN_A_TURN = 20
"""What follows from commands follows at once, so many times at most."""


@dataclass(frozen=True, slots=True)
class Threads:
    """What an engine works with: the session, clients, and threads that hand it values.

    All of it is started and ended by the caller.
    """

    spark: SparkSession
    connector: Connector
    observer: Observer
    lookout: Lookout
    sources: SourcesWatch
    hub: ClusterAdmin


class Engine:
    """The lanes of one aggregation, from their start to their stop."""

    def __init__(
        self,
        config: Config,
        threads: Threads,
        board: Board,
        writer: Writer,
        control: Control,
        emit: EventSink,
        on_status: Callable[[Status], None],
        stop: threading.Event,
        *,
        until_done: bool,
        fresh: bool = False,
    ) -> None:
        self.config = config
        self.state = State(config, until_done=until_done, fresh=fresh)
        self._connector = threads.connector
        self._observer = observer = threads.observer
        self._lookout = threads.lookout
        self._sources = threads.sources
        self._board = board
        self._writer = writer
        self._control = control
        self._emit = emit
        self._on_status = on_status
        self._stop = stop
        self._gaps = GapTable(config.checkpoint.path, config.checkpoint.storage_options)
        self._lanes = Lanes(threads.spark, threads.connector, observer)
        self._recovery = Recovery(threads.connector, observer, threads.hub, self._gaps, emit, stop)
        self._hands = Hands(
            *(threads.spark, self._lanes, self._recovery, observer, threads.lookout),
            *(threads.hub, self._gaps, emit, stop),
        )
        self._steering = Steering(self, observer, self._gaps, control, emit)
        self._known = KnownOf(observer)
        self._leaving = frozenset[str]()
        self._again = False
        self._look_failed = False
        self._next_status = 0.0

    @property
    def held(self) -> Mapping[SourcePartition, str]:
        """Partitions that do not run though they are selected and not paused, and why."""
        stages = (Stage.HELD, Stage.QUARANTINED, Stage.RESTING, Stage.DONE)
        return {
            sp: self.state.at(sp).why
            for sp in sorted(self.state.of(*stages))
            if self.state.at(sp).why and sp.cluster not in self._control.paused
        }

    @property
    def failed(self) -> dict[str, str]:
        """Lanes that have failed and do not run again: name -> why."""
        return {name: over.reason for name, over in self.state.over.items() if over.reason}

    def begin(self, look: Look) -> None:
        """Start every lane of the first look, when all that has to be recovered is.

        Raises ConfigError for a transform that does not fit, ClusterError when the hub refuses a
        change that the plan needs, CheckpointError when a start cannot be committed.
        """
        first: Look | None = look
        while not self.state.begun and (first is not None or not self._stop.wait(LOOP_SECONDS)):
            self._raise_what_ends_all()
            self._take_turn(first)
            first = None
            # The sources are not asked yet.
            self._board.follow(self.state, self._control.paused)
            self._on_status(self._board.document())

    def supervise(self) -> None:
        """Keep the lanes running until told to stop; or until all have ended, if they are to."""
        while not self._stop.wait(LOOP_SECONDS):
            self.turn()
            self._control.handle(self._steering)
            if self.state.until_done and self.state.is_over:
                return

    def turn(self) -> None:
        """Collect, decide, carry out, tell; raise what ends everything."""
        self._raise_what_ends_all()
        newest = self._lookout.latest()
        if isinstance(newest, AggregatorError):
            self._emit(Event("look_failed", f"nothing new can be found: {newest}"))
        self._look_failed = isinstance(newest, AggregatorError)
        self._take_turn(newest if isinstance(newest, Look) else None)
        self.tell()

    def end(self) -> dict[str, str]:
        """Stop cleanly: every lane tells where it is. Returns lane -> what went wrong."""
        self._control.close()
        self._board.phase = Phase.STOPPING
        self.tell(now=True)
        self._recovery.cancel()
        ended = self._lanes.end_all(self.config.supervision.stop_timeout, self._tell_ended)
        self._tell_ended(ended)
        return {name: problem for name, problem in ended.items() if problem}

    def leave(self, aliases: Collection[str]) -> None:
        """Let the lanes of these sources end; what shares a lane with them goes on without.

        Returns when they have ended; the others are looked after meanwhile. RefusedError when all
        are to stop before that.
        """
        self._leaving = frozenset(aliases)
        try:
            self.turn()
            while any(sp.cluster in aliases for sp in self.state.in_lanes):
                if self._stop.wait(LOOP_SECONDS):
                    raise RefusedError(["it is stopping: what was asked for holds when it starts"])
                self.turn()
        finally:
            self._leaving = frozenset()

    def look_again(self) -> None:
        """Have a look at the clusters soon, and run what is then wanted."""
        self._again = True

    def check(self, plan: Plan) -> None:
        """Raise ConfigError when a transform of this plan does not fit."""
        self._hands.check(plan)

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self.config = config
        self._observer.interval = config.stream.checkpoint_interval
        for part in (self._lookout, self._sources, self._board):
            part.reconfigure(config)

    def tell(self, *, now: bool = False) -> None:
        """Bring the board up to date, and hand the status out about once a second."""
        moment = time.monotonic()
        if not now and moment < self._next_status:
            return
        self._next_status = moment + STATUS_SECONDS
        observer, board = self._observer, self._board
        with board.lock:
            board.follow(self.state, self._control.paused)
            board.positions = observer.positions
            board.progress = observer.progress
            board.seq, board.epoch = observer.state.seq, observer.state.epoch
            board.committed_ms = observer.committed_ms
            board.checkpoint_error = observer.error
            self._sources.follow(self.state.in_lanes)
            self._sources.tell(board, self._emit)
            board.figures = observer.figures.at(moment, board.catching_up)
        if board.log_ends:
            observer.saw(own_ends(observer.state, board.log_ends, self._sources.seen()))
        self._on_status(board.document())

    def _raise_what_ends_all(self) -> None:
        if (conflict := self._writer.error or self._observer.conflict) is not None:
            self._lanes.kill()
            raise conflict
        if (failure := self._observer.failure) is not None:
            raise AggregatorError(f"checkpoints have stopped: {failure}") from failure

    def _take_turn(self, look: Look | None) -> None:
        news = self._collect(look)
        for _ in range(STEPS_IN_A_TURN):
            begun = self.state.begun
            self.state, commands = step(self.state, news, time.monotonic())
            if not commands:
                return
            outcomes = self._hands.carry_out(commands, self.config)
            # What the clusters told is for one step; to a recovery that began nothing has come yet.
            self._raise_if_first(outcomes, begun=begun)
            for outcome in outcomes:
                self._note_prepared(outcome)
            news = replace(self._collect(None, turn=False), outcomes=tuple(outcomes))

    def _collect(self, look: Look | None, *, turn: bool = True) -> News:
        """What is new, and all that a step goes by."""
        ended = self._recovery.ended() if turn else None
        if ended is not None:
            self._raise_if_first([ended], begun=self.state.begun)
        again, self._again = self._again, False
        failed, self._look_failed = self._look_failed, False
        return News(
            self.config,
            datetime.now(UTC),
            self._known.now(),
            self._lanes.seen(),
            self._sources.seen(),
            frozenset(key for key in self.state.lost_keys if self._is_open(key)),
            self._control.out,
            self._leaving,
            look,
            () if ended is None else (ended,),
            self._board.lags_of_running(self.state),
            self._board.catching_up,
            again,
            failed,
            turn,
        )

    def _is_open(self, key: str) -> bool:
        return self._connector.is_open(key, lost_seconds(self.config))

    def _raise_if_first(self, outcomes: Collection[Outcome], *, begun: bool) -> None:
        """A start that fails at once is the caller's: nothing of it is tried again.

        But what could not be decided about a gap only holds its own partitions.
        """
        if not begun:
            for outcome in outcomes:
                if outcome.error is not None and not isinstance(
                    outcome.command, (RecordGaps, Move)
                ):
                    raise outcome.error

    def _note_prepared(self, outcome: Outcome) -> None:
        if isinstance(outcome.command, Prepare) and outcome.error is None:
            look = outcome.command.look
            self._board.planned(look.plan, look.unreachable)
            if not self._sources.log_ends():
                ends = own_ends(self._observer.state, look.ends, seen_of(look.observed))
                self._observer.saw(ends)

    def _tell_ended(self, ended: Mapping[str, str]) -> None:
        self._board.ended = dict(ended)
        self.tell()
