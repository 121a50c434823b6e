"""Maintenance, history and the lock: structure stays small, states stay the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from aggregator.model.errors import CheckpointConflictError, CheckpointError
from aggregator.model.values import Part, Positions, SourcePartition, TopicPartition
from aggregator.store import state_store
from aggregator.store.checkpoint import checkpoint_table as table_module
from aggregator.store.checkpoint import maintenance
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.history import history, state_at
from aggregator.store.checkpoint.maintenance import maintain
from aggregator.store.checkpoint.rows import EPOCH, Checkpoint
from aggregator.store.controls import TABLE as CONTROLS
from aggregator.store.controls import ControlRow, Controls
from aggregator.store.lease.lock import WriterLock, holder_of
from aggregator.store.lease.owner import Owner
from aggregator.store.state_store import StateStore

WEEK = 7 * 86_400.0


class Clock:
    """Milliseconds that pass only when a test adds them."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


def commit(at: int, lane: str = "eu") -> Checkpoint:
    return Checkpoint(
        lane=lane,
        generation=1,
        batch=at,
        positions=Positions({SourcePartition(lane, "orders", p): at for p in range(12)}),
        hub_ends={TopicPartition("orders", p): at * 10 for p in range(4)},
        snapshot_at_ms=1_700_000_000_000 + at,
    )


def writer(path: Path, clock: Clock | None = None) -> CheckpointTable:
    table = CheckpointTable.create(str(path))
    if clock is not None:
        table._clock_ms = clock
    table.claim_epoch("here")
    return table


def reopened(path: Path) -> CheckpointTable:
    table = CheckpointTable.open(str(path))
    assert table is not None
    return table


# Three hundred commits, each on the disk.
@pytest.mark.slow
def test_many_commits_leave_few_files_and_a_short_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "MAINTAIN_EVERY", 50)
    monkeypatch.setitem(
        table_module.CONFIGURATION, "delta.logRetentionDuration", "interval 0 seconds"
    )
    clock = Clock()
    table = writer(tmp_path, clock)
    calls = 0
    for at in range(1, 301):
        table.append(commit(at, ("eu", "us")[at % 2]))
        clock.now += 10_000
        if table.maintenance_due:
            calls += 1
            state = table.load()
            done = maintain(table, WEEK, clock.now, keep_hours=0)
            assert done.files_after == 1
            assert done.rows_deleted == 0
            assert table.load() == state
            assert reopened(tmp_path).load() == state
    assert calls == 6
    folder = tmp_path / "checkpoints"
    assert len(table.delta.file_uris()) <= 51
    assert len(list(folder.glob("*.parquet"))) <= 101
    assert len(list((folder / "_delta_log").iterdir())) <= 120
    assert reopened(tmp_path).load() == table.load()
    assert set(table.load().positions.values()) == {299, 300}


@pytest.mark.slow
def test_expired_rows_go_and_the_state_at_the_cutoff_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "FULL_EVERY", 10)
    clock = Clock()
    table = writer(tmp_path, clock)
    table.append(commit(1, "gone"))
    for at in range(2, 61):
        clock.now += 60_000
        table.append(commit(at))
    cutoff = clock.now - 1800_000
    at_cutoff = state_at(str(tmp_path), at_ms=cutoff)
    newest = table.load()
    done = maintain(table, 1800, clock.now)
    assert done.rows_deleted > 0
    assert table.load() == newest == reopened(tmp_path).load()
    assert state_at(str(tmp_path), at_ms=cutoff) == at_cutoff
    assert newest.positions[SourcePartition("gone", "orders", 0)] == 1
    kept = [item.seq for item in history(str(tmp_path), limit=1000)]
    # Full commits are 1, 11, 21, 31; 31 is as old as the cutoff, so 21 is the last one before it.
    assert kept == list(range(61, 20, -1))
    with pytest.raises(CheckpointError, match="nothing that old"):
        state_at(str(tmp_path), at_ms=1_700_000_000_000)
    # Again at the same time: nothing is left to delete.
    assert maintain(table, 1800, clock.now).rows_deleted == 0
    table.append(commit(100))
    assert reopened(tmp_path).load() == table.load()


def test_maintenance_keeps_the_compare_and_set(tmp_path: Path) -> None:
    first = writer(tmp_path)
    first.append(commit(1))
    maintain(first, WEEK, first._clock_ms())
    first.append(commit(2))
    second = reopened(tmp_path)
    second.claim_epoch("there")
    with pytest.raises(CheckpointConflictError, match="Another aggregator"):
        maintain(first, WEEK, first._clock_ms())
    with pytest.raises(CheckpointConflictError, match="Another aggregator"):
        first.append(commit(3))
    second.append(commit(4))
    maintain(second, WEEK, second._clock_ms())
    with pytest.raises(CheckpointConflictError, match="Another aggregator"):
        first.append(commit(5))
    assert set(reopened(tmp_path).load().positions.values()) == {4}


def test_a_commit_that_comes_during_maintenance_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta-rs rebases a compaction onto foreign commits; the writer must not follow it."""
    first = writer(tmp_path)
    first.append(commit(1))
    first.append(commit(2))
    handle = first.handle_for_maintenance()
    second = reopened(tmp_path)
    second.claim_epoch("there")
    second.append(commit(3))
    # The moment between the check and the first step.
    monkeypatch.setattr(first, "handle_for_maintenance", lambda: handle)
    known = first.version
    with pytest.raises(CheckpointConflictError, match="Another aggregator"):
        maintain(first, WEEK, first._clock_ms())
    assert first.version == known
    assert handle.version() > known
    with pytest.raises(CheckpointConflictError, match="Another aggregator"):
        first.append(commit(4))
    assert set(reopened(tmp_path).load().positions.values()) == {3}


def broken_disk(path: str, version: int) -> None:
    raise CheckpointError(f"input/output error at {path}, version {version}")


@pytest.mark.parametrize("is_next", [False, True], ids=["append", "maintain"])
def test_what_a_maintenance_that_failed_has_committed_is_of_no_other_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_next: bool
) -> None:
    table = writer(tmp_path)
    for at in (1, 2):
        table.append(commit(at))
    known, state = table.version, table.load()
    with monkeypatch.context() as patched:
        patched.setattr(maintenance, "make_durable", broken_disk)
        with pytest.raises(CheckpointError, match="input/output"):
            maintain(table, WEEK, table._clock_ms())
    # The files are merged, which the writer does not know.
    assert table.version == known < reopened(tmp_path).version
    assert reopened(tmp_path).load() == state
    if is_next:
        maintain(table, WEEK, table._clock_ms())
    table.append(commit(3))
    assert table.refused is None
    assert set(table.load().positions.values()) == {3}
    assert reopened(tmp_path).load() == table.load()


def test_behind_a_maintenance_that_failed_another_writer_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = writer(tmp_path)
    first.append(commit(1))
    with monkeypatch.context() as patched:
        patched.setattr(maintenance, "make_durable", broken_disk)
        with pytest.raises(CheckpointError, match="input/output"):
            maintain(first, WEEK, first._clock_ms())
    reopened(tmp_path).claim_epoch("there")
    with pytest.raises(CheckpointConflictError, match="Another aggregator"):
        first.append(commit(2))
    with pytest.raises(CheckpointConflictError, match="Another aggregator"):
        maintain(first, WEEK, first._clock_ms())


def test_maintaining_an_empty_table_does_no_harm(tmp_path: Path) -> None:
    table = CheckpointTable.create(str(tmp_path))
    assert maintain(table, WEEK, 1_700_000_000_000).rows_deleted == 0
    table.claim_epoch("x")
    assert reopened(tmp_path).load().epoch == 1


def test_history_lists_each_commit_newest_first(tmp_path: Path) -> None:
    clock = Clock()
    table = writer(tmp_path, clock)
    clock.now += 5
    table.append(commit(1))
    clock.now += 5
    table.append(commit(2, "us"))
    found = history(str(tmp_path))
    assert [(item.seq, item.lane, item.positions, item.rows) for item in found] == [
        (3, "us", 12, 16),
        (2, "eu", 12, 16),
        (1, "here", 0, 1),
    ]
    assert [item.committed_at_ms - 1_700_000_000_000 for item in found] == [10, 5, 0]
    assert found[-1].kind == EPOCH
    assert [item.seq for item in history(str(tmp_path), limit=1)] == [3]
    assert history(str(tmp_path / "none")) == []


def test_the_state_at_a_commit_or_a_moment(tmp_path: Path) -> None:
    clock = Clock()
    table = writer(tmp_path, clock)
    states = [table.load()]
    for at in range(1, 5):
        clock.now += 1000
        table.append(commit(at, ("eu", "us")[at % 2]))
        states.append(table.load())
    path = str(tmp_path)
    for index, state in enumerate(states):
        assert state_at(path, seq=index + 1) == state
        assert state_at(path, at_ms=1_700_000_000_000 + index * 1000 + 999) == state
    assert state_at(path) == states[-1]
    with pytest.raises(CheckpointError, match="nothing that old"):
        state_at(path, at_ms=1_699_999_999_999)
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        state_at(str(tmp_path / "none"))


# --- the lock -------------------------------------------------------------------------------

HOLDER = """
import sys
from aggregator.store.lease.lock import WriterLock
lock = WriterLock.acquire(sys.argv[1])
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_second_writer_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for _ in range(2):
            with pytest.raises(CheckpointConflictError) as caught:
                WriterLock.acquire(path)
            assert f"pid {holder.pid}, since 20" in str(caught.value)
            assert f"host {Owner().host}" in str(caught.value)
    finally:
        # The lock ends with its process, even by kill -9.
        holder.kill()
        holder.communicate(timeout=30)
    with WriterLock.acquire(path) as lock:
        assert json.loads((tmp_path / "state" / "lock").read_text())["pid"] == lock.owner.pid
        assert holder_of(path) == lock.owner


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    lock = WriterLock.acquire(str(tmp_path))
    with pytest.raises(CheckpointConflictError):
        WriterLock.acquire(str(tmp_path))
    lock.release()
    lock.release()
    WriterLock.acquire(f"file://{tmp_path}").release()


def test_an_object_store_has_no_lock(tmp_path: Path) -> None:
    with WriterLock.acquire("s3://bucket/state"), WriterLock.acquire("s3://bucket/state"):
        assert list(tmp_path.iterdir()) == []


def test_a_lock_where_nothing_can_be_written_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match=r"checkpoint\.path .*choose another one") as caught:
        WriterLock.acquire(str(tmp_path / "file"))
    assert not isinstance(caught.value, CheckpointConflictError)


class Disk:
    """What is forced to the disk, and when the old commits are deleted, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        force, cleanup = os.fsync, DeltaTable.cleanup_metadata

        def fsync(handle: int) -> None:
            force(handle)
            self.done.append(Path(f"/proc/self/fd/{handle}").readlink().name)

        def cleanup_metadata(table: DeltaTable) -> None:
            self.done.append("cleanup")
            cleanup(table)

        monkeypatch.setattr("os.fsync", fsync)
        monkeypatch.setattr(DeltaTable, "cleanup_metadata", cleanup_metadata)


def test_a_checkpoint_of_the_log_is_on_the_disk_before_the_commits_in_it_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = writer(tmp_path)
    table.append(commit(1))
    disk = Disk(monkeypatch)
    maintain(table, WEEK, 0)
    log = tmp_path / "checkpoints" / "_delta_log"
    (written,) = [file.name for file in log.glob("*.checkpoint.parquet")]
    assert disk.done[-4:] == [written, "_last_checkpoint", "_delta_log", "cleanup"]
    disk.done.clear()
    notes, row = (
        StateStore(str(tmp_path)).log(CONTROLS, ControlRow),
        ControlRow(datetime.now(UTC), "eu", paused=True),
    )
    notes.append([row])
    notes.table.trim(datetime.now(UTC))
    assert disk.done[-3:] == ["_last_checkpoint", "_delta_log", "cleanup"]


def test_all_that_is_paused_at_once_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    parts = [Part("eu", "orders", number) for number in range(3)]
    Controls(StateStore(str(tmp_path))).put_parts(parts, paused=True)
    log = tmp_path / CONTROLS / "_delta_log"
    assert {file.name for file in log.glob("*.json")} <= set(disk.done)
    assert {file.name for file in (tmp_path / CONTROLS).glob("*.parquet")} <= set(disk.done)
    assert set(Controls(StateStore(str(tmp_path))).read().parts) == set(parts)


@pytest.mark.parametrize("configured", [True, False], ids=["new", "of a version before"])
def test_the_log_of_a_table_of_notes_is_as_short_as_its_files_are_young(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    if not configured:
        monkeypatch.setattr(state_store, "CONFIGURATION", {})
    notes, row = (
        StateStore(str(tmp_path)).log(CONTROLS, ControlRow),
        ControlRow(datetime.now(UTC), "eu", paused=True),
    )
    for _ in range(8):
        notes.append([row])
    monkeypatch.undo()
    log = tmp_path / CONTROLS / "_delta_log"
    long_ago = time.time() - 2 * 3600
    for _ in range(2):
        for file in log.iterdir():
            os.utime(file, (long_ago, long_ago))
        notes.table.trim(datetime.now(UTC) - timedelta(1))
        notes.append([row])
    assert len(list(log.glob("*.json"))) < 8
    assert len(notes.items()) == 10
