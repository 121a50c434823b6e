"""What a start does about another writer: real processes that hold real locks, no Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.model.errors import CheckpointConflictError, HeldError
from aggregator.model.events import Event
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.lease import takeover
from aggregator.store.lease.lock import WriterLock, alone, holder_of, jvm_lock_file, record_of
from aggregator.store.lease.owner import Owner
from aggregator.store.lease.process import started_of
from aggregator.store.lease.takeover import StoppedEarlyError, TakeOver

# Child processes, and waits for what becomes of them.
pytestmark = pytest.mark.slow

HOLDER = """
import os, signal, sys, time
from dataclasses import replace
import aggregator.store.lease.owner as owner
from aggregator.store.lease.lock import WriterLock
from aggregator.plan.lease import ProcessPlace
path, mode, jvm, started = sys.argv[1:]
if mode == "elsewhere":
    owner.here = lambda: ProcessPlace("there", "another boot", "pid:[1]")
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = WriterLock.acquire(path, owner.Owner(quiet=77.0))
lock.note(replace(lock.owner, jvm=int(jvm), jvm_started=int(started)))
print(flush=True)
while True:
    time.sleep(0.05)
    if mode == "elsewhere":
        print(lock.renew().name, flush=True)
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(takeover, "ASK_MARGIN_SECONDS", 0.3)
    monkeypatch.setattr(takeover, "WATCH_SECONDS", 0.05)
    tree = {
        "hub": {"bootstrap_servers": "hub:9092"},
        "sources": {"eu": {"bootstrap_servers": "eu:9092", "topics": {"include": "orders"}}},
        "checkpoint": {"path": str(tmp_path / "state")},
        "supervision": {"stop_timeout": "100ms"},
        "stream": {"checkpoint_interval": "1s"},
    }
    return load_text(json.dumps(tree))


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def holder(config: Config, mode: str, jvm: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lock of the checkpoint, and says that `jvm` is its JVM."""
    arguments = (config.checkpoint.path, mode, str(jvm), str(started_of(jvm) if jvm else 0))
    with process(HOLDER, *arguments) as running:
        yield running


class Start:
    """A start with `--take-over`, and the kinds of its events."""

    def __init__(self, config: Config, stop: threading.Event | None = None) -> None:
        self.kinds: list[str] = []
        self.take_over = TakeOver(config, self._note, stop or threading.Event())

    def _note(self, event: Event) -> None:
        self.kinds.append(event.kind)

    def lock(self, silent: str = "") -> WriterLock:
        return self.take_over.lock(Owner(), silent)


def test_a_free_lock_is_just_taken(config: Config) -> None:
    start = Start(config)
    with start.lock() as lock:
        assert (lock.earlier, start.kinds) == (None, [])


def test_one_that_listens_is_asked(config: Config) -> None:
    start = Start(config)
    with holder(config, "polite") as running, start.lock() as lock:
        assert running.wait(30) == -signal.SIGTERM
        assert lock.earlier is not None
        assert lock.earlier.pid == running.pid
        assert start.kinds == ["taking_over"]


def test_one_that_was_found_silent_is_ended_and_no_other(config: Config) -> None:
    start = Start(config)
    with holder(config, "polite") as first:
        silent = record_of(config.checkpoint.path)
        with start.lock(silent):
            assert first.wait(30) == -signal.SIGTERM
    with holder(config, "polite") as quicker:
        with pytest.raises(HeldError, match=f"pid {quicker.pid},"):
            start.lock(silent)
        assert quicker.poll() is None
        # The same one, and it has shown that it is alive.
        with pytest.raises(HeldError):
            start.lock(record_of(config.checkpoint.path).replace('"renewals": 2', '"renewals": 1'))
        assert quicker.poll() is None


@pytest.mark.parametrize("frozen", [False, True])
def test_one_that_does_not_end_is_killed_with_its_jvm(config: Config, frozen: bool) -> None:
    start = Start(config)
    sleeper = "import time; print(flush=True); time.sleep(600)"
    with process(sleeper) as jvm, holder(config, "deaf", jvm.pid) as running:
        if frozen:
            running.send_signal(signal.SIGSTOP)
            jvm.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WNOWAIT)
        with start.lock():
            assert running.wait(30) == jvm.wait(30) == -signal.SIGKILL
    assert start.kinds == (["killing"] if frozen else ["taking_over", "killing"])


def test_one_elsewhere_is_overruled_and_notices(config: Config) -> None:
    start = Start(config)
    with holder(config, "elsewhere") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "RENEWED\n"
        jvm_lock = Path(jvm_lock_file(config.checkpoint.path))
        jvm_lock.touch()
        with start.lock() as lock:
            # What it may still deliver has to be waited for.
            assert lock.owner.pending == 77.0
            assert lock.is_ours
            assert start.kinds == ["taking_over"]
            assert not jvm_lock.exists()
            while (line := running.stdout.readline()) == "RENEWED\n":
                continue
            assert line == "REFUSED\n"
            assert holder_of(config.checkpoint.path) == lock.owner


def test_only_one_may_take_over(config: Config) -> None:
    with alone(config.checkpoint.path), pytest.raises(CheckpointConflictError, match="under way"):
        Start(config).lock()


def test_one_that_cannot_be_seen_is_not_ended(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where /proc hides what others run."""
    with holder(config, "polite") as running:
        monkeypatch.setattr("aggregator.store.lease.process._stat", lambda _: None)
        with pytest.raises(CheckpointConflictError, match="is not ours to end: stop it, or run"):
            Start(config).lock()
        assert running.poll() is None


def test_a_stop_ends_the_wait(config: Config) -> None:
    stop = threading.Event()
    stop.set()
    start = Start(config, stop)
    with holder(config, "deaf"), pytest.raises(StoppedEarlyError, match="nothing was written"):
        start.lock()


# --- without a lock -------------------------------------------------------------------------


@pytest.fixture
def table(config: Config) -> CheckpointTable:
    return CheckpointTable.create(config.checkpoint.path)


def elsewhere() -> Owner:
    return Owner(
        "there", 7, "then", 1, "another boot", "pid:[1]", lease=0.6, quiet=9.0, pending=3.0
    )


def lease(start: Start, table: CheckpointTable, *, take_over: bool) -> Owner:
    return start.take_over.lease(table, Owner(), take_over=take_over)


def claimed(table: CheckpointTable, owner: Owner) -> CheckpointTable:
    writer = CheckpointTable.create(table.path)
    writer.claim_epoch(str(owner), owner.to_json())
    return writer


def test_without_an_earlier_one_or_after_one_that_ended_nothing_is_waited_for(
    config: Config, table: CheckpointTable
) -> None:
    start = Start(config)
    assert lease(start, table, take_over=False).pending == 0.0
    claimed(table, elsewhere()).release()
    assert lease(start, table, take_over=False).pending == 0.0
    assert start.kinds == []


def test_one_that_left_no_word_is_waited_for(config: Config, table: CheckpointTable) -> None:
    claimed(table, elsewhere())
    start = Start(config)
    began = time.monotonic()
    owner = lease(start, table, take_over=False)
    waited = time.monotonic() - began
    assert waited >= 0.6
    assert 9.0 - waited <= owner.pending <= 9.0 - 0.6
    assert start.kinds == ["waiting"]


def test_one_that_renews_is_named(config: Config, table: CheckpointTable) -> None:
    writer = claimed(table, replace(elsewhere(), lease=60.0))
    over = threading.Event()

    def renewing() -> None:
        while not over.wait(0.1):
            writer.renew()

    thread = threading.Thread(target=renewing)
    thread.start()
    try:
        with pytest.raises(CheckpointConflictError, match=r"host there, pid 7, since then"):
            lease(Start(config), table, take_over=False)
    finally:
        over.set()
        thread.join()
    start = Start(config)
    assert lease(start, table, take_over=True).pending == 9.0
    assert start.kinds == ["taking_over"]


def test_one_on_this_machine_is_seen_without_waiting(
    config: Config, table: CheckpointTable
) -> None:
    sleeper = "import time; print(flush=True); time.sleep(600)"
    with process(sleeper) as running:
        claimed(table, Owner(pid=running.pid, started=started_of(running.pid), lease=60.0))
        with pytest.raises(CheckpointConflictError, match=f"pid {running.pid}"):
            lease(Start(config), table, take_over=False)
        assert lease(Start(config), table, take_over=True).pending == 0.0
        assert running.wait(30) == -signal.SIGTERM
    assert lease(Start(config), table, take_over=False).pending == 0.0
