"""The lease of a writer: renewed by its lock or its table, and fenced when another one writes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.config.schema import CheckpointConfig
from aggregator.model.errors import CheckpointConflictError, HeldError
from aggregator.plan.lease import EXECUTORS_QUIET_SECONDS, Life, Moment, RenewalOutcome
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.lease import process
from aggregator.store.lease.conflict import now
from aggregator.store.lease.lease import NEVER_AGAIN, Lease, LockTitle, TableTitle
from aggregator.store.lease.lock import (
    LOCK,
    WriterLock,
    alone,
    for_the_next,
    holder_of,
    lift,
    record_of,
    refuse_if_held,
    refuse_if_locked,
)
from aggregator.store.lease.owner import Owner
from support.reading import wait_for

LEASE = 30.0


class Clocks:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.moment = now()

    def __call__(self) -> Moment:
        return self.moment

    def forward(self, seconds: float) -> None:
        """As when the process was frozen."""
        self.moment = Moment(self.moment.steady + seconds, self.moment.wall + seconds)

    def ms(self, seconds: float) -> int:
        """The wall's time `seconds` from now, in the form that the JVM gets."""
        return round((self.moment.wall + seconds) * 1000)


class Kept:
    """A lease under test, with what it gave to the JVM and to the log."""

    def __init__(self, title: LockTitle | TableTitle, guarded: bool = True) -> None:
        self.clocks = Clocks()
        self.untils: list[int] = []
        self.lefts: list[int] = []
        self.logged: list[str] = []
        self.lease = Lease(title, LEASE, lambda kind, _: self.logged.append(kind), self.clocks)
        if guarded:
            self.lease.guard(self._take)

    def _take(self, until: int, left: int) -> None:
        self.untils.append(until)
        self.lefts.append(left)


def local(path: Path) -> tuple[WriterLock, CheckpointTable]:
    lock = WriterLock.acquire(str(path))
    table = CheckpointTable.create(str(path))
    table.claim_epoch("first", lock.owner.to_json())
    return lock, table


def remote(path: Path, monkeypatch: pytest.MonkeyPatch, clocks: Clocks) -> CheckpointTable:
    """A table whose commits are dated by the test's clock."""
    monkeypatch.setattr("aggregator.store.checkpoint.checkpoint_table.now", clocks)
    table = CheckpointTable.create(str(path))
    table.claim_epoch("first", Owner(host="first").to_json())
    return table


def test_a_lock_that_is_held_is_renewed_however_late(tmp_path: Path) -> None:
    lock, table = local(tmp_path)
    with lock:
        kept = Kept(LockTitle(lock, table))
        assert kept.untils == [kept.clocks.ms(0.9 * LEASE)]
        before = record_of(str(tmp_path))
        kept.clocks.forward(9)
        kept.lease.tick()
        assert (len(kept.untils), record_of(str(tmp_path))) == (1, before)
        kept.clocks.forward(1)
        kept.lease.tick()
        assert kept.untils[1:] == [kept.clocks.ms(0.9 * LEASE)]
        assert record_of(str(tmp_path)) != before
        assert holder_of(str(tmp_path)) == lock.owner
        assert kept.logged == []
        # Frozen for an hour: no one can have had the lock meanwhile.
        kept.clocks.forward(3_600)
        kept.lease.tick()
        assert kept.untils[2:] == [kept.clocks.ms(0.9 * LEASE)]
        assert kept.logged == ["lease_over", "lease_renewed"]
        assert kept.lease.error is None


def test_a_clock_that_is_set_back_makes_no_lease_longer(tmp_path: Path) -> None:
    """The JVM also gets what is left by the clock that only moves forward."""
    lock, table = local(tmp_path)
    with lock:
        kept = Kept(LockTitle(lock, table))
        assert kept.lefts == [round(900 * LEASE)]
        kept.clocks.forward(LEASE / 2)
        kept.clocks.moment = replace(kept.clocks.moment, wall=kept.clocks.moment.wall - 3_600)
        with kept.lease._lock:
            kept.lease._inform_jvm()
        assert kept.lefts[-1] == round(400 * LEASE)


def test_a_lock_that_was_lifted_fences(tmp_path: Path) -> None:
    lock, table = local(tmp_path)
    kept = Kept(LockTitle(lock, table))
    lift(str(tmp_path))
    with WriterLock.acquire(str(tmp_path)):
        assert lock.renew() is RenewalOutcome.REFUSED
        kept.lease.tick()
        assert isinstance(kept.lease.error, CheckpointConflictError)
        assert "fenced: its lock file was taken out of its place" in str(kept.lease.error)
        assert kept.untils[-1] == NEVER_AGAIN
        lock.release()
        # What the newer one has written is not touched by the older one's end.
        assert holder_of(str(tmp_path)) is not None


def test_a_lock_is_renewed_on_a_full_disk_and_not_on_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WriterLock.acquire(str(tmp_path)) as lock:
        for number, tried in (
            (28, RenewalOutcome.RENEWED),
            (30, RenewalOutcome.RENEWED),
            (5, RenewalOutcome.FAILED),
        ):

            def fails(*_: object, number: int = number) -> int:
                raise OSError(number, os.strerror(number))

            monkeypatch.setattr("os.pwrite", fails)
            assert lock.renew() is tried


def test_commits_renew_the_lease_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks()
    table = remote(tmp_path, monkeypatch, clocks)
    kept = Kept(TableTitle(table))
    kept.clocks.moment = clocks.moment
    clocks.forward(20)
    kept.clocks.forward(20)
    table.renew()
    version = table.version
    kept.clocks.forward(9)
    kept.lease.tick()
    assert (table.version, kept.untils[-1]) == (version, clocks.ms(0.9 * LEASE))
    # An idle writer commits an empty one, which holds no rows and no file.
    clocks.forward(10)
    kept.clocks.forward(1)
    files = len(table.delta.file_uris())
    kept.lease.tick()
    assert (table.version, len(table.delta.file_uris())) == (version + 1, files)
    assert table.load().seq == 1


def test_who_wakes_after_another_has_claimed_the_epoch_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = remote(tmp_path, monkeypatch, Clocks())
    kept = Kept(TableTitle(table))
    other = CheckpointTable.create(str(tmp_path))
    other.claim_epoch("second", Owner(host="second", pid=7, since="later").to_json())
    kept.clocks.forward(60)
    kept.lease.tick()
    assert isinstance(kept.lease.error, CheckpointConflictError)
    assert "fenced: " in str(kept.lease.error)
    assert "(host second, pid 7, since later)" in str(kept.lease.error)
    assert kept.untils[-1] == NEVER_AGAIN
    before = len(kept.untils)
    kept.clocks.forward(60)
    kept.lease.tick()
    assert len(kept.untils) == before


def test_a_commit_that_is_refused_fences_at_once(tmp_path: Path) -> None:
    """The observer may find out first: then nothing is sent any more, whatever the lease says."""
    lock, table = local(tmp_path)
    with lock:
        kept = Kept(LockTitle(lock, table))
        CheckpointTable.create(str(tmp_path)).claim_epoch("second")
        with pytest.raises(CheckpointConflictError, match="fenced: expected version 1"):
            table.renew()
        kept.lease.tick()
        assert kept.lease.error is table.refused
        assert kept.untils[-1] == NEVER_AGAIN


@pytest.mark.parametrize("guarded", [True, False])
def test_a_place_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """Sends wait in the JVM, or, where producers are on executors, the writer ends."""
    clocks = Clocks()
    table = remote(tmp_path, monkeypatch, clocks)
    kept = Kept(TableTitle(table), guarded)
    log = tmp_path / "checkpoints" / "_delta_log"
    log.rename(tmp_path / "away")
    (tmp_path / "checkpoints").chmod(0o500)
    log.write_text("no folder")
    kept.clocks.forward(20)
    kept.lease.tick()
    assert kept.lease.error is None
    kept.clocks.forward(7)
    kept.lease.tick()
    if not guarded:
        assert "fenced: the lease (checkpoint.lease) is 27 s old" in str(kept.lease.error)
        return
    assert (kept.lease.error, kept.logged) == (None, ["lease_over"])
    assert len(kept.untils) == 1
    log.unlink()
    (tmp_path / "away").rename(log)
    kept.clocks.forward(2)
    clocks.moment = kept.clocks.moment
    kept.lease.tick()
    assert (kept.lease.error, kept.logged) == (None, ["lease_over", "lease_renewed"])
    assert kept.untils[1:] == [kept.clocks.ms(0.9 * LEASE)]


def test_the_thread_renews_by_itself(tmp_path: Path) -> None:
    lock, table = local(tmp_path)
    with lock:
        lease = Lease(LockTitle(lock, table), 0.3, lambda *_: None)
        lease.start()
        try:
            before = record_of(str(tmp_path))
            deadline = time.monotonic() + 30
            while record_of(str(tmp_path)) == before:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            lease.stop()


# --- who holds it ---------------------------------------------------------------------------


def test_a_table_names_its_holder_until_it_is_released(tmp_path: Path) -> None:
    table = CheckpointTable.create(str(tmp_path))
    assert table.holder() == ""
    owner = Owner(lease=30.0, quiet=150.0)
    table.claim_epoch(str(owner), owner.to_json())
    other = CheckpointTable.open(str(tmp_path))
    assert other is not None
    assert Owner.from_json(other.holder()) == owner
    table.renew()
    assert Owner.from_json(other.holder()) == owner
    table.release()
    assert other.holder() == ""


def test_a_clean_end_leaves_no_holder_and_another_end_does(tmp_path: Path) -> None:
    lock = WriterLock.acquire(str(tmp_path))
    lock.release(ended=False)
    again = WriterLock.acquire(str(tmp_path))
    assert again.earlier == lock.owner
    again.note(again.owner)
    again.release()
    with WriterLock.acquire(str(tmp_path)) as last:
        assert last.earlier is None


def test_what_has_to_be_waited_for_is_handed_on(tmp_path: Path) -> None:
    """A start that dies while it waits for an earlier writer leaves the rest to the next."""
    own = Owner(pid=2)
    near = Owner(pid=1, jvm=11, jvm_started=5, quiet=150.0, pending=20.0)
    assert own.following(None) == own
    assert own.following(near) == replace(own, pending=20.0, jvm=11, jvm_started=5)
    executors = replace(near, remote=True)
    assert own.following(executors).pending == 20.0
    assert own.following(replace(executors, pending=0.0)).pending == EXECUTORS_QUIET_SECONDS
    there = replace(own, host="there", boot="another", quiet=99.0)
    assert own.following(there).pending == 99.0
    # The id of a process in another table says nothing in ours.
    assert own.following(replace(near, processes="pid:[1]")).jvm == 0
    lock = WriterLock.acquire(str(tmp_path), there)
    lock.release(ended=False)
    # One that has looked at something only, and one that was killed while it waited.
    with WriterLock.acquire(str(tmp_path), own):
        pass
    assert holder_of(str(tmp_path)) == there
    WriterLock.acquire(str(tmp_path), own)._close()
    with WriterLock.acquire(str(tmp_path), Owner(pid=3)) as third:
        assert third.owner.pending == 99.0
        third.note(third.owner)
    assert holder_of(str(tmp_path)) is None


def test_what_is_no_record_names_no_one() -> None:
    for text in ("", "{", "[]", "7", '{"host": "x"}', '{"host": "x", "pid": 1, "since": '):
        assert Owner.from_json(text) is None
    # By an earlier version, and by a later one.
    old = Owner.from_json('{"host": "x", "pid": 1, "since": "y"}')
    assert old is not None
    assert (old.boot, old.started, str(old)) == ("", 0, "host x, pid 1, since y")
    assert Owner.from_json(Owner().to_json(later=1)) == Owner()


def test_a_held_lock_is_reported_without_taking_it(tmp_path: Path) -> None:
    place, said = CheckpointConfig(path=str(tmp_path)), list[str]()
    refuse_if_locked(place.path)
    with WriterLock.acquire(place.path) as lock:
        named = re.escape(f"another aggregator runs on it ({lock.owner})")
        with pytest.raises(HeldError, match=named):
            refuse_if_locked(place.path)
        with pytest.raises(HeldError, match=named):
            refuse_if_held(place, said.append)
        assert lock.is_ours
    with for_the_next(place, said.append):
        pass
    refuse_if_locked("s3://bucket/x")
    # One on another machine whose file system keeps no lock for it, and which renews its record.
    there = Owner("there", 7, "then", 1, "another boot", "pid:[1]", lease=5.0, api="off")
    record = tmp_path / LOCK
    record.write_text(there.to_json(renewals=1))
    with ThreadPoolExecutor(1) as pool:
        refused = pool.submit(refuse_if_held, place, said.append)
        wait_for(lambda: said, "it waits")
        record.write_text(there.to_json(renewals=2))
        with pytest.raises(HeldError, match=r"has no API \(api.listen: off\), so stop it first"):
            refused.result()
    assert said == [f"{there} left no end mark: waiting 5 s for a sign of life"]
    # And when it is silent for its lease.
    record.write_text(replace(there, lease=0.1).to_json(renewals=3))
    with for_the_next(place, said.append):
        pass


def test_one_that_begins_while_something_is_noted_may_not_have_read_it(tmp_path: Path) -> None:
    place = CheckpointConfig(path=str(tmp_path))
    with (
        ExitStack() as ends,
        pytest.raises(HeldError, match=r"began at the same moment .*give the command again"),
        for_the_next(place, print),
    ):
        ends.enter_context(WriterLock.acquire(place.path))


def test_only_one_takes_over_at_a_time(tmp_path: Path) -> None:
    with alone(str(tmp_path)) as first, alone(str(tmp_path)) as second:
        assert (first, second) == (True, False)
    with alone(str(tmp_path)) as third:
        assert third


# --- processes ------------------------------------------------------------------------------


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not listen to SIGTERM."""
    code = "import signal, time; signal.signal(15, 1); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        try:
            yield running
        finally:
            running.kill()


def test_a_process_is_known_by_its_id_and_its_start(child: subprocess.Popen[bytes]) -> None:
    started = process.started_of(child.pid)
    assert started
    assert process.life_of(child.pid, started) is Life.RUNS
    # An id that was given again: what has it now is never hit.
    assert process.life_of(child.pid, started - 1) is Life.GONE
    process.ask(child.pid, started - 1)
    assert process.kill(child.pid, started - 1)
    assert process.life_of(child.pid, 0) is Life.UNKNOWN
    assert process.life_of(child.pid, started) is Life.RUNS
    child.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while process.life_of(child.pid, started) is not Life.FROZEN:
        assert time.monotonic() < deadline
    assert not process.wait_gone(child.pid, started, 60)
    assert process.kill(child.pid, started)
    # Dead, and not yet collected by its parent.
    assert process.life_of(child.pid, started) is Life.GONE
    assert process.started_of(0) == 0


def test_who_does_not_listen_is_waited_for_and_then_killed(
    child: subprocess.Popen[bytes],
) -> None:
    started = process.started_of(child.pid)
    process.ask(child.pid, started)
    assert not process.wait_gone(child.pid, started, 0.3)
    assert process.kill(child.pid, started)
    assert process.wait_gone(child.pid, started, 0.0)
    assert child.wait() == -signal.SIGKILL
