"""What is measured of the sources by their watches: lags, time behind, and which are silent."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import pytest

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.kafka.admin import open_admin
from aggregator.kafka.discovery import probe as watch
from aggregator.kafka.discovery import probes
from aggregator.kafka.discovery.probe import SourceWatch, Watched
from aggregator.kafka.discovery.probes import SourcesWatch
from aggregator.model.values import Positions, SourcePartition
from aggregator.plan.health.delays import Delay
from aggregator.plan.health.fetched_ends import Fetches, LogEnd
from aggregator.plan.health.suspects import Seen
from aggregator.plan.lifecycle.inputs import Measured
from support.reading import wait_for

EU0, EU1, US0 = (SourcePartition(*it) for it in (("eu", "t", 0), ("eu", "t", 1), ("us", "t", 0)))
SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=t",
    "supervision.deadline=10s",
)
US = ("sources.us.bootstrap_servers=127.0.0.1:11", "sources.us.topics.include=t")


def config(*sets: str) -> Config:
    return load_text("", [*SETS, *sets])


class Clock:
    """A clock that does not move until the test moves it."""

    seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


class World:
    """Two sources whose probes report what the test says; none is really asked."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.watches, self.config = clock, SourcesWatch(), config(*US)
        self.positions = Positions({EU0: 10, EU1: 20, US0: 30})
        self.heard: dict[str, float] = {}
        self.ends: dict[SourcePartition, LogEnd] = {}
        assert self.watches.measure(self.positions, Fetches()) is None
        self.watches.follow(self.config, {EU0, EU1, US0})
        for each in self.watches._watches.values():
            each._due_at = math.inf

    def probe(self, ends: dict[SourcePartition, int]) -> None:
        """The sources of these partitions report their log ends now."""
        for alias in {sp.cluster for sp in ends}:
            own = {sp: end for sp, end in ends.items() if sp.cluster == alias}
            latest = Watched("", self.clock.seconds, Seen(self.clock.seconds, ends=own), True)
            self.watches._watches[alias].latest = latest

    def measured(self, later: float = 0.0) -> Measured:
        """What is measured after `later` seconds."""
        self.clock.seconds += later
        found = self.watches.measure(self.positions, Fetches(self.heard, dict(self.ends)))
        assert found is not None
        return found

    def behind(self, later: float = 0.0) -> dict[SourcePartition, Delay]:
        return dict(self.measured(later).behind)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(probes, "time", clock)
    monkeypatch.setattr(watch, "time", clock)
    monkeypatch.setattr(SourceWatch, "_turn", lambda _: None)
    return clock


@pytest.fixture
def world(clock: Clock) -> Iterator[World]:
    yield World(clock)


def test_partitions_are_behind_since_their_probe_reported_it(world: World) -> None:
    assert world.behind() == {}
    world.probe({EU0: 10, EU1: 20, US0: 30})
    assert world.behind(0.5) == {EU0: Delay(0.0), EU1: Delay(0.0), US0: Delay(0.0)}
    world.clock.seconds += 0.5
    world.probe({EU0: 12, EU1: 20})
    assert world.behind(0.75) == {EU0: Delay(0.75), EU1: Delay(0.0), US0: Delay(0.0)}
    assert world.behind(4)[EU0] == Delay(4.75)
    world.positions = world.positions.merged({EU0: 12})
    assert world.behind(1)[EU0] == Delay(0.0)


def test_of_a_source_that_is_silent_only_what_was_behind_before_is_known(world: World) -> None:
    world.probe({EU0: 10, EU1: 25, US0: 30})
    assert world.measured().silent == {}
    world.clock.seconds += 11
    world.probe({US0: 30})
    found = world.measured()
    assert found.behind == {EU1: Delay(11.0, at_least=True), US0: Delay(0.0)}
    assert found.silent == {"eu": "no answer for 10 s"}
    assert found.answered == {"eu", "us"}
    # How far the logs reach by now is not known, not even for what was behind.
    assert found.known_ends == {US0: 30}
    world.probe({EU0: 10, EU1: 25})
    assert world.measured().known_ends == {EU0: 10, EU1: 25, US0: 30}


def test_a_source_that_answers_a_long_probe_in_parts_is_not_silent(world: World) -> None:
    """Of thousands of partitions: one probe may take longer than the deadline."""
    world.probe({EU0: 10, US0: 30})
    eu = world.watches._watches["eu"]
    with open_admin(world.config, "eu") as admin:
        eu._admin = admin
        admin.answered_at = world.clock.seconds + 9
        assert world.measured(11).silent == {"us": "no answer for 10 s"}
        # Then it stops.
        assert world.measured(9).silent.keys() == {"eu", "us"}


def test_a_source_that_is_asked_too_late_has_its_time_all_the_same(world: World) -> None:
    """As where hundreds of probes wait for each other."""
    world.probe({EU0: 10, US0: 30})
    eu = world.watches._watches["eu"]
    eu._due_at = world.clock.seconds + 1
    assert world.measured(31).silent == {"us": "no answer for 10 s"}
    eu._began_at = world.clock.seconds
    assert "eu" not in world.measured(9).silent
    assert world.measured(0.5).silent == dict.fromkeys(("eu", "us"), "no answer for 10 s")
    # Its next one is in time.
    eu._due_at, eu._began_at = world.clock.seconds + 1, world.clock.seconds + 1
    assert "eu" in world.measured().silent


def test_a_source_that_refuses_for_too_long_is_away_between_two_probes_as_well(
    world: World,
) -> None:
    world.probe({EU0: 10, US0: 30})
    eu = world.watches._watches["eu"]
    world.clock.seconds += 11
    eu._fail(OSError("refused"))
    assert world.measured(0.9).silent["eu"] == "refused"


def test_a_source_whose_records_come_is_not_silent_though_it_answers_no_probe(world: World) -> None:
    world.probe({EU0: 10, EU1: 25, US0: 30})
    assert world.measured().silent == {}
    world.heard["eu"] = world.clock.seconds + 8
    found = world.measured(11)
    assert found.silent == {"us": "no answer for 10 s"}
    # Where its logs end is still not known.
    assert found.behind == {EU1: Delay(11.0, at_least=True)}
    assert world.measured(8).silent.keys() == {"eu", "us"}


def test_ends_of_fetches_count_until_a_probe_reports_one_that_was_asked_for_later(
    world: World,
) -> None:
    world.probe({EU0: 10, EU1: 20, US0: 30})
    assert world.measured().lags == {"eu": 0, "us": 0}
    world.ends = {EU0: LogEnd(15, world.clock.seconds + 1)}
    found = world.measured(1)
    assert found.lags == {"eu": 5, "us": 0}
    # It is behind since it was reported, and not since the last probe.
    assert found.behind[EU0] == Delay(0.0)
    assert world.measured(2).behind[EU0] == Delay(2.0)
    # Of two answers of about the same time the lower one may be older.
    world.probe({EU0: 14, EU1: 20})
    world.ends = {EU0: LogEnd(13, world.clock.seconds + 1)}
    assert world.measured(1).ends[EU0] == 14
    # Its log was cut.
    world.clock.seconds += 1
    world.probe({EU0: 11, EU1: 20})
    assert world.measured().ends[EU0] == 11


def seldom(world: World) -> set[str]:
    """The sources that are probed seldom."""
    return {alias for alias, it in world.watches._watches.items() if it.is_seldom}


def cover(world: World) -> None:
    """The fetches of one source are answered now."""
    world.ends = {EU0: LogEnd(10, world.clock.seconds), EU1: LogEnd(20, world.clock.seconds)}
    world.heard["eu"] = world.clock.seconds


def test_a_source_is_probed_seldom_while_fetches_report_all_its_ends(world: World) -> None:
    world.measured()
    assert seldom(world) == set()
    cover(world)
    world.measured(1)
    assert seldom(world) == {"eu"}
    # One that is not fetched.
    del world.ends[EU1]
    world.measured()
    assert seldom(world) == set()
    cover(world)
    world.measured()
    assert seldom(world) == {"eu"}
    world.watches.measure(world.positions, Fetches(world.heard, dict(world.ends)), often=True)
    assert seldom(world) == set()


def test_a_source_whose_fetches_stop_is_probed_at_once_and_silent_when_that_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    eu = world.watches._watches["eu"]
    monkeypatch.setattr(eu._loop, "wake", lambda: asked.append(world.clock.seconds))
    world.probe({EU0: 10, EU1: 20, US0: 30})
    world.measured()
    world.clock.seconds += 20
    cover(world)
    assert world.measured().silent.keys() == {"us"}
    assert not asked
    # Long after the last probe: that one is not what it has left unanswered.
    world.measured(2)
    assert asked == [world.clock.seconds]
    assert "eu" not in world.measured(7.5).silent
    assert "eu" in world.measured(1).silent


def test_a_log_that_may_be_another_one_is_probed_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(world.watches._watches["eu"]._loop, "wake", lambda: asked.append("eu"))
    cover(world)
    world.measured()
    assert not asked
    world.ends[EU1] = LogEnd(3, world.clock.seconds, doubts=1)
    world.measured()
    assert asked[0] == "eu"
    assert seldom(world) == set()
    # It takes two probes to be sure of a log that was cut.
    world.heard["eu"] = world.clock.seconds + 9
    world.measured(9)
    assert seldom(world) == set()
    world.heard["eu"] = world.clock.seconds + 1
    world.measured(1)
    assert seldom(world) == {"eu"}


def test_a_broker_that_owes_an_answer_shows_also_while_others_answer(world: World) -> None:
    world.probe({EU0: 10, EU1: 20, US0: 30})
    cover(world)
    late_since = world.clock.seconds
    world.ends[EU1] = LogEnd(20, late_since, late_since, 1_700_000_000_000)
    world.clock.seconds += 9
    world.heard["eu"] = world.clock.seconds
    found = world.measured()
    assert found.late == {EU1: 1_700_000_000_000}
    assert "eu" not in found.silent
    assert seldom(world) == set()
    world.heard["eu"] = world.clock.seconds + 2
    words = "the brokers of 1 of 2 partitions have given no answer for 10 s"
    found = world.measured(2)
    assert found.silent["eu"] == words
    # The other broker reports its ends.
    assert found.known_ends == {EU0: 10}
    # A probe is answered by all of them: only its fetch is slow.
    world.probe({EU0: 10, EU1: 20})
    assert "eu" not in world.measured().silent


def test_with_a_short_deadline_a_source_is_always_probed_often(world: World) -> None:
    world.watches.follow(config("supervision.deadline=2s"), {EU0, EU1})
    cover(world)
    world.measured()
    assert seldom(world) == set()


def test_a_source_that_has_answered_a_fetch_has_answered(world: World) -> None:
    world.heard["us"] = world.clock.seconds
    assert world.measured().answered == {"us"}


def test_who_has_never_answered_is_not_among_those_that_have(world: World) -> None:
    world.probe({EU0: 10})
    assert world.measured().answered == {"eu"}


def test_partitions_that_are_followed_no_more_are_behind_no_more(world: World) -> None:
    world.probe({EU0: 12, EU1: 20, US0: 30})
    world.behind()
    world.watches.follow(world.config, {EU1})
    assert world.behind(1) == {EU1: Delay(0.0)}


def test_lags_and_arrivals_are_of_the_ends_that_are_known(world: World) -> None:
    world.probe({EU0: 12, EU1: 120})
    assert world.measured().lags == {"eu": 102}
    world.clock.seconds += 2
    world.probe({EU0: 12, EU1: 160})
    found = world.measured()
    assert found.lags == {"eu": 142}
    assert found.arrivals == {"eu": 100.0, "us": 0.0}


def test_a_log_that_grows_without_us_makes_a_partition_stuck(world: World) -> None:
    patience = world.config.supervision.stuck_after
    world.probe({EU0: 10})
    world.measured()
    world.probe({EU0: 12})
    assert world.measured(1).stuck == {}
    found = world.measured(patience).stuck
    assert found.keys() == {EU0}
    assert "its position has stayed at 10" in found[EU0]


def test_watches_come_and_go_with_the_config_and_the_others_keep_running(clock: Clock) -> None:
    watches, mine = SourcesWatch(), {EU0, US0}
    watches.follow(config(*US), mine)
    before = dict(watches._watches)
    watches.follow(config(*US, "sources.us.kafka.client.id=x"), mine)
    assert watches._watches["eu"] is before["eu"]
    assert watches._watches["us"] is not before["us"]
    assert watches._watches["us"].partitions == before["us"].partitions == {US0}
    assert before["us"]._loop.over.is_set()
    watches.follow(config(), mine)
    assert watches._watches == {"eu": before["eu"]}
    assert not before["eu"]._loop.over.is_set()


class Read(Collection[SourcePartition]):
    """Partitions that count how often someone goes through them."""

    def __init__(self, partitions: set[SourcePartition]) -> None:
        self._partitions, self.passes = partitions, 0

    def __contains__(self, sp: object) -> bool:
        return sp in self._partitions

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[SourcePartition]:
        self.passes += 1
        return iter(self._partitions)


def test_however_many_sources_there_are_partitions_are_dealt_out_to_them_in_one_pass(
    clock: Clock,
) -> None:
    names = [f"s{number}" for number in range(20)]
    sources = [
        f"sources.{it}.{what}"
        for it in names
        for what in ("bootstrap_servers=127.0.0.1:11", "topics.include=t")
    ]
    watches, settings = SourcesWatch(), config(*sources)
    read = Read({SourcePartition(it, "t", number) for it in names for number in range(3)})
    read._partitions.add(SourcePartition("gone", "t", 0))
    watches.follow(settings, read)
    assert read.passes == 1
    own = {alias: it.partitions for alias, it in watches._watches.items()}
    assert own == {
        alias: {sp for sp in read._partitions if sp.cluster == alias} for alias in settings.sources
    }
    # What is as before is the same value, though it is another set that says so.
    read._partitions.remove(SourcePartition("s7", "t", 1))
    watches.follow(settings, set(read))
    changed = {alias for alias, it in watches._watches.items() if it.partitions is not own[alias]}
    assert changed == {"s7"}
    followed = watches._followed
    watches.follow(settings, set(read))
    assert watches._followed is followed
    assert watches._watches["s7"].partitions == {SourcePartition("s7", "t", it) for it in (0, 2)}


def test_a_defect_is_the_answer_of_its_watch_which_keeps_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(watch, "open_admin", fails)
    found = SourceWatch(config(), "eu")
    found.follow(frozenset({EU0}))
    try:
        reason = wait_for(lambda: found.latest.failure, "the source is reported as failed")
        assert reason == "a defect"
        assert found._loop.is_alive
    finally:
        found.stop()


def test_settings_that_no_client_takes_are_the_answer_of_a_watch_which_keeps_running() -> None:
    found = SourceWatch(config("sources.eu.kafka.client.dns.lookup=unseen"), "eu")
    found.follow(frozenset({EU0}))
    try:
        reason = wait_for(lambda: found.latest.failure, "the source is reported as failed")
        assert 'Invalid value for configuration property "client.dns.lookup"' in reason
        assert "unseen" not in reason
        assert found._loop.is_alive
    finally:
        found.stop()
