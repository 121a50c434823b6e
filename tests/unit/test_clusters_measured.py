"""Measuring only what has changed at the sources gives the same as looking at everything."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config import load_text
from aggregator.kafka.discovery import probe as watch
from aggregator.kafka.discovery import probes
from aggregator.kafka.discovery.probe import SourceWatch, Watched
from aggregator.kafka.discovery.probes import ANSWER_SECONDS, ARRIVAL_SECONDS, SourcesWatch
from aggregator.model.values import Positions, SourcePartition
from aggregator.plan.health import followed_logs
from aggregator.plan.health.delays import Delays, lags
from aggregator.plan.health.fetched_ends import Fetches, LogEnd
from aggregator.plan.health.stuck import (
    Movement,
    Probe,
    follow,
    heard_too,
    stuck,
    unhealthy_sources,
)
from aggregator.plan.health.suspects import Seen
from aggregator.plan.lifecycle.inputs import Measured
from support.examples import examples

ALIASES = ("eu", "us")
PARTITIONS = [SourcePartition(alias, "t", number) for alias in ALIASES for number in range(2)]
DEADLINE = 4.0


def settings_of(*aliases: str) -> list[str]:
    own = [
        f"sources.{alias}.{setting}"
        for alias in aliases
        for setting in ("bootstrap_servers=127.0.0.1:10", "topics.include=t")
    ]
    rest = ["hub.bootstrap_servers=127.0.0.1:9", f"supervision.deadline={DEADLINE:g}s"]
    return [*rest, "supervision.stuck_after=6s", *own]


BOTH, ONE = load_text("", settings_of(*ALIASES)), load_text("", settings_of("eu"))


@dataclass
class Plain:
    """Measures by looking at everything each time. It gets the same news as the watches."""

    movements: dict[SourcePartition, Movement] = field(default_factory=dict)
    delays: Delays = field(default_factory=Delays)
    totals: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)

    def measured(
        self, all_of_them: SourcesWatch, positions: Positions, fetches: Fetches, now: float
    ) -> Measured:
        watches = all_of_them._watches
        latest = {alias: it.latest for alias, it in watches.items()}
        probed = {sp: end for it in latest.values() for sp, end in it.seen.ends.items()}
        watched = {sp for it in watches.values() for sp in it.partitions}
        fetched = Fetches(
            fetches.heard, {sp: it for sp, it in fetches.ends.items() if sp in watched}
        )
        ends = fetched.joined(probed, {alias: it.seen.asked_at for alias, it in latest.items()})
        own = {sp: at for sp, at in positions.items() if sp in watched}
        self.movements = follow(self.movements, own, ends, now)
        for sp in self.delays._logs.keys() - own.keys():
            self.delays.forget(sp)
        reported = {alias: it.answered_at for alias, it in latest.items()}
        for sp, it in fetched.ends.items():
            reported[sp.cluster] = max(it.at, reported[sp.cluster])
        probing = {
            alias: Probe(now if it.is_seldom else it.heard_at(now), latest[alias].failure)
            for alias, it in watches.items()
        }
        unheard = unhealthy_sources(probing, DEADLINE, now)
        behind = self.delays.follow(own, ends, reported, unheard.keys(), now)
        silent, stale = self.silent(watches, latest, fetched, ends, now)
        return Measured(
            ends,
            behind,
            lags(positions, ends),
            stuck(self.movements, now, 6.0),
            silent,
            frozenset(it for it in latest if latest[it].has_answered or it in fetches.heard),
            self.arrivals(watches, ends, now),
            {sp: it.late_ms for sp, it in fetched.ends.items() if it.late_ms is not None},
            stale,
        )

    def silent(
        self,
        watches: Mapping[str, SourceWatch],
        latest: Mapping[str, Watched],
        fetched: Fetches,
        ends: Mapping[SourcePartition, int],
        now: float,
    ) -> tuple[dict[str, str], frozenset[SourcePartition]]:
        asked, found, stale = {}, {}, set[SourcePartition]()
        for alias, it in watches.items():
            given_from = it.often_since + ANSWER_SECONDS - DEADLINE if it.often_since else 0.0
            asked[alias] = Probe(max(it.heard_at(now), given_from), latest[alias].failure)
            late = fetched.late(it.partitions, DEADLINE, now)
            if late and now - latest[alias].answered_at > DEADLINE:
                of = f"{len(late)} of {len(it.partitions)} partitions"
                words = f"the brokers of {of} have given no answer for {DEADLINE:g} s"
                failure = latest[alias].failure
                found[alias] = f"{words}: {failure}" if failure else words
                stale |= late
        sick = unhealthy_sources(heard_too(asked, fetched.heard), DEADLINE, now)
        stale |= {sp for sp in ends if sp.cluster in sick}
        return {**found, **sick}, frozenset(stale)

    def arrivals(
        self, watches: Mapping[str, SourceWatch], ends: Mapping[SourcePartition, int], now: float
    ) -> dict[str, float]:
        found = {}
        for alias in watches:
            seen = self.totals.setdefault(alias, deque())
            seen.append((now, sum(end for sp, end in ends.items() if sp.cluster == alias)))
            while len(seen) > 2 and seen[1][0] < now - ARRIVAL_SECONDS:
                seen.popleft()
            (then, before), (_, after) = seen[0], seen[-1]
            found[alias] = (after - before) / max(now - then, 1.0) * ARRIVAL_SECONDS
        return found


some_partitions = st.frozensets(st.sampled_from(PARTITIONS))
a_partition = st.sampled_from(PARTITIONS)
an_offset = st.integers(0, 6)
an_alias = st.sampled_from(ALIASES)
changes = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 1.0, 3.0, 7.0])),
    st.tuples(st.just("watch"), some_partitions),
    st.tuples(st.just("sources"), st.sampled_from([BOTH, ONE])),
    st.tuples(st.just("move"), st.dictionaries(a_partition, st.none() | an_offset)),
    st.tuples(st.just("probe"), an_alias, st.dictionaries(a_partition, an_offset)),
    st.tuples(st.just("fail"), an_alias),
    st.tuples(st.just("hear"), an_alias),
    st.tuples(
        st.just("fetch"),
        a_partition,
        st.none()
        | st.tuples(st.none() | an_offset, st.none() | st.floats(0, 9), st.integers(0, 2)),
    ),
)


class Clock:
    seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


class World:
    """Two sources, and what becomes of them."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.config = clock, BOTH
        self.watches, self.plain = SourcesWatch(), Plain()
        self.read = frozenset(PARTITIONS)
        self.positions, self.fetched = Positions(), dict[SourcePartition, LogEnd]()
        self.heard: dict[str, float] = {}
        self.watches.follow(self.config, self.read)

    def apply(self, change: tuple[str, *tuple[object, ...]]) -> None:
        getattr(self, change[0])(*change[1:])
        self.watches.follow(self.config, self.read)

    def wait(self, seconds: float) -> None:
        self.clock.seconds += seconds

    def watch(self, partitions: frozenset[SourcePartition]) -> None:
        self.read = partitions

    def sources(self, config: object) -> None:
        self.config = config  # type: ignore[assignment]

    def move(self, positions: Mapping[SourcePartition, int | None]) -> None:
        both = {**self.positions, **positions}
        self.positions = Positions({sp: at for sp, at in both.items() if at is not None})

    def probe(self, alias: str, ends: Mapping[SourcePartition, int]) -> None:
        own, now = {sp: end for sp, end in ends.items() if sp.cluster == alias}, self.clock.seconds
        self.renew(alias, Watched("", now, Seen(now - 0.25, ends=own), True))

    def fail(self, alias: str) -> None:
        if alias in self.watches._watches:
            last = self.watches._watches[alias].latest
            self.renew(alias, Watched("refused", last.answered_at, last.seen, last.has_answered))

    def hear(self, alias: str) -> None:
        self.heard = {**self.heard, alias: self.clock.seconds}

    def fetch(
        self, sp: SourcePartition, found: tuple[int | None, float | None, int] | None
    ) -> None:
        self.fetched = {it: end for it, end in self.fetched.items() if it != sp}
        if found is not None:
            end, late, doubts = found
            now, since = self.clock.seconds, None
            if late is not None:
                since = now - late
            late_ms = None if late is None else 7
            self.fetched[sp] = LogEnd(end, now, since, late_ms, doubts)

    def renew(self, alias: str, watched: Watched) -> None:
        if alias in self.watches._watches:
            self.watches._watches[alias].latest = watched

    def compare(self) -> None:
        """Both measure now, and say the same."""
        fetches = Fetches(self.heard, self.fetched)
        found = self.watches.measure(self.positions, fetches)
        assert found == self.plain.measured(
            self.watches, self.positions, fetches, self.clock.seconds
        )
        assert found is not None
        for positions in (self.positions, self.positions.merged({PARTITIONS[0]: 1})):
            assert found.known_lags(positions) == lags(positions, found.known_ends)
        # What was summed up is not summed up again.
        assert found.stale or found.known_lags(self.positions) is found.lags
        for alias, logs in self.watches._logs.sources.items():
            own = self.watches._watches[alias].partitions
            assert (logs.doubts, logs.is_covered) == (fetches.doubts(own), fetches.cover(own))


def stopped(patch: pytest.MonkeyPatch) -> Clock:
    """The clock of all that measures; and no probe has a thread."""
    clock = Clock()
    patch.setattr(probes, "time", clock)
    patch.setattr(watch, "time", clock)
    patch.setattr(SourceWatch, "follow", _follow)
    return clock


def _follow(self: SourceWatch, partitions: frozenset[SourcePartition]) -> None:
    self.partitions = partitions


@examples(600)
@given(st.lists(st.tuples(changes, st.sampled_from([True, True, False])), max_size=40))
def test_whatever_changes_the_same_is_measured_as_by_looking_at_everything(
    steps: list[tuple[tuple[str, *tuple[object, ...]], bool]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = World(stopped(patch))
        for change, is_measured in steps:
            world.apply(change)
            if is_measured:
                world.compare()
        world.compare()


def test_a_position_that_is_gone_when_a_source_goes_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(stopped(monkeypatch))
    first, second, *_ = PARTITIONS
    world.move({first: 3, second: 4})
    world.probe("eu", {first: 5, second: 5})
    world.fetch(second, (6, None, 1))
    world.compare()
    world.move({first: None})
    world.fetch(second, None)
    world.apply(("sources", ONE))
    world.compare()
    assert world.watches._logs.sources["eu"].lag == 1
    world.apply(("sources", BOTH))
    world.compare()


def test_what_is_watched_again_begins_from_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it was behind, or did not move, before that says nothing about now."""
    world = World(stopped(monkeypatch))
    first, *others = PARTITIONS
    world.move({first: 3})
    world.probe("eu", {first: 3})
    world.compare()
    world.probe("eu", {first: 5})
    world.compare()
    world.apply(("watch", frozenset(others)))
    world.compare()
    world.wait(9)
    world.probe("eu", {first: 5})
    world.apply(("watch", frozenset(PARTITIONS)))
    world.compare()
    assert world.watches._logs.behind[first].seconds == 0.0


def test_when_a_probe_reports_no_end_an_older_one_of_a_fetch_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(stopped(monkeypatch))
    first, second, *_ = PARTITIONS
    world.move({first: 3, second: 3})
    world.probe("eu", {second: 5})
    world.fetch(first, (6, None, 0))
    world.compare()
    assert world.watches._logs.ends == {first: 6, second: 5}
    world.wait(1)
    world.probe("eu", {second: 5})
    world.compare()
    assert world.watches._logs.ends == {second: 5}


def test_only_what_has_changed_or_is_behind_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[set[SourcePartition]] = []
    plain = followed_logs.SourceLogs._look

    def look(self: followed_logs.SourceLogs, some: set[SourcePartition], *rest: object) -> None:
        looked.append(set(some))
        plain(self, some, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(followed_logs.SourceLogs, "_look", look)
    world = World(stopped(monkeypatch))
    eu = {sp: 5 for sp in PARTITIONS if sp.cluster == "eu"}
    world.move(dict.fromkeys(PARTITIONS, 5))
    world.probe("eu", eu)

    def seen() -> set[SourcePartition]:
        looked.clear()
        world.wait(0.5)
        world.compare()
        return set().union(*looked)

    assert seen() == set(PARTITIONS)
    assert seen() == set()
    # A probe that reports the same ends; then one more record in one partition.
    world.probe("eu", eu)
    assert seen() == set()
    first, second = eu
    world.probe("eu", {**eu, first: 6})
    assert seen() == {first}
    # It is behind, longer from one look to the next.
    world.fetch(second, (5, None, 0))
    assert seen() == {first, second}
    assert seen() == {first}
    world.move({first: 6})
    assert seen() == {first}
    assert seen() == set()
