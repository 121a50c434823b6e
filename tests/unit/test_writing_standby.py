"""A standby waits while the writer shows life, and no longer than that one's lease."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.model.errors import HeldError
from aggregator.model.events import Event
from aggregator.plan.lease import Life, Sighting, Turn, plan_turn
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.lease import standby
from aggregator.store.lease.lock import WriterLock, record_of
from aggregator.store.lease.owner import Owner
from aggregator.store.lease.standby import Standby
from aggregator.store.lease.takeover import StoppedEarlyError
from support.reading import wait_for

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
)
SECONDS = 60.0
"""Within which it has its turn, on a machine that may be busy."""
SIGHT = Sighting(Life.RUNS, still=0.0, lease=10.0, claimed=True, slow=30.0)
"""A writer that runs, and whose lease lasts ten seconds."""


@pytest.mark.parametrize(
    ("writer", "turn"),
    [
        (None, Turn.FREE),
        (replace(SIGHT, life=Life.GONE), Turn.FREE),
        (SIGHT, Turn.WAIT),
        (replace(SIGHT, still=9.9), Turn.WAIT),
        (replace(SIGHT, still=10.0), Turn.OVERDUE),
        (replace(SIGHT, still=9.9, life=Life.FROZEN), Turn.WAIT),
        (replace(SIGHT, still=10.0, life=Life.UNKNOWN), Turn.OVERDUE),
        (replace(SIGHT, still=10.0, claimed=False), Turn.WAIT),
        (replace(SIGHT, still=40.0, claimed=False), Turn.OVERDUE),
    ],
)
def test_a_turn_comes_when_no_one_writes_or_the_writer_is_silent_for_its_lease(
    writer: Sighting | None, turn: Turn
) -> None:
    assert plan_turn(writer) is turn


class Waiting:
    """A standby in a thread of its own, and what it says."""

    def __init__(self, path: str, pool: ThreadPoolExecutor, stop: threading.Event) -> None:
        self.stop = stop
        self.said: list[str] = []
        self.events: list[Event] = []
        config: Config = load_text("", [*SETS, f"checkpoint.path={path}"])
        self.follows = 0
        self.standby = Standby(
            config, self.events.append, self.stop, self.said.append, self._follow
        )
        self._pool = pool

    def _follow(self) -> None:
        self.follows += 1

    def wait(self) -> Future[str]:
        """What its wait returns: the record of the writer that has to be ended."""
        return self._pool.submit(self.standby.wait)

    def waits(self) -> None:
        """Return when it has said that it waits."""
        wait_for(lambda: self.said, "it waits")


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    monkeypatch.setattr(standby, "LOCAL_POLL_SECONDS", 0.02)
    monkeypatch.setattr(standby, "STORE_POLL_SECONDS", 0.02)
    monkeypatch.setattr(standby, "AGAIN_SECONDS", 0.02)
    with ThreadPoolExecutor(1) as pool:
        found = Waiting(str(tmp_path), pool, threading.Event())
        yield found
        found.stop.set()


def test_where_no_one_writes_it_starts_at_once_without_a_word(waiting: Waiting) -> None:
    assert waiting.wait().result(SECONDS) == ""
    assert (waiting.said, waiting.events) == ([], [])


def test_a_writer_that_ends_cleanly_is_followed(waiting: Waiting, tmp_path: Path) -> None:
    lock = WriterLock.acquire(str(tmp_path), Owner(lease=60))
    turn = waiting.wait()
    waiting.waits()
    assert waiting.said == [f"is on standby: {lock.owner} writes"]
    assert not turn.done()
    lock.release(ended=True)
    assert turn.result(SECONDS) == ""
    assert [it.kind for it in waiting.events] == ["standing_by", "standing_in"]


def test_one_that_renews_nothing_for_its_lease_has_to_be_ended(
    waiting: Waiting, tmp_path: Path
) -> None:
    with WriterLock.acquire(str(tmp_path), Owner(lease=0.3)) as lock:
        lock.renew()
        assert waiting.wait().result(SECONDS) == record_of(str(tmp_path))
    assert waiting.events[-1].message == f"{lock.owner}: {Turn.OVERDUE.value}"


class Clock:
    """A clock that does not move until a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_one_that_keeps_renewing_is_waited_for_as_long_as_it_does(
    waiting: Waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By a clock of its own: a machine that is busy may stand still for longer than any short lease.
    clock, looks = Clock(), 0

    def looked(path: str) -> str:
        nonlocal looks
        looks += 1
        return record_of(path)

    def looks_again() -> None:
        """Return when a whole look lies between: of three that begin, the second."""
        least = looks + 3
        wait_for(lambda: looks >= least, "it looks again", SECONDS)

    monkeypatch.setattr(standby, "time", clock)
    monkeypatch.setattr(standby, "record_of", looked)
    with WriterLock.acquire(str(tmp_path), Owner(lease=10.0)) as lock:
        lock.renew()
        turn = waiting.wait()
        for _ in range(3):
            looks_again()
            clock.now += 9.0
            looks_again()
            lock.renew()
        assert not turn.done()
    assert turn.result(SECONDS) == ""


def test_it_stops_when_it_is_asked_to(waiting: Waiting, tmp_path: Path) -> None:
    with WriterLock.acquire(str(tmp_path), Owner(lease=60)):
        turn = waiting.wait()
        waiting.waits()
        waiting.stop.set()
        with pytest.raises(StoppedEarlyError):
            turn.result(SECONDS)


def test_when_another_one_was_quicker_it_is_shown_to_wait_again(waiting: Waiting) -> None:
    for _ in range(2):
        waiting.standby.again(HeldError("it is held"))
    # Each time: in between it was shown to start. The log has it once.
    assert waiting.said == ["is on standby: it is held"] * 2
    assert [it.kind for it in waiting.events] == ["standing_by"]


def test_it_follows_what_it_would_run_by(
    waiting: Waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "FOLLOW_SECONDS", 0.05)
    with WriterLock.acquire(str(tmp_path), Owner(lease=60)):
        turn = waiting.wait()
        wait_for(lambda: waiting.follows > 1, "it follows")
    assert turn.result(SECONDS) == ""


def test_on_an_object_store_the_lease_is_left_to_the_start(
    waiting: Waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "has_lock", lambda path: False)
    store = Waiting(str(tmp_path), waiting._pool, waiting.stop)
    table = CheckpointTable.create(str(tmp_path))
    owner = replace(Owner(lease=0.4), host="another", boot="other", processes="pid:[1]")
    table.claim_epoch(str(owner), owner.to_json())
    assert store.wait().result(SECONDS) == ""
    assert store.said == [f"is on standby: {owner} writes"]
    assert store.events[-1].kind == "standing_in"


def test_a_store_that_cannot_be_read_is_no_silence_of_its_writer(
    waiting: Waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "has_lock", lambda path: False)
    store = Waiting(str(tmp_path), waiting._pool, waiting.stop)
    log = tmp_path / "checkpoints" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("no JSON")
    turn = store.wait()
    wait_for(lambda: store.said, "it says so")
    assert str(tmp_path) in store.said[0]
    store.stop.set()
    with pytest.raises(StoppedEarlyError):
        turn.result(SECONDS)
