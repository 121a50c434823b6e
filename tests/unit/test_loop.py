"""The thread of a feature, by a clock that moves only when a test moves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from queue import Queue

import pytest

from aggregator.model.loop import FOREVER, Loop
from support.reading import wait_for

SECONDS = 10.0
"""Within which a thread does what it does at once."""


class Clock:
    """Waits last until `pass_` is called, or until what is waited for happens."""

    def __init__(self) -> None:
        self.asked: Queue[float] = Queue()
        self._passed = threading.Semaphore(0)

    def pass_(self) -> None:
        """The seconds of one wait are over."""
        self._passed.release()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.asked.put(seconds)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if event.is_set():
                return True
            if self._passed.acquire(timeout=0.001):
                return False
        raise AssertionError("neither time nor a wake-up has come")


class Feature:
    """Takes turns that a test lets pass; they fail while `error` is set."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.turns: Queue[int] = Queue()
        self.errors: list[str] = []
        self.finished: Queue[str] = Queue()
        self.error = ""
        self.every = 5.0
        self.during: Callable[[], None] = lambda: None
        self.on_error: Callable[[], None] = lambda: None
        self.count = 0
        self.loop = Loop(
            "a-feature",
            self.turn,
            every=lambda: self.every,
            on_error=self.fail,
            finish=lambda: self.finished.put(threading.current_thread().name),
            stop_seconds=SECONDS,
            wait=self.clock.wait,
        )

    def fail(self, error: Exception) -> None:
        self.errors.append(str(error))
        self.on_error()

    def turn(self) -> None:
        self.count += 1
        during, self.during = self.during, lambda: None
        self.turns.put(self.count)
        during()
        if self.error:
            raise ValueError(self.error)

    def taken(self) -> int:
        """The number of the turn that is taken next."""
        return self.turns.get(timeout=SECONDS)

    def waits(self) -> float:
        """For how many seconds it waits, once it begins to."""
        return self.clock.asked.get(timeout=SECONDS)


@pytest.fixture
def feature() -> Iterator[Feature]:
    feature = Feature()
    yield feature
    feature.loop.stop()
    assert not feature.loop.is_alive


def test_it_takes_its_first_turn_at_once_and_the_next_when_the_time_has_passed(
    feature: Feature,
) -> None:
    assert not feature.loop.has_begun
    feature.loop.start()
    feature.loop.start()
    assert (feature.taken(), feature.waits()) == (1, 5.0)
    assert feature.turns.empty()
    feature.every = 7.0
    feature.clock.pass_()
    assert (feature.taken(), feature.waits()) == (2, 7.0)
    assert [it.name for it in threading.enumerate()].count("a-feature") == 1


def test_its_first_turn_comes_after_a_delay_or_when_it_is_woken(feature: Feature) -> None:
    feature.loop.start(delay=3.0)
    assert feature.waits() == 3.0
    assert feature.turns.empty()
    feature.loop.wake()
    assert (feature.taken(), feature.waits()) == (1, 5.0)


def test_an_end_during_the_delay_comes_without_a_turn(feature: Feature) -> None:
    feature.loop.start(delay=3.0)
    assert feature.waits() == 3.0
    feature.loop.stop()
    assert feature.finished.get_nowait() == "a-feature"
    assert feature.turns.empty()


def test_an_exception_may_be_the_end(feature: Feature) -> None:
    feature.on_error = feature.loop.end
    feature.error = "no answer"
    feature.loop.start()
    assert feature.finished.get(timeout=SECONDS) == "a-feature"
    assert (feature.count, feature.errors) == (1, ["no answer"])


def test_a_wait_without_a_limit_ends_when_it_is_woken() -> None:
    turns: Queue[int] = Queue()
    loop = Loop(
        "waits",
        lambda: turns.put(1),
        every=lambda: FOREVER,
        on_error=lambda error: None,
        stop_seconds=FOREVER,
    )
    loop.start()
    assert turns.get(timeout=SECONDS)
    loop.wake()
    assert turns.get(timeout=SECONDS)
    loop.stop()
    assert not loop.is_alive


def test_an_exception_is_given_away_and_the_next_turn_follows(feature: Feature) -> None:
    feature.error = "no answer"
    feature.loop.start()
    assert (feature.taken(), feature.waits()) == (1, 5.0)
    feature.error = ""
    feature.clock.pass_()
    assert (feature.taken(), feature.waits()) == (2, 5.0)
    assert feature.errors == ["no answer"]


def test_a_wake_up_ends_the_wait(feature: Feature) -> None:
    feature.loop.start()
    assert (feature.taken(), feature.waits()) == (1, 5.0)
    feature.loop.wake()
    assert (feature.taken(), feature.waits()) == (2, 5.0)


def test_a_wake_up_during_a_turn_is_not_lost(feature: Feature) -> None:
    """What the turn had looked at already may be what has changed."""
    feature.during = feature.loop.wake
    feature.loop.start()
    assert (feature.taken(), feature.taken()) == (1, 2)
    assert (feature.waits(), feature.waits()) == (5.0, 5.0)
    assert feature.turns.empty()


def test_a_wake_up_as_the_wait_ends_by_itself_is_followed_by_a_turn(feature: Feature) -> None:
    feature.loop.start()
    assert (feature.taken(), feature.waits()) == (1, 5.0)
    feature.clock.pass_()
    feature.loop.wake()
    # One turn that began after it, or one that it interrupted and another one.
    assert feature.taken() == 2
    assert feature.waits() == 5.0


def test_its_end_interrupts_the_wait_and_is_finished_by_its_own_thread(feature: Feature) -> None:
    feature.loop.start()
    assert (feature.taken(), feature.waits()) == (1, 5.0)
    feature.loop.stop()
    assert not feature.loop.is_alive
    assert feature.finished.get_nowait() == "a-feature"
    assert feature.turns.empty()
    feature.loop.start()
    assert not feature.loop.is_alive


def test_an_end_during_a_turn_is_the_end(feature: Feature) -> None:
    feature.during = feature.loop.end
    feature.loop.start()
    assert feature.taken() == 1
    assert feature.finished.get(timeout=SECONDS) == "a-feature"
    assert feature.turns.empty()


def test_after_its_end_it_does_not_start(feature: Feature) -> None:
    feature.loop.end()
    feature.loop.start()
    assert not feature.loop.has_begun
    assert feature.finished.empty()


def test_a_turn_that_hangs_delays_a_stop_only_for_a_while() -> None:
    hangs = threading.Event()
    loop = Loop(
        "hangs",
        lambda: wait_for(hangs.is_set, "the test is over"),
        every=lambda: 0.0,
        on_error=lambda error: None,
        stop_seconds=0.01,
    )
    loop.start()
    began = time.monotonic()
    loop.stop()
    assert loop.is_alive
    assert time.monotonic() - began < SECONDS / 2
    assert loop.over.is_set()
    hangs.set()


def test_an_error_of_the_last_word_is_given_away_as_well() -> None:
    errors: Queue[str] = Queue()

    def fail() -> None:
        raise ValueError("cannot be closed")

    loop = Loop(
        "fails",
        lambda: None,
        every=lambda: SECONDS,
        on_error=lambda error: errors.put(str(error)),
        finish=fail,
    )
    loop.start()
    loop.stop()
    assert errors.get(timeout=SECONDS) == "cannot be closed"
