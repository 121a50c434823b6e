"""The writer of a moment: it leaves what it found of an earlier one, and nothing of its own."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.model.errors import CheckpointConflictError, CheckpointError, RefusedError
from aggregator.model.events import Event
from aggregator.plan.lease import EXECUTOR_SECONDS, Locality, locality_of
from aggregator.store.lease import lock as locks
from aggregator.store.lease import owner as owners
from aggregator.store.lease.lock import LOCK, WriterLock, holder_of, record_of
from aggregator.store.lease.owner import Owner, here
from aggregator.store.lease.process import started_of
from aggregator.store.lease.writer import MARGIN_SECONDS, Writer, delivery_seconds, lost_seconds

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_text("", [*SETS, f"checkpoint.path={tmp_path}"])


def write(config: Config, failure: Exception | None = None) -> int:
    """Take the checkpoint for a moment, without a session; returns its epoch."""
    events: list[Event] = []
    with Writer.take(config, take_over=False, emit=events.append, stop=threading.Event()) as writer:
        if failure is not None:
            raise failure
        epoch = writer.claim().epoch
        writer.release()
    return epoch


def crashed(config: Config, jvm: int) -> Owner:
    """The record of a writer whose process is gone, and of a JVM that may be there yet."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    owner = replace(Owner(), pid=gone.pid, started=1, jvm=jvm, jvm_started=started_of(jvm))
    lock = WriterLock.acquire(config.checkpoint.path, owner)
    lock.release(ended=False)
    return owner


def test_it_leaves_nothing_of_its_own(config: Config) -> None:
    assert [write(config), write(config)] == [1, 2]
    assert holder_of(config.checkpoint.path) is None


def test_what_an_earlier_one_left_is_still_passed_to_the_next(config: Config) -> None:
    earlier = crashed(config, os.getpid())
    write(config)
    left = holder_of(config.checkpoint.path)
    assert left is not None
    assert (left.pid, left.jvm, left.jvm_started) == (
        earlier.pid,
        earlier.jvm,
        earlier.jvm_started,
    )


def test_one_that_fails_before_it_writes_leaves_no_trace(config: Config) -> None:
    with pytest.raises(RefusedError):
        write(config, RefusedError(["no"]))
    assert holder_of(config.checkpoint.path) is None
    earlier = crashed(config, os.getpid())
    with pytest.raises(RefusedError):
        write(config, RefusedError(["no"]))
    left = holder_of(config.checkpoint.path)
    assert left is not None
    assert left.pid == earlier.pid


def test_beside_another_one_it_is_refused(config: Config) -> None:
    with (
        WriterLock.acquire(config.checkpoint.path),
        pytest.raises(CheckpointConflictError, match="another aggregator runs on it"),
    ):
        write(config)


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_on_a_full_disk_the_record_of_the_one_before_stays(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = crashed(config, os.getpid())
    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", full)
        with pytest.raises(CheckpointError, match="No space left"):
            WriterLock.acquire(config.checkpoint.path)
        left = holder_of(config.checkpoint.path)
        assert left is not None and left.pid == earlier.pid
    # What is noted later, too, is an error with words.
    with WriterLock.acquire(config.checkpoint.path) as lock, monkeypatch.context() as patch:
        patch.setattr("os.pwrite", full)
        with pytest.raises(CheckpointError, match="No space left"):
            lock.note(Owner())
        assert lock.owner.jvm == earlier.jvm


def test_a_longer_record_of_another_version_is_replaced_as_a_whole(config: Config) -> None:
    path = config.checkpoint.path
    WriterLock.acquire(path).release(ended=True)
    (Path(path) / LOCK).write_text(Owner(host="h" * 5000).to_json())
    with WriterLock.acquire(path) as lock:
        assert lock.earlier is not None and len(record_of(path)) == 1024


def test_a_command_that_looks_whether_it_is_held_refuses_no_start(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long a glance takes is for the machine to say, which may be busy.
    monkeypatch.setattr(locks, "GLANCE_SECONDS", 30.0)
    path = config.checkpoint.path
    WriterLock.acquire(path).release(ended=True)
    with (Path(path) / LOCK).open() as glance:
        fcntl.flock(glance, fcntl.LOCK_SH)
        over = threading.Timer(0.05, fcntl.flock, (glance, fcntl.LOCK_UN))
        over.start()
        WriterLock.acquire(path).release()
        over.join()


def test_where_no_boot_id_can_be_read_the_process_of_another_container_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A StatefulSet's pod has one name and one process id on every node."""
    monkeypatch.setattr(owners, "BOOT_ID", tmp_path / "none")
    places = []
    for _ in range(2):
        here.cache_clear()
        places.append(here())
    here.cache_clear()
    one, other = places
    assert one.host == other.host
    assert locality_of(one, other) is Locality.ELSEWHERE
    assert locality_of(one, one) is Locality.PROCESSES


def test_an_executor_that_is_not_heard_of_is_waited_for_as_long_as_it_could_deliver() -> None:
    def config(*sets: str) -> Config:
        source = ("sources.eu.bootstrap_servers=b:1", "sources.eu.topics.include=x")
        return load_text("", ["hub.bootstrap_servers=a:1", *source, *sets])

    given = config("checkpoint.lease=30s", "hub.producer.delivery.timeout.ms=8000")
    assert (delivery_seconds(given), delivery_seconds(config())) == (8.0, 120.0)
    # Not for its lease: what it may send after an answer is less than any.
    assert lost_seconds(given) == EXECUTOR_SECONDS + 8.0 + MARGIN_SECONDS
