"""Histories of a hub topic: what may happen to it, played on plain lists, and what is true then.

Two sources flow into one hub topic. A history knows of each record what became of it, so it can say
what an audit has to find. It shares no code with the audit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from aggregator.model.record_rules import EventRule
from aggregator.model.values import (
    OffsetRange,
    PoisonRule,
    Positions,
    Route,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan.positions.gaps import GapRecord
from aggregator.plan.positions.start import Gap, GapKind
from aggregator.store.checkpoint.rows import Checkpoint

ALIASES = ("eu", "us")
MINUTE = 60_000
MILLIS = 1_769_860_800_000
QUARANTINE, DUPLICATES = TopicPartition("aside", 0), TopicPartition("duplicates", 0)
DEFECTS = (
    "none",
    "missing",
    "twice",
    "altered_key",
    "altered_value",
    "altered_headers",
    "altered_timestamp",
    "late",
    "tombstone",
    "no_origin",
    "no_such_record",
    "unknown_source",
)


class Rec(NamedTuple):
    """A record at its source, or its copy at the hub. `event` is what dedup goes by."""

    sp: SourcePartition
    at: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    millis: int = MILLIS
    event: int = 0
    refused: bool = False
    bare: bool = False

    @property
    def origin(self) -> tuple[SourcePartition, int]:
        return (self.sp, self.at)


class Step(NamedTuple):
    """One thing that happens, to one of the sources; `much` is how much of it."""

    what: str
    alias: str = "eu"
    much: int = 1


@dataclass(frozen=True)
class Story:
    """What to play: the kind of topic, the steps, and the defect that is put in."""

    compacted: bool
    translated: bool
    dedup: bool
    transformed: bool
    partitions: int
    start: str
    steps: tuple[Step, ...]
    records: tuple[tuple[int, int, int, bool], ...]
    """Key, event, what kind of value, whether the hub refuses it; used in turn."""
    defect: str
    pick: int


@dataclass
class Flow:
    """A source partition, and how far it is copied."""

    log: list[Rec] = field(default_factory=list)
    end: int = 0
    earliest: int = 0
    position: int | None = None
    committed: int | None = None
    begun: int | None = None
    """Where its copy began; None when no checkpoint knows that any more."""
    copied: set[int] = field(default_factory=set)
    aside: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    again: bool = False
    put_back: bool = False
    bound: tuple[int, Mapping[TopicPartition, int]] | None = None
    """Until this position the commits keep these hub ends: a replay leaves out what is there."""


class Part:
    """A hub partition: its records by offset, where it begins, and its end."""

    def __init__(self) -> None:
        self.log: dict[int, Rec] = {}
        self.earliest = 0
        self.end = 0

    def put(self, record: Rec) -> None:
        self.log[self.end] = record
        self.end += 1

    def order(self) -> list[tuple[int, Rec]]:
        return sorted(self.log.items())


class Asides:
    """The topics of what is kept aside, which all histories share."""

    def __init__(self) -> None:
        self.parts = {QUARANTINE: Part(), DUPLICATES: Part()}

    def ends(self) -> dict[TopicPartition, int]:
        return {tp: part.end for tp, part in self.parts.items()}

    def expire(self) -> None:
        """Retention deletes the older half of each."""
        for part in self.parts.values():
            part.earliest = part.end // 2
            part.log = {at: it for at, it in part.log.items() if at >= part.earliest}


class History:
    """Plays a story step by step. `rows` are the checkpoints of each tick that still count."""

    def __init__(self, number: int, story: Story, asides: Asides) -> None:
        self.number, self.story, self.asides = number, story, asides
        self.topic = f"topic-{number}"
        self.flows = {SourcePartition(it, self.topic, 0): Flow() for it in ALIASES}
        self.hub = {TopicPartition(self.topic, at): Part() for at in range(story.partitions)}
        self.rows: list[tuple[int, Checkpoint]] = []
        self.gaps: list[GapRecord] = []
        self.events: set[int] = set()
        self.tombstones: list[Rec] = []
        self.hub_trimmed = False
        self.tick = 0
        self.made = 0
        self.planted: Rec | None = None

    # What may happen.

    def play(self, tick: int) -> None:
        """The step of this tick, if there is one."""
        self.tick = tick
        if tick < len(self.story.steps):
            step = self.story.steps[tick]
            sp = SourcePartition(step.alias, self.topic, 0)
            getattr(self, f"do_{step.what}")(sp, self.flows[sp], step.much)

    def do_write(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        for _ in range(much):
            key, event, kind, refused = self.story.records[self.made % len(self.story.records)]
            self.made += 1
            flow.end += 1 if event % 5 else 2  # a transaction's marker, now and then
            value, headers = self._value(kind), self._headers(kind)
            record = Rec(
                sp=sp,
                at=flow.end - 1,
                key=self._framed(b"key-%d" % key, key % 2 == 0),
                value=value,
                headers=headers,
                millis=MILLIS + self.made if kind != 3 else -1,
                event=event,
                refused=refused and not self.story.transformed,
            )
            flow.log.append(record)

    def _value(self, kind: int) -> bytes | None:
        if kind == 0:
            return None
        return self._framed(b"value-%d" % self.made, kind == 1)

    def _headers(self, kind: int) -> tuple[tuple[str, bytes | None], ...]:
        own = (("a", b"%d" % kind), ("b", None))
        if kind == 2 and self.story.translated:
            return (*own, ("__value_schema_id", b"\x01" + bytes(16) + b"\x02"))
        return own if kind == 1 else ()

    def _framed(self, content: bytes, framed: bool) -> bytes:
        return b"\x00\x00\x00\x00\x07" + content if framed and self.story.translated else content

    def do_copy(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        self._begin(sp, flow)
        assert flow.position is not None
        for record in [it for it in flow.log if it.at >= (flow.position or 0)][: 2 * much]:
            self._send(flow, record)
            flow.position = record.at + 1

    def _begin(self, sp: SourcePartition, flow: Flow) -> None:
        if flow.position is None:
            flow.position = flow.end if self.story.start == "latest" else flow.earliest
            flow.begun = flow.position
            self._commit(sp, flow, "union", self._ends())
        elif flow.position < flow.earliest:
            self._gap(sp, flow, flow.position, flow.earliest, GapKind.BELOW_EARLIEST)

    def _send(self, flow: Flow, record: Rec) -> None:
        held = record.at in self._there(record.sp) or record.at in flow.aside
        if self.story.compacted:
            held = held or record.at in flow.copied
        if held and not flow.again:
            return
        if record.refused:
            flow.aside.add(record.at)
            self.asides.parts[QUARANTINE].put(record)
        elif self.story.dedup and record.event in self.events:
            flow.aside.add(record.at)
            self.asides.parts[DUPLICATES].put(record)
        elif not (self.story.transformed and record.at % 3 == 0):
            self.events.add(record.event)
            flow.copied.add(record.at)
            self._part(record).put(self._at_hub(record))
            self.tombstones += [record] if record.value is None else []

    def _part(self, record: Rec) -> Part:
        return list(self.hub.values())[sum(record.key) % len(self.hub)]

    def _at_hub(self, record: Rec) -> Rec:
        if self.story.transformed:
            return record._replace(value=b"changed", key=record.key)
        if not self.story.translated:
            return record
        named = any(name == "__value_schema_id" for name, _ in record.headers)
        headers = tuple(
            (name, b"\x00\x00\x00\x00\xc8\x02" if name == "__value_schema_id" else value)
            for name, value in record.headers
        )
        value = record.value if named else self._at_hub_content(record.value)
        key = self._at_hub_content(record.key)
        assert key is not None
        return record._replace(key=key, value=value, headers=headers)

    @staticmethod
    def _at_hub_content(content: bytes | None) -> bytes | None:
        framed = content is not None and content[:1] == b"\x00"
        return b"\x00\x00\x00\x00\xc8" + content[5:] if content and framed else content

    def _there(self, sp: SourcePartition) -> set[int]:
        return {it.at for part in self.hub.values() for it in part.log.values() if it.sp == sp}

    def _ends(self) -> dict[TopicPartition, int]:
        return {tp: part.end for tp, part in self.hub.items()} | self.asides.ends()

    def do_commit(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        if flow.position is not None:
            self._commit(sp, flow, "union", self._ends())

    def _commit(
        self,
        sp: SourcePartition,
        flow: Flow,
        lane: str,
        ends: Mapping[TopicPartition, int],
        *,
        clean: bool = False,
    ) -> None:
        assert flow.position is not None
        if flow.bound is not None and flow.position < flow.bound[0] and lane == "union":
            ends = flow.bound[1]
        elif lane == "union":
            flow.bound = None
        flow.committed = flow.position
        number = 2 * self.number + ALIASES.index(sp.cluster)
        self.rows.append(
            (
                self.tick,
                Checkpoint(
                    lane,
                    number,
                    self.tick,
                    Positions({sp: flow.position}),
                    dict(ends),
                    MILLIS + self.tick * 4 * MINUTE + 20 * number + len(self.rows) % 20,
                    clean=clean,
                ),
            )
        )

    def do_lose(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        """The checkpoint is lost; a start looks what the hub holds of each partition."""
        if self.hub_trimmed or any(it.position is None for it in self.flows.values()):
            return
        if self.gaps or any(it.earliest or it.again for it in self.flows.values()):
            return
        self.rows = []
        for each, own in self.flows.items():
            was = own.position or 0
            own.position = own.end if self.story.start == "latest" else own.earliest
            own.bound = own.begun = None
            self._commit(each, own, "doubt", {})
            if self.story.start == "latest":
                # What came since it was copied last is never copied.
                own.lost |= {it.at for it in own.log if it.at >= was}
            else:
                own.position = was
                self._commit(each, own, "recovery", self._ends(), clean=True)

    def do_compact(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        if not self.story.compacted:
            return
        for part in self.hub.values():
            newest = {it.key: at for at, it in part.order()}
            for at, it in part.order():
                if newest[it.key] != at or (it.value is None and much % 2):
                    del part.log[at]

    def do_expire(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        """The hub's retention deletes the beginning of one of its partitions."""
        part = list(self.hub.values())[much % len(self.hub)]
        if self.story.compacted or part.end < 2:
            return
        self.hub_trimmed = True
        part.earliest = max(part.earliest, min(part.earliest + 2 * much, part.end))
        for at in [at for at in part.log if at < part.earliest]:
            del part.log[at]

    def do_forget(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        """The source's retention."""
        flow.earliest = max(flow.earliest, min(flow.earliest + much, flow.end))
        flow.log = [it for it in flow.log if it.at >= flow.earliest]

    def do_skip(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        """Somebody sets the position forward."""
        if flow.position is None or flow.put_back:
            return
        self._begin(sp, flow)
        if flow.position + much <= flow.end:
            end = flow.position + much
            self._gap(sp, flow, flow.position, end, GapKind.SKIPPED_BY_OPERATOR)

    def _gap(self, sp: SourcePartition, flow: Flow, start: int, end: int, kind: GapKind) -> None:
        gap = Gap(sp, kind, start, end, "a gap", end)
        self.gaps.append(GapRecord(f"{sp}{start}", gap, datetime(2026, 1, 31, tzinfo=UTC), 1))
        flow.skipped |= set(range(start, end))
        flow.position = end
        self._commit(sp, flow, "gaps", self._ends(), clean=True)

    def do_rewind(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        """A position is set back: what the hub lacks is written."""
        if flow.position is None or flow.again:
            return
        back = max(flow.earliest, flow.position - 2 * much)
        if back >= flow.position:
            return
        begun = [it for _, it in self.rows if sp in it.positions and it.positions[sp] <= back]
        ends = begun[-1].hub_ends if begun else {}
        top = max([flow.position, flow.bound[0] if flow.bound else 0])
        flow.position, flow.put_back, flow.bound = back, True, (top, ends)
        flow.begun = None if flow.begun is None else min(flow.begun, back)
        self._commit(sp, flow, "positions set", ends)

    def do_again(self, sp: SourcePartition, flow: Flow, much: int) -> None:
        """A position is set back, and all of it is written once more."""
        if flow.position is None or flow.again or flow.put_back or self.story.compacted:
            return
        back = max(flow.earliest, flow.position - 2 * much)
        if back >= flow.position:
            return
        self._commit(sp, flow, "union", self._ends())
        flow.position, flow.again, flow.put_back = back, True, True
        flow.begun = None if flow.begun is None else min(flow.begun, back)
        self._commit(sp, flow, "positions --again", self._ends(), clean=True)

    # What is put in at the end.

    def plant(self) -> None:
        """Put the defect in; without a record that can have it there is none."""
        kind = self.story.defect
        stranger = {
            "no_origin": Rec(SourcePartition("", "", 0), 0, b"key-1", b"x", bare=True),
            "unknown_source": Rec(SourcePartition("asia", self.topic, 0), 3, b"key-1", b"x"),
            "no_such_record": Rec(self.flow_sp, 10_000, b"key-1", b"x"),
        }.get(kind)
        if stranger is not None:
            self.planted = stranger
            next(iter(self.hub.values())).put(stranger)
            return
        choices = [it for it in self._judged() if self._can_have(kind, it)]
        if not choices:
            return
        tp, at, record = choices[self.story.pick % len(choices)]
        self.planted = record
        part = self.hub[tp]
        if kind in ("missing", "tombstone"):
            del part.log[at]
        elif kind == "twice":
            part.put(record)
        elif kind == "late":
            later = self._next(tp, at, record)
            assert later is not None
            part.log[at], part.log[later] = part.log[later], record
        else:
            part.log[at] = {
                "altered_key": record._replace(key=record.key + b"!"),
                "altered_value": record._replace(value=(record.value or b"") + b"!"),
                "altered_headers": record._replace(headers=(*record.headers, ("x", b""))),
                "altered_timestamp": record._replace(millis=record.millis + 1),
            }[kind]

    @property
    def flow_sp(self) -> SourcePartition:
        return SourcePartition("eu", self.topic, 0)

    def _judged(self) -> list[tuple[TopicPartition, int, Rec]]:
        """Hub records that have to be judged: the source has them, below its position."""
        counts = Counter(it.origin for part in self.hub.values() for it in part.log.values())
        return [
            (tp, at, it)
            for tp, part in self.hub.items()
            for at, it in part.order()
            if counts[it.origin] == 1 and self.is_judged(it)
        ]

    def is_judged(self, record: Rec) -> bool:
        flow = self.flows.get(record.sp)
        if flow is None or flow.committed is None:
            return False
        there = any(it.at == record.at for it in flow.log)
        return there and self.lower(record.sp) <= record.at < flow.committed

    def lower(self, sp: SourcePartition) -> int:
        """Where the audit has to begin: where the copy did, as far as anybody knows that."""
        return max(self.flows[sp].earliest, self.flows[sp].begun or 0)

    def _can_have(self, kind: str, choice: tuple[TopicPartition, int, Rec]) -> bool:
        tp, at, record = choice
        if kind == "none":
            return False
        if kind == "twice":
            return True
        flow = self.flows[record.sp]
        if record.at in flow.aside | flow.skipped:
            return False
        if kind == "late":
            return self._next(tp, at, record) is not None
        if self.story.transformed:
            return False
        if kind == "altered_key":
            return not self.story.compacted
        if kind == "altered_timestamp":
            return record.millis > 0
        if kind == "tombstone":
            return self.story.compacted and record.value is None and self.earlier(tp, record)
        return True

    def _next(self, tp: TopicPartition, at: int, record: Rec) -> int | None:
        """Where the next one of its flow lies, in the same hub partition."""
        others = [
            offset
            for offset, it in self.hub[tp].order()
            if offset > at and it.sp == record.sp and self.is_judged(it) and it.at > record.at
        ]
        return others[0] if others else None

    def earlier(self, tp: TopicPartition, record: Rec) -> bool:
        """Whether an earlier record of its key and source is still in that hub partition."""
        return any(
            it.sp == record.sp and it.key == record.key and it.at < record.at
            for it in self.hub[tp].log.values()
        )

    # What is known of it.

    def routes(self) -> list[Route]:
        return [
            Route(
                sp.cluster,
                self.topic,
                self.topic,
                1,
                self.story.partitions,
                transform="a:b" if self.story.transformed else "",
                poison=PoisonRule(quarantine=QUARANTINE.topic),
                schemas="translate" if self.story.translated else "pass",
                dedup=EventRule("header:id", 1, DUPLICATES.topic) if self.story.dedup else None,
            )
            for sp in self.flows
        ]

    def facts(self) -> TopicFacts:
        policy = "compact" if self.story.compacted else "delete"
        return TopicFacts(self.topic, "", self.story.partitions, 1, cleanup_policy=policy)

    def source_logs(self) -> dict[SourcePartition, OffsetRange]:
        return {sp: OffsetRange(it.earliest, it.end) for sp, it in self.flows.items()}

    def hub_logs(self) -> dict[TopicPartition, OffsetRange]:
        return {tp: OffsetRange(it.earliest, it.end) for tp, it in self.hub.items()}


def rows_of_source(sp: SourcePartition, log: Sequence[Rec]) -> list[tuple[Any, ...]]:
    """Records as Spark's Kafka source gives them."""
    return [
        (it.key, it.value, sp.topic, sp.partition, it.at, it.millis, list(it.headers)) for it in log
    ]


def rows_of_hub(tp: TopicPartition, part: Part, since: int) -> list[tuple[Any, ...]]:
    """The same of a partition of the hub, with the origins."""
    return [
        (it.key, it.value, *tp, at, abs(it.millis), [*it.headers, *origin(it)])
        for at, it in part.order()
        if at >= since
    ]


def origin(record: Rec) -> list[tuple[str, bytes]]:
    if record.bare:
        return []
    values = (*record.sp, record.at, record.millis)
    names = ("cluster", "topic", "partition", "offset", "timestamp")
    return [(f"origin.{n}", str(v).encode()) for n, v in zip(names, values, strict=True)]


def moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis // 1000, UTC).replace(microsecond=millis % 1000 * 1000)
