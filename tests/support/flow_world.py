"""A small world for the pure step: sources, a hub, a checkpoint and lanes, all of plain values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.engine.commits.observer import known_of
from aggregator.model.errors import CheckpointError, ClusterError
from aggregator.model.values import (
    ClusterFacts,
    LogId,
    OffsetRange,
    Part,
    Positions,
    ReaderState,
    Route,
    Skip,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan.health.suspects import Seen
from aggregator.plan.lanes.slots import SlotPlan
from aggregator.plan.lifecycle import commands as c
from aggregator.plan.lifecycle.inputs import (
    FoundGaps,
    HubLogs,
    Known,
    LaneSeen,
    Measured,
    Ready,
    StepInputs,
)
from aggregator.plan.lifecycle.judge import BACKFILLED
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import State
from aggregator.plan.lifecycle.step import step
from aggregator.plan.plan import Plan
from aggregator.plan.positions.gaps import Decision, GapRecord, gap_id, is_new
from aggregator.plan.positions.hub_losses import LOST, lost_topics, renewed_topics
from aggregator.plan.positions.recovery import (
    counts_below,
    highest,
    needed_topics,
    plan_losses,
    plan_skips,
    recovered_positions,
)
from aggregator.plan.positions.start import Damage, Gap, GapKind, Observed, Remembered
from aggregator.plan.snapshot import ClusterSnapshot, TopicsSeen
from aggregator.store.checkpoint.rows import HUB as HUB_ALIAS
from aggregator.store.checkpoint.rows import Checkpoint
from aggregator.store.checkpoint.start_state import CheckpointState, Entry

TURN = 0.25
HUB_TOPICS = {"eu": "orders", "us": "orders.us"}
"""Offsets of all of them are counted as one: what is further in one is further in each."""
ROUTES = {alias: Route(alias, "orders", name, 2, 1) for alias, name in HUB_TOPICS.items()}
PARTITIONS = [SourcePartition(alias, "orders", n) for alias in ROUTES for n in (0, 1)]
EU0, EU1, US0, US1 = PARTITIONS
EU, US = (EU0, EU1), (US0, US1)
DAY = datetime(2026, 1, 1, tzinfo=UTC)
NO_SKIP = Skip([])
OTHER = SourcePartition("somebody", "else", 0)
FULL_EVERY = 20
STUCK_TEXT = (
    "aggregator.connector.HubWriter$Stuck: hub partition orders-0 has not taken the same records "
    "for 120 s, though the hub answers; they are of {}"
)

Record = tuple[SourcePartition, str, int]
"""Where a hub record came from: partition, topic id, offset."""


def config_of(**settings: Any) -> Config:
    return load_text(
        "",
        [
            "hub.bootstrap_servers=127.0.0.1:9",
            *(f"sources.{alias}.bootstrap_servers=127.0.0.1:10" for alias in ROUTES),
            *(f"sources.{alias}.topics.include=orders" for alias in ROUTES),
            "sources.eu.on_gap=skip",
            "sources.us.on_gap=restart",
            *(f"{key}={value}" for key, value in settings.items()),
        ],
    )


@dataclass
class Log:
    """A source partition: offsets [earliest, end) of one life of its topic."""

    topic_id: str
    earliest: int = 0
    end: int = 0


@dataclass(frozen=True)
class Backup:
    """The folder of the checkpoint as it was at one moment."""

    checkpoint: CheckpointState = field(default_factory=CheckpointState)
    table: Mapping[str, GapRecord] = field(default_factory=dict)
    kept: TopicsSeen = field(default_factory=TopicsSeen)


class CrashError(Exception):
    """The instance dies between two things that it does."""


@dataclass
class Tasks:
    """The tasks of a life of a lane: they last when its query has failed, until they are gone."""

    key: str
    ids: dict[SourcePartition, str]
    positions: dict[SourcePartition, int]
    skips: dict[SourcePartition, Skip]
    until: dict[SourcePartition, int]
    sent: dict[SourcePartition, set[int]]
    hub_ids: Mapping[str, str]
    held: set[SourcePartition] = field(default_factory=set)
    stuck: set[SourcePartition] = field(default_factory=set)
    ending: bool = False
    active: bool = True
    failure: str = "it broke"

    @property
    def under_way(self) -> bool:
        """Whether records were handed over that still arrive: those of stuck partitions do not."""
        return any(it for sp, it in self.sent.items() if sp not in self.stuck)


def running(**settings: Any) -> World:
    """A world in which all is read, and nothing fails but what a test does."""
    world = World(Random(7), **settings)
    world.calm = True
    world.until_all(Stage.READING)
    return world


class World:
    """`rng` decides what happens; when it is `calm` nothing fails any more."""

    def __init__(self, rng: Random, *, until_done: bool = False, **settings: Any) -> None:
        self.rng = rng
        self.by_parts = False
        """Whether topics and partitions are paused by themselves, and not whole sources."""
        self.config = config_of(**settings)
        self.until_done = until_done
        self.now = 1000.0
        self.calm = False
        self.logs = {sp: Log(f"{sp.cluster}-1", 0, rng.randrange(5)) for sp in PARTITIONS}
        self.lives: dict[tuple[SourcePartition, str], int] = {}
        self.first: dict[tuple[SourcePartition, str], int] = {}
        self.hub: list[Record] = []
        self.checkpoint = CheckpointState()
        self.backups = [Backup()]
        self.losable = False
        """Whether the folder of the checkpoint may be lost, or restored from a backup."""
        self.hub_losable = False
        """Whether the hub may be restored from a backup, and its topics be created again."""
        self.is_cut = False
        """Whether the hub was restored since something was last written or recovered."""
        self.hub_ids = {name: f"{name}-1" for name in HUB_TOPICS.values()}
        self.leaderless: set[SourcePartition] = set()
        self.unshown: set[str] = set()
        """Hub topics that do not show all that they hold."""
        self.met: set[str] = set()
        """Sources that have answered a look of this run."""
        self.table: dict[str, GapRecord] = {}
        self.away: set[str] = set()
        self.paused: set[str] = set()
        self.parts: set[Part] = set()
        self.kept = TopicsSeen()
        self.leaving: frozenset[str] = frozenset()
        self.backfilled: dict[SourcePartition, int] = {}
        """What a backfill may still write, and where that ends."""
        self.only = set(ROUTES)
        self.commits = self.generation = 0
        self.poisoned: set[SourcePartition] = set()
        self.damaged: dict[SourcePartition, int] = {}
        """How many offsets from the position on cannot be read."""
        self.creating: set[str] = set()
        """Hub topics that take long to create."""
        self.busy: set[SourcePartition] = set()
        self.refused = ""
        self.stopping = False
        self.lags: dict[str, int] = {}
        self.stuck: dict[SourcePartition, str] = {}
        self.ends_whole = False
        """Whether tasks are on executors, or their records have events: see `stick`."""
        self.named: set[SourcePartition] = set()
        """What has ended a lane of this run that way."""
        self.silent: dict[str, str] = {}
        self.answered = frozenset(ROUTES)
        self.arrivals: dict[str, float] = {}
        self.errors: dict[str, str] = {}
        self.events: list[tuple[str, str]] = []
        self.given: list[c.Command] = []
        self.lanes: dict[str, Tasks] = {}
        self.ghosts: list[Tasks] = []
        self.restart()

    def restart(self) -> None:
        """The instance is killed, and begins again when nothing of the old one is left."""
        for tasks in [*self.lanes.values(), *self.ghosts]:
            self._send(tasks, wild=True)
        self.lanes, self.ghosts, self.met, self.named = {}, [], set(), set()
        self.backfilled = {}
        if self.losable:
            self._treat_the_folder()
        if self.hub_losable:
            self._treat_the_hub()
        self.state = State(
            self.config, until_done=self.until_done, topics=self.kept, kept=self.kept
        )
        self.job: tuple[c.Recover, int] | None = None
        self.snapshots: list[tuple[float, ClusterSnapshot]] = []
        self.asked = True

    @property
    def entries(self) -> Mapping[SourcePartition, Entry]:
        """What the checkpoint says of each partition."""
        return self.checkpoint.entries

    # What happens around it

    def stop_some(self) -> None:
        """Lanes end cleanly; not all of them have to, before what is left is killed."""
        for name in sorted(self.lanes):
            tasks = self.lanes[name]
            if tasks.active and self.rng.random() < 0.7:
                tasks.ending = True
                while tasks.under_way:
                    self._send(tasks)
                for sp in tasks.positions:
                    self._left(tasks, sp)
                del self.lanes[name]

    def _treat_the_folder(self) -> None:
        """While nothing runs it may be lost or restored, and people may set positions in it."""
        rng = self.rng
        # What was copied of a topic that was created again since comes twice: its origin is the
        # same as in the topic before.
        fitting = [
            it
            for it in self.backups
            if all(self.logs[sp].topic_id == e.topic_id for sp, e in it.checkpoint.entries.items())
        ]
        if rng.random() < 0.4:
            self._restore(rng.choice(fitting))
        if rng.random() < 0.2:
            self._set_by_hand(rng.choice(PARTITIONS))

    def _treat_the_hub(self) -> None:
        """While nothing runs it may be restored from a backup, or a topic be created again."""
        if self.rng.random() < 0.3 and self._shows(end := self.rng.randrange(len(self.hub) + 1)):
            self.cut_hub(end)
        if self.rng.random() < 0.3:
            self.renew_hub(self.rng.choice(sorted(ROUTES)))

    def _shows(self, end: int) -> bool:
        """Whether a hub that ends there is known to lack what it lacks.

        After a crash the ends in a commit lie before some of what is below its position.
        """
        return all(
            entry is None or offset >= entry.position or end < _end_in(entry.snapshot.hub_ends, sp)
            for sp, _, offset in self.hub[end:]
            for entry in (self.entries.get(sp),)
        )

    def cut_hub(self, end: int) -> None:
        """It is restored from a backup of when it ended there.

        An older checkpoint may know as much of what will be there instead as of what was.
        """
        self.hub, self.backups = self.hub[:end], self.backups[:1]
        self.is_cut = True
        self._forget_lives(ROUTES)

    def renew_hub(self, alias: str, *, is_running: bool = False) -> None:
        """A hub topic is deleted, and another one by its name holds as many records of others."""
        name = HUB_TOPICS[alias]
        # What is decided by a look from before this is as if it had been decided before it.
        snapshots = [self.state.snapshot, *(it for _, it in self.snapshots)] if is_running else []
        if any(it and it.plan.hub_ids.get(name) == self.hub_ids[name] for it in snapshots):
            self._forget_gone(alias)
        number = int(self.hub_ids[name].rpartition("-")[2]) + 1
        self.hub_ids = {**self.hub_ids, name: f"{name}-{number}"}
        self.hub = [
            (OTHER, "", at) if it[0].cluster == alias else it for at, it in enumerate(self.hub)
        ]
        self._forget_lives({alias})

    def _forget_gone(self, alias: str) -> None:
        """What the hub alone held, as the source's topic is gone, though no commit knows that."""
        self.first = {
            (sp, life): at
            for (sp, life), at in self.first.items()
            if sp.cluster != alias or self.logs[sp].topic_id == life
        }

    def _forget_lives(self, aliases: Collection[str]) -> None:
        """What the hub alone held, of source topics that are gone, can come no more."""
        entries = self.entries
        self.first = {
            (sp, life): at
            for (sp, life), at in self.first.items()
            if sp.cluster not in aliases or sp not in entries or entries[sp].topic_id == life
        }

    def _restore(self, backup: Backup) -> None:
        """What was promised beyond it, in no order that it knows of, is promised no more."""
        self.checkpoint, self.table, self.kept = (
            backup.checkpoint,
            dict(backup.table),
            backup.kept,
        )
        entries = self.entries
        self.first = {
            (sp, life): at
            for (sp, life), at in self.first.items()
            if sp in entries and entries[sp].topic_id == life
        }

    def _set_by_hand(self, sp: SourcePartition) -> None:
        """A person says that a partition was copied up to where it was."""
        entry, log = self.entries.get(sp), self.logs[sp]
        if entry is None or entry.topic_id != log.topic_id:
            return
        top = max((o for it, life, o in self.hub if (it, life) == (sp, log.topic_id)), default=-1)
        at = min(max(top + 1, entry.position), log.end)
        if at > top and entry.position < at:
            then = LogId(sp.cluster, log.topic_id)
            kind, start = GapKind.SKIPPED_BY_OPERATOR, entry.position
            gap = Gap(sp, kind, start, at, "set by hand", start, at - start, then, then)
            record = GapRecord(gap_id(gap), gap, DAY, 1, Decision.ACCEPT, DAY, resolved=True)
            self.table[record.id] = record
            row = self._row(
                sp, at, log.topic_id, self._own_hub_ids(sp), clean=True, hub=len(self.hub)
            )
            self._append(replace(row, lane="positions set"))

    def happen(self) -> None:
        """One thing that no one asked for."""
        rng, sp = self.rng, self.rng.choice(PARTITIONS)
        log = self.logs[sp]
        kinds = ["write", "write", "write", "die", "delete", "recreate", "away", "pause", "hub"]
        more = ["backup", "leader", "other"] * self.losable + ["recreate hub"] * self.hub_losable
        match rng.choice([*kinds, "stick", "backfill", *more]):
            case "backfill" if self.backfilled:
                self.backfilled = {}
            case "backfill" if self.state.at(sp).stage is Stage.READING:
                self.backfilled = {sp: self.lanes[self.state.at(sp).lane].positions[sp]}
            case "stick" if self.lanes:
                self.stick(self.lanes[rng.choice(sorted(self.lanes))], sp)
            case "write":
                log.end += rng.randrange(4)
            case "die" if self.lanes:
                self.lanes[rng.choice(sorted(self.lanes))].active = False
            case "delete" if rng.random() < 0.3:
                log.earliest = rng.randrange(log.earliest, log.end + 1)
            case "recreate" if rng.random() < 0.2:
                self.create_again(sp.cluster)
            case "away":
                self.away ^= {sp.cluster}
            case "recreate hub" if rng.random() < 0.3:
                self.renew_hub(sp.cluster, is_running=True)
            case "backup" if not self.is_cut:
                here = Backup(self.checkpoint, dict(self.table), self.kept)
                self.backups = [*self.backups[:1], *self.backups[-2:], here]
            case "leader":
                self.leaderless ^= {sp}
            case "hub" if self.rng.random() < 0.5:
                self.unshown ^= {HUB_TOPICS[sp.cluster]}
            case "other" if rng.random() < 0.2 and not self.is_cut:
                self.hub.append((OTHER, "", len(self.hub)))
            case "pause" if self.by_parts:
                self.parts ^= {Part(*sp[:2], rng.choice((None, sp.partition)))}
            case "pause":
                self.paused ^= {sp.cluster}
            case _:
                pass

    def stick(self, tasks: Tasks, sp: SourcePartition) -> None:
        """A hub partition takes nothing of it: its task lets it go, with what is under way.

        Where a task cannot, its lane ends. That may happen once for each partition: what has shared
        a lane with it then must not be disturbed again.
        """
        if sp not in tasks.positions or sp in tasks.stuck or not tasks.active:
            return
        if self.ends_whole:
            again = sp in self.named
            assert not again or self.named >= tasks.positions.keys(), f"{sp} ends others again"
            self.named |= {sp} if len(tasks.positions) > 1 else set()
            tasks.active, tasks.failure = False, STUCK_TEXT.format(sp)
        else:
            at = tasks.positions[sp]
            self._send_one(tasks, sp, wild=True)
            tasks.positions[sp] = at
            tasks.stuck.add(sp)

    def create_again(self, alias: str) -> None:
        """The topic of a source is deleted, and another one is there by its name."""
        for sp in PARTITIONS:
            if sp.cluster == alias:
                old = self.logs[sp]
                self.lives[sp, old.topic_id] = old.end
                number = int(old.topic_id.rpartition("-")[2]) + 1
                self.logs[sp] = Log(f"{alias}-{number}", 0, self.rng.randrange(3))

    def turn(self) -> None:
        """A quarter of a second: lanes send, a look may end, and the engine takes a turn."""
        self.now += TURN
        for tasks in [*self.lanes.values(), *self.ghosts]:
            self._send(tasks)
        self.ghosts = [it for it in self.ghosts if self.rng.random() < 0.7]
        if not self.calm and self.rng.random() < 0.4:
            self.happen()
        if any(self.state.at(sp).why == BACKFILLED for sp in self.backfilled) and not self.calm:
            # It is asked to end, and does so when its lane has.
            self.backfilled = self.backfilled if self.rng.random() < 0.7 else {}
        self._report()
        if self.asked or self.rng.random() < 0.05:
            self.asked = False
            self.snapshots.append((self.now + self.rng.choice((0.25, 1.0, 2.0)), self._discover()))
        self._steps()

    def until(self, check: Callable[[], object], turns: int = 400) -> None:
        """Take turns until something holds, one at least."""
        for _ in range(turns):
            self.turn()
            if check():
                return
        stages = {str(sp): (it.stage, it.why) for sp, it in self.state.partitions.items()}
        raise AssertionError(f"it does not come to that: {stages}, {self.events[-5:]}")

    def until_all(self, stage: Stage, *partitions: SourcePartition) -> None:
        """Take turns until these, or all, are in a stage."""
        wanted = partitions or tuple(PARTITIONS)
        self.until(lambda: all(self.state.at(sp).stage is stage for sp in wanted))

    def messages(self, kind: str) -> list[str]:
        """The messages of the events of this kind."""
        return [message for each, message in self.events if each == kind]

    def until_quiet(self, turns: int = 2000) -> None:
        """No more faults: everything that is to run runs, and has copied all there is."""
        self.calm, self.away, self.paused, self.parts = True, set(), set(), set()
        self.leaderless, self.unshown, self.backfilled = set(), set(), {}
        for _ in range(turns):
            self.accept()
            self.turn()
            if self.state.of(Stage.READING) == set(PARTITIONS) and not self.missing():
                return
        stages = {str(sp): (it.stage, it.why) for sp, it in self.state.partitions.items()}
        raise AssertionError(f"not all runs: {stages}; missing {self.missing()}")

    def accept(self) -> None:
        """A person decides to continue without what is lost."""
        for name, record in self.table.items():
            if not record.resolved and record.decision is Decision.STOP:
                self.table[name] = record.accepted(DAY)

    def missing(self) -> list[Record]:
        """What is neither at the hub nor recorded as lost."""
        there = set(self.hub)
        ends = {**self.lives, **{(sp, log.topic_id): log.end for sp, log in self.logs.items()}}
        return [
            (sp, life, offset)
            for (sp, life), end in ends.items()
            for offset in range(self.first.get((sp, life), end), end)
            if (sp, life, offset) not in there and not self._is_lost(sp, life, offset)
        ] + [
            (sp, log.topic_id, -1)
            for sp, log in self.logs.items()
            if (sp, log.topic_id) not in self.first
        ]

    def _is_lost(self, sp: SourcePartition, life: str, offset: int) -> bool:
        old = self.logs[sp].topic_id != life
        return any(
            it.gap.partition == sp
            and it.gap.then.topic == life
            and it.gap.start <= offset
            and (old or it.gap.end is None or offset < it.gap.end)
            for it in self.table.values()
        )

    # The engine

    def _steps(self) -> None:
        try:
            self._take_steps()
        except CrashError:
            self.restart()

    def _take_steps(self) -> None:
        inputs = self._inputs(turn=True)
        given: tuple[c.Command, ...] = ()
        for _ in range(20):
            begun = self.state.begun
            self.state, given = step(self.state, inputs, self.now)
            self._check()
            if not given:
                return
            outcomes = self._carry_out(given)
            if not begun and any(
                it.error for it in outcomes if not isinstance(it.command, (c.RecordGaps, c.Move))
            ):
                # A first start that fails ends the run, and somebody starts it again.
                self.restart()
                return
            inputs = replace(self._inputs(turn=False), outcomes=outcomes)
        raise AssertionError(f"it does not come to rest: {given}")

    def _inputs(self, *, turn: bool) -> StepInputs:
        outcomes: tuple[c.Outcome, ...] = ()
        snapshot = None
        if turn:
            if self.job is not None:
                command, left = self.job
                self.job = (command, left - 1)
                if left <= 0:
                    outcomes, self.job = (self._recovered(command),), None
            if ready := [it for it in self.snapshots if it[0] <= self.now]:
                snapshot = ready[-1][1]
                self.snapshots = [it for it in self.snapshots if it[0] > self.now]
        return StepInputs(
            self.config,
            DAY + timedelta(seconds=self.now),
            self._known(),
            {name: self._seen(tasks) for name, tasks in self.lanes.items()},
            self._probes(),
            frozenset(it.key for it in self.ghosts),
            {alias: f"paused; aggregator resume {alias}" for alias in self.paused},
            self.leaving,
            snapshot=snapshot,
            outcomes=outcomes,
            measured=self._measured() if turn else None,
            turn=turn,
            parts=dict.fromkeys(self.parts, "it is paused"),
            backfilled=dict(self.backfilled),
        )

    def _measured(self) -> Measured:
        ends = {sp: log.end for sp, log in self.logs.items()}
        return Measured(ends, {}, self.lags, self.stuck, self.silent, self.answered, self.arrivals)

    def _known(self) -> Known:
        running = {sp: at for it in self.lanes.values() for sp, at in it.positions.items()}
        known = known_of(self.checkpoint)
        positions = known.positions.merged(running)
        return replace(known, remembered=replace(known.remembered, positions=positions))

    def _seen(self, tasks: Tasks) -> LaneSeen:
        states: dict[SourcePartition, str] = {}
        for sp, at in tasks.positions.items():
            log = self.logs[sp]
            if sp in tasks.stuck:
                states[sp] = ReaderState.STUCK
                continue
            if tasks.sent[sp] or sp in self.busy:
                continue
            if sp in self.poisoned:
                states[sp] = ReaderState.POISONED
            elif sp in self.damaged:
                states[sp] = ReaderState.DAMAGED
            elif sp in tasks.held:
                states[sp] = ReaderState.HELD
            elif log.topic_id == tasks.ids[sp] and not log.earliest <= at <= log.end:
                states[sp] = ReaderState.OUT_OF_RANGE
            elif at >= tasks.until.get(sp, at + 1):
                states[sp] = ReaderState.DONE
        busy = tasks.under_way or not self.busy.isdisjoint(tasks.positions)
        ended = tasks.active and tasks.ending and not busy
        failure = None if tasks.active else tasks.failure
        return LaneSeen(tasks.active, True, ended, failure, states, errors=self.errors)

    def _probes(self) -> dict[str, Seen]:
        return {
            alias: Seen(
                self.now,
                alias,
                {"orders": self.logs[SourcePartition(alias, "orders", 0)].topic_id},
                {sp: log.end for sp, log in self.logs.items() if sp.cluster == alias},
            )
            for alias in ROUTES
            if alias not in self.away
        }

    def _discover(self) -> ClusterSnapshot:
        ids = {(sp.cluster, sp.topic): self.logs[sp].topic_id for sp in PARTITIONS}
        self.met |= self.only - self.away
        known = self.only & self.met
        facts = {
            alias: ClusterFacts(
                alias, alias, 1, {"orders": TopicFacts("orders", ids[alias, "orders"], 2, 1)}
            )
            for alias in sorted(known)
        }
        topics = {name: TopicFacts(name, it, 1, 1) for name, it in self.hub_ids.items()}
        hub = ClusterFacts("hub", "H", 1, topics)
        slots = SlotPlan("local[4]", None, 4)
        routes = tuple(route for alias, route in ROUTES.items() if alias in known)
        plan = Plan(hub, facts, {}, routes, {}, (), (), slots)
        logs = {
            sp: OffsetRange(log.earliest, log.end)
            for sp, log in self.logs.items()
            if sp.cluster in self.only - self.away and sp not in self.leaderless
        }
        ids = {key: it for key, it in ids.items() if key[0] in known}
        clusters = {alias: alias for alias in known}
        unreachable = dict.fromkeys(self.away, "it does not answer")
        damages = {
            sp: Damage(at, at + self.damaged.get(sp, 0), "bad sum" if sp in self.damaged else "")
            for sp in self.state.damaged
            if (at := self._inputs(turn=False).known.positions.get(sp)) is not None
        }
        observed = Observed(clusters, ids, logs, damages=damages)
        return ClusterSnapshot(plan, observed, {}, self.now, unreachable)

    # What it does

    def _carry_out(self, given: Iterable[c.Command]) -> tuple[c.Outcome, ...]:
        outcomes = []
        failed = False
        for command in given:
            self._may_crash()
            self.given.append(command)
            unrecorded = failed and isinstance(command, c.Move) and command.why == "gaps"
            if unrecorded or (self.stopping and isinstance(command, c.Start)):
                outcomes.append(c.Outcome(command, dropped=True))
                continue
            try:
                outcomes.append(c.Outcome(command, self._do(command)))
            except CheckpointError as error:
                outcomes.append(c.Outcome(command, error=error))
                failed = failed or isinstance(command, c.RecordGaps)
        return tuple(outcomes)

    def _do(self, command: c.Command) -> object:
        match command:
            case c.Prepare(snapshot):
                self._may_fail("the hub")
                error = self._fails("the table of gaps", 0.05)
                creating = self._creating(snapshot)
                plan = replace(snapshot.plan, creating=creating)
                return Ready(plan, FoundGaps({} if error else dict(self.table), error))
            case c.RecordGaps(records):
                self._may_fail("the table of gaps")
                self.table |= {it.id: it for it in records}
            case c.Move(positions):
                self._may_fail("the checkpoint")
                for sp in positions:
                    self.check_free(sp)
                ids, hub = self._seen_hub_ids(), len(self.hub)
                self._append(
                    *(
                        self._row(sp, at, self._seen_id(sp), ids, clean=True, hub=hub)
                        for sp, at in positions.items()
                    )
                )
            case c.Distrust():
                self._may_fail("the checkpoint")
                self._distrust(command)
            case c.Remember(topics):
                if self.by_parts:
                    self._may_fail("the table of topics")
                self.kept = self.kept.plus(topics)
            case c.AskHub(topics):
                # What is not shown then may have grown when it is.
                unshown = frozenset() if self.is_cut else topics & self.unshown
                ends = _ends_of(topics - unshown, len(self.hub))
                logs = {tp: OffsetRange(0, end) for tp, end in ends.items()}
                return HubLogs(logs, unshown)
            case c.Recover(partitions):
                assert self.job is None
                assert not self.backfilled.keys() & partitions
                for sp in partitions:
                    self.check_free(sp)
                self.job = (command, self.rng.randrange(8))
            case c.Start():
                return self._start(command)
            case c.End(name):
                self.lanes[name].ending = True
            case c.Hold(name, partitions):
                self.lanes[name].held |= partitions
            case c.Finish(name, clean):
                return self._finish(name, clean)
            case c.Release(name, partitions):
                self._may_fail("the checkpoint")
                for sp in partitions:
                    self._left(self.lanes[name], sp)
                    del self.lanes[name].positions[sp]
            case c.RequestDiscovery():
                self.asked = True
            case c.Emit(event):
                self.events.append((event.kind, event.message))
            case _:
                pass
        return None

    def _start(self, command: c.Start) -> c.Started:
        self._may_fail("the checkpoint")
        self.is_cut = False
        name, partitions = command.lane.name, command.lane.partitions
        assert name not in self.lanes
        ids = {}
        for sp in partitions:
            self.check_start(sp, command.positions[sp], command.holes.get(sp))
            entry = self.entries.get(sp)
            ids[sp] = self._seen_id(sp) if entry is None else entry.topic_id
        rows = []
        for sp in partitions:
            at, hole = command.positions[sp], command.holes.get(sp)
            hub = len(self.hub) if hole is None else _end_in(hole.ends, sp)
            rows.append(self._row(sp, at, ids[sp], self._seen_hub_ids(), clean=False, hub=hub))
        self._append(*rows)
        self._may_crash()
        self._may_fail("Spark")
        self.generation += 1
        key = f"{name}#{self.generation}"
        self.lanes[name] = Tasks(
            key,
            ids,
            dict(command.positions),
            {sp: hole.skip for sp, hole in command.holes.items()},
            dict(command.until),
            {sp: set() for sp in partitions},
            self._seen_hub_ids(),
        )
        return c.Started(self.generation, key)

    def _seen_id(self, sp: SourcePartition) -> str:
        """The topic's id by the last look."""
        assert self.state.snapshot is not None
        return self.state.snapshot.observed.topic_ids[sp.cluster, sp.topic]

    def _seen_hub_ids(self) -> Mapping[str, str]:
        """The ids of the hub's topics by the last look."""
        assert self.state.snapshot is not None
        return self.state.snapshot.plan.hub_ids

    def _own_hub_ids(self, sp: SourcePartition) -> Mapping[str, str]:
        """Those that its last commit belongs to."""
        entry = self.entries.get(sp)
        return self._seen_hub_ids() if entry is None else entry.snapshot.topic_ids

    def _finish(self, name: str, clean: bool) -> str:
        tasks = self.lanes.pop(name)
        if not clean:
            self.ghosts.append(tasks)
            return self.refused or tasks.failure
        if problem := self._fails("its last position is not committed", 0.05):
            return problem
        for sp in tasks.positions:
            self._left(tasks, sp)
        return ""

    def _left(self, tasks: Tasks, sp: SourcePartition) -> None:
        if sp in tasks.stuck:
            return
        assert not tasks.sent[sp], f"{sp} is given up while something is under way"
        at, skip = tasks.positions[sp], tasks.skips.get(sp, NO_SKIP)
        skipping = any(end > at for _, end in skip.ranges)
        hub = self._bound(sp, tasks.ids[sp], at) if skipping else len(self.hub)
        life = tasks.ids[sp]
        self._append(self._row(sp, at, life, tasks.hub_ids, clean=not skipping, hub=hub))

    def _distrust(self, command: c.Distrust) -> None:
        rows = []
        for sp, at in command.positions.items():
            self.check_free(sp)
            entry = self.entries.get(sp)
            life = self._seen_id(sp) if entry is None else entry.topic_id
            hub = _end_in(command.ends[sp], sp)
            hub_ids = {
                **self._own_hub_ids(sp),
                **dict.fromkeys(command.lost.get(sp, ()), LOST),
            }
            rows.append(self._row(sp, at, life, hub_ids, clean=False, hub=hub))
        for aliases, ends in [
            *((frozenset({alias}), ends) for alias, ends in command.opened.items()),
            *([(command.closed, {})] if command.closed else []),
        ]:
            self.commits += 1
            clean = aliases == command.closed
            moment, none = self.commits, Positions()
            mark = Checkpoint("doubt", 0, moment, none, ends, moment, clean=clean, doubted=aliases)
            rows.append(mark)
        self._append(*rows)

    def _recovered(self, command: c.Recover) -> c.Outcome:
        if error := self._fails("the hub", 0.1):
            return c.Outcome(command, error=ClusterError(error))
        for sp in command.partitions:
            self.check_free(sp)
        late = {sp: name for sp in command.partitions if (name := self.waits_for(sp))}
        waits = dict.fromkeys(late.values(), "it does not show all that it holds")
        snapshot, entries = command.snapshot, self.entries
        begin = Positions({sp: entries[sp].position for sp in command.partitions if sp not in late})
        ids = {sp: entries[sp].topic_id for sp in begin}
        bounds = {sp: _end_in(entries[sp].snapshot.hub_ends, sp) for sp in begin}
        lost = self._lost(begin, snapshot.plan)
        # All that is known to be copied, wherever the hub holds it.
        begin = begin.merged({sp: self.first.get((sp, ids[sp]), begin[sp]) for sp in lost})
        bounds |= dict.fromkeys(lost, 0)
        known = Remembered(begin, {sp: LogId(sp.cluster, it) for sp, it in ids.items()})
        logs = {
            sp: log
            for sp, log in snapshot.observed.offsets.items()
            if sp in begin and ids[sp] == snapshot.observed.topic_ids[sp.cluster, sp.topic]
        }
        found = {}
        for sp, at in begin.items():
            if offsets := self.beyond(sp, ids[sp], at, bounds[sp]):
                found[sp] = Skip(ranges_of(offsets))
        silent = {sp: why for sp in found if (why := self._fails(sp.cluster, 0.05))}
        found = {sp: skip for sp, skip in found.items() if sp not in silent}
        ranges = {sp: skip.ranges for sp, skip in found.items()}
        positions = recovered_positions(begin, ranges, logs)
        losses = plan_losses(known, positions, highest(ranges), logs, counts_below(ranges, logs))
        records = tuple(GapRecord(gap_id(gap), gap, DAY, 1) for gap in losses)
        records = tuple(it for it in records if is_new(it, self.table.get(it.id)))
        self.table |= {it.id: it for it in records}
        sure = {
            sp: log.latest
            for sp, log in logs.items()
            if snapshot.began > command.left_at.get(sp, 0.0)
        }
        skips = plan_skips(positions, found, sure)
        self._may_crash()
        rows = []
        for sp, at in positions.items():
            clean = sp not in skips and sp not in silent
            hub = len(self.hub) if clean else bounds[sp]
            rows.append(self._row(sp, at, ids[sp], snapshot.plan.hub_ids, clean=clean, hub=hub))
        self._append(*rows)
        self._may_crash()
        holes = {
            sp: c.Hole(
                positions[sp],
                self.entries[sp].snapshot.snapshot_at_ms,
                skip,
                _ends_of(HUB_TOPICS.values(), bounds[sp]),
            )
            for sp, skip in skips.items()
        }
        recovered = c.Recovered(holes, records, silent=silent, waiting=late, waits=waits)
        return c.Outcome(command, recovered)

    def _lost(self, begin: Positions, plan: Plan) -> set[SourcePartition]:
        """Partitions of which the hub holds less than was copied."""
        into = needed_topics(plan.routes, begin, {}, ())
        ends = _ends_of(HUB_TOPICS.values(), len(self.hub))
        logs = {tp: OffsetRange(0, end) for tp, end in ends.items()}
        own_ids = {sp: self.entries[sp].snapshot.topic_ids for sp in begin}
        less = lost_topics(self.checkpoint.own_hub_ends(begin), into, logs)
        return {*less, *renewed_topics(own_ids, into, plan.hub_ids)}

    def waits_for(self, sp: SourcePartition) -> str:
        """The hub topic that it waits for, if it has to be recovered; "" for none."""
        name = HUB_TOPICS[sp.cluster]
        return name if name in self.unshown else ""

    def _row(
        self,
        sp: SourcePartition,
        at: int,
        life: str,
        hub_ids: Mapping[str, str],
        *,
        clean: bool,
        hub: int,
    ) -> Checkpoint:
        """A position, and where the hub was before anything beyond it came."""
        self.first.setdefault((sp, life), at)
        self.commits += 1
        return Checkpoint(
            lane="lane",
            generation=0,
            batch=self.commits,
            positions=Positions({sp: at}),
            hub_ends=_ends_of(HUB_TOPICS.values(), hub),
            snapshot_at_ms=self.commits,
            cluster_ids={sp.cluster: sp.cluster},
            topic_ids={
                (sp.cluster, sp.topic): life,
                **{(HUB_ALIAS, name): it for name, it in hub_ids.items()},
            },
            log_ends={sp: at},
            clean=clean,
        )

    def _append(self, *rows: Checkpoint) -> None:
        """As the table does it: one commit, and now and then one that repeats all others."""
        seq = self.checkpoint.seq + 1
        full = seq % FULL_EVERY == 0
        own = [replace(row, seq=seq, epoch=1, full=full) for row in rows]
        if full:
            changed = {sp for row in own for sp in row.positions}
            settled = {alias for row in own for alias in row.doubted}
            own = [*self.checkpoint.carried(seq, 1, changed, settled), *own]
            self.checkpoint = CheckpointState(seq=seq, epoch=1)
        self.checkpoint = self.checkpoint.apply(*own)

    def _bound(self, sp: SourcePartition, life: str, at: int) -> int:
        """Where in the hub the first record beyond a position is."""
        return next(
            (n for n, (it, of, o) in enumerate(self.hub) if (it, of) == (sp, life) and o >= at),
            len(self.hub),
        )

    # Tasks

    def _send(self, tasks: Tasks, *, wild: bool = False) -> None:
        """Some of the next few records arrive; `wild`: for the last time, and not in order."""
        for sp in list(tasks.positions):
            if sp not in tasks.stuck:
                self._send_one(tasks, sp, wild=wild)

    def _send_one(self, tasks: Tasks, sp: SourcePartition, *, wild: bool) -> None:
        log, sent, at = self.logs[sp], tasks.sent[sp], tasks.positions[sp]
        if sp in {*self.poisoned, *self.damaged} and not sent:
            return
        last = min(log.end, at + 4, tasks.until.get(sp, log.end))
        is_there = log.topic_id == tasks.ids[sp] and at >= log.earliest
        if not is_there or sp in tasks.held or tasks.ending:
            # What was handed over before is sent, and nothing more is read.
            last = max(sent, default=at - 1) + 1
        skip = tasks.skips.get(sp, NO_SKIP)
        for offset in range(at, last):
            if any(start <= offset < end for start, end in skip.ranges):
                sent.add(offset)
            elif offset not in sent and self.rng.random() < 0.7:
                if not self.deliver((sp, tasks.ids[sp], offset), tasks, wild=wild):
                    break
                sent.add(offset)
        while not wild and at in sent:
            sent.remove(at)
            at += 1
        tasks.positions[sp] = at

    def deliver(self, record: Record, tasks: Tasks, *, wild: bool) -> bool:
        """It arrives at the hub; False when its partition has to wait before it."""
        assert record not in self.hub, f"twice: {record}"
        self.hub.append(record)
        return True

    def _report(self) -> None:
        for tasks in self.lanes.values():
            for sp, at in tasks.positions.items():
                if sp not in tasks.stuck and self.rng.random() < 0.3:
                    life = tasks.ids[sp]
                    hub = self._bound(sp, life, at)
                    row = self._row(sp, at, life, tasks.hub_ids, clean=False, hub=hub)
                    self._append(row)

    # What must hold

    def beyond(self, sp: SourcePartition, life: str, at: int, bound: int = 0) -> set[int]:
        """Offsets from a position on that the hub holds, from a place in it on."""
        return {o for it, topic, o in self.hub[bound:] if (it, topic) == (sp, life) and o >= at}

    def check_free(self, sp: SourcePartition) -> None:
        """No task may send of it."""
        for tasks in [*self.lanes.values(), *self.ghosts]:
            assert sp not in tasks.positions, f"{sp} is in {tasks.key}"

    def check_start(self, sp: SourcePartition, at: int, hole: c.Hole | None) -> None:
        """Its position is proven, and no backfill writes what it would write."""
        self.check_free(sp)
        assert at >= self.backfilled.get(sp, 0), f"{sp} starts at {at}, within a backfill"
        entry = self.entries.get(sp)
        if entry is None:
            assert hole is None
            assert not self.beyond(sp, self._seen_id(sp), at), f"{sp} starts again at {at}"
            return
        assert at == entry.position
        beyond = self.beyond(sp, entry.topic_id, at)
        name = HUB_TOPICS[sp.cluster]
        if self._seen_hub_ids()[name] != self.hub_ids[name]:
            # It starts, and the next look ends it: it was proven of another topic.
            return
        if hole is None:
            assert entry.snapshot.clean, f"{sp} starts unclean"
            assert not beyond, f"{sp} starts at {at}, the hub holds {beyond}"
        else:
            assert hole.position == at
            left_out = {o for start, end in hole.skip.ranges for o in range(start, end)}
            assert beyond == left_out, f"{sp} leaves out {left_out}, the hub holds {beyond}"

    def _check(self) -> None:
        """Each partition is in one lane at most, and what is in one knows it."""
        seen: dict[SourcePartition, str] = {}
        for name, life in self.state.lanes.items():
            for sp in life.lane.partitions:
                assert sp not in seen, f"{sp} is in {name} and {seen[sp]}"
                seen[sp] = name
                assert self.state.at(sp).lane == name
        assert seen.keys() == self.state.in_lanes

    def _creating(self, snapshot: ClusterSnapshot) -> frozenset[str]:
        """Hub topics that are being created; when they are there, another look finds them."""
        if self.state.until_done:
            return frozenset()
        topics = sorted({route.hub_topic for route in snapshot.plan.routes})
        found = frozenset(it for it in topics if it in self.creating or self._fails(it, 0.05))
        self.asked = self.asked or bool(found)
        return found

    def _fails(self, what: str, chance: float) -> str:
        return f"{what} fails" if not self.calm and self.rng.random() < chance else ""

    def _may_crash(self) -> None:
        if self.losable and not self.calm and self.rng.random() < 0.02:
            raise CrashError

    def _may_fail(self, what: str) -> None:
        if error := self._fails(what, 0.07):
            raise CheckpointError(error)


def _ends_of(topics: Iterable[str], end: int) -> dict[TopicPartition, int]:
    return {TopicPartition(name, 0): end for name in topics}


def _end_in(ends: Mapping[TopicPartition, int], sp: SourcePartition) -> int:
    """The end of the hub topic of a source partition; 0 is unknown."""
    return ends.get(TopicPartition(HUB_TOPICS[sp.cluster], 0), 0)


def ranges_of(offsets: set[int]) -> list[tuple[int, int]]:
    """Sorted ranges [from, to) of some offsets."""
    ranges: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges
