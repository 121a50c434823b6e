"""A model of the whole: lanes, crashes at any moment, recoveries that crash. Each origin once.

The decisions are the real ones: what of a lane's reports is committed and which bound belongs to
it, the fold over checkpoints, the tail, the new positions, and what the next lane leaves out. The
logs, the scan of the tail, and the tasks with their producers (Feed.java, Points.java) are
modelled.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.datapath.connector.reports import HELD, LaneReport, TaskReport, join
from aggregator.datapath.hub_ledger import Ends, HubSnapshot, HubTail
from aggregator.datapath.spark.lane import LaneQuery
from aggregator.engine.commits.points import Bounded, LanePoints, LaneStart, bounded
from aggregator.model.values import OffsetRange, Positions, Skip, SourcePartition, TopicPartition
from aggregator.plan.lanes.slots import deal_tasks
from aggregator.plan.positions.recovery import TailPlan, plan_skips, plan_tail, recovered_positions
from aggregator.status.view import LaneProgress
from aggregator.store.checkpoint.identity import Identity
from aggregator.store.checkpoint.rows import Checkpoint
from aggregator.store.checkpoint.start_state import CheckpointState
from support.examples import examples
from support.hub_ends import hub_ends_for
from support.offsets import offsets_in, ranges_of

SOURCES = [
    SourcePartition("eu", "t", 0),
    SourcePartition("eu", "t", 1),
    SourcePartition("us", "t", 0),
]
TASKS = 2
FULL_EVERY = 5
"""As the table does it, a commit now and then repeats all that it does not change."""
NO_IDENTITY = Identity({}, {}, {})


class Origin(NamedTuple):
    """A record: a topic that is created again has offsets that were there before."""

    sp: SourcePartition
    at: int
    life: int

    def place(self, hub_partitions: int) -> int:
        """By key: one source partition spreads over all hub partitions that a lane knows."""
        return (self.at * 7 + self.sp.partition * 3 + len(self.sp.cluster)) % hub_partitions

    @property
    def key(self) -> bytes:
        """Of a compacted topic; its records are spread over the hub's partitions nevertheless."""
        return b"%d" % (self.at // 2 % 2)


@dataclass
class Epoch:
    """Some records that a task sent between two report points, and what held at the second."""

    sent: int = 0
    acknowledged: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    positions: dict[SourcePartition, int] = field(default_factory=dict)
    held: frozenset[SourcePartition] = frozenset()
    snapshot: int = 0


class Task:
    """Some partitions of a lane: reads them, sends, and reports its points."""

    def __init__(
        self,
        number: int,
        positions: Positions,
        skips: Mapping[SourcePartition, Skip],
        routing: int,
        snapshot: int,
    ) -> None:
        self.number = number
        self.positions = dict(positions)
        self.skips = {sp: skips[sp].ranges for sp in positions if sp in skips}
        self.skipped = {sp: offsets_in(ranges) for sp, ranges in self.skips.items()}
        self.later = {sp: skips[sp].later for sp in self.skips}
        self.routing = routing
        self.held: frozenset[SourcePartition] = frozenset()
        self.queues: dict[int, deque[tuple[Origin, Epoch]]] = defaultdict(deque)
        self.answers: dict[int, deque[tuple[Epoch, int]]] = defaultdict(deque)
        self.open, self.closed = Epoch(), deque[Epoch]()
        self.point = Epoch(positions=dict(positions), snapshot=snapshot)
        self.points = 0

    def read(self, log: Collection[Origin], sp: SourcePartition, count: int) -> None:
        """Hand some records to the producer; what the hub holds already is left out."""
        todo = [origin for origin in log if origin.at >= self.positions[sp]]
        for origin in todo[:count] if sp not in self.held else []:
            if origin.at not in self.skipped.get(sp, ()) and not self.is_replaced(origin):
                self.queues[origin.place(self.routing)].append((origin, self.open))
                self.open.sent += 1
            self.positions[sp] = origin.at + 1

    def is_replaced(self, origin: Origin) -> bool:
        """As `TaskSpec.Part.isReplaced`, where keys are spread."""
        place = TopicPartition("t", origin.place(self.routing))
        newest = self.later.get(origin.sp, {}).get(place, {}).get(origin.key, -1)
        return origin.at < newest and origin.at < self.skips[origin.sp][-1][1]

    def pass_markers(self, sp: SourcePartition, end: int) -> None:
        """Nothing is left to read but what is no record."""
        if sp not in self.held:
            self.positions[sp] = max(self.positions[sp], end)

    def deliver(self, hub: list[list[Origin | None]], number: int) -> None:
        """The head of what the producer holds for each hub partition arrives there."""
        for partition, queue in self.queues.items():
            for _ in range(min((number + partition) % 5, len(queue))):
                origin, epoch = queue.popleft()
                hub[partition].append(origin)
                self.answers[partition].append((epoch, len(hub[partition])))

    def acknowledge(self, number: int) -> None:
        """The hub's answers arrive, in order for each of its partitions."""
        for partition, queue in self.answers.items():
            for _ in range(min((number + 2 * partition) % 5, len(queue))):
                epoch, end = queue.popleft()
                epoch.ends[partition] = max(end, epoch.ends.get(partition, 0))
                epoch.acknowledged += 1

    def close(self, snapshot: int) -> None:
        """The positions of now become a report point, when all that was sent is acknowledged."""
        self.open.positions, self.open.held = dict(self.positions), self.held
        self.open.snapshot = snapshot
        self.closed.append(self.open)
        self.open = Epoch()

    def report(self, lane: str, generation: int) -> TaskReport:
        """What it reports by now."""
        while self.closed and self.closed[0].acknowledged == self.closed[0].sent:
            epoch, before = self.closed.popleft(), self.point.ends
            epoch.ends = {it: max(epoch.ends.get(it, 0), before.get(it, 0)) for it in range(9)}
            self.point = epoch
            self.points += 1
        point = self.point
        return TaskReport(
            lane=lane,
            generation=generation,
            task=(0, self.number),
            cluster="",
            point=self.points,
            at_ms=0,
            snapshot=point.snapshot,
            positions=point.positions,
            ends={TopicPartition("t", it): end for it, end in point.ends.items() if end},
            states=dict.fromkeys(point.held, HELD),
            skipping=any(point.positions[sp] < it[-1][1] for sp, it in self.skips.items()),
        )


class Query:
    """A life of a lane: its tasks, and the newest report of each."""

    def __init__(self, name: str, generation: int, tasks: list[Task]) -> None:
        self.name = name
        self.generation = generation
        self.tasks = tasks
        self.partitions = {sp for task in tasks for sp in task.positions}
        self.holding: set[SourcePartition] = set()
        self.newest: dict[int, TaskReport] = {}

    @property
    def report(self) -> LaneReport:
        return join(list(self.newest.values()), len(self.tasks))

    def hear(self, task: Task) -> None:
        self.newest[task.number] = task.report(self.name, self.generation)


@dataclass
class Running:
    query: Query
    watched: LanePoints


class Aggregation:
    """Lanes over three source partitions into a hub topic, and everything that may happen."""

    compacted = False

    def __init__(self) -> None:
        self.logs: dict[SourcePartition, list[Origin]] = {sp: [] for sp in SOURCES}
        self.ends = dict.fromkeys(SOURCES, 0)
        self.lives = dict.fromkeys(SOURCES, 0)
        self.hub: list[list[Origin | None]] = [[], []]
        self.state = CheckpointState()
        self.lanes: dict[str, Running] = {}
        self.skips: dict[SourcePartition, tuple[Skip, Ends]] = {}
        self.pending: list[tuple[Running, LaneReport, list[Bounded]]] = []
        self.asked: HubSnapshot | None = None
        self.tail = HubTail()
        self.known_snapshot = 0
        self.others: set[SourcePartition] = set()
        """Whose topic is another one than the checkpoint's positions are of."""
        self.order_is_promised = True
        self.replaced: set[Origin] = set()
        """What compaction has taken from the hub."""
        self.generation = self.runs = self.moments = 0
        self.crash(0)
        self.positions = Positions(dict.fromkeys(SOURCES, 0))
        self.start_again(1)

    # What others do.

    def produce(self, number: int) -> None:
        """Records arrive; before some, compaction or a transaction marker leaves a hole."""
        sp, count = SOURCES[number % len(SOURCES)], 1 + number % 5
        first = self.ends[sp] + (number % 4 == 0)
        self.logs[sp] += [Origin(sp, at, self.lives[sp]) for at in range(first, first + count)]
        self.ends[sp] = first + count + (number % 7 == 0)

    def create_a_topic_again(self, number: int) -> None:
        """Of one that is not read now; what was not copied of the old one is lost, and named."""
        sp = SOURCES[number % len(SOURCES)]
        if number % 4 == 0 and sp not in self.read_now:
            self.logs[sp], self.ends[sp] = [], 0
            self.lives[sp] += 1
            self.others.add(sp)

    def write_something_else_into_the_hub(self, number: int) -> None:
        self.hub[number % len(self.hub)].append(None)

    def grow_the_hub_topic(self, number: int) -> None:
        """Keys move: what was under way then may come out of order, as growing says it does."""
        if len(self.hub) < 4 and number % 5 == 0:
            self.hub.append([])
            self.order_is_promised = False

    # What the lanes do.

    def read(self, number: int) -> None:
        sp, count = SOURCES[number % len(SOURCES)], 1 + number % 5
        for task in self.tasks:
            if sp in task.positions:
                task.read(self.logs[sp], sp, count)
                if all(origin.at < task.positions[sp] for origin in self.logs[sp]):
                    task.pass_markers(sp, self.ends[sp])

    def deliver(self, number: int) -> None:
        for task in self.tasks:
            task.deliver(self.hub, number + task.number)

    def acknowledge(self, number: int) -> None:
        for task in self.tasks:
            task.acknowledge(number + task.number)

    def close(self, number: int) -> None:
        for task in self.tasks[number % 2 :]:
            task.close(self.known_snapshot)

    def report(self, number: int) -> None:
        for lane in self.lanes.values():
            for task in lane.query.tasks[number % 2 :]:
                lane.query.hear(task)

    # What the observer does.

    def look(self, number: int) -> None:
        """As its tick, up to what it is about to commit."""
        seen = [(lane, self.see(lane)) for lane in self.lanes.values()]
        tasks = [task for lane in self.lanes.values() for task in lane.query.report.tasks]
        self.tail.heard(tasks, self.moment())
        self.known_snapshot = self.tail.number
        self.pending = [
            (lane, report, lane.watched.point(report, self.tail))
            for lane, report in seen
            if report is not None and number % 3
        ]
        self.tail.forget(task.snapshot for task in tasks)

    def commit(self, number: int) -> None:
        pending = self.pending
        self.append(*((lane.query, part) for lane, _, parts in pending for part in parts))
        for lane, report, _ in pending:
            lane.watched.has_committed(report, 0.0)

    def ask_the_hub(self, number: int) -> None:
        """It answers after some time, in which more arrives."""
        self.asked = self.hub_now()

    def hear_the_hub(self, number: int) -> None:
        if self.asked is not None:
            self.tail.read(self.asked)
            self.asked = None

    # What the engine does.

    def hold(self, number: int) -> None:
        """One of a lane's partitions has to be read no more."""
        for lane in [*self.lanes.values()][number % 2 :]:
            left = sorted(lane.query.partitions - lane.query.holding)
            if len(left) > 1:
                lane.query.holding.add(left[number % len(left)])
                for task in lane.query.tasks:
                    task.held = frozenset(lane.query.holding & task.positions.keys())

    def notice_what_was_left(self, number: int) -> None:
        for lane in self.lanes.values():
            report, own = self.see(lane), lane.query.holding
            if own and report is not None and all(report.states.get(it) == HELD for it in own):
                exact = lane.watched.reported.only(own)
                self.append_end(lane, lane.watched.end(report, exact, self.snapshot()))
                lane.watched.leave(own)
                lane.query.partitions -= own
                lane.query.holding = set()

    def fail(self, number: int) -> None:
        """One lane ends by itself. Some of what it sent arrives; the rest is gone."""
        for name in sorted(self.lanes)[number % 2 : number % 2 + 1]:
            lane = self.lanes.pop(name)
            for task in lane.query.tasks:
                task.deliver(self.hub, number)
            report = self.see(lane)
            if report is not None and lane.watched.has_news:
                self.append_end(lane, lane.watched.point(report, self.tail))

    def stop_cleanly(self, number: int) -> None:
        for name in sorted(self.lanes):
            lane = self.lanes.pop(name)
            for task in lane.query.tasks:
                task.held = frozenset(task.positions)
                while any(task.queues.values()) or any(task.answers.values()):
                    for each in range(5):
                        task.deliver(self.hub, each)
                        task.acknowledge(each)
                task.close(self.known_snapshot)
                lane.query.hear(task)
            report = self.see(lane)
            assert report is not None
            end = lane.watched.end(report, lane.watched.reported, self.snapshot())
            self.append_end(lane, end)

    def crash(self, number: int) -> None:
        """Whatever is in memory and whatever is not committed is gone."""
        self.deliver(number)
        self.lanes.clear()
        self.skips.clear()
        self.pending, self.asked = [], None
        self.runs += 1
        self.tail = HubTail(self.runs * 10_000)
        self.known_snapshot = self.tail.number
        self.positions = self.state.positions

    def recover(self, number: int) -> None:
        """As `Recovery.recover`, beside lanes that run; it may crash between its commits."""
        unclean = sorted(self.state.unclean - self.read_now - self.skips.keys())
        self.recover_these(unclean[: 1 if number % 4 == 0 else None], crash=number % 7 == 0)

    def start_again(self, number: int) -> None:
        """A lane of all that may start, or of one; it may crash when this is committed."""
        free = sorted(set(SOURCES) - self.read_now - (self.state.unclean - self.skips.keys()))
        for sp in self.others & set(free):
            self.move_to_the_new_topic(sp)
        chosen = free[: 1 if number % 4 == 0 else None]
        if chosen:
            self.start(chosen, crash=number % 9 == 0)

    # What is promised.

    def check(self) -> None:
        """No origin is there twice, and those of a source partition are in order."""
        present = [origin for log in self.hub for origin in log if origin is not None]
        assert len(present) == len(set(present))
        for log in self.hub if self.order_is_promised else ():
            newest: dict[SourcePartition, tuple[int, int]] = defaultdict(lambda: (-1, -1))
            for sp, at, life in (origin for origin in log if origin is not None):
                assert (life, at) > newest[sp]
                newest[sp] = life, at

    def check_that_everything_arrives(self) -> None:
        """Whatever happened: after one more start, reading on to the end."""
        self.stop_cleanly(0)
        # Where the hub held something beyond what a lane had looked through, it is not clean.
        self.recover_these(sorted(self.state.unclean - self.skips.keys()), crash=False)
        self.start_again(1)
        for number in range(sum(map(len, self.logs.values())) * len(SOURCES)):
            self.read(number)
        self.stop_cleanly(0)
        assert self.state.clean
        self.check()
        present = {origin for log in self.hub for origin in log if origin is not None}
        written = {origin for log in self.logs.values() for origin in log}
        assert present | self.replaced | self.superseded(written) >= written

    def superseded(self, written: Collection[Origin]) -> set[Origin]:
        """Records that would come behind a newer one of their key, because the hub topic has grown.

        The partition that a key moves to may hold a newer record of it. Written behind that, the
        older one would bring an old value back, so a lane leaves it out.
        """
        if not self.compacted or self.order_is_promised:
            return set()
        newest: dict[tuple[int, SourcePartition, int, bytes], int] = defaultdict(lambda: -1)
        for number, log in enumerate(self.hub):
            for it in (origin for origin in log if origin is not None):
                key = (number, it.sp, it.life, it.key)
                newest[key] = max(it.at, newest[key])
        moves = range(3, len(self.hub) + 1)
        return {
            it
            for it in written
            if any(it.at < newest[it.place(count), it.sp, it.life, it.key] for count in moves)
        }

    # The parts of the model.

    @property
    def tasks(self) -> list[Task]:
        return [task for lane in self.lanes.values() for task in lane.query.tasks]

    @property
    def read_now(self) -> set[SourcePartition]:
        return {sp for lane in self.lanes.values() for sp in lane.query.partitions}

    def start(self, partitions: list[SourcePartition], *, crash: bool) -> None:
        self.generation += 1
        positions = self.positions.only(set(partitions))
        taken = {sp: self.skips.pop(sp) for sp in partitions if sp in self.skips}
        older = {sp: ends for sp, (_, ends) in taken.items()}
        now, name = self.snapshot(), f"lane-{self.generation}"
        number = self.tail.number
        begun = LaneStart(number, now, positions, older)
        skips = {sp: skip for sp, (skip, _) in taken.items()}
        tasks = [
            Task(at, positions.only(set(hand)), skips, len(self.hub), number)
            for at, hand in enumerate(deal_tasks(partitions, TASKS))
        ]
        query = Query(name, self.generation, tasks)
        self.append(*((query, part) for part in bounded(-1, positions, now, older)))
        if crash:
            self.crash(0)
            return
        watched = LanePoints(cast(LaneQuery, query), NO_IDENTITY, begun, LaneProgress(), 0.0)
        self.lanes[name] = Running(query, watched)

    def see(self, lane: Running) -> LaneReport | None:
        report = lane.query.report
        if not report.whole:
            return None
        if lane.watched.take(report):
            self.positions = self.positions.merged(lane.watched.reported)
        return report

    def recover_these(self, partitions: list[SourcePartition], *, crash: bool) -> None:
        if not partitions:
            return
        bound = hub_ends_for(self.state, partitions)
        tail = self.tail_of(self.positions.only(set(partitions)), bound)
        found = self.scan(tail)
        logs = {sp: OffsetRange(0, self.ends[sp]) for sp in partitions if sp not in self.others}
        ranges = {sp: skip.ranges for sp, skip in found.items()}
        positions = recovered_positions(tail.positions, ranges, logs)
        skips = plan_skips(positions, found, {})
        ready = Query("recovery", 0, [])
        whole = positions.only(set(positions) - set(skips))
        if whole:
            self.append((ready, Bounded(-1, whole, self.snapshot(), clean=True)))
        if crash:
            self.crash(0)
            return
        ends = {tp: log.earliest for tp, log in tail.ranges.items()} | bound
        older = {sp: {**ends, **tail.above.get(sp, {})} for sp in skips}
        rest, now = positions.only(set(skips)), HubSnapshot(self.moment(), {})
        self.append(*((ready, part) for part in bounded(-1, rest, now, older)))
        self.skips |= {sp: (skip, older[sp]) for sp, skip in skips.items()}

    def tail_of(self, positions: Positions, bound: Mapping[TopicPartition, int]) -> TailPlan:
        logs = {tp: OffsetRange(0, end) for tp, end in self.hub_now().ends.items()}
        return plan_tail(positions, bound, logs, self.state.own_hub_ends(positions))

    def scan(self, tail: TailPlan) -> dict[SourcePartition, Skip]:
        """As HubTail.java: it knows names and offsets, not which topic of a name it was."""
        found: dict[SourcePartition, set[int]] = defaultdict(set)
        later: dict[SourcePartition, dict[TopicPartition, dict[bytes, int]]] = {}
        for tp, log in tail.ranges.items():
            for place in range(log.earliest, log.latest):
                origin = self.hub[tp.partition][place]
                if origin is None or origin.sp not in tail.positions:
                    continue
                above = tail.above.get(origin.sp, {}).get(tp, 0)
                if origin.at >= tail.positions[origin.sp] and place >= above:
                    found[origin.sp].add(origin.at)
                    if self.compacted:
                        keys = later.setdefault(origin.sp, {}).setdefault(tp, {})
                        keys[origin.key] = max(origin.at, keys.get(origin.key, -1))
        return {sp: Skip(ranges_of(it), later.get(sp, {})) for sp, it in found.items()}

    def move_to_the_new_topic(self, sp: SourcePartition) -> None:
        """As a gap with `on_gap: restart`; what was to be left out was of the old topic."""
        self.skips.pop(sp, None)
        self.others.discard(sp)
        part = Bounded(-1, Positions({sp: 0}), self.snapshot(), clean=True)
        self.append((Query("gaps", 0, []), part))

    def hub_now(self) -> HubSnapshot:
        ends = {TopicPartition("t", number): len(log) for number, log in enumerate(self.hub)}
        return HubSnapshot(self.moment(), ends)

    def snapshot(self) -> HubSnapshot:
        return self.tail.read(self.hub_now())

    def moment(self) -> int:
        self.moments += 1
        return self.moments

    def append_end(self, lane: Running, parts: Iterable[Bounded]) -> None:
        self.append(*((lane.query, part) for part in parts))

    def append(self, *parts: tuple[Query, Bounded]) -> None:
        """As `CheckpointTable.append`: all at once. Whatever was about to be committed is not."""
        self.pending = []
        if not parts:
            return
        seq = self.state.seq + 1
        full = seq % FULL_EVERY == 0
        own = [
            Checkpoint(
                query.name,
                query.generation,
                part.number,
                part.positions,
                part.bound.ends,
                part.bound.taken_ms,
                clean=part.clean,
                full=full,
                seq=seq,
                epoch=1,
            )
            for query, part in parts
        ]
        carried: list[Checkpoint] = []
        if full:
            changed = {sp for checkpoint in own for sp in checkpoint.positions}
            carried = self.state.carried(seq, 1, changed)
            self.state = replace(CheckpointState(), seq=seq, epoch=1)
        self.state = self.state.apply(*carried, *own)
        self.positions = self.positions.merged(
            {sp: at for checkpoint in own for sp, at in checkpoint.positions.items()}
        )


STEPS: list[Callable[[Any, int], None]] = [
    *[Aggregation.produce] * 4,
    *[Aggregation.read] * 4,
    *[Aggregation.deliver] * 4,
    *[Aggregation.acknowledge] * 4,
    *[Aggregation.close] * 3,
    *[Aggregation.report] * 3,
    *[Aggregation.look] * 3,
    *[Aggregation.commit] * 3,
    *[Aggregation.recover] * 3,
    *[Aggregation.start_again] * 3,
    *[Aggregation.crash] * 2,
    *[Aggregation.fail] * 2,
    Aggregation.ask_the_hub,
    Aggregation.hear_the_hub,
    Aggregation.hold,
    Aggregation.notice_what_was_left,
    Aggregation.stop_cleanly,
    Aggregation.create_a_topic_again,
    Aggregation.write_something_else_into_the_hub,
    Aggregation.grow_the_hub_topic,
]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 20)), min_size=30, max_size=120))
@examples(600)
def test_each_origin_is_there_once_whatever_happens(
    steps: list[tuple[Callable[[Aggregation, int], None], int]],
) -> None:
    aggregation = Aggregation()
    for step, number in steps:
        step(aggregation, number)
        aggregation.check()
    aggregation.check_that_everything_arrives()


class CompactedAggregation(Aggregation):
    """Into a hub topic that is compacted, now and then."""

    compacted = True

    def compact_the_hub(self, number: int) -> None:
        """Of each key of a partition the newest is left; the others leave their places empty."""
        log = self.hub[number % len(self.hub)]
        newest = {(origin.sp, origin.key): origin for origin in log if origin is not None}
        for place, origin in enumerate(log):
            if origin is not None and newest[origin.sp, origin.key] is not origin:
                self.replaced.add(origin)
                log[place] = None


COMPACTED_STEPS = [*STEPS, *[CompactedAggregation.compact_the_hub] * 3]


@given(
    st.lists(
        st.tuples(st.sampled_from(COMPACTED_STEPS), st.integers(0, 20)), min_size=30, max_size=120
    )
)
@example(
    [
        (Aggregation.produce, 0),
        (Aggregation.produce, 0),
        (Aggregation.read, 9),
        (Aggregation.crash, 4),
        # The key of what is left to write moves to where a newer record of it is.
        (Aggregation.grow_the_hub_topic, 0),
    ]
)
@examples(600)
def test_of_a_compacted_hub_nothing_is_missing_but_what_was_replaced_in_its_place(
    steps: list[tuple[Callable[[Any, int], None], int]],
) -> None:
    aggregation = CompactedAggregation()
    for step, number in steps:
        step(aggregation, number)
        aggregation.check()
    aggregation.check_that_everything_arrives()
