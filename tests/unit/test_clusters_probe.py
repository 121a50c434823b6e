"""What a probe asks of its source, and how long it rests; the source is a list of answers."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.kafka.admin import ClusterAdmin
from aggregator.kafka.admin.ids import ClusterIds
from aggregator.kafka.discovery import probe
from aggregator.kafka.discovery.probe import MOST_SECONDS, SELDOM_SECONDS, SourceWatch, Watched
from aggregator.model.loop import FOREVER
from aggregator.model.values import SourcePartition, TopicPartition
from aggregator.plan.health.fetched_ends import LogEnd
from support.examples import examples
from support.reading import wait_for

TPS = tuple(TopicPartition("t", number) for number in range(4))
SPS = frozenset(SourcePartition("eu", *tp) for tp in TPS)


def config() -> Config:
    sets = ("hub.bootstrap_servers=127.0.0.1:9", "sources.eu.bootstrap_servers=127.0.0.1:10")
    return load_text("", [*sets, "sources.eu.topics.include=t"])


class Admin:
    """Answers with last stable offsets and high watermarks, and notes what it was asked for."""

    def __init__(self, stable: dict[TopicPartition, int], high: dict[TopicPartition, int]) -> None:
        self.reads_committed = True
        self.answered_at = 0.0
        self.asked: list[tuple[str, int]] = []
        self._stable, self._high = stable, high

    def log_ends(self, wanted: Collection[TopicPartition], _: float) -> dict[TopicPartition, int]:
        self.asked.append(("stable", len(wanted)))
        return {tp: self._stable[tp] for tp in wanted if tp in self._stable}

    def high_watermarks(
        self, wanted: Collection[TopicPartition], _: float
    ) -> dict[TopicPartition, int]:
        self.asked.append(("high", len(wanted)))
        return {tp: self._high[tp] for tp in wanted if tp in self._high}


@pytest.fixture(autouse=True)
def _ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "read_ids", lambda *_: ClusterIds("E", {"t": "T"}, {"t": len(TPS)}))


def watch_of(admin: Admin, fetched: dict[SourcePartition, LogEnd], *, seldom: bool) -> SourceWatch:
    """A watch that has this source, of which fetches have reported some ends."""
    watch = SourceWatch(config(), "eu")
    watch.partitions, watch.fetched, watch.is_seldom = SPS, fetched, seldom
    watch._admin = cast("ClusterAdmin", admin)
    return watch


@examples(100)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.none() | st.integers(0, 3)),
        min_size=len(TPS),
        max_size=len(TPS),
    )
)
def test_a_probe_that_comes_seldom_finds_the_same_with_fewer_questions(
    logs: list[tuple[int, int, int | None]],
) -> None:
    """A log ends at some offset, has some records in an open transaction, and was fetched to."""
    stable = {tp: end for tp, (end, _, _) in zip(TPS, logs, strict=True)}
    high = {tp: end + more for tp, (end, more, _) in zip(TPS, logs, strict=True)}
    # What a fetch has found is from before: no later end.
    fetched = {
        SourcePartition("eu", *tp): LogEnd(min(at, end), 1.0)
        for tp, (end, _, at) in zip(TPS, logs, strict=True)
        if at is not None
    }
    often = watch_of(Admin(stable, high), fetched, seldom=False)
    seldom = watch_of(admin := Admin(stable, high), fetched, seldom=True)
    often._turn()
    seldom._turn()
    assert often.latest.mark is not None
    assert seldom.latest.mark is not None
    assert seldom.latest.seen.ends == often.latest.seen.ends
    assert seldom.latest.seen.highs == often.latest.seen.highs
    assert seldom.latest.mark.ends == often.latest.mark.ends
    assert seldom.latest.mark.stable == often.latest.mark.stable
    others = [
        tp
        for tp in TPS
        if (it := fetched.get(SourcePartition("eu", *tp))) is None or it.end != high[tp]
    ]
    assert admin.asked == [("high", 4), *([("stable", len(others))] if others else [])]


def test_a_source_that_is_read_uncommitted_is_asked_once() -> None:
    admin = Admin(dict.fromkeys(TPS, 3), {})
    admin.reads_committed = False
    watch_of(admin, {}, seldom=True)._turn()
    assert admin.asked == [("stable", 4)]


def test_a_source_of_which_nothing_is_read_is_only_asked_now_and_then_whether_it_is_there() -> None:
    class Empty(Admin):
        def partition_counts(self, _: float) -> dict[str, int]:
            self.asked.append(("counts", 0))
            return {}

    watch = watch_of(admin := Empty({}, {}), {}, seldom=False)
    watch.partitions = frozenset()
    watch._turn()
    assert (admin.asked, watch._loop._every()) == ([("counts", 0)], SELDOM_SECONDS)
    assert watch.latest.has_answered
    # What it gets to read is asked for at once.
    watch.latest = Watched()
    watch._due_at = math.inf
    watch._loop.start(delay=FOREVER)
    watch.follow(SPS)
    wait_for(lambda: watch.latest.has_answered, "a probe")
    watch.stop()


@pytest.mark.parametrize(("seconds", "rest"), [(0.3, 1.0), (4.0, 4.0), (90.0, MOST_SECONDS)])
def test_the_longer_a_probe_takes_the_longer_it_rests_and_is_not_missed_meanwhile(
    monkeypatch: pytest.MonkeyPatch, seconds: float, rest: float
) -> None:
    class Clock:
        now = 100.0

        def monotonic(self) -> float:
            return self.now

        def thread_time(self) -> float:
            return 0.0

        def time_ns(self) -> int:
            return 10**18

    monkeypatch.setattr(probe, "time", clock := Clock())

    class Slow(Admin):
        def log_ends(
            self, wanted: Collection[TopicPartition], timeout: float
        ) -> dict[TopicPartition, int]:
            clock.now += seconds
            return super().log_ends(wanted, timeout)

    ends = dict.fromkeys(TPS, 3)
    watch = watch_of(Slow(ends, ends), {}, seldom=False)
    watch._turn()
    assert watch._loop._every() == rest
    answered_at = clock.now
    assert watch.heard_at(answered_at + 1) == answered_at
    assert watch.heard_at(answered_at + 25) == answered_at + 24
    # The next one has begun then, and is not answered.
    watch._began_at = answered_at + 26
    assert watch.heard_at(answered_at + 40) == answered_at + 25


@pytest.mark.parametrize(
    ("worked", "seldom"),
    [(0.01, SELDOM_SECONDS), (0.25, 10.0), (9.0, MOST_SECONDS)],
)
def test_the_more_work_a_probe_is_the_longer_it_rests_while_it_may(
    monkeypatch: pytest.MonkeyPatch, worked: float, seldom: float
) -> None:
    class Clock:
        """Each look at the CPU is so much later; no other time goes by."""

        cpu = 0.0

        def thread_time(self) -> float:
            self.cpu += worked
            return self.cpu

        def monotonic(self) -> float:
            return 1.0

        def time_ns(self) -> int:
            return 10**18

    monkeypatch.setattr(probe, "time", Clock())
    ends = dict.fromkeys(TPS, 3)
    watch = watch_of(Admin(ends, ends), {}, seldom=False)
    watch._turn()
    assert watch._loop._every() == 1.0
    watch.is_seldom = True
    watch._turn()
    assert watch._loop._every() == pytest.approx(seldom)
    # What is claimed may be so much older.
    assert watch.latest.mark is not None
    assert watch.latest.mark.more_seconds == pytest.approx(seldom - SELDOM_SECONDS)
