"""Bounds of the hub's tail: which hub offsets belong to the positions of a lane. Pure.

Everything that a task's positions do not cover was written by it later than its report point. So
per hub partition it lies at or behind what the task had acknowledged by then, and also at or behind
any snapshot of the hub's ends that was finished before that point. Snapshots are numbered, the
tasks are sent the newest number, and each report names the one that its task knew. They cost
nothing: what any task has had acknowledged is a lower bound of the hub's end.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.datapath.connector.reports import TaskReport
from aggregator.model.patched import may_differ
from aggregator.model.values import TopicPartition

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class HubSnapshot:
    """End offsets of hub partitions, and when their reading had finished (ms since 1970)."""

    taken_ms: int
    ends: Ends


@dataclass(slots=True)
class HubTail:
    """Snapshots for the numbers that a report may still name; the last is the newest.

    While a task does not move, those from its own on become more by time alone. So of many only
    some are kept, and a number means the last one before it that is: an older bound is a lower one.
    """

    number: int = 0
    """Of the newest; those of a later instance have to be higher, as a task may still name them."""
    most: int = 64
    """How many are kept, beside those that reports name."""
    _snapshots: dict[int, HubSnapshot] = field(default_factory=dict)
    _heard: dict[tuple[str, int, tuple[int, int]], Ends] = field(default_factory=dict)
    _heard_by: HubSnapshot | None = None
    """The newest snapshot after the last tasks were heard."""

    def __post_init__(self) -> None:
        self._snapshots[self.number] = HubSnapshot(0, {})

    @property
    def newest(self) -> HubSnapshot:
        """The snapshot with the number that tasks are sent now."""
        return self._snapshots[self.number]

    def read(self, snapshot: HubSnapshot) -> HubSnapshot:
        """The hub was asked. Returns it, with older ends of partitions that did not report theirs.

        Without any end, a recovery would read such a partition from its beginning.
        """
        return self._add(snapshot.taken_ms, snapshot.ends)

    def drop(self, topics: Collection[str]) -> None:
        """These topics were created again: ends of the earlier ones say nothing."""
        if topics:
            known = self.newest
            self.number += 1
            kept = {tp: end for tp, end in known.ends.items() if tp.topic not in topics}
            self._snapshots[self.number] = HubSnapshot(known.taken_ms, kept)

    def lower(self, cuts: Ends) -> None:
        """These partitions were cut off: ends beyond that say nothing of what comes now."""
        known = self.newest
        self.number += 1
        ends = {tp: min(end, cuts.get(tp, end)) for tp, end in known.ends.items()}
        self._snapshots[self.number] = HubSnapshot(known.taken_ms, ends)

    def heard(self, tasks: Iterable[TaskReport], now_ms: int) -> None:
        """Tasks have reported how far the hub is; a new snapshot when that is news."""
        known, ends = self.newest.ends, dict[TopicPartition, int]()
        # What has not changed was compared with this snapshot, or with the one that it raised.
        before = self._heard if self._heard_by is self.newest else {}
        self._heard = {}
        for task in tasks:
            name = (task.lane, task.generation, task.task)
            self._heard[name] = task.ends
            for tp in may_differ(task.ends, before.get(name, {})):
                end = task.ends.get(tp, 0)
                # A partition that no snapshot knows may hold older copied records.
                if tp in known and end > max(known[tp], ends.get(tp, 0)):
                    ends[tp] = end
        if ends:
            self._add(now_ms, ends)
        self._heard_by = self.newest

    def bound(
        self, tasks: Iterable[TaskReport], begun: Mapping[int, HubSnapshot] | None = None
    ) -> HubSnapshot:
        """The ends that belong to what all these tasks report: per partition the smallest.

        `begun` are snapshots by their numbers that the tasks may name when all others are beyond.
        """
        known = {**(begun or {}), **self._snapshots}
        numbers = sorted(known)
        groups: dict[int | None, list[TaskReport]] = {}
        for task in tasks:
            groups.setdefault(_at(task.snapshot, numbers), []).append(task)
        if not groups or None in groups:
            # Of one that names no known snapshot nothing is known: a recovery would read all.
            return HubSnapshot(0, {})
        first, *others = (_bound_of(own, known[at]) for at, own in groups.items() if at is not None)
        taken, ends = first.taken_ms, first.ends
        for other in others:
            taken = min(taken, other.taken_ms)
            ends = {tp: min(end, other.ends[tp]) for tp, end in ends.items() if tp in other.ends}
        return HubSnapshot(taken, ends)

    def forget(self, named: Iterable[int]) -> None:
        """Only snapshots from the oldest of these numbers on are still in use."""
        named = {*named, self.number}
        kept = sorted(self._snapshots)
        first = max(0, bisect_right(kept, min(named)) - 1)
        for number in kept[:first]:
            del self._snapshots[number]
        if len(self._snapshots) > self.most:
            # Every other one: the older, the fewer there are in the end.
            for number in kept[first + 1 : -1 : 2]:
                if number not in named:
                    del self._snapshots[number]

    def _add(self, taken_ms: int, ends: Ends) -> HubSnapshot:
        merged = {**self.newest.ends, **ends}
        self.number += 1
        self._snapshots[self.number] = HubSnapshot(taken_ms, merged)
        return self.newest


def _at(number: int, numbers: list[int]) -> int | None:
    """The last of these numbers that is not after this one."""
    before = bisect_right(numbers, number)
    # One before all that is known, or that is yet to come, says nothing.
    return numbers[before - 1] if before and number <= numbers[-1] else None


def _bound_of(tasks: Collection[TaskReport], snapshot: HubSnapshot) -> HubSnapshot:
    """The bound of tasks that name the same snapshot.

    It is raised where all of them have acknowledged more: so only what tasks report is looked at,
    not each hub partition for each task.
    """
    least: dict[TopicPartition, tuple[int, int]] = {}
    for task in tasks:
        for tp, end in task.ends.items():
            known, lowest = least.get(tp, (0, end))
            least[tp] = (known + 1, min(lowest, end))
    ends = dict(snapshot.ends)
    for tp, (known, lowest) in least.items():
        if known == len(tasks) and tp in ends:
            ends[tp] = max(ends[tp], lowest)
    return HubSnapshot(snapshot.taken_ms, ends)
