"""The rule that ties hub snapshots to what tasks report; also against a model of the writes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from aggregator.datapath.connector.reports import TaskReport
from aggregator.datapath.hub_ledger import HubSnapshot, HubTail
from aggregator.model.values import SourcePartition, TopicPartition
from support.examples import examples
from support.reports import task

EU, US = SourcePartition("eu", "orders", 0), SourcePartition("us", "orders", 0)
HUB, OTHER, NEW = (TopicPartition("orders", number) for number in range(3))


def tail_of(*snapshots: HubSnapshot, most: int = 64) -> tuple[HubTail, list[int]]:
    """A tail that has read these snapshots, and their numbers."""
    tail = HubTail(1_000, most)
    numbers = []
    for snapshot in snapshots:
        tail.read(snapshot)
        numbers.append(tail.number)
    return tail, numbers


def test_the_bound_is_the_snapshot_that_a_task_names_or_what_it_had_acknowledged_itself() -> None:
    tail, (early, late) = tail_of(
        HubSnapshot(1, {HUB: 10, OTHER: 10}), HubSnapshot(2, {HUB: 20, OTHER: 20})
    )
    report = task({EU: 5}, snapshot=early, ends={HUB: 15, OTHER: 9})
    assert tail.bound([report]) == HubSnapshot(1, {HUB: 15, OTHER: 10})
    report = task({EU: 5}, snapshot=late, ends={HUB: 15, OTHER: 29})
    assert tail.bound([report]) == HubSnapshot(2, {HUB: 20, OTHER: 29})


def test_of_several_tasks_the_smallest_bound_counts_for_each_hub_partition() -> None:
    tail, (early, late) = tail_of(
        HubSnapshot(1, {HUB: 10, OTHER: 10}), HubSnapshot(2, {HUB: 20, OTHER: 20})
    )
    behind = task({EU: 5}, snapshot=early, ends={HUB: 40})
    ahead = task({US: 5}, snapshot=late, ends={OTHER: 30})
    assert tail.bound([behind, ahead]) == HubSnapshot(1, {HUB: 20, OTHER: 10})


def test_a_number_that_is_not_known_bounds_nothing() -> None:
    tail, (number,) = tail_of(HubSnapshot(1, {HUB: 10}))
    known, foreign = task({EU: 5}, snapshot=number), task({US: 5}, snapshot=7, ends={HUB: 50})
    assert tail.bound([foreign]) == HubSnapshot(0, {})
    assert tail.bound([known, foreign]) == HubSnapshot(0, {})
    # Before anything is read, the hub may hold our records anywhere.
    assert HubTail(3).bound([task({EU: 5}, snapshot=3, ends={HUB: 50})]).ends == {}
    assert tail.bound([]).ends == {}


def test_the_snapshot_that_a_lane_began_with_bounds_it_when_all_others_are_beyond() -> None:
    tail, (number, _) = tail_of(HubSnapshot(1, {HUB: 10}), HubSnapshot(2, {HUB: 20}))
    begun = {number: HubSnapshot(1, {HUB: 10})}
    tail.forget([])
    late = task({EU: 5}, snapshot=number, ends={HUB: 15})
    assert tail.bound([late]) == HubSnapshot(0, {})
    assert tail.bound([late], begun) == HubSnapshot(1, {HUB: 15})


def test_what_tasks_had_acknowledged_makes_a_newer_snapshot_of_what_is_known() -> None:
    tail, (number,) = tail_of(HubSnapshot(1, {HUB: 10, OTHER: 10}))
    tail.heard([task({EU: 5}, ends={HUB: 10, OTHER: 3})], 2)
    assert tail.number == number
    tail.heard([task({EU: 5}, ends={HUB: 12}), task({US: 5}, ends={HUB: 15, NEW: 8})], 3)
    assert tail.number == number + 1
    # What a hub partition holds from earlier is not known if it was never asked for.
    assert tail.newest == HubSnapshot(3, {HUB: 15, OTHER: 10})


class Counting(dict[TopicPartition, int]):
    """Ends that count how often one is looked at."""

    looks = 0

    def get(self, key: TopicPartition, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)


def test_an_end_is_compared_once_and_again_when_the_hub_is_known_to_be_elsewhere() -> None:
    tail, _ = tail_of(HubSnapshot(1, {HUB: 1}))
    ends = Counting({HUB: 10, NEW: 8})
    for second in range(3):
        tail.heard([task({EU: 5}, ends=ends, point=second)], second)
        assert (tail.newest.ends, ends.looks) == ({HUB: 10}, 2)
    tail.lower({HUB: 3})
    tail.heard([task({EU: 5}, ends=ends, point=3)], 3)
    assert tail.newest.ends == {HUB: 10}
    tail.read(HubSnapshot(4, {NEW: 7}))
    tail.heard([task({EU: 5}, ends=ends, point=4)], 4)
    assert (tail.newest.ends, ends.looks) == ({HUB: 10, NEW: 8}, 6)


def test_a_hub_partition_that_does_not_show_its_end_keeps_the_last_known_one() -> None:
    tail, (number,) = tail_of(HubSnapshot(1, {HUB: 10, OTHER: 10}))
    assert tail.read(HubSnapshot(2, {OTHER: 30, NEW: 5})).ends == {HUB: 10, OTHER: 30, NEW: 5}
    assert (tail.number, tail.newest.taken_ms) == (number + 1, 2)


def test_snapshots_are_forgotten_that_are_older_than_all_that_is_named() -> None:
    tail, numbers = tail_of(*(HubSnapshot(at, {HUB: at}) for at in (1, 2, 3)))

    def bounds() -> list[int]:
        found = [tail.bound([task({EU: 5}, snapshot=number)]) for number in numbers]
        return [bound.ends.get(HUB, 0) for bound in found]

    tail.forget([numbers[1], numbers[2]])
    assert bounds() == [0, 2, 3]
    # The newest stays in any case: it is what the next reports will name.
    tail.forget([])
    assert bounds() == [0, 0, 3]


def plain_bound(snapshots: Mapping[int, HubSnapshot], tasks: Sequence[TaskReport]) -> HubSnapshot:
    """`HubTail.bound` by its definition: for each task all hub partitions, and of these the least.

    A task has the last snapshot that is not after the number that it names; of one that is not
    known nothing is known.
    """
    bounds = []
    for report in tasks:
        before = [number for number in snapshots if number <= report.snapshot]
        is_known = before and report.snapshot <= max(snapshots)
        own = snapshots[max(before)] if is_known else HubSnapshot(0, {})
        ends = {tp: max(end, report.ends.get(tp, 0)) for tp, end in own.ends.items()}
        bounds.append(HubSnapshot(own.taken_ms, ends))
    taken = min((bound.taken_ms for bound in bounds), default=0)
    shared = set.intersection(*(set(bound.ends) for bound in bounds)) if bounds else set()
    return HubSnapshot(taken, {tp: min(it.ends[tp] for it in bounds) for tp in shared})


some_ends = st.dictionaries(st.sampled_from([HUB, OTHER, NEW]), st.integers(0, 9))
some_snapshots = st.builds(HubSnapshot, st.integers(0, 9), some_ends)


@examples(1000)
@given(
    st.dictionaries(st.integers(0, 5), some_snapshots, min_size=1, max_size=3),
    st.dictionaries(st.integers(0, 5), some_snapshots, max_size=1),
    st.lists(st.tuples(st.integers(0, 6), some_ends), max_size=5),
)
def test_the_bound_of_tasks_that_name_few_snapshots_is_the_least_of_all_that_each_has(
    snapshots: dict[int, HubSnapshot],
    begun: dict[int, HubSnapshot],
    reported: list[tuple[int, dict[TopicPartition, int]]],
) -> None:
    tail = HubTail()
    tail._snapshots = snapshots
    tasks = [task({EU: 5}, snapshot=number, ends=ends) for number, ends in reported]
    kept = copy.deepcopy((snapshots, begun))
    assert tail.bound(tasks, begun) == plain_bound({**begun, **snapshots}, tasks)
    assert (snapshots, begun) == kept


class Counted(Mapping[TopicPartition, int]):
    """Ends that note how many of them were looked at, of all such."""

    looks: ClassVar[int] = 0

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self._ends = ends

    def __getitem__(self, tp: TopicPartition) -> int:
        Counted.looks += 1
        return self._ends[tp]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._ends)

    def __len__(self) -> int:
        return len(self._ends)


def test_a_bound_looks_at_what_tasks_report_and_not_at_each_partition_for_each_task() -> None:
    tail = HubTail()
    ends = {TopicPartition("orders", number): 5 for number in range(1_000)}
    tail._snapshots[0] = HubSnapshot(1, Counted(ends))
    tasks = [task({EU: 5}, ends=Counted({tp: 9})) for tp in list(ends)[:100]]
    Counted.looks = 0
    assert tail.bound(tasks).ends == ends
    assert Counted.looks <= len(ends) + len(tasks)


class Task:
    """A task that writes into one hub partition, as others do."""

    def __init__(self, number: int) -> None:
        self.hub: list[int | None] = []
        self.learned = number
        """The number of the newest snapshot that it knows."""
        self.sent = self.acknowledged = 0
        self.closed: list[tuple[int, int]] = []
        self.report = task({EU: 0}, snapshot=number)

    def deliver(self) -> None:
        arrived = len([at for at in self.hub if at is not None])
        if arrived < self.sent:
            self.hub.append(arrived)

    def acknowledge(self) -> None:
        """The hub has answered; a point that waited for that is reported from then on."""
        if self.acknowledged in self.hub:
            self.acknowledged += 1
        while self.closed and self.closed[0][0] <= self.acknowledged:
            position, snapshot = self.closed.pop(0)
            end = self.hub.index(position - 1) + 1 if position else 0
            self.report = task({EU: position}, snapshot=snapshot, ends={HUB: end})

    def close_point(self) -> None:
        self.closed.append((self.sent, self.learned))


STEPS = ["send", "deliver", "acknowledge", "close", "others", "ask", "learn", "look"]


@examples(500)
@given(st.lists(st.sampled_from(STEPS), max_size=100), st.sampled_from([3, 64]))
def test_whatever_a_report_does_not_cover_lies_behind_its_bound(
    steps: list[str], most: int
) -> None:
    """Whatever the interleaving of writes, their answers, report points, looks and snapshots."""
    tail, (number,) = tail_of(HubSnapshot(0, {HUB: 0}), most=most)
    writer = Task(number)
    seen = writer.report
    for step in steps:
        if step == "send":
            writer.sent += 1
        elif step == "deliver":
            writer.deliver()
        elif step == "acknowledge":
            writer.acknowledge()
        elif step == "close":
            writer.close_point()
        elif step == "others":
            writer.hub.append(None)
        elif step == "ask":
            tail.read(HubSnapshot(0, {HUB: len(writer.hub)}))
        elif step == "learn":
            writer.learned = tail.number
        else:
            seen = writer.report
            tail.heard([seen], 0)
            tail.forget([seen.snapshot])
        bound = tail.bound([seen]).ends[HUB]
        assert all(at is None or at < seen.positions[EU] for at in writer.hub[:bound])
        # Nothing that it may yet name is forgotten.
        named = [writer.report.snapshot, *(known for _, known in writer.closed), writer.learned]
        assert all(tail.bound([task({EU: 0}, snapshot=it)]).ends for it in named)


def test_a_task_that_is_stuck_for_a_day_while_another_one_moves_keeps_few_snapshots() -> None:
    tail, (number,) = tail_of(HubSnapshot(0, {HUB: 0}))
    stuck, least = task({EU: 0}, snapshot=number), []
    for second in range(2 * 86_400):
        moving = task({US: second}, snapshot=tail.number, ends={HUB: second + 1})
        tail.heard([stuck, moving], second)
        tail.forget([stuck.snapshot, moving.snapshot])
        least.append(len(tail._snapshots))
        assert tail.bound([moving]).ends[HUB] >= second
    assert max(least) <= tail.most + 2
    assert tail.bound([stuck]).ends == {HUB: 0}


class Naive:
    """Keeps all snapshots for ever."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}

    def take(self, tail: HubTail) -> None:
        self.ends[tail.number] = tail.newest.ends[HUB]


@examples(300)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), max_size=300), st.integers(2, 9))
def test_of_few_snapshots_no_bound_is_higher_than_of_all(
    steps: list[tuple[int, int]], most: int
) -> None:
    """Each task names a number that it may have known, and never an older one again."""
    tail, (number,) = tail_of(HubSnapshot(0, {HUB: 0}), most=most)
    naive, named = Naive(), [number] * 3
    naive.take(tail)
    for which, step in steps:
        if which == len(named):
            tail.read(HubSnapshot(0, {HUB: tail.newest.ends[HUB] + step}))
            naive.take(tail)
            continue
        named[which] = min(named[which] + step, tail.number)
        tail.forget(named)
        assert len(tail._snapshots) <= most + len(named) + 1
        for it in named:
            bound = tail.bound([task({EU: 0}, snapshot=it)]).ends[HUB]
            assert naive.ends[number] <= bound <= naive.ends[it]


class Sender:
    """One of several tasks that write into the same hub partition."""

    def __init__(self, number: int) -> None:
        self.open: list[int] = []
        self.learned = number
        self.covered = 0
        """Behind which hub offset all lies that its position does not cover."""
        self.report = task({EU: 0}, snapshot=number)

    def make_report(self) -> None:
        if not self.open:
            self.report = task({EU: 0}, snapshot=self.learned, ends={HUB: self.covered})


@examples(500)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "acknowledge", "report", "learn", "tick", "ask"]),
            st.integers(0, 1),
        ),
        max_size=80,
    )
)
def test_a_commit_by_a_newer_snapshot_is_behind_all_that_an_older_one_covers(
    steps: list[tuple[str, int]],
) -> None:
    """What `Past.tops` rests on: by the clock of the one that observes."""
    tail, (number,) = tail_of(HubSnapshot(0, {HUB: 0}), most=3)
    senders = [Sender(number), Sender(number)]
    end = 0
    commits: list[tuple[int, int, HubSnapshot]] = []
    for now, (step, which) in enumerate(steps, 1):
        sender = senders[which]
        if step == "write":
            sender.open.append(end)
            end += 1
        elif step == "acknowledge" and sender.open:
            sender.covered = sender.open.pop(0) + 1
        elif step == "report":
            sender.make_report()
        elif step == "learn":
            sender.learned = tail.number
        elif step == "ask":
            tail.read(HubSnapshot(now, {HUB: end}))
        elif step == "tick":
            reports = [it.report for it in senders]
            tail.heard(reports, now)
            covered = max(it.ends.get(HUB, 0) for it in reports)
            commits.append((now, covered, tail.bound(reports)))
    for committed_at, covered, _ in commits:
        for _, _, bound in commits:
            if bound.taken_ms > committed_at:
                assert bound.ends[HUB] >= covered


def test_of_a_topic_that_was_created_again_no_earlier_end_bounds_anything() -> None:
    tail, other = HubTail(), TopicPartition("payments", 0)
    first = TopicPartition("orders", 0)
    tail.read(HubSnapshot(1, {first: 100, other: 7}))
    tail.drop({"orders"})
    assert tail.newest.ends == {other: 7}
    # One that does not report its end yet is not known.
    tail.read(HubSnapshot(2, {other: 8}))
    assert tail.newest.ends == {other: 8}


def test_no_end_beyond_where_a_partition_was_cut_off_bounds_what_comes_from_then_on() -> None:
    tail, other = HubTail(), TopicPartition("payments", 0)
    tail.read(HubSnapshot(1, {HUB: 100, other: 7}))
    before = tail.number
    tail.lower({HUB: 60, TopicPartition("absent", 0): 3})
    assert tail.newest == HubSnapshot(1, {HUB: 60, other: 7})
    # It does not report its end: the one of before is not what it keeps.
    tail.read(HubSnapshot(2, {other: 8}))
    assert tail.newest.ends == {HUB: 60, other: 8}
    tail.lower({HUB: 80})
    assert tail.newest.ends == {HUB: 60, other: 8}
    assert before < tail.number
