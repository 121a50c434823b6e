"""A small world for the pure step: sources, a hub, a checkpoint and lanes, all of plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.errors import CheckpointError, ClusterError
from aggregator.flow import commands as c
from aggregator.flow.news import FoundGaps, HubLogs, Known, LaneSeen, Measured, News
from aggregator.flow.stage import Stage
from aggregator.flow.state import State
from aggregator.flow.step import step
from aggregator.gaps.core import Decision, GapRecord, gap_id
from aggregator.model import (
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
from aggregator.plan.look import Look, TopicsSeen
from aggregator.plan.plan import Plan
from aggregator.plan.positions import Observed, Remembered
from aggregator.plan.recovery import (
    counts_below,
    highest,
    plan_losses,
    plan_skips,
    recovered_positions,
)
from aggregator.plan.slots import SlotPlan
from aggregator.plan.suspects import Seen

TURN = 0.25
HUB = TopicPartition("orders", 0)
ROUTES = {alias: Route(alias, "orders", "orders", 2, 1) for alias in ("eu", "us")}
PARTITIONS = [SourcePartition(alias, "orders", n) for alias in ROUTES for n in (0, 1)]
EU0, EU1, US0, US1 = PARTITIONS
EU, US = (EU0, EU1), (US0, US1)
DAY = datetime(2026, 1, 1, tzinfo=UTC)
NO_SKIP = Skip([])

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
class Entry:
    """The newest commit of a source partition."""

    position: int
    clean: bool
    topic_id: str
    number: int


@dataclass
class Tasks:
    """The tasks of a life of a lane: they go on after its query has failed, until they are gone."""

    key: str
    ids: dict[SourcePartition, str]
    positions: dict[SourcePartition, int]
    skips: dict[SourcePartition, Skip]
    until: dict[SourcePartition, int]
    sent: dict[SourcePartition, set[int]]
    held: set[SourcePartition] = field(default_factory=set)
    ending: bool = False
    active: bool = True


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
        self.entries: dict[SourcePartition, Entry] = {}
        self.table: dict[str, GapRecord] = {}
        self.away: set[str] = set()
        self.paused: set[str] = set()
        self.parts: set[Part] = set()
        self.kept = TopicsSeen()
        self.leaving: frozenset[str] = frozenset()
        self.only = set(ROUTES)
        self.commits = self.generation = self.clean_hub = 0
        self.poisoned: set[SourcePartition] = set()
        self.busy: set[SourcePartition] = set()
        self.refused = ""
        self.stopping = False
        self.lags: dict[str, int] = {}
        self.stuck: dict[SourcePartition, str] = {}
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
        self.lanes, self.ghosts = {}, []
        self.state = State(
            self.config, until_done=self.until_done, topics=self.kept, kept=self.kept
        )
        self.job: tuple[c.Recover, int] | None = None
        self.looks: list[tuple[float, Look]] = []
        self.asked = True

    # What happens around it

    def happen(self) -> None:
        """One thing that nobody asked for."""
        rng, sp = self.rng, self.rng.choice(PARTITIONS)
        log = self.logs[sp]
        match rng.choice(("write", "write", "write", "die", "delete", "anew", "away", "pause")):
            case "write":
                log.end += rng.randrange(4)
            case "die" if self.lanes:
                self.lanes[rng.choice(sorted(self.lanes))].active = False
            case "delete" if rng.random() < 0.3:
                log.earliest = rng.randrange(log.earliest, log.end + 1)
            case "anew" if rng.random() < 0.2:
                self.create_again(sp.cluster)
            case "away":
                self.away ^= {sp.cluster}
            case "pause" if self.by_parts:
                self.parts ^= {Part(*sp[:2], rng.choice((None, sp.partition)))}
            case "pause":
                self.paused ^= {sp.cluster}
            case _:
                pass

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
        self._report()
        if self.asked or self.rng.random() < 0.05:
            self.asked = False
            self.looks.append((self.now + self.rng.choice((0.25, 1.0, 2.0)), self._look()))
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

    def told(self, kind: str) -> list[str]:
        """What people were told of this kind."""
        return [message for each, message in self.events if each == kind]

    def until_quiet(self, turns: int = 2000) -> None:
        """No more faults: everything that is to run runs, and has copied all there is."""
        self.calm, self.away, self.paused, self.parts = True, set(), set(), set()
        for _ in range(turns):
            self.accept()
            self.turn()
            if self.state.of(Stage.READING) == set(PARTITIONS) and not self.missing():
                return
        stages = {str(sp): (it.stage, it.why) for sp, it in self.state.partitions.items()}
        raise AssertionError(f"not all runs: {stages}; missing {self.missing()}")

    def accept(self) -> None:
        """A person says to go on without what is lost."""
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
        news = self._news(turn=True)
        given: tuple[c.Command, ...] = ()
        for _ in range(20):
            begun = self.state.begun
            self.state, given = step(self.state, news, self.now)
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
            news = replace(self._news(turn=False), outcomes=outcomes)
        raise AssertionError(f"it does not come to rest: {given}")

    def _news(self, *, turn: bool) -> News:
        outcomes: tuple[c.Outcome, ...] = ()
        look = None
        if turn:
            if self.job is not None:
                command, left = self.job
                self.job = (command, left - 1)
                if left <= 0:
                    outcomes, self.job = (self._recovered(command),), None
            if ready := [it for it in self.looks if it[0] <= self.now]:
                look = ready[-1][1]
                self.looks = [it for it in self.looks if it[0] > self.now]
        return News(
            self.config,
            DAY + timedelta(seconds=self.now),
            self._known(),
            {name: self._seen(tasks) for name, tasks in self.lanes.items()},
            self._probes(),
            frozenset(it.key for it in self.ghosts),
            {alias: f"paused; aggregator resume {alias}" for alias in self.paused},
            self.leaving,
            look=look,
            outcomes=outcomes,
            measured=self._measured() if turn else None,
            turn=turn,
            parts=dict.fromkeys(self.parts, "it is paused"),
        )

    def _measured(self) -> Measured:
        ends = {sp: log.end for sp, log in self.logs.items()}
        return Measured(
            *(ends, {}, self.lags, self.stuck, self.silent, self.answered, self.arrivals)
        )

    def _known(self) -> Known:
        running = {sp: at for it in self.lanes.values() for sp, at in it.positions.items()}
        entries = self.entries
        return Known(
            Remembered(
                Positions({**{sp: it.position for sp, it in entries.items()}, **running}),
                {sp: LogId(sp.cluster, it.topic_id) for sp, it in entries.items()},
                {sp: it.position for sp, it in entries.items()},
                {sp: it.number for sp, it in entries.items()},
            ),
            frozenset(sp for sp, it in entries.items() if not it.clean),
            {HUB: self.clean_hub},
            1,
            not entries,
        )

    def _seen(self, tasks: Tasks) -> LaneSeen:
        states: dict[SourcePartition, str] = {}
        for sp, at in tasks.positions.items():
            log = self.logs[sp]
            if tasks.sent[sp] or sp in self.busy:
                continue
            if sp in self.poisoned:
                states[sp] = ReaderState.POISONED
            elif sp in tasks.held:
                states[sp] = ReaderState.HELD
            elif log.topic_id == tasks.ids[sp] and not log.earliest <= at <= log.end:
                states[sp] = ReaderState.OUT_OF_RANGE
            elif at >= tasks.until.get(sp, at + 1):
                states[sp] = ReaderState.DONE
        busy = any(tasks.sent.values()) or not self.busy.isdisjoint(tasks.positions)
        ended = tasks.active and tasks.ending and not busy
        failure = None if tasks.active else "it broke"
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

    def _look(self) -> Look:
        ids = {(sp.cluster, sp.topic): self.logs[sp].topic_id for sp in PARTITIONS}
        facts = {
            alias: ClusterFacts(
                alias, alias, 1, {"orders": TopicFacts("orders", ids[alias, "orders"], 2, 1)}
            )
            for alias in sorted(self.only)
        }
        hub = ClusterFacts("hub", "H", 1, {"orders": TopicFacts("orders", "h", 1, 1)})
        slots = SlotPlan("local[4]", None, 4)
        routes = tuple(route for alias, route in ROUTES.items() if alias in self.only)
        plan = Plan(hub, facts, {}, routes, {}, (), (), slots)
        logs = {
            sp: OffsetRange(log.earliest, log.end)
            for sp, log in self.logs.items()
            if sp.cluster in self.only - self.away
        }
        ids = {key: it for key, it in ids.items() if key[0] in self.only}
        clusters = {alias: alias for alias in self.only}
        unreachable = dict.fromkeys(self.away, "it does not answer")
        return Look(plan, Observed(clusters, ids, logs), {}, self.now, unreachable)

    # What it does

    def _carry_out(self, given: Iterable[c.Command]) -> tuple[c.Outcome, ...]:
        outcomes = []
        failed = False
        for command in given:
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
            case c.Prepare():
                self._may_fail("the hub")
                error = self._fails("the table of gaps", 0.05)
                return FoundGaps({} if error else dict(self.table), error)
            case c.RecordGaps(records):
                self._may_fail("the table of gaps")
                self.table |= {it.id: it for it in records}
            case c.Move(positions):
                self._may_fail("the checkpoint")
                for sp, at in positions.items():
                    self.check_free(sp)
                    self._commit(sp, at, self._seen_id(sp), clean=True)
            case c.Remember(topics):
                if self.by_parts:
                    self._may_fail("the table of topics")
                self.kept = self.kept.plus(topics)
            case c.AskHub():
                return HubLogs({HUB: OffsetRange(0, len(self.hub))})
            case c.Recover(partitions):
                assert self.job is None
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
            case c.LookAgain():
                self.asked = True
            case c.Tell(event):
                self.events.append((event.kind, event.message))
            case _:
                pass
        return None

    def _start(self, command: c.Start) -> c.Started:
        self._may_fail("the checkpoint")
        name, partitions = command.lane.name, command.lane.partitions
        assert name not in self.lanes
        ids = {}
        for sp in partitions:
            self.check_start(sp, command.positions[sp], command.holes.get(sp))
            entry = self.entries.get(sp)
            ids[sp] = self._seen_id(sp) if entry is None else entry.topic_id
        for sp in partitions:
            self._commit(sp, command.positions[sp], ids[sp], clean=False)
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
        )
        return c.Started(self.generation, key)

    def _seen_id(self, sp: SourcePartition) -> str:
        """The topic's id as the look that is gone by has told it."""
        assert self.state.look is not None
        return self.state.look.observed.topic_ids[sp.cluster, sp.topic]

    def _finish(self, name: str, clean: bool) -> str:
        tasks = self.lanes.pop(name)
        if not clean:
            self.ghosts.append(tasks)
            return self.refused or "it broke"
        if problem := self._fails("its last position is not committed", 0.05):
            return problem
        for sp in tasks.positions:
            self._left(tasks, sp)
        return ""

    def _left(self, tasks: Tasks, sp: SourcePartition) -> None:
        assert not tasks.sent[sp], f"{sp} is given up while something is under way"
        at, skip = tasks.positions[sp], tasks.skips.get(sp, NO_SKIP)
        skipping = any(end > at for _, end in skip.ranges)
        self._commit(sp, at, tasks.ids[sp], clean=not skipping)

    def _recovered(self, command: c.Recover) -> c.Outcome:
        if error := self._fails("the hub", 0.1):
            return c.Outcome(command, error=ClusterError(error))
        for sp in command.partitions:
            self.check_free(sp)
        look, entries = command.look, self.entries
        begin = Positions({sp: entries[sp].position for sp in command.partitions if sp in entries})
        begin = begin if command.bound is None else command.bound.positions
        ids = {sp: entries[sp].topic_id for sp in begin if sp in entries}
        known = Remembered(begin, {sp: LogId(sp.cluster, it) for sp, it in ids.items()})
        logs = {
            sp: log
            for sp, log in look.observed.offsets.items()
            if sp in begin and ids.get(sp) in (None, look.observed.topic_ids[sp.cluster, sp.topic])
        }
        found = {}
        for sp, at in begin.items():
            life = ids.get(sp, self.logs[sp].topic_id)
            if offsets := self.beyond(sp, life, at):
                found[sp] = Skip(ranges_of(offsets))
        silent = {sp: why for sp in found if (why := self._fails(sp.cluster, 0.05))}
        found = {sp: skip for sp, skip in found.items() if sp not in silent}
        ranges = {sp: skip.ranges for sp, skip in found.items()}
        positions = recovered_positions(begin, ranges, logs)
        losses = plan_losses(known, positions, highest(ranges), logs, counts_below(ranges, logs))
        records = tuple(GapRecord(gap_id(gap), gap, DAY, 1) for gap in losses)
        self.table |= {it.id: it for it in records if it.id not in self.table}
        sure = {
            sp: log.latest for sp, log in logs.items() if look.began > command.left_at.get(sp, 0.0)
        }
        skips = plan_skips(positions, found, sure)
        for sp, at in positions.items():
            clean = sp not in skips and sp not in silent
            self._commit(sp, at, ids.get(sp, self.logs[sp].topic_id), clean=clean)
        holes = {
            sp: c.Hole(positions[sp], self.entries[sp].number, skip, {})
            for sp, skip in skips.items()
        }
        recovered = c.Recovered(holes, {HUB: len(self.hub)}, records, silent=silent)
        return c.Outcome(command, recovered)

    def _commit(self, sp: SourcePartition, at: int, life: str, *, clean: bool) -> None:
        self.first.setdefault((sp, life), at)
        self.commits += 1
        self.entries[sp] = Entry(at, clean, life, self.commits)
        if all(it.clean for it in self.entries.values()):
            self.clean_hub = len(self.hub)

    # Tasks

    def _send(self, tasks: Tasks, *, wild: bool = False) -> None:
        """Some of the next few records arrive; `wild`: for the last time, and not in order."""
        for sp, at in list(tasks.positions.items()):
            log, sent = self.logs[sp], tasks.sent[sp]
            if sp in self.poisoned and not sent:
                continue
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
                    self._arrive((sp, tasks.ids[sp], offset))
                    sent.add(offset)
            while not wild and at in sent:
                sent.remove(at)
                at += 1
            tasks.positions[sp] = at

    def _arrive(self, record: Record) -> None:
        assert record not in self.hub, f"twice: {record}"
        self.hub.append(record)

    def _report(self) -> None:
        for tasks in self.lanes.values():
            for sp, at in tasks.positions.items():
                if self.rng.random() < 0.3:
                    self._commit(sp, at, tasks.ids[sp], clean=False)

    # What must hold

    def beyond(self, sp: SourcePartition, life: str, at: int) -> set[int]:
        """Offsets from a position on that the hub holds."""
        return {o for it, topic, o in self.hub if (it, topic) == (sp, life) and o >= at}

    def check_free(self, sp: SourcePartition) -> None:
        """Nobody may send of it."""
        for tasks in [*self.lanes.values(), *self.ghosts]:
            assert sp not in tasks.positions, f"{sp} is in {tasks.key}"

    def check_start(self, sp: SourcePartition, at: int, hole: c.Hole | None) -> None:
        """Its position is proven."""
        self.check_free(sp)
        entry = self.entries.get(sp)
        if entry is None:
            assert hole is None
            return
        assert at == entry.position
        beyond = self.beyond(sp, entry.topic_id, at)
        if hole is None:
            assert entry.clean, f"{sp} starts unclean"
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

    def _fails(self, what: str, chance: float) -> str:
        return f"{what} fails" if not self.calm and self.rng.random() < chance else ""

    def _may_fail(self, what: str) -> None:
        if error := self._fails(what, 0.07):
            raise CheckpointError(error)


def ranges_of(offsets: set[int]) -> list[tuple[int, int]]:
    """Sorted ranges [from, to) of some offsets."""
    ranges: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges
