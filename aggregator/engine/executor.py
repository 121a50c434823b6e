"""Executes the commands of a step in order, and returns the outcome of each."""

import os
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark.errors import PySparkException

from aggregator.config.schema import Config
from aggregator.datapath.spark.lane_settings import lane_settings
from aggregator.datapath.spark.transform import check_transform
from aggregator.engine.commits.observer import Observer
from aggregator.engine.recoverer import Recovery
from aggregator.engine.running_lanes import Lanes
from aggregator.kafka.admin import ClusterAdmin
from aggregator.kafka.admin.ids import read_ids
from aggregator.kafka.discovery.creation import HubChanges
from aggregator.kafka.discovery.hub_logs import read_topics
from aggregator.kafka.discovery.poller import DiscoveryPoller
from aggregator.kafka.discovery.prepare import settle
from aggregator.model.errors import (
    AggregatorError,
    CheckpointConflictError,
    CheckpointError,
    ClusterError,
)
from aggregator.model.events import Event, EventSink
from aggregator.model.failpoint import failpoint
from aggregator.plan.actions import Action, Applied, CreateTopic
from aggregator.plan.lanes.rate_limits import Pace
from aggregator.plan.lifecycle.commands import (
    Abort,
    AskHub,
    Command,
    Distrust,
    Emit,
    End,
    Finish,
    Hold,
    Move,
    Outcome,
    Prepare,
    RecordGaps,
    Recover,
    Release,
    Remember,
    RequestDiscovery,
    SetPace,
    Start,
    Started,
)
from aggregator.plan.lifecycle.inputs import FoundGaps, HubLogs, Ready
from aggregator.plan.plan import Plan, replanned
from aggregator.plan.refusals import NOTHING_REFUSED
from aggregator.plan.snapshot import ClusterSnapshot
from aggregator.plan.topics.hub_topics import flowing_of
from aggregator.store.checkpoint.identity import identity_of
from aggregator.store.gaps import GapTable
from aggregator.store.seen_topics import SeenTable


class CommandExecutor:
    """Used by the engine's thread alone."""

    def __init__(
        self,
        lanes: Lanes,
        recovery: Recovery,
        observer: Observer,
        poller: DiscoveryPoller,
        hub: ClusterAdmin,
        changes: HubChanges,
        gaps: GapTable,
        seen: SeenTable,
        emit: EventSink,
        stop: threading.Event,
    ) -> None:
        self._lanes = lanes
        self._recovery = recovery
        self._observer = observer
        self._poller = poller
        self._hub = hub
        self._changes = changes
        self._gaps = gaps
        self._seen = seen
        self._emit = emit
        self._stop = stop
        self._checked: set[str] = set()
        self._config: Config | None = None
        self._plan: Plan | None = None
        self._refusals = NOTHING_REFUSED
        self._knows_gaps = False
        self._pace = Pace()

    def carry_out(self, commands: Iterable[Command], config: Config) -> list[Outcome]:
        """Do all of it; a failure of one is its outcome, and the others are done all the same.

        But no position moves for a gap that could not be recorded, and no lane starts any more when
        all is to stop. Raises CheckpointConflictError when another instance writes this
        checkpoint, the error of an `Abort`, and AggregatorError for a lane that does not stop, the
        last two when all the others are done.
        """
        outcomes: list[Outcome] = []
        fatal: Exception | None = None
        unrecorded = False
        for command in commands:
            if self._is_dropped(command, unrecorded=unrecorded):
                outcomes.append(Outcome(command, dropped=True))
                continue
            try:
                outcomes.append(Outcome(command, self._do(command, config)))
            except CheckpointConflictError:
                raise
            except (AggregatorError, PySparkException) as error:
                if isinstance(command, (Abort, Finish)):
                    fatal = fatal or error
                outcomes.append(Outcome(command, error=error))
                unrecorded = unrecorded or isinstance(command, RecordGaps)
        if fatal is not None:
            raise fatal
        return outcomes

    def check(self, plan: Plan) -> None:
        """Raise ConfigError when a transform of this plan does not fit."""
        names = {route.transform for route in plan.routes if route.transform}
        for name in sorted(names - self._checked):
            check_transform(self._lanes.spark, name)
            self._checked.add(name)

    def _is_dropped(self, command: Command, *, unrecorded: bool) -> bool:
        match command:
            case Move(_, "gaps"):
                return unrecorded
            case Start() | Recover():
                return self._stop.is_set()
            case _:
                return False

    def _do(self, command: Command, config: Config) -> object:
        match command:
            case Prepare(snapshot):
                return self._prepare(snapshot, config)
            case RecordGaps(records):
                self._gaps.append(records)
            case Move(positions, why):
                self._observer.moved(positions, why)
            case Remember(topics):
                self._seen.add(topics)
            case AskHub(topics):
                timeout = config.supervision.connect_timeout
                found = read_topics(self._hub, topics, timeout)
                return HubLogs(found.logs, frozenset(found.waits))
            case Distrust(positions, ends, opened, closed, lost):
                self._observer.distrust(positions, ends, opened, closed, lost)
            case Recover():
                self._recovery.begin(command, config)
            case Start():
                return self._start(command, config)
            case End(name):
                self._lanes.end(name)
            case Hold(name, partitions):
                self._lanes.hold(name, partitions)
            case Finish(name, clean):
                return self._lanes.finish(name, clean=clean)
            case Release(name, partitions):
                self._lanes.release(name, partitions)
            case SetPace(pace):
                self._pace = pace
                self._lanes.pace(pace)
            case RequestDiscovery():
                self._poller.wake()
            case Emit(event):
                self._emit(event)
            case Abort(error):
                raise error
        return None

    def _prepare(self, snapshot: ClusterSnapshot, config: Config) -> Ready:
        """Check the transforms, then change the hub's topics, and use the plan that is left.

        A topic that the hub refuses is adapted, or left out. Returns that plan, and what the table
        of gaps says by now. Raises ConfigError for a transform that does not fit, before anything
        is changed, ClusterError when the hub does not answer, or refuses what all need, and
        CheckpointError for a table that was never read.
        """
        self.check(snapshot.plan)
        if config is not self._config:
            # Other settings may be what it refused for.
            self._config, self._refusals = config, NOTHING_REFUSED
        flowing = flowing_of(self._plan.routes if self._plan is not None else snapshot.plan.routes)
        failpoint("before-apply")
        plan, refusals = snapshot.plan, self._refusals.at(time.monotonic())
        if refused := self._changes.refused():
            refusals = refusals.after(refused, config.topics, time.monotonic())
            plan = replanned(plan, config, refusals, cores=os.cpu_count(), flowing=flowing)
        creating = frozenset[str]()

        def attempt(actions: Sequence[Action]) -> Sequence[Applied]:
            nonlocal creating
            routed = {route.hub_topic for route in plan.routes}
            first = {it.name for it in actions} - routed
            answers, creating = self._changes.make(actions, config, first=first)
            return answers

        found = settle(plan, config, refusals, attempt, flowing)
        failpoint("after-apply")
        if new := [it for it in found.plan.refusals if it not in snapshot.plan.refusals]:
            raise ClusterError(f"hub: {'; '.join(new)}")
        made = {it.action.name for it in found.done if isinstance(it.action, CreateTopic)}
        created = self._ids_of(made - creating, config.supervision.connect_timeout)
        if (unknown := made - creating - created.keys()) and not self._changes.all_now:
            # Without its id a topic that is created again would pass unnoticed.
            creating |= unknown
            self._poller.wake()
        found = replace(found, plan=replace(found.plan, creating=creating, created=created))
        self._plan, self._refusals = found.plan, found.refusals
        self._poller.plan_by(found.plan.routes, found.refusals)
        self._observer.update(identity_of(found.plan))
        try:
            gaps, self._knows_gaps = FoundGaps(self._gaps.load()), True
        except CheckpointError as error:
            if not self._knows_gaps:
                # Nothing starts before it is known what waits for a person.
                raise
            gaps = FoundGaps(error=str(error))
        return Ready(found.plan, gaps)

    def _ids_of(self, topics: Collection[str], timeout: float) -> Mapping[str, str]:
        """The ids of hub topics that were just created, of those of which the hub reports any.

        A later snapshot has those of the others.
        """
        try:
            return read_ids(self._hub, topics, timeout).topic_ids if topics else {}
        except ClusterError as error:
            words = f"the ids of {len(topics)} topics just created are not known yet: {error}"
            self._emit(Event("hub_changes", words))
            return {}

    def _start(self, command: Start, config: Config) -> Started:
        assert self._plan is not None
        settings = lane_settings(config, self._plan, self._pace, command.until)
        started = self._lanes.start(command, settings)
        lane = command.lane
        words = (
            f"lane {lane.name} reads {len(lane.partitions)} partitions of "
            f"{', '.join(lane.clusters)}"
        )
        fields: dict[str, str | int] = {"lane": lane.name, "generation": started.generation}
        self._emit(Event("lane_started", words, fields))
        return started
