"""A model of the whole: writers, crashes at any moment, recoveries that crash. Each origin once.

The decisions are the real ones (which snapshot belongs to a batch, the fold over checkpoints, tail,
replay, new positions); the logs, the producer's buffer and the two Spark jobs are modelled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.checkpoint.rows import Checkpoint
from aggregator.checkpoint.state import State
from aggregator.engine.tail import HubSnapshot, HubTail
from aggregator.model import OffsetRange, Positions, SourcePartition, TopicPartition
from aggregator.plan.recovery import plan_replay, plan_tail, recovered_positions

SOURCES = [
    SourcePartition("eu", "t", 0),
    SourcePartition("eu", "t", 1),
    SourcePartition("us", "t", 0),
]
LANE = "lane"
Origin = tuple[SourcePartition, int]


class Aggregation:
    """One lane over three source partitions into a hub topic, and everything that may happen."""

    def __init__(self) -> None:
        self.logs: dict[SourcePartition, list[int]] = {sp: [] for sp in SOURCES}
        self.ends = dict.fromkeys(SOURCES, 0)
        self.hub: list[list[Origin | None]] = [[], []]
        self.state = State()
        self.running = False
        self.pending: Checkpoint | None = None
        self.order_is_promised = True
        self.batch = self.seen = 0
        self.tail = HubTail(self.snapshot())
        self.start(self.state.positions.merged(dict.fromkeys(SOURCES, 0)))

    # What others do.

    def produce(self, number: int) -> None:
        """Records arrive; before some, compaction or a transaction marker leaves a hole."""
        sp, count = SOURCES[number % len(SOURCES)], 1 + number % 5
        first = self.ends[sp] + (number % 4 == 0)
        self.logs[sp] += range(first, first + count)
        self.ends[sp] = first + count

    def write_something_else_into_the_hub(self, number: int) -> None:
        self.hub[number % len(self.hub)].append(None)

    def grow_the_hub_topic(self, number: int) -> None:
        """Keys move: what was under way then may come out of order, as growing says it does."""
        if len(self.hub) < 4 and number % 5 == 0:
            self.hub.append([])
            self.order_is_promised = False

    # What the lane does.

    def read(self, number: int) -> None:
        """A task reads records and hands them to the producer's buffer."""
        sp, count = SOURCES[number % len(SOURCES)], 1 + number % 5
        todo = [at for at in self.logs[sp] if at >= self.read_to[sp]][:count]
        for at in todo if self.running else ():
            self.buffer[self.hub_partition(sp, at)].append((sp, at))
            self.read_to[sp] = at + 1

    def deliver(self, number: int) -> None:
        """The producer delivers the head of what it holds for each hub partition."""
        for partition, queue in self.buffer.items():
            for _ in range(min((number + partition) % 5, len(queue)) if self.running else 0):
                self.hub[partition].append(queue.pop(0))

    def end_the_batch(self, number: int) -> None:
        if not self.running:
            return
        self.flush()
        self.batch += 1
        self.ended = Positions(dict(self.read_to))

    # What the observer does.

    def look(self, number: int) -> None:
        """As the observer's tick: a batch end becomes pending, with the snapshot it may have."""
        if not self.running:
            return
        if self.batch == self.seen:
            self.tail.quiet(LANE)
        else:
            self.seen = self.batch
            snapshot = self.tail.for_batch(LANE)
            self.pending = self.checkpoint(self.ended, snapshot, clean=False)

    def take_a_snapshot(self, number: int) -> None:
        self.tail.taken(self.snapshot())

    def commit(self, number: int) -> None:
        if self.pending is not None:
            self.append(self.pending)
            self.pending = None

    # How it ends, and begins again.

    def stop_cleanly(self, number: int) -> None:
        if not self.running:
            return
        self.end_the_batch(number)
        self.running, self.pending = False, None
        self.append(self.checkpoint(self.ended, self.snapshot(), clean=True))

    def crash(self, number: int) -> None:
        """Whatever is in the buffer and whatever is not committed is gone."""
        self.running, self.pending = False, None

    def crash_while_recovering(self, number: int) -> None:
        """A recovery of which the first records were delivered, and which never committed."""
        if self.running:
            return
        self.routing = len(self.hub)
        missing, _ = self.find_missing()
        for sp, at in missing[:number]:
            self.hub[self.hub_partition(sp, at)].append((sp, at))

    def start_again(self, number: int) -> None:
        if self.running:
            return
        self.routing = len(self.hub)
        if self.state.unclean:
            missing, positions = self.find_missing()
            for sp, at in missing:
                self.hub[self.hub_partition(sp, at)].append((sp, at))
            self.append(self.checkpoint(positions, self.snapshot(), clean=True))
        self.start(self.state.positions)

    # What is promised.

    def check(self) -> None:
        """No origin is there twice, and those of a source partition are in order."""
        present = [origin for log in self.hub for origin in log if origin is not None]
        assert len(present) == len(set(present))
        for log in self.hub if self.order_is_promised else ():
            newest: dict[SourcePartition, int] = defaultdict(lambda: -1)
            for sp, at in (origin for origin in log if origin is not None):
                assert at > newest[sp]
                newest[sp] = at

    def check_that_everything_arrives(self) -> None:
        """Whatever happened: after one more start, reading on to the end."""
        self.start_again(0)
        for number in range(sum(map(len, self.logs.values())) * len(SOURCES)):
            self.read(number)
        self.stop_cleanly(0)
        self.check()
        present = {origin for log in self.hub for origin in log if origin is not None}
        assert present == {(sp, at) for sp in SOURCES for at in self.logs[sp]}

    # The parts of the model.

    def start(self, positions: Positions) -> None:
        self.running = True
        self.read_to = dict(positions)
        self.buffer: dict[int, list[Origin]] = defaultdict(list)
        self.routing = len(self.hub)
        self.ended, self.batch, self.seen = positions, 0, 0
        snapshot = self.snapshot()
        self.tail = HubTail(snapshot)
        self.tail.began(LANE, snapshot)
        self.append(self.checkpoint(positions, snapshot, clean=False))

    def hub_partition(self, sp: SourcePartition, at: int) -> int:
        """By key: one source partition spreads over all hub partitions that the lane knows."""
        return (at * 7 + sp.partition * 3 + len(sp.cluster)) % self.routing

    def flush(self) -> None:
        for partition, queue in self.buffer.items():
            self.hub[partition] += queue
            queue.clear()

    def snapshot(self) -> HubSnapshot:
        ends = {TopicPartition("t", number): len(log) for number, log in enumerate(self.hub)}
        return HubSnapshot(0, ends)

    def checkpoint(self, positions: Positions, snapshot: HubSnapshot, *, clean: bool) -> Checkpoint:
        return Checkpoint(LANE, 1, 0, positions, snapshot.ends, 0, clean=clean)

    def append(self, checkpoint: Checkpoint) -> None:
        seq = self.state.seq + 1
        self.state = self.state.apply(
            Checkpoint(
                checkpoint.lane,
                checkpoint.generation,
                checkpoint.batch,
                checkpoint.positions,
                checkpoint.hub_ends,
                checkpoint.snapshot_at_ms,
                clean=checkpoint.clean,
                seq=seq,
                epoch=1,
            )
        )

    def find_missing(self) -> tuple[list[Origin], Positions]:
        """The scan and the anti-join, over the ranges that the real plan gives."""
        if not self.state.unclean:
            return [], self.state.positions
        positions = self.state.positions
        logs = {
            TopicPartition("t", number): OffsetRange(0, len(log))
            for number, log in enumerate(self.hub)
        }
        tail = plan_tail(positions, self.state.hub_ends_for(self.state.unclean), logs)
        found = {
            origin
            for tp, log in tail.ranges.items()
            for origin in self.hub[tp.partition][log.earliest : log.latest]
            if origin is not None and origin[1] >= positions[origin[0]]
        }
        highest: dict[SourcePartition, int] = {}
        for sp, at in found:
            highest[sp] = max(at, highest.get(sp, -1))
        held = {sp: OffsetRange(0, max(log, default=-1) + 1) for sp, log in self.logs.items()}
        ranges = plan_replay(positions, highest, held)
        missing = [
            (sp, at)
            for sp, log in ranges.items()
            for at in self.logs[sp]
            if log.earliest <= at < log.latest and (sp, at) not in found
        ]
        return missing, recovered_positions(positions, highest)


STEPS = st.sampled_from(
    [
        *[Aggregation.produce] * 4,
        *[Aggregation.read] * 4,
        *[Aggregation.deliver] * 4,
        *[Aggregation.end_the_batch] * 3,
        *[Aggregation.look] * 3,
        *[Aggregation.take_a_snapshot] * 3,
        *[Aggregation.commit] * 3,
        *[Aggregation.start_again] * 3,
        *[Aggregation.crash] * 2,
        Aggregation.crash_while_recovering,
        Aggregation.stop_cleanly,
        Aggregation.write_something_else_into_the_hub,
        Aggregation.grow_the_hub_topic,
    ]
)


@given(st.lists(st.tuples(STEPS, st.integers(0, 20)), min_size=30, max_size=120))
@settings(max_examples=600)
def test_each_origin_is_there_once_whatever_happens(
    steps: list[tuple[Callable[[Aggregation, int], None], int]],
) -> None:
    aggregation = Aggregation()
    for step, number in steps:
        step(aggregation, number)
        aggregation.check()
    aggregation.check_that_everything_arrives()
