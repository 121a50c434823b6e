"""Numbered records through failovers, flaps and failbacks that come in any order: a played world.

What is decided is decided by the real functions; clusters, copies and people are played. Clocks say
anything, so nothing may rest on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from aggregator.features.groups.hub_offsets import (
    ApplyRules,
    HubPlace,
    HubScan,
    Marked,
    OriginFeed,
    PlaceVerdict,
    judge,
    mark_of,
)
from aggregator.model.values import OffsetRange, Pause, SourcePartition, TopicPartition
from aggregator.plan.failover import Failover, NativeCount, ends_of, to_bring_back
from aggregator.plan.positions.hub_losses import least_ends
from support.examples import examples

HUB, EU = TopicPartition("orders", 0), SourcePartition("eu", "orders", 0)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
clocks = st.integers(-100, 100).map(lambda hours: EPOCH + timedelta(hours=hours))


@dataclass(frozen=True)
class Rec:
    """A number, and its offset at the cluster that it was copied from; None: written here."""

    number: int
    origin: int | None = None


@dataclass
class World:
    """A source, a hub, a producer that is at one of them, and both directions of the copy."""

    eu: list[Rec] = field(default_factory=list)
    hub: list[Rec] = field(default_factory=list)
    alive: bool = True
    at_hub: bool = False
    pause: Pause | None = None
    failovers: tuple[Failover, ...] = ()
    position: int = 0
    history: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """Each commit of the way there: its position, and the hub's end before anything beyond it."""
    back: int | None = None
    kept_back: int = 0
    """Records of the hub's own of which the last failback said that they do not go back."""
    early: set[int] = field(default_factory=set)
    """Written at the hub before the source gave its last record, with no failover to come back."""
    written: int = 0

    def write(self) -> None:
        """The producer writes where it is; a cluster that is dead takes nothing."""
        log = self.hub if self.at_hub else self.eu
        if self.at_hub or self.alive:
            log.append(Rec(self.written))
            self.written += 1

    def move(self) -> None:
        """It leaves a dead cluster by itself, whether or not anybody has typed anything."""
        if not self.alive or self.pause is not None:
            self.at_hub = True

    def copy(self, most: int) -> None:
        """The aggregation: what came back from the hub is left out."""
        if not self.alive or self.pause is not None:
            return
        for at in range(self.position, min(len(self.eu), self.position + most)):
            if self.eu[at].origin is None:
                if not any(not it.returned for it in self.failovers):
                    # No one has said that the source is over, and it still gives records.
                    self.early |= {it.number for it in self.hub if it.origin is None}
                self.hub.append(Rec(self.eu[at].number, at))
            self.position = at + 1
            self.history.append((self.position, len(self.hub)))

    def copy_back(self, most: int) -> None:
        """The way back: only what was written at the hub itself."""
        if self.back is None or not self.alive:
            return
        for at in range(self.back, min(len(self.hub), self.back + most)):
            if self.hub[at].origin is None:
                self.eu.append(Rec(self.hub[at].number, at))
            self.back = at + 1

    def fail_over(self, now: datetime, paused: datetime) -> None:
        """By a machine with this clock; the instance that pauses has another one."""
        if not self.position:
            return
        if any(it.is_of(self.pause) for it in self.failovers):
            return
        self.pause = self.pause or Pause(paused)
        # A record that came back is none that was copied: the bound is older then.
        bound = max((end for at, end in self.history if at <= self.position - 1), default=0)
        ends = ends_of({HUB: OffsetRange(0, len(self.hub))}, [{HUB: bound}])
        id = str(len(self.failovers))
        self.failovers += (Failover(now, "hub", ends, id, self.pause.since),)

    def fail_back(self) -> None:
        """Resume, copy the rest, and set the position of the way back where it has none."""
        if not self.alive or not self.failovers:
            return
        self.pause = None
        self.copy(len(self.eu))
        brought = to_bring_back(self.failovers, "hub")
        start = least_ends(it.hub_ends for it in brought)[HUB]
        if self.back is None:
            count = NativeCount(OffsetRange(0, len(self.hub)), start, 10_000)
            for at in range(count.start, count.end):
                count.take(at, None if self.hub[at].origin is None else EU, 0)
            self.kept_back, self.back = count.found, start
        self.failovers = tuple(
            replace(it, returned=it.returned or "x") if it in brought else it
            for it in self.failovers
        )

    def end(self) -> None:
        """All is well again, and everybody goes home."""
        self.alive = True
        self.fail_back()
        self.pause = None
        for _ in range(2):
            self.copy(len(self.eu))
            self.copy_back(len(self.hub))


EVENTS = (
    *("write", "write", "copy", "copy", "die", "live", "move", "fail_over", "resume"),
    *("copy_back", "fail_back", "go_home"),
)
MANY = 40


@given(
    st.lists(
        st.tuples(st.sampled_from(EVENTS), st.integers(1, 3), clocks), min_size=MANY, max_size=MANY
    )
)
@examples(400)
def test_each_record_is_once_at_both_clusters_whatever_happens(
    events: list[tuple[str, int, datetime]],
) -> None:
    world, pauses = World(), 0
    for what, number, clock in events:
        match what:
            case "write":
                for _ in range(number):
                    world.write()
            case "copy":
                world.copy(number)
            case "copy_back":
                world.copy_back(number)
            case "die":
                world.alive = False
            case "live":
                world.alive = True
            case "move":
                world.move()
            case "fail_over":
                pauses += 1
                world.fail_over(clock, EPOCH + timedelta(seconds=pauses, hours=number))
            case "resume":
                world.pause = None
            case "fail_back":
                world.fail_back()
            case "go_home":
                # Only when a way back is there.
                world.at_hub = world.at_hub and (world.back is None or not world.alive)
    world.end()
    for log in (world.eu, world.hub):
        numbers = [it.number for it in log]
        assert len(set(numbers)) == len(numbers), "twice"
    assert {it.number for it in world.hub} == set(range(world.written))
    missing = set(range(world.written)) - {it.number for it in world.eu}
    if world.failovers:
        assert missing <= world.early
        assert len(missing) == world.kept_back


@dataclass
class Reader:
    """A group at a source and at the hub, which is kept up there, and people who set its offsets.

    `hub` has what was copied (its source offset) and what was written there itself (None).
    """

    copied: int = 0
    written: int = 0
    read: int = 0
    hub: list[int | None] = field(default_factory=list)
    at_hub: Marked | None = None
    by_hand: bool = False
    """Whether a consumer or a person set its offset at the hub last."""
    must: int = 0
    """Behind its place at the hub lies nothing from here on that it was not to miss."""
    waiting: bool = False
    """Whether this process knows that it has read what was not copied when it was looked at."""
    seen: int = -1

    def place(self, pin: int | None) -> HubPlace:
        """Where it continues at the hub."""
        log = OffsetRange(0, len(self.hub))
        scan = HubScan({EU: OriginFeed(self.read)}, log, pin=pin)
        for offset, at in enumerate(self.hub):
            if not scan.done:
                scan.take(offset, None if at is None else EU, at or 0)
        return HubPlace(HUB, scan.place, None, scan.found)

    def keep_up(self, *, keeping: bool) -> None:
        """Write its place, as far as the rules allow."""
        refine = keeping and self.waiting and self.read == self.seen and self.at_hub is not None
        place = self.place(self.at_hub.offset if refine and self.at_hub is not None else None)
        mark = mark_of("central", {"eu": {HUB: self.read}})
        rules = ApplyRules(keeping=keeping, refine=refine)
        if judge(place, self.at_hub, mark, rules, active=False) is not PlaceVerdict.WRITE:
            return
        if not keeping or self.at_hub is None or self.at_hub.mark != mark:
            # What was written at the hub itself before is not in its place.
            self.must = len(self.hub)
        self.at_hub, self.by_hand = Marked(place.offset, mark), False
        self.seen, self.waiting = self.read, self.read > self.copied


READER = ("write", "write", "copy", "read", "native", "sync", "sync", "restart", "reset", "apply")


@given(
    st.lists(st.tuples(st.sampled_from(READER), st.integers(0, 5)), min_size=MANY, max_size=MANY)
)
@examples(400)
def test_a_group_misses_nothing_and_is_not_moved_over_what_people_decided(
    events: list[tuple[str, int]],
) -> None:
    it = Reader()
    for what, number in events:
        before, by_hand = it.at_hub, it.by_hand
        match what:
            case "write":
                it.written += number
            case "copy":
                most = min(it.written, it.copied + number)
                it.hub += range(it.copied, most)
                it.copied = most
            case "read":
                it.read = min(it.written, it.read + number)
            case "native":
                it.hub.append(None)
            case "sync":
                it.keep_up(keeping=True)
                assert it.at_hub == before or not by_hand
            case "restart":
                it.waiting = False
            case "reset":
                # By a consumer that continues there, or a person: the two cannot be distinguished.
                it.at_hub, it.by_hand = Marked(min(number, len(it.hub))), True
            case "apply":
                it.keep_up(keeping=False)
        if it.at_hub is None or it.by_hand:
            continue
        # It may begin there now: all that it has not read comes, and what was written there since.
        unread = [h for h, at in enumerate(it.hub) if at is not None and at >= it.read]
        assert it.at_hub.offset <= min(unread, default=len(it.hub))
        assert not [
            h for h, at in enumerate(it.hub) if at is None and it.must <= h < it.at_hub.offset
        ]
