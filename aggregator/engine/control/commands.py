"""The commands to a running engine, by the API, a signal or the command line.

Each command goes through the queue, and is executed by the engine's own thread.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from aggregator.config.checks import problems, warnings
from aggregator.config.files import note_files
from aggregator.config.in_force import InForce
from aggregator.config.load import Added
from aggregator.config.mask import mask_text
from aggregator.config.schema import Config
from aggregator.engine.control.command_queue import Actor, Answer, CommandGate
from aggregator.engine.control.pauses import Pauses, out_of, out_of_parts
from aggregator.features.backfill.backfill_report import (
    BackfillReport,
    BackfillsReport,
    backfill_status,
)
from aggregator.features.backfill.order_stopped import refuse_moves, table_of
from aggregator.features.backfill.proposal_of_ranges import propose_backfill
from aggregator.features.backfill.ranges import BackfillRequest
from aggregator.features.positions.change_report import MovesReport
from aggregator.features.positions.proposal import propose
from aggregator.features.positions.targets import MoveRequest
from aggregator.kafka.admin import discover, hub_facts
from aggregator.kafka.discovery.prepare import plan_with
from aggregator.model.errors import (
    AggregatorError,
    CheckpointError,
    ConfigError,
    Problem,
    RefusedError,
)
from aggregator.model.events import Event, EventSink, LogLevel
from aggregator.model.values import Part, Pause, SourcePartition
from aggregator.plan.plan import Plan
from aggregator.plan.reload import OTHER_RUN, Reload, id_notes, plan_reload, under, until_restart
from aggregator.status.command_answers import ReloadReport, SourceControl, source_control
from aggregator.status.schema import BackfillStatus

ANSWER_SECONDS = 60.0
"""How much longer than a clean stop of all lanes an answer may take, in seconds."""
BUILT_ON = (*OTHER_RUN, "checkpoint.storage_options")
"""Config keys that a process is built on: a change needs a new process."""
KEPT = ("api", "checkpoint")
"""Config keys that a process keeps from its start."""


class Control:
    """Takes commands for one instance.

    `in_force` holds the config, and `gate` is the queue to the engine's thread. What is paused
    survives restarts. `reread` reads the config again, with sources that are added to it or taken
    out; it raises ConfigError. With `only_backfills` nothing else runs.
    """

    def __init__(
        self,
        config: Config,
        reread: Callable[[Added], Config] | None = None,
        *,
        only_backfills: bool = False,
    ) -> None:
        note_files(config)
        self.in_force = InForce(config)
        self.pauses = Pauses(config.checkpoint)
        self.log_level = LogLevel()
        self.waiting: tuple[str, ...] = ()
        """Changed keys of the config that apply from the next start on."""
        self.config_error = ""
        """Why the newest config is not the one in force; "" where it is, but for what waits."""
        self.opened = 0
        """How many engines have begun to take commands; between two it may be on standby."""
        self._only_backfills = only_backfills
        self._reread = reread
        self.gate = CommandGate()
        self._reloading = threading.Lock()

    @property
    def config(self) -> Config:
        """The config in force."""
        return self.in_force.config

    @property
    def paused(self) -> Mapping[str, Pause]:
        """Paused sources, by alias."""
        return self.pauses.sources

    @property
    def stopped(self) -> frozenset[str]:
        """Those of them that are "stopped" for Connect."""
        return frozenset(alias for alias, it in self.paused.items() if it.stopped)

    @property
    def parts(self) -> Mapping[Part, Pause]:
        """Topics and partitions that are paused by themselves."""
        return self.pauses.parts

    @property
    def titles(self) -> dict[str, str]:
        """The titles of the sources: alias -> title, where there is one."""
        return {alias: source.title for alias, source in self.config.sources.items()}

    @property
    def out(self) -> dict[str, str]:
        """Sources whose live flow must not run: alias -> why, in words."""
        if self._only_backfills:
            return dict.fromkeys(self.config.sources, "this run does backfills alone")
        return out_of(self.paused)

    @property
    def out_parts(self) -> dict[Part, str]:
        """Parts of sources that must not run: part -> why, in words."""
        return out_of_parts(self.parts)

    def why_rests(self, sp: SourcePartition) -> str:
        """Why a partition is paused, in words; "" when it is not."""
        if sp.cluster in self.paused:
            return out_of(self.paused)[sp.cluster]
        return next((why for part, why in self.out_parts.items() if part.covers(sp)), "")

    def pause(self, alias: str, *, stopped: bool = False, by: str = "") -> SourceControl:
        """End the lanes of a source cleanly and start none; returns when they have ended.

        With `stopped` it is marked so. Raises RefusedError when there is no such source,
        CheckpointError when it cannot be stored.
        """

        def act(engine: Actor) -> None:
            self.pauses.pause(alias, stopped=stopped, by=by)
            engine.leave({alias})

        return self._steer(act, alias)

    def resume(self, alias: str, by: str = "") -> SourceControl:
        """Resume a source from where it is; returns at once. Raises as `pause` does."""

        def act(engine: Actor) -> None:
            self.pauses.resume(alias, by)
            engine.request_discovery()

        return self._steer(act, alias)

    def pause_part(self, part: Part, by: str = "") -> SourceControl:
        """Pause a topic or a partition; returns when no lane reads it. Raises as `pause` does.

        Also RefusedError for one that is not selected.
        """

        def act(engine: Actor) -> None:
            engine.check_part(part)
            self.pauses.pause_part(part, by)
            engine.rest(part)

        return self._steer(act, part.cluster, part)

    def resume_part(self, part: Part, by: str = "") -> SourceControl:
        """Resume a topic, with all its partitions, or one partition; returns at once.

        Raises as `pause` does, and RefusedError for a partition of a topic that is paused.
        """

        def act(engine: Actor) -> None:
            self.pauses.resume_part(part, by)
            engine.request_discovery()

        return self._steer(act, part.cluster, part)

    def restart(self, alias: str) -> SourceControl:
        """Restart the lanes of a source cleanly; returns when they have ended.

        Raises as `pause` does.
        """

        def act(engine: Actor) -> None:
            engine.leave({alias})
            engine.request_discovery()

        return self._steer(act, alias)

    def request_discovery(self) -> None:
        """Have the engine run discovery soon: something was decided beside it."""
        self._ask(lambda engine: engine.request_discovery())

    def set_positions(self, request: MoveRequest, *, dry_run: bool) -> MovesReport:
        """Set positions of what is paused; a dry run only shows what would be done.

        Raises RefusedError also for what is not paused, else as `propose` does.
        """
        proposal = propose(self.config, request)
        if dry_run:
            return proposal.report(self.config, dry_run=True, running=True)

        def act(engine: Actor) -> int | None:
            # Also of those that would stay: the position of a running one is not known exactly.
            moved = [it.partition for it in proposal.plan.moves]
            named = {it.cluster for it in moved if not any(part.covers(it) for part in self.parts)}
            if running := sorted(named - set(self.paused)):
                raise RefusedError(
                    [f"source {it} is not paused: aggregator pause {it}" for it in running]
                )
            refuse_moves(self.config, proposal.plan)
            return engine.put(proposal) if proposal.checkpoints else None

        commit = self._ask(act)
        return proposal.report(self.config, dry_run=False, running=True, commit=commit)

    def order_backfill(self, request: BackfillRequest, *, by: str, dry_run: bool) -> BackfillReport:
        """Copy a range of a topic beside the live flow; a dry run only shows what it is.

        Returns when it is stored. Raises as `propose_backfill` does, and RefusedError when another
        one reads the range.
        """
        order = propose_backfill(self.config, request, by)
        if dry_run:
            return order.report(self.config, None, running=True)
        ordered = self._ask(lambda engine: engine.order_backfill(order.backfill))
        return order.report(self.config, ordered, running=True)

    def cancel_backfill(self, name: str) -> BackfillReport:
        """Cancel a backfill. Raises RefusedError when none is active."""
        cancelled = self._ask(lambda engine: engine.cancel_backfill(name))
        shown = backfill_status(cancelled)
        return BackfillReport(name=self.config.name, running=True, backfill=shown)

    def backfills(self, shown: Collection[BackfillStatus]) -> BackfillsReport:
        """All ordered backfills; `shown` are those that the running instance reports."""
        live = {it.id: it for it in shown}
        known = table_of(self.config).load()
        return BackfillsReport(
            name=self.config.name,
            running=True,
            backfills=tuple(
                live.get(name) or backfill_status(backfill) for name, backfill in known.items()
            ),
        )

    def reload(self) -> ReloadReport:
        """Reload the config; the old one stays in force when anything is wrong.

        What a running instance is built on stays as it is, and waits for a restart. Raises
        ConfigError for a bad one and for that of another aggregation, RefusedError when its plan is
        refused, ClusterError when the hub does not answer.
        """
        return self._change({}, lambda: None)

    def change_source(
        self,
        alias: str,
        source: Mapping[str, Any] | None,
        keep: Callable[[], object],
        *,
        paused: bool | None = None,
        stopped: bool = False,
        by: str = "",
    ) -> ReloadReport:
        """Add or change a source, or with None remove it, while all others run.

        `source` is in the form of the YAML. `keep` keeps the change for the next start; it is
        called when everything is known to be right, and before anything changes. With `paused` a
        source begins so, or is so no longer. Raises as `reload` does, and CheckpointError.
        """

        def before() -> None:
            with self.pauses.around(alias, paused=paused, stopped=stopped, by=by):
                keep()

        return self._change({alias: source}, before)

    def problems_with(self, alias: str, source: Mapping[str, Any]) -> tuple[Problem, ...]:
        """All problems that the config would have with this source; asks no cluster."""
        if self._reread is not None:
            try:
                self._reread({alias: source})
            except ConfigError as error:
                return error.problems
        return ()

    def _change(self, added: Added, before: Callable[[], None]) -> ReloadReport:
        if self._reread is None:
            raise RefusedError(
                ["this instance was not started from a config that can be read again"]
            )
        # Before any cluster is asked, which may take a while.
        self.gate.check_open()
        with self._reloading:
            read = self._reread(added)
            note_files(read)
            new, waiting = until_restart(self.config, read)
            found = plan_reload(self.config, new)
            _raise_if_wrong(new, found, waiting)
            plan: Plan | None = None
            ids: tuple[str, ...] = ()
            if found.keys:
                seen = discover(new)
                plan = plan_with(new, seen, hub_facts(seen))
                plan.raise_if_refused()
                ids = id_notes(self.config, plan.routes, plan.hub.topics)

            def act(engine: Actor) -> None:
                if plan is not None:
                    engine.check(plan)
                before()
                for alias in added.keys() - new.sources.keys():
                    self.pauses.forget(alias)
                if plan is not None:
                    engine.leave(found.leaving(self.config))
                    # The next step uses it, and runs discovery again.
                    self.in_force.config = new
                self.waiting = waiting
                self.config_error = ""

            if found.keys or added or waiting != self.waiting:
                self._ask(act)
            return ReloadReport(
                name=new.name,
                keys=found.keys,
                added=found.added,
                removed=found.removed,
                reconnected=found.changed,
                notes=(
                    *(f"{key} waits for a restart" for key in waiting),
                    *warnings(new),
                    *(() if plan is None else map(str, plan.refused)),
                    *ids,
                ),
            )

    def load(self) -> None:
        """Load what was decided before this start; CheckpointError when it cannot be read.

        Commands are refused as "starting" until the engine opens the queue.
        """
        self.pauses.load()
        self.opened += 1

    def read_again(self, emit: EventSink, *, keep: tuple[str, ...] = ()) -> bool:
        """Reload the config before a start; whether it has changed.

        For the engine's thread while nothing runs. A config that cannot be used leaves the last one
        in force, which is an event and is kept in `config_error`. What this process keeps (`keep`
        and `KEPT`) waits for its restart. AggregatorError when the config names another checkpoint.
        """
        if self._reread is None:
            return False
        before = self.config
        try:
            now = self._reread({})
        except (ConfigError, CheckpointError) as error:
            words = f"the config cannot be used, and the last one stays in force: {error}"
            words, known = mask_text(words, before), self.config_error
            self.config_error = words
            if words != known:
                emit(Event("config_failed", words))
            return False
        note_files(now)
        keys = plan_reload(before, now).keys
        if moved := [key for key in keys if under(key, BUILT_ON)]:
            raise AggregatorError(f"{', '.join(moved)}: changed since this start; start it again")
        self.in_force.config, self.waiting = until_restart(before, now, (*KEPT, *keep))
        self.config_error = ""
        return len(keys) > len(self.waiting)

    def _ask(self, act: Callable[[Actor], Answer]) -> Answer:
        return self.gate.ask(act, self.config.supervision.stop_timeout + ANSWER_SECONDS)

    def _steer(
        self, act: Callable[[Actor], None], alias: str, part: Part | None = None
    ) -> SourceControl:
        """Have it done to a source, if there is such a one; returns what is in force then."""
        self.config.chosen(alias)
        self._ask(act)
        return source_control(self.config.name, alias, part, self.paused, self.parts)


def _raise_if_wrong(config: Config, found: Reload, waiting: Collection[str]) -> None:
    """Raise ConfigError for the config of another aggregation, or one that is wrong by what waits.

    Each of the two that it is made of is right by itself.
    """
    why, fix = "is that of another aggregation", "restart, or take the change back"
    wrong = [Problem(key, why, fix) for key in found.refused]
    if waiting:
        wrong += problems(config.model_dump())
    if wrong:
        raise ConfigError(wrong)
