"""A source, what is copied of it, and the truth about both, by which claims are judged.

Time is in milliseconds. Producers append late, and in open transactions; probes are sent and
answered at other moments; topics grow, come, are cut short and created again; looks come late; what
copies pauses, falls behind, and starts again. The code that claims is the real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aggregator.model.values import LogId, Positions, Route, SourcePartition
from aggregator.plan.completeness.claims import Claim, Claims, ClaimSight, Laggard, Lost
from aggregator.plan.completeness.marks import Mark, MarkLedger
from aggregator.plan.completeness.scope import Feeding, Key

LATENESS_MS = 50
HUB_TOPIC = "all"
TOPICS = ("a", "b")
KEY = ("eu", HUB_TOPIC)
OTHER_KEY = ("us", HUB_TOPIC)
OTHER = SourcePartition("us", "a", 0)


@dataclass
class Sent:
    """A record that the source has acknowledged; `open`: its transaction is."""

    timestamp: int
    at: int
    open: bool = False
    aborted: bool = False
    in_hub: bool = False
    lost: bool = False
    unseen: bool = False

    @property
    def counts(self) -> bool:
        """Whether a claim is about it.

        It is no late one, was not taken back, and not deleted before its partition was ever seen.
        """
        late = self.at - self.timestamp > LATENESS_MS
        return not (self.aborted or self.unseen or late)


@dataclass
class Log:
    """A partition at the source. `earliest` is below what retention has left."""

    records: list[Sent] = field(default_factory=list)
    earliest: int = 0

    @property
    def high(self) -> int:
        return len(self.records)

    @property
    def stable(self) -> int:
        return next((at for at, it in enumerate(self.records) if it.open), len(self.records))


@dataclass
class Topic:
    """A topic of the source; another `id` is another one of that name."""

    id: int
    logs: list[Log]


@dataclass
class Asked:
    """A probe under way: what it was asked for, and what was answered of that so far."""

    at: int
    wanted: list[SourcePartition]
    ends: dict[SourcePartition, int] = field(default_factory=dict)
    stable: dict[SourcePartition, int] = field(default_factory=dict)


class CompleteWorld:
    """One source with two topics that flow into one hub topic, of which the second may come.

    With `alone` there is only the first, and no other one may flow into the hub topic. With `late`
    both may come: until then only another source feeds the hub topic, which is always complete.
    """

    def __init__(self, *, alone: bool, late: bool = False) -> None:
        self.alone = alone
        self.now = 1_000
        self.ids = 0
        self.topics: dict[str, Topic] = {} if late else {"a": self._topic(2)}
        self.truth: list[Sent] = []
        self.known: dict[str, int] = {}
        self.came: set[tuple[str, str]] = set()
        self.listed = 0
        self.away = False
        self.has_looked = False
        self.positions: dict[SourcePartition, int] = {}
        self.checkpoint: dict[SourcePartition, int] = {}
        self.logs: dict[SourcePartition, LogId] = {}
        self.paused: set[SourcePartition] = set()
        self.lost: dict[tuple[str, str], Lost] = {}
        self.probe: Asked | None = None
        self.mark: Mark | None = None
        self.rows: dict[tuple[str | None, str], Claim] = {}
        self.claimed: dict[str | None, int] = {}
        self.written: dict[str | None, int] = {}
        self.ledger, self.claims = MarkLedger(), Claims()
        self.look()

    # What happens at the source

    def append(self, topic: str, partition: int, delay: int, *, opens: bool) -> None:
        if (log := self._log(topic, partition)) is not None:
            record = Sent(self.now - delay, self.now, opens)
            log.records.append(record)
            self.truth.append(record)

    def end_transactions(self, topic: str, *, abort: bool) -> None:
        for log in self.topics[topic].logs if topic in self.topics else ():
            for record in log.records:
                if record.open:
                    record.open, record.aborted = False, abort

    def grow(self, topic: str) -> None:
        if topic in self.topics and len(self.topics[topic].logs) < 4:
            self.topics[topic].logs.append(Log())

    def create(self) -> None:
        if "a" not in self.topics:
            self.topics["a"] = self._topic(2)
        elif not self.alone:
            self.topics.setdefault("b", self._topic(1))

    def recreate(self, topic: str) -> None:
        """Delete it and create it again; what was not copied is lost."""
        if topic not in self.topics:
            return
        for number, log in enumerate(self.topics[topic].logs):
            self._lose(topic, number, log.high)
        self.topics[topic] = self._topic(len(self.topics[topic].logs))

    def retain(self, topic: str, partition: int, count: int) -> None:
        """Delete the oldest records, whether they were copied or not."""
        if (log := self._log(topic, partition)) is not None:
            to = min(log.earliest + count, log.stable)
            log.earliest = to
            self._lose(topic, partition, to)

    # What copies it

    def copy(self, topic: str, partition: int, count: int) -> None:
        """Read on, if it is read, up to the last stable offset; the hub acknowledges it."""
        sp, log = SourcePartition("eu", topic, partition), self._log(topic, partition)
        if log is None or sp in self.paused or sp not in self.positions or not self._is_of(sp):
            return
        at = self.positions[sp]
        if at < log.earliest:
            return
        to = min(at + count, log.stable)
        for record in log.records[at:to]:
            record.in_hub = not record.aborted
        self.positions[sp] = max(at, to)

    def copy_all(self) -> None:
        """Copy all that may be."""
        for name, topic in self.topics.items():
            for number in range(len(topic.logs)):
                self.copy(name, number, 10_000)

    def commit(self) -> None:
        self.checkpoint = dict(self.positions)

    def look(self) -> None:
        """List the topics; take what is new, and decide about what is lost."""
        self.listed, known = self.now, len(self.known)
        for name, topic in self.topics.items():
            if self.has_looked and name not in self.known:
                self.came.add(("eu", name))
            self.known[name] = len(topic.logs)
            for number, log in enumerate(topic.logs):
                sp = SourcePartition("eu", name, number)
                if sp in self.positions and not self._is_of(sp):
                    self._name_lost(name)
                    self.positions[sp], self.logs[sp] = log.earliest, self._id(name)
                    self.checkpoint[sp] = log.earliest
                elif sp not in self.positions:
                    self.positions[sp], self.logs[sp] = log.earliest, self._id(name)
                elif self.positions[sp] < log.earliest:
                    self._name_lost(name)
                    self.positions[sp] = self.checkpoint[sp] = log.earliest
                self.checkpoint.setdefault(sp, self.positions[sp])
        self.away = False
        if self.has_looked and len(self.known) > known:
            # What came is written at once: after a restart it would look as if selected later.
            self.write()
        self.has_looked = True

    def pause(self, topic: str, partition: int) -> None:
        self.paused ^= {SourcePartition("eu", topic, partition)}

    def restart(self, *, away: bool = False) -> None:
        """Continue from the last commit, knowing no more of claims than their table does.

        While the source is `away`, until the next look, nothing of it is known.
        """
        for sp, at in self.checkpoint.items():
            log = self._log(sp.topic, sp.partition)
            if log is not None and self._is_of(sp) and self.positions[sp] >= log.earliest:
                # What the hub holds beyond is left out when it is read again.
                self.positions[sp] = max(at, log.earliest)
        self.commit()
        self.ledger, self.claims = MarkLedger(), Claims(self.rows.values())
        self.probe = self.mark = None
        self.came = set()
        self.claimed = dict(self.written)
        self.away = away

    # What claims

    def ask(self) -> None:
        """Send a probe of all that is read."""
        wanted = [it for it in self.positions if it not in self.paused]
        self.probe = Asked(self.now, wanted)

    def answer(self) -> None:
        """The source answers for its ends: as they are now, later than it was asked."""
        if self.probe is None:
            return
        for sp in self.probe.wanted:
            if (log := self._log(sp.topic, sp.partition)) is not None:
                self.probe.ends[sp] = log.high
                if log.stable < log.high:
                    self.probe.stable[sp] = log.stable

    def arrive(self) -> None:
        """The source lists its topics, and the probe is here."""
        if self.probe is None or not self.probe.ends:
            return
        self.mark = Mark(
            float(self.probe.at),
            self.probe.at,
            "E",
            {name: f"{name}{topic.id}" for name, topic in self.topics.items()},
            {name: len(topic.logs) for name, topic in self.topics.items()},
            self.probe.ends,
            self.probe.stable,
        )
        self.probe = None

    def go_round(self) -> None:
        """What happens all the time: a probe, and in between all is copied."""
        self.ask()
        self.copy_all()
        self.answer()
        self.arrive()
        self.claim()

    def claim(self) -> tuple[Claim, ...]:
        """What is claimed now, checked against the truth."""
        self.ledger.follow(Positions({**self.positions, OTHER: 0}), float(self.now))
        if self.mark is not None:
            reading = [it for it in self.positions if it not in self.paused]
            self.ledger.take(self.mark, self.known, reading, self.logs)
            self.mark = None
        self._follow_other()
        sight = ClaimSight(
            self._scope(),
            {} if self.away else {"eu": self.listed},
            self.came,
            set(),
            self.lost,
            LATENESS_MS,
            self.now,
            lambda alias, _: Laggard(alias, "held"),
        )
        found = self.claims.make(self.ledger, sight)
        for claim in found:
            self._check(claim)
        return found

    def write(self) -> None:
        """The claims of now are in their table."""
        claims = self.claim()
        self.rows |= {(it.source, it.topic): it for it in claims}
        self.written = {it.source: it.up_to_ms or 0 for it in claims}

    def settle(self) -> Claim:
        """All goes well from now on; returns the claim of then."""
        self.paused.clear()
        for name in TOPICS:
            self.end_transactions(name, abort=False)
        self.now += 1
        self.look()
        self.copy_all()
        self.claim()
        # An end that is lower than before is believed when it is reported again.
        self.go_round()
        self.go_round()
        return self.claim()[0]

    def _scope(self) -> Feeding:
        """What flows, of a source that has listed its topics."""
        known = {} if self.away else self.known
        routes = tuple(Route("eu", it, HUB_TOPIC, n, 1) for it, n in sorted(known.items()))
        feeds: dict[Key, tuple[Route, ...]] = {OTHER_KEY: (Route("us", "a", HUB_TOPIC, 1, 1),)}
        if routes:
            feeds[KEY] = routes
        return Feeding(
            feeds,
            may_feed={HUB_TOPIC: frozenset({"eu"})},
            unseen=frozenset({"eu"}) if self.away else frozenset(),
            listed=frozenset() if self.alone else frozenset({KEY}),
            cluster_ids={"us": "U"} if self.away else {"eu": "E", "us": "U"},
            hub_id="H",
        )

    def _follow_other(self) -> None:
        """The other source has nothing that is not in the hub."""
        mark = Mark(float(self.now), self.now, "U", {}, {"a": 1}, {OTHER: 0})
        self.ledger.take(mark, {"a": 1}, [OTHER], {})

    def _check(self, claim: Claim) -> None:
        up_to = claim.up_to_ms
        assert (up_to or 0) >= self.claimed.get(claim.source, 0), "a claim went back"
        if up_to is None or claim.source == OTHER.cluster:
            return
        self.claimed[claim.source] = up_to
        below = [it for it in self.truth if it.counts and it.timestamp <= up_to]
        absent = [it for it in below if not it.in_hub and not it.lost]
        assert not absent, f"claimed up to {up_to}, and the hub lacks {absent}"
        lost = sum(it.lost and not it.in_hub for it in below)
        assert claim.lost.offsets >= lost, "what was lost is not named"

    def _topic(self, partitions: int) -> Topic:
        self.ids += 1
        return Topic(self.ids, [Log() for _ in range(partitions)])

    def _log(self, topic: str, partition: int) -> Log | None:
        found = self.topics.get(topic)
        return found.logs[partition] if found and partition < len(found.logs) else None

    def _id(self, topic: str) -> LogId:
        return LogId("E", f"{topic}{self.topics[topic].id}")

    def _is_of(self, sp: SourcePartition) -> bool:
        return self.logs[sp] == self._id(sp.topic)

    def _lose(self, topic: str, partition: int, to: int) -> None:
        """Whatever is below and was not copied is gone; it is named when a look finds it."""
        log = self._log(topic, partition)
        assert log is not None
        for record in log.records[:to]:
            record.open = False
            if not record.in_hub and not record.aborted:
                record.lost = True
                record.unseen = SourcePartition("eu", topic, partition) not in self.positions

    def _name_lost(self, topic: str) -> None:
        lost = sum(it.lost for it in self.truth)
        self.lost["eu", topic] = Lost(lost, 1)
