"""What the tasks of a lane report, as values: parsed from the connector's JSON, joined per lane.

Positions are NEXT offsets. Everything below a reported position is acknowledged by the hub; what it
does not cover lies at or behind the reported end of its hub partition, or behind the hub snapshot
whose number the report names, whichever is higher.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from aggregator.model.patched import Patched
from aggregator.model.values import Positions, ReaderState, SourcePartition, TopicPartition

READING, HELD, DONE = ReaderState.READING, ReaderState.HELD, ReaderState.DONE
OUT_OF_RANGE, DAMAGED, REFUSED, POISONED, AWAITING, STUCK = (
    ReaderState.OUT_OF_RANGE,
    ReaderState.DAMAGED,
    ReaderState.REFUSED,
    ReaderState.POISONED,
    ReaderState.AWAITING,
    ReaderState.STUCK,
)
"""States of a partition in its reader, as the connector names them."""
CANNOT_GO_ON = (OUT_OF_RANGE, DAMAGED, REFUSED, POISONED, AWAITING, STUCK)

LARGEST_BUCKETS = 72
LARGE = frozenset({"positions", "ends", "topics"})
"""Fields of a report of which the next ones have only what has changed."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Records and bytes (of keys and values) that were sent.

    `dropped` of them went among the duplicates; `without_id` were to come once, and name no event.
    """

    records: int = 0
    bytes_: int = 0
    dropped: int = 0
    without_id: int = 0


@dataclass(frozen=True, slots=True)
class Base:
    """A report that later ones of its task may be based on: its number, and what it says.

    `plain` are all fields but `positions`, hub `ends` and what was `sent` of each topic.
    """

    number: int
    plain: Mapping[str, Any]
    positions: Mapping[SourcePartition, int]
    ends: Mapping[TopicPartition, int]
    sent: Mapping[str, Counted]


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The newest report of one task; `states` has only partitions that are not being read.

    `reasons` says why in words, of those that have one. `cuts` are those whose log is another one
    from an offset on, as the epochs of its leaders show. `ended`: it sends nothing more, and its
    positions are exact. `skipping`: part of what it reads may lie in the tail of before its start.
    `age` and `flight` are counts by the buckets of `bucket_bounds`. `unknown` are schema
    ids whose hub ids it needs: source topic, "key" or "value", id or GUID. `objects` is why its
    records are copied as objects; "" where they are copied as bytes. What was reported last as a
    whole is the `base`.
    """

    lane: str
    generation: int
    task: tuple[int, int]
    cluster: str
    point: int
    at_ms: int
    snapshot: int
    positions: Mapping[SourcePartition, int]
    ends: Mapping[TopicPartition, int]
    states: Mapping[SourcePartition, str] = field(default_factory=dict)
    reasons: Mapping[SourcePartition, str] = field(default_factory=dict)
    cuts: Mapping[SourcePartition, int] = field(default_factory=dict)
    sent: Mapping[str, Counted] = field(default_factory=dict)
    error: str = ""
    ended: bool = False
    skipping: bool = False
    skipped: int = 0
    replayed: int = 0
    looped: int = 0
    retried: int = 0
    read_bytes: int = 0
    age: tuple[int, ...] = ()
    flight: tuple[int, ...] = ()
    unknown: tuple[tuple[str, str, str], ...] = ()
    objects: str = ""
    base: Base | None = field(default=None, compare=False, repr=False)


Known = Mapping[tuple[str, int], Mapping[tuple[int, int], TaskReport]]
"""The newest reports by the lives of lanes (name and generation) and their tasks."""
NONE_KNOWN: Known = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LaneReport:
    """The newest reports of all tasks of one life of a lane; `whole` when each has reported."""

    tasks: tuple[TaskReport, ...]
    whole: bool

    @property
    def positions(self) -> Positions:
        """The position of every partition whose task has reported."""
        return Positions({sp: at for task in self.tasks for sp, at in task.positions.items()})

    @property
    def ended(self) -> bool:
        """Whether no task sends anything more, and all positions are exact."""
        return self.whole and all(task.ended for task in self.tasks)

    @property
    def skipping(self) -> bool:
        """Whether some records may lie before what the tasks wrote in this life."""
        return not self.whole or any(task.skipping for task in self.tasks)

    @property
    def states(self) -> dict[SourcePartition, str]:
        """The partitions that are not being read, and their states."""
        return {sp: state for task in self.tasks for sp, state in task.states.items()}

    @property
    def stuck(self) -> set[SourcePartition]:
        """Partitions that were given up, and of which more may have arrived than is reported."""
        return {sp for task in self.tasks for sp, state in task.states.items() if state == STUCK}

    @property
    def reasons(self) -> dict[SourcePartition, str]:
        """Why a partition is not being read, in words, where its reader says it."""
        return {sp: why for task in self.tasks for sp, why in task.reasons.items()}

    @property
    def cuts(self) -> dict[SourcePartition, int]:
        """From where on a log is another one than was read, where its reader says it."""
        return {sp: at for task in self.tasks for sp, at in task.cuts.items()}

    @property
    def unread(self) -> dict[SourcePartition, str]:
        """The partitions that its readers cannot read, and why: in words, else the state."""
        return {
            sp: task.reasons.get(sp, state.replace("_", " "))
            for task in self.tasks
            for sp, state in task.states.items()
            if state in CANNOT_GO_ON
        }

    @property
    def objects(self) -> str:
        """Why records are copied as objects, for each reason the sources; "" for none."""
        reasons: dict[str, set[str]] = {}
        for task in self.tasks:
            if task.objects:
                reasons.setdefault(task.objects, set()).add(task.cluster)
        return "; ".join(f"{', '.join(sorted(of))}: {why}" for why, of in sorted(reasons.items()))

    @property
    def errors(self) -> dict[str, str]:
        """Source -> why it gives nothing, as its readers report."""
        return {task.cluster: task.error for task in self.tasks if task.error}

    @property
    def records(self) -> int:
        """Records that were sent in this life."""
        return sum(it.records for task in self.tasks for it in task.sent.values())

    @property
    def replayed(self) -> int:
        """Those of them that a recovery had found missing."""
        return sum(task.replayed for task in self.tasks)


class TaskEnds(NamedTuple):
    """What has changed of the log ends of a task's partitions.

    An end, or None where it is not known any more; for how many seconds its broker owes an answer,
    None where it is not late; and how often the log seemed to be cut, or another one.
    """

    lane: str
    generation: int
    parts: Mapping[SourcePartition, tuple[int | None, float | None, int]]


class Reports(NamedTuple):
    """What the connector reports: the number to ask with the next time, and what is news.

    `unheard` is for how many seconds each source has answered no fetch of any task, of those that
    ever have. `moves` is how often tasks came or went. `over` are the keys of lanes whose query has
    ended. `cuts` are hub partitions that were cut off, at that offset or before.
    """

    seq: int
    tasks: Sequence[TaskReport]
    unheard: Mapping[str, float]
    ends: Sequence[TaskEnds] = ()
    moves: int = 0
    over: frozenset[str] = frozenset()
    cuts: Sequence[tuple[TopicPartition, int]] = ()


def parse_reports(text: str, known: Known = NONE_KNOWN) -> Reports:
    """The reports since the last ones, which are `known`: some only say what has changed.

    When a report that others are based on is lacking, the number to ask with is that of none.
    """
    found = json.loads(text)
    unheard = {alias: ms / 1000 for alias, ms in found["unheard"].items()}
    tasks, whole = _tasks(found["tasks"], known)
    ends = [_ends(task) for task in found["ends"]]
    moves, over = int(found["moves"]), frozenset(found["over"])
    cuts = [(TopicPartition(topic, number), at) for topic, number, at in found["cuts"]]
    seq = int(found["seq"]) if whole else 0
    return Reports(seq, tasks, unheard, ends, moves, over, cuts)


def join(tasks: Sequence[TaskReport], expected: int) -> LaneReport:
    """The reports of a lane's tasks as one."""
    return LaneReport(tuple(sorted(tasks, key=lambda it: it.task)), len(tasks) == expected)


def bucket_bounds() -> tuple[int, ...]:
    """Upper bounds of the histograms' buckets in ms; the last bucket has none.

    As `Histogram.java` makes them, which a test holds.
    """
    bounds, bound = [], 1.0
    for number in range(LARGEST_BUCKETS):
        bounds.append(max(int(bound), number + 1))
        bound = max(bound * 1.25, bound + 1)
    return tuple(bounds)


def _partition(cluster: str, name: str) -> SourcePartition:
    topic, _, number = name.rpartition("/")
    return SourcePartition(cluster, topic, int(number))


def _ends(message: Mapping[str, Any]) -> TaskEnds:
    cluster = str(message["cluster"])
    parts = {
        _partition(cluster, name): (
            None if end < 0 else end,
            None if late_ms < 0 else late_ms / 1000,
            doubts,
        )
        for name, (end, late_ms, doubts) in message["parts"].items()
    }
    return TaskEnds(message["lane"], message["generation"], parts)


def _tasks(messages: Sequence[Mapping[str, Any]], known: Known) -> tuple[list[TaskReport], bool]:
    """The newest report of each task; False when a base of one that is followed is lacking."""
    found: dict[tuple[str, int, tuple[int, int]], TaskReport] = {}
    whole = True
    for message in messages:
        life, task = (message["lane"], message["generation"]), (message["reading"], message["task"])
        if (number := message.get("base")) is None:
            found[*life, task] = _whole(message)
            continue
        own = known.get(life)
        before = found.get((*life, task)) or (own or {}).get(task)
        if before is not None and before.base is not None and before.base.number == number:
            found[*life, task] = _changed(message, before.base)
        else:
            whole = whole and own is None
    return list(found.values()), whole


def _whole(message: Mapping[str, Any]) -> TaskReport:
    cluster = str(message["cluster"])
    positions = {_partition(cluster, name): at for name, at in message["positions"].items()}
    ends = {TopicPartition(topic, number): end for topic, number, end in message["ends"]}
    sent = {topic: Counted(*counts) for topic, counts in message["topics"].items()}
    plain = {name: it for name, it in message.items() if name not in LARGE}
    base = Base(message["number"], plain, positions, ends, sent)
    return _report(plain, base, positions, ends, sent)


def _changed(message: Mapping[str, Any], base: Base) -> TaskReport:
    """A report that says what has changed since the base; what was changed between is in it."""
    cluster = str(base.plain["cluster"])
    positions, ends, sent = base.positions, base.ends, base.sent
    if moved := message.get("positions"):
        patch = {_partition(cluster, name): at for name, at in moved.items()}
        positions = Patched(positions, patch)
    if places := message.get("ends"):
        ends = Patched(ends, {TopicPartition(topic, number): end for topic, number, end in places})
    if counted := message.get("topics"):
        sent = Patched(sent, {topic: Counted(*counts) for topic, counts in counted.items()})
    return _report({**base.plain, **message}, base, positions, ends, sent)


def _report(
    message: Mapping[str, Any],
    base: Base,
    positions: Mapping[SourcePartition, int],
    ends: Mapping[TopicPartition, int],
    sent: Mapping[str, Counted],
) -> TaskReport:
    cluster = str(message["cluster"])

    def partition(name: str) -> SourcePartition:
        return _partition(cluster, name)

    return TaskReport(
        lane=message["lane"],
        generation=message["generation"],
        task=(message["reading"], message["task"]),
        cluster=cluster,
        point=message["point"],
        at_ms=message["at"],
        snapshot=message["snapshot"],
        positions=positions,
        ends=ends,
        states={partition(name): state for name, state in message["states"].items()},
        reasons={partition(name): why for name, why in message["reasons"].items()},
        cuts={partition(name): at for name, at in message["cuts"].items()},
        sent=sent,
        error=message["error"],
        ended=message["ended"],
        skipping=message["skipping"],
        skipped=message["skipped"],
        replayed=message["replayed"],
        looped=message["looped"],
        retried=message["retried"],
        read_bytes=message["read_bytes"],
        age=tuple(message["age"]),
        flight=tuple(message["flight"]),
        objects=message["objects"],
        unknown=tuple((topic, side, number) for topic, side, number in message["unknown"]),
        base=base,
    )
