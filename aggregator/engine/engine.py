"""The loop of a running instance: collect inputs, let `step` decide, execute, publish.

The poller, the probes, the observer and a recovery are threads that pass values; the
engine's own thread is the only one that decides. `run` in `aggregator.engine.application` numbers
the steps of a whole run.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.datapath.connector.damage import DamageFinder
from aggregator.engine.commits.observer import KnownOf
from aggregator.engine.control.commands import Control
from aggregator.engine.control.execute_command import EngineActor
from aggregator.engine.executor import CommandExecutor
from aggregator.engine.publisher import StatusPublisher
from aggregator.engine.recoverer import Recovery
from aggregator.engine.running_lanes import Lanes
from aggregator.engine.workers import Threads
from aggregator.features.backfill.backfill_table import BackfillTable
from aggregator.features.backfill.lane import BackfillSight, Tools
from aggregator.features.backfill.runner import Backfills
from aggregator.features.service import EngineProgress
from aggregator.model.errors import AggregatorError, RefusedError
from aggregator.model.events import Event, EventSink
from aggregator.model.values import Part, SourcePartition
from aggregator.plan.health.suspects import seen_of
from aggregator.plan.lifecycle.commands import Move, Outcome, Prepare, RecordGaps
from aggregator.plan.lifecycle.inputs import Measured, StepInputs
from aggregator.plan.lifecycle.judge import BACKFILLED
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import State
from aggregator.plan.lifecycle.step import step
from aggregator.plan.plan import Plan
from aggregator.plan.snapshot import ClusterSnapshot, Doubts
from aggregator.status.schema import Phase
from aggregator.status.view import View
from aggregator.store.gaps import GapTable
from aggregator.store.lease.writer import Writer, lost_seconds
from aggregator.store.seen_topics import SeenTable
from aggregator.store.state_store import StateStore

LOOP_SECONDS = 0.25
"""How often the engine looks for news. Without any it takes a turn with each measurement."""
IDLE_AFTER_SECONDS = 10.0
"""After this time without a report the observer looks for them less often."""
STATUS_SECONDS = 1.0
"""How often the sources are measured and a view is published."""
LAST_WORD_SECONDS = 3.0
"""The longest wait of a run that ends by itself for its sources' last answers."""
STEPS_IN_A_TURN = 20
"""The most steps that directly follow each other without a wait."""


class Engine:
    """The lanes of one aggregation, from their start to their stop."""

    def __init__(
        self,
        view: View,
        threads: Threads,
        writer: Writer,
        control: Control,
        emit: EventSink,
        on_view: Callable[[View], None],
        stop: threading.Event,
        *,
        until_done: bool,
        fresh: bool = False,
    ) -> None:
        config = control.config
        self._seen = SeenTable(StateStore.of(config.checkpoint))
        seen = self._seen.load()
        self.state = State(config, until_done=until_done, fresh=fresh, topics=seen, kept=seen)
        self._in_force = control.in_force
        self._connector = threads.connector
        self._read_on = DamageFinder(threads.spark).read_on
        self._observer = observer = threads.observer
        self._poller = threads.poller
        self._sources = threads.sources
        self._services = threads.services
        self._writer = writer
        self._control = control
        self._emit = emit
        self._stop = stop
        self._gaps = GapTable(StateStore.of(config.checkpoint))
        self._lanes = Lanes(threads.spark, threads.connector, observer, threads.translator)
        self._recovery = self._make_recovery(threads)
        self._executor = self._make_executor(threads)
        first = replace(view, config=config, state=self.state)
        self.backfills = Backfills(
            Tools(threads.spark, threads.connector, threads.hub, threads.translator, emit),
            BackfillTable(StateStore.of(config.checkpoint)),
            self.request_discovery,
        )
        self._publisher = StatusPublisher(
            view=first,
            observer=observer,
            services=threads.services,
            control=control,
            on_view=on_view,
            backfills=self.backfills.statuses,
        )
        self._actor = EngineActor(self, observer, self._gaps, control, emit)
        self._known = KnownOf(observer)
        self._leaving = frozenset[str]()
        self._again = False
        self._discovery_failed = False
        self._measured: Measured | None = None
        self._news: Measured | None = None
        """The measurement that no step has taken yet."""
        self._next_measure = 0.0
        self._is_quiet = False
        self._news_at = 0.0
        """When a report or a task was last new."""

    def _make_recovery(self, threads: Threads) -> Recovery:
        return Recovery(
            connector=threads.connector,
            observer=self._observer,
            hub=threads.hub,
            gaps=self._gaps,
            emit=self._emit,
            stop=self._stop,
            stood=threads.stood,
        )

    def _make_executor(self, threads: Threads) -> CommandExecutor:
        threads.changes.all_now = self.state.until_done
        return CommandExecutor(
            lanes=self._lanes,
            recovery=self._recovery,
            observer=self._observer,
            poller=threads.poller,
            hub=threads.hub,
            changes=threads.changes,
            gaps=self._gaps,
            seen=self._seen,
            emit=self._emit,
            stop=self._stop,
        )

    @property
    def view(self) -> View:
        """What was handed out last."""
        return self._publisher.view

    @property
    def held(self) -> Mapping[SourcePartition, str]:
        """Partitions that do not run though they are selected and not paused, and why."""
        stages = (Stage.HELD, Stage.QUARANTINED, Stage.RESTING, Stage.DONE)
        return {
            sp: self.state.at(sp).why
            for sp in sorted(self.state.of(*stages))
            if self.state.at(sp).why
            and sp.cluster not in self._control.paused
            and not any(part.covers(sp) for part in self._control.parts)
        }

    @property
    def not_taken(self) -> tuple[str, ...]:
        """Selected topics that are not paused, and that the plan leaves out, with the reason."""
        plan, out, parts = self.state.plan, self._control.out, self._control.parts
        return tuple(
            str(it)
            for it in (plan.refused if plan is not None else ())
            if any(
                alias not in out and Part(alias, name) not in parts for alias, name in it.sources
            )
        )

    @property
    def failed(self) -> dict[str, str]:
        """Lanes that have failed and do not run again: name -> why."""
        return {name: over.reason for name, over in self.state.over.items() if over.reason}

    def begin(self, snapshot: ClusterSnapshot) -> None:
        """Start every lane of the first snapshot, when all that has to be recovered is.

        Raises ConfigError for a transform that does not fit, ClusterError when the hub refuses a
        change that the plan needs, CheckpointError when a start cannot be committed.
        """
        self.backfills.load()
        first: ClusterSnapshot | None = snapshot
        while not self.state.begun and not self._stop.is_set():
            self._raise_what_ends_all()
            self._take_turn(first)
            first = None
            # The sources are not asked yet.
            self.publish()
            if not self.state.begun and not self._recovery.wait(LOOP_SECONDS):
                self._stop.wait(LOOP_SECONDS)

    def supervise(self) -> None:
        """Keep the lanes running until a stop is requested, or all have ended."""
        # Before this no command would be executed, and a recovery may take minutes.
        self._control.gate.open()
        self.publish(Phase.RUNNING)
        over = 0.0
        while not self._stop.wait(LOOP_SECONDS):
            if self._may_rest:
                continue
            self.turn()
            self._control.gate.handle(self._actor)
            if self.state.until_done and self.state.is_over and not self.backfills.is_busy:
                over = over or time.monotonic()
                if self._sources_have_answered or time.monotonic() - over > LAST_WORD_SECONDS:
                    return

    def turn(self) -> None:
        """Collect, decide, execute, publish; raise what ends the run."""
        self._raise_what_ends_all()
        newest = self._poller.latest()
        if isinstance(newest, AggregatorError):
            self._emit(Event("look_failed", f"nothing new can be found: {newest}"))
        self._discovery_failed = isinstance(newest, AggregatorError)
        due = time.monotonic() >= self._next_measure
        if due:
            self._next_measure = time.monotonic() + STATUS_SECONDS
            self._measure()
        if self._lanes.has_news:
            self._news_at = time.monotonic()
        self._take_turn(newest if isinstance(newest, ClusterSnapshot) else None)
        self._lanes.translate()
        self.backfills.turn(self._sight())
        self._is_quiet = self.state.is_quiet and not self.backfills.is_busy
        is_idle = time.monotonic() - self._news_at > IDLE_AFTER_SECONDS
        self._observer.observe_closely(not (self._is_quiet and is_idle))
        if due:
            self.publish()

    def end(self) -> dict[str, str]:
        """Stop cleanly: every lane reports its positions. Returns lane -> what went wrong."""
        self._control.gate.close()
        self._publisher.end()
        self.publish(Phase.STOPPING)
        self._recovery.cancel()
        timeout = self._in_force.config.supervision.stop_timeout
        # First, so that the last commit of the live flow lies behind all that they have written.
        self.backfills.end(timeout)
        ended = self._lanes.end_all(timeout, self._publish_ended)
        self._publish_ended(ended)
        self._publisher.follow(self._progress(last=True))
        return {name: problem for name, problem in ended.items() if problem}

    def leave(self, aliases: Collection[str]) -> None:
        """End the lanes of these sources; what shares a lane with them continues.

        Returns when they have ended; the others keep running meanwhile. RefusedError when all
        are to stop before that.
        """
        self._leaving = frozenset(aliases)
        try:
            self._until_out(lambda sp: sp.cluster in aliases)
        finally:
            self._leaving = frozenset()

    def rest(self, part: Part) -> None:
        """Wait until no lane reads this part of a source, which is paused. Raises as `leave`."""
        self._until_out(part.covers)

    def _until_out(self, named: Callable[[SourcePartition], bool]) -> None:
        self.turn()
        while any(named(sp) for sp in self.state.in_lanes | self.backfills.writing.keys()):
            if self._stop.wait(LOOP_SECONDS):
                raise RefusedError(["it is stopping: what was asked for holds when it starts"])
            self.turn()

    def request_discovery(self) -> None:
        """Run discovery soon, and apply its result."""
        self._again = True

    def check(self, plan: Plan) -> None:
        """Raise ConfigError when a transform of this plan does not fit."""
        self._executor.check(plan)

    def show(self) -> None:
        """Take a turn at once, and publish the result."""
        self._next_measure = 0.0
        self.turn()

    def publish(self, phase: Phase | None = None) -> None:
        """Publish a view of now; `phase` changes it from now on."""
        self._publisher.publish(self.state, self._measured, phase)

    @property
    def _may_rest(self) -> bool:
        """Whether a turn would find nothing: all that can flow flows, and no news has come."""
        is_news = (
            self._again
            or self._control.gate.has_commands
            or self._poller.has_news
            or self._lanes.has_news
            or self._writer.error is not None
            or self._observer.conflict is not None
            or self._observer.failure is not None
        )
        return self._is_quiet and not is_news and time.monotonic() < self._next_measure

    @property
    def _sources_have_answered(self) -> bool:
        """Whether all sources that were copied to their end have reported what they held."""
        done = {sp.cluster for sp in self.state.of(Stage.DONE)}
        silent = self._measured.silent if self._measured is not None else {}
        return self._services.has_heard(done - silent.keys())

    def _measure(self) -> None:
        """Collect the answers of the sources' probes so far."""
        state, read = self.state, self.state.in_lanes
        if state.until_done and state.is_over:
            # For a last word about them. Before that, one at its end would seem to be stuck.
            read |= state.of(Stage.DONE)
        self._sources.follow(self._in_force.config, read)
        self._measured = self._news = self._sources.measure(
            self._observer.positions, self._lanes.fetches(), often=state.until_done
        )
        self._observer.saw(self._sources.seen())
        self._publisher.follow(self._progress())

    def _progress(self, *, last: bool = False) -> EngineProgress:
        """How far it is now, for the services."""
        known = self._known.remembered()
        return EngineProgress(
            state=self.state,
            logs=known.logs,
            positions=known.positions,
            marks=self._sources.marks(),
            measured=self._measured,
            at=time.monotonic(),
            at_ms=time.time_ns() // 1_000_000,
            ages=self._observer.figures.ages,
            last=last,
        )

    def _raise_what_ends_all(self) -> None:
        if (conflict := self._writer.error or self._observer.conflict) is not None:
            self._lanes.kill()
            self.backfills.kill()
            self._publisher.end()
            raise conflict
        if (failure := self._observer.failure) is not None:
            raise AggregatorError(f"checkpoints have stopped: {failure}") from failure

    def _take_turn(self, snapshot: ClusterSnapshot | None) -> None:
        config = self._in_force.config
        inputs = self._collect(config, snapshot)
        for _ in range(STEPS_IN_A_TURN):
            begun = self.state.begun
            self.state, commands = step(self.state, inputs, time.monotonic())
            self._poller.doubts = Doubts(inputs.known.positions, self.state.damaged, self._read_on)
            if not commands:
                return
            outcomes = self._executor.carry_out(commands, config)
            # The clusters' answers are for one step; a recovery that began has no outcome yet.
            self._raise_if_first(outcomes, begun=begun)
            for outcome in outcomes:
                self._note_prepared(outcome)
            inputs = replace(self._collect(config, None, turn=False), outcomes=tuple(outcomes))

    def _collect(
        self, config: Config, snapshot: ClusterSnapshot | None, *, turn: bool = True
    ) -> StepInputs:
        """The inputs of a step."""
        ended = self._recovery.ended() if turn else None
        if ended is not None:
            self._raise_if_first([ended], begun=self.state.begun)
        again, self._again = self._again, False
        failed, self._discovery_failed = self._discovery_failed, False
        measured, self._news = self._news, None
        return StepInputs(
            config=config,
            at=datetime.now(UTC),
            known=self._known.now(),
            lanes=self._lanes.seen(),
            seen=self._sources.seen(),
            open=frozenset(key for key in self.state.lost_keys if self._is_open(config, key)),
            paused=self._control.out,
            leaving=self._leaving,
            snapshot=snapshot,
            outcomes=() if ended is None else (ended,),
            measured=measured,
            again=again,
            discovery_failed=failed,
            turn=turn,
            parts=self._control.out_parts,
            backfilled=self.backfills.writing,
        )

    def _sight(self) -> BackfillSight | None:
        """The inputs of backfills; None while there is no snapshot of the config in force."""
        snapshot = self.state.snapshot
        if snapshot is None:
            return None
        return BackfillSight(
            config=self._in_force.config,
            snapshot=snapshot,
            live=self._observer.positions,
            seen=self._sources.seen(),
            refused=self.state.refused,
            rests=self._why_rests,
        )

    def _why_rests(self, sp: SourcePartition) -> str:
        """Why a backfill must not read a partition now, in words; "" when it may."""
        if sp.cluster in self._leaving:
            return "its source restarts"
        partition = self.state.at(sp)
        if partition.why == BACKFILLED or partition.stage in (Stage.UNCLEAN, Stage.RECOVERING):
            # A recovery finds all that the hub holds, so that nothing else may write meanwhile.
            return "the hub is read for its live flow first"
        return self._control.why_rests(sp)

    def _is_open(self, config: Config, key: str) -> bool:
        return self._connector.is_open(key, lost_seconds(config))

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
            snapshot = outcome.command.snapshot
            if self._measured is None or not self._measured.ends:
                self._observer.saw(seen_of(snapshot.observed))

    def _publish_ended(self, ended: Mapping[str, str]) -> None:
        if ended != self.view.ended or time.monotonic() >= self._next_measure:
            self._next_measure = time.monotonic() + STATUS_SECONDS
            self._publisher.publish_ended(self.state, self._measured, ended)
