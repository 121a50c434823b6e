"""The Delta table itself: compare-and-set, epochs, damage, errors; real tables on disk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyarrow.fs import LocalFileSystem

from aggregator.model.errors import CheckpointConflictError, CheckpointError
from aggregator.model.values import Positions, SourcePartition, TopicPartition
from aggregator.store.checkpoint import checkpoint_table as table_module
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable, Moments
from aggregator.store.checkpoint.maintenance import maintain
from aggregator.store.checkpoint.rows import HUB, Checkpoint, from_table
from aggregator.store.checkpoint.start_state import CheckpointState
from aggregator.store.delta import dataset, reason_of, table_uri, translated
from support.examples import examples
from support.hub_ends import hub_ends_for
from support.object_store import options_at


def commit(
    at: int, lane: str = "eu", *, clean: bool = False, full: bool = False, partitions: int = 3
) -> Checkpoint:
    return Checkpoint(
        lane=lane,
        generation=1,
        batch=at,
        positions=Positions({SourcePartition(lane, "orders", p): at for p in range(partitions)}),
        hub_ends={TopicPartition("orders", p): at * 10 for p in range(2)},
        snapshot_at_ms=1_700_000_000_000 + at,
        cluster_ids={lane: f"id-{lane}", HUB: "id-hub"},
        topic_ids={(lane, "orders"): "tid", (HUB, "orders"): "hub-tid"},
        log_ends={SourcePartition(lane, "orders", 0): at + 5},
        clean=clean,
        full=full,
    )


def writer(path: Path) -> CheckpointTable:
    table = CheckpointTable.create(str(path))
    table.claim_epoch("host here, pid 1, since now")
    return table


def loaded(path: Path) -> CheckpointState:
    table = CheckpointTable.open(str(path))
    assert table is not None
    return table.load()


def log_files(path: Path) -> list[Path]:
    return sorted((path / "checkpoints" / "_delta_log").glob("*.json"))


def test_several_in_one_commit_keep_their_own_bounds(tmp_path: Path) -> None:
    table = writer(tmp_path)
    table.append(commit(5, "eu"))
    done = table.append(commit(7, "us", clean=True), commit(8, "ap"))
    assert done.seq == table.load().seq == 3
    assert table.version == 3
    state = loaded(tmp_path)
    assert {(sp.cluster, entry.position, entry.seq) for sp, entry in state.entries.items()} == {
        ("eu", 5, 2),
        ("us", 7, 3),
        ("ap", 8, 3),
    }
    assert {sp.cluster for sp in state.unclean} == {"eu", "ap"}
    ends = {sp.cluster: entry.snapshot.hub_ends for sp, entry in state.entries.items()}
    assert ends["us"] == commit(7).hub_ends
    assert ends["ap"] == commit(8).hub_ends
    with pytest.raises(CheckpointError, match="without any position"):
        table.append(commit(9), commit(9, "us", partitions=0))


def test_nothing_there_is_none_and_create_makes_a_plain_table(tmp_path: Path) -> None:
    assert CheckpointTable.open(str(tmp_path / "state")) is None
    assert not (tmp_path / "state").exists()
    table = CheckpointTable.create(str(tmp_path / "state"))
    assert table.load() == CheckpointState()
    protocol = table.delta.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    again = CheckpointTable.create(str(tmp_path / "state"))
    assert again.version == 0


def test_what_is_appended_is_loaded(tmp_path: Path) -> None:
    table = writer(tmp_path)
    first = table.append(commit(1))
    second = table.append(commit(2, "us", clean=True))
    third = table.append(commit(3))
    assert [item.seq for item in (first, second, third)] == [2, 3, 4]
    state = loaded(tmp_path)
    assert state == table.load()
    assert set(state.positions.values()) == {2, 3}
    assert (state.seq, state.epoch) == (4, 1)
    assert state.unclean == {SourcePartition("eu", "orders", p) for p in range(3)}
    assert hub_ends_for(state) == {TopicPartition("orders", p): 20 for p in range(2)}
    assert state.cluster_ids == {"eu": "id-eu", "us": "id-us", HUB: "id-hub"}
    assert state.hub_ids["orders"] == "hub-tid"
    assert state.entries[SourcePartition("eu", "orders", 0)].log_end == 8
    assert state.entries[SourcePartition("eu", "orders", 1)].log_end is None


def test_one_append_is_one_version_with_its_numbers(tmp_path: Path) -> None:
    table = writer(tmp_path)
    before = table.version
    table.append(commit(1))
    assert table.version == before + 1
    info = DeltaTable(table_uri(str(tmp_path))).history(1)[0]
    assert (info["seq"], info["epoch"], info["lane"]) == ("2", "1", "eu")


def test_local_rows_are_read_without_python_in_pyarrows_threads(tmp_path: Path) -> None:
    """A file system written in Python aborts the process at its end, now and then."""
    rows = dataset(writer(tmp_path).delta, str(tmp_path))
    assert isinstance(rows.filesystem.base_fs, LocalFileSystem)


def test_an_older_epoch_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    old = writer(tmp_path)
    old.append(commit(1))
    new = CheckpointTable.create(str(tmp_path))
    assert new.claim_epoch("host there, pid 2, since later") == 2
    for _ in range(2):
        with pytest.raises(CheckpointConflictError) as caught:
            old.append(commit(99))
        text = str(caught.value)
        assert "expected version 2 (seq 2, epoch 1), found version 3 (seq 3, epoch 2)" in text
        assert "Another aggregator runs on this checkpoint" in text
    new.append(commit(2))
    assert set(loaded(tmp_path).positions.values()) == {2}


def test_claims_follow_each_other(tmp_path: Path) -> None:
    assert [CheckpointTable.create(str(tmp_path)).claim_epoch("x") for _ in range(3)] == [1, 2, 3]
    assert loaded(tmp_path).seq == 3


def test_without_a_claim_nothing_is_appended(tmp_path: Path) -> None:
    table = CheckpointTable.create(str(tmp_path))
    with pytest.raises(CheckpointError, match="no epoch is claimed"):
        table.append(commit(1))
    assert table.version == 0


def test_a_checkpoint_without_positions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="without any position"):
        writer(tmp_path).append(commit(1, partitions=0))


class Store:
    """Takes the next commits and does not say so, as an object store whose answer is lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self._path = path
        self._write = write_deltalake
        self.failing: list[Exception] = []
        monkeypatch.setattr(table_module, "write_deltalake", self)

    def __call__(self, delta: DeltaTable, *args: Any, **named: Any) -> None:
        if self.failing:
            delta = DeltaTable(table_uri(str(self._path)))
        self._write(delta, *args, **named)
        if self.failing:
            raise self.failing.pop()


def with_one_landed(path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckpointTable:
    """A writer whose first commit has failed, and is in the table all the same."""
    table, store = writer(path), Store(monkeypatch, path)
    store.failing = [OSError("timed out")]
    with pytest.raises(CheckpointError, match="timed out"):
        table.append(commit(1))
    return table


def test_a_commit_that_landed_without_a_word_is_known_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_one_landed(tmp_path, monkeypatch)
    table.renew()
    assert (table.refused, table.version) == (None, 3)
    assert set(table.load().positions.values()) == {1}
    assert table.append(commit(2)).seq == 3
    assert loaded(tmp_path) == table.load()


def test_a_lease_is_as_old_as_the_commit_that_has_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_one_landed(tmp_path, monkeypatch)
    renewed = table.renewed
    # The first one meets what has landed, and nothing can be written behind it.
    tries: list[Callable[..., None]] = [full_disk, write_deltalake]
    monkeypatch.setattr(
        table_module, "write_deltalake", lambda *args, **named: tries.pop()(*args, **named)
    )
    with pytest.raises(CheckpointError, match="No space left"):
        table.renew()
    assert set(table.load().positions.values()) == {1}
    assert table.renewed is renewed is not None


def test_another_commit_of_the_same_number_is_never_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, store = writer(tmp_path), Store(monkeypatch, tmp_path)
    store.failing = [OSError("timed out")]
    with pytest.raises(CheckpointError):
        table.append(commit(1, lane="us"))
    assert table.append(commit(2)).seq == 3
    found = loaded(tmp_path)
    assert {sp.cluster: at for sp, at in found.positions.items()} == {"us": 1, "eu": 2}
    assert found == table.load()


def test_a_commit_that_the_store_repeats_by_itself_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, store = writer(tmp_path), Store(monkeypatch, tmp_path)
    store.failing = [CommitFailedError("version 2 is there already")]
    assert table.append(commit(1)).seq == 2
    assert (table.version, table.refused) == (2, None)
    assert loaded(tmp_path) == table.load()


def test_what_is_committed_and_not_on_the_disk_counts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = writer(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(table_module, "make_durable", broken_disk)
        with pytest.raises(CheckpointError, match="input/output"):
            table.append(commit(1))
    assert table.append(commit(2)).seq == 3
    assert loaded(tmp_path) == table.load()


def broken_disk(path: str, version: int) -> None:
    raise CheckpointError(f"input/output error at {path}, version {version}")


def test_commits_without_a_word_are_not_kept_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = writer(tmp_path)
    monkeypatch.setattr(table_module, "write_deltalake", full_disk)
    for at in range(3 * table_module.UNTOLD):
        with pytest.raises(CheckpointError):
            table.append(commit(at))
    assert len(table._untold) == table_module.UNTOLD


def full_disk(*args: Any, **named: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_maintenance_continues_from_a_commit_that_landed_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, store = writer(tmp_path), Store(monkeypatch, tmp_path)
    store.failing = [OSError("timed out")]
    with pytest.raises(CheckpointError):
        table.append(commit(1))
    maintain(table, 3600, 0)
    assert loaded(tmp_path) == table.load()


def test_two_writers_at_one_version_never_both_succeed(tmp_path: Path) -> None:
    """Both believe in the same version, many times over; exactly one commit per version."""
    rounds = examples(25).max_examples
    CheckpointTable.create(str(tmp_path)).claim_epoch("first")
    barrier = threading.Barrier(2, timeout=60)
    outcomes: list[list[bool]] = [[], []]

    def race(me: int) -> None:
        for _ in range(rounds):
            table = CheckpointTable.open(str(tmp_path))
            assert table is not None
            table.load()
            # A writer that knows nothing of the other: same epoch, same known version.
            table._epoch = 1
            barrier.wait()
            try:
                table.append(commit(me))
                outcomes[me].append(True)
            except CheckpointConflictError:
                outcomes[me].append(False)
            barrier.wait()

    threads = [threading.Thread(target=race, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [sum(pair) for pair in zip(*outcomes, strict=True)] == [1] * rounds
    table = CheckpointTable.open(str(tmp_path))
    assert table is not None
    assert table.load().seq == rounds + 1
    assert table.version == rounds + 1


RACER = """
import sys
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.model.errors import CheckpointConflictError
won = []
for _ in range(20):
    table = CheckpointTable.create(sys.argv[1])
    table.load()
    try:
        won.append(table.claim_epoch("racer"))
    except CheckpointConflictError:
        won.append(0)
sys.stdout.write(" ".join(map(str, won)))
"""


@pytest.mark.slow
def test_processes_that_claim_at_once_get_different_epochs(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [racer.communicate(timeout=120)[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    epochs = [int(word) for output in outputs for word in output.split() if word != "0"]
    assert len(epochs) == len(set(epochs)) > 0
    assert loaded(tmp_path).epoch == max(epochs) == len(epochs)


@pytest.mark.slow
def test_full_commits_make_the_load_short_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "FULL_EVERY", 10)
    table = writer(tmp_path)
    table.append(commit(1, "gone", clean=True))
    for at in range(2, 40):
        table.append(commit(at, ("eu", "us")[at % 2]))
    state = loaded(tmp_path)
    rows = table.delta.to_pyarrow_table()
    from_all = CheckpointState().apply(*from_table(rows))
    assert state.entries == from_all.entries
    assert state == table.load()
    assert table.load().seq - state.full_seq < 10
    assert set(rows.filter(rows["full"])["seq"].to_pylist()) == {1, 11, 21, 31}
    assert set(table._rows_since_full()["seq"].to_pylist()) == set(range(31, 41))
    assert state.positions[SourcePartition("gone", "orders", 0)] == 1
    assert SourcePartition("gone", "orders", 0) not in state.unclean


def test_the_last_full_is_found_however_far_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = writer(tmp_path)
    for at in range(1, 12):
        table.append(commit(at))
    monkeypatch.setattr(table_module, "FULL_EVERY", 2)
    assert loaded(tmp_path) == table.load()


def test_a_full_clean_checkpoint_makes_the_state_clean(tmp_path: Path) -> None:
    table = writer(tmp_path)
    table.append(commit(1, "eu"))
    table.append(commit(1, "us"))
    assert not loaded(tmp_path).clean
    # What a clean commit does not hold itself stays as it is.
    table.append(commit(2, "eu", clean=True, full=True))
    assert {sp.cluster for sp in loaded(tmp_path).unclean} == {"us"}
    table.append(commit(2, "us", clean=True))
    assert loaded(tmp_path).clean
    CheckpointTable.create(str(tmp_path)).claim_epoch("next")
    assert loaded(tmp_path).clean


# --- damage ---------------------------------------------------------------------------------


def damaged_error(path: Path) -> str:
    texts = []
    for opened in (CheckpointTable.open, CheckpointTable.create):
        with pytest.raises(CheckpointError) as caught:
            opened(str(path))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert str(path) in texts[0]
    return texts[0]


def test_an_emptied_last_commit_is_an_error(tmp_path: Path) -> None:
    writer(tmp_path).append(commit(1))
    log_files(tmp_path)[-1].write_bytes(b"")
    assert "00000000000000000002.json is empty or cut off" in damaged_error(tmp_path)
    # The fix that the text names.
    log_files(tmp_path)[-1].rename(tmp_path / "away")
    assert loaded(tmp_path).seq == 1


@pytest.mark.parametrize("keep", [1, 40, -20])
def test_a_cut_off_commit_is_an_error(tmp_path: Path, keep: int) -> None:
    writer(tmp_path).append(commit(1))
    last = log_files(tmp_path)[-1]
    last.write_bytes(last.read_bytes()[:keep])
    assert "empty or cut off" in damaged_error(tmp_path)


def test_a_missing_commit_is_an_error(tmp_path: Path) -> None:
    table = writer(tmp_path)
    for at in range(4):
        table.append(commit(at))
    log_files(tmp_path)[2].unlink()
    assert "00000000000000000002.json is missing" in damaged_error(tmp_path)


def test_a_missing_first_commit_is_an_error(tmp_path: Path) -> None:
    writer(tmp_path).append(commit(1))
    log_files(tmp_path)[0].unlink()
    assert "00000000000000000000.json is missing" in damaged_error(tmp_path)


def test_a_lost_log_is_not_an_empty_table(tmp_path: Path) -> None:
    writer(tmp_path).append(commit(1))
    for file in log_files(tmp_path):
        file.unlink()
    assert "no readable Delta log" in damaged_error(tmp_path)
    (tmp_path / "checkpoints" / "_delta_log").rmdir()
    assert "no readable Delta log" in damaged_error(tmp_path)


def test_a_lost_data_file_is_an_error(tmp_path: Path) -> None:
    writer(tmp_path).append(commit(1))
    for file in (tmp_path / "checkpoints").glob("*.parquet"):
        file.unlink()
    with pytest.raises(CheckpointError, match=r"cannot be read: .*restore the folder"):
        loaded(tmp_path)


# --- the file system ------------------------------------------------------------------------


def test_a_path_through_a_file_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match=r"checkpoint\.path .*file.*choose another"):
        CheckpointTable.create(str(tmp_path / "file" / "state"))


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "no permission"),
    ],
)
def test_what_the_os_says_becomes_a_fix(number: int, fix: str) -> None:
    ours = OSError(number, os.strerror(number))
    theirs = Exception(f"Generic LocalFileSystem error: {os.strerror(number)} (os error {number})")
    for error in (ours, theirs):
        expected = pytest.raises(CheckpointError, match=rf"checkpoint\.path /x: .*{fix}")
        with expected as caught, translated("/x", "written"):
            raise error
        assert not isinstance(caught.value, CheckpointConflictError)


ARROW = "\n  \x1b[31m\u21b3\x1b[0m "
"""Before each further line of an error of delta-rs."""
GET = "Error performing GET http://store/bucket?sig=secret in 3ms - Server returned non-2xx status"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["Kernel error -> Generic S3 error", GET, "dns error", "Name or service not known\n"],
            "Generic S3 error: Name or service not known",
        ),
        (
            [
                "Generic S3 error",
                GET,
                "404 Not Found",
                '<?xml version="1.0"?>\n<Error><Code>NoSuchBucket'
                "</Code><Message>The specified bucket does not exist.</Message></Error>\n",
            ],
            "Generic S3 error: NoSuchBucket: The specified bucket does not exist.",
        ),
        (
            [
                "Generic GCS error",
                GET,
                "403 Forbidden",
                '{"error": {"code": 403, "message": "a has no access to b."}}',
            ],
            "Generic GCS error: a has no access to b.",
        ),
        (["Generic S3 error", GET, "<Code>Odd</Code><Message></Message>"], "Generic S3 error: Odd"),
        (["Generic GCS error", GET, '{"message": ""}'], "Generic GCS error"),
        (["only this"], "only this"),
        ([""], "OSError"),
    ],
)
def test_what_a_store_says_is_said_and_no_address(lines: list[str], said: str) -> None:
    assert reason_of(OSError(ARROW.join(lines))) == said


def test_a_store_that_cannot_be_reached_is_named_with_the_cause() -> None:
    options = options_at(1, "user", "confidential") | {"max_retries": "0"}
    with pytest.raises(CheckpointError) as caught:
        CheckpointTable.open("s3://bucket/state", options)
    assert "s3://bucket/state" in str(caught.value)
    assert "Connection refused" in str(caught.value)
    assert "confidential" not in str(caught.value)


def test_the_same_error_has_the_same_words_at_each_try() -> None:
    def words_of(file: str) -> str:
        with pytest.raises(CheckpointError) as failed, translated("/state", "written"):
            raise OSError(f"Unable to open file /state/checkpoints/{file}.parquet#1: (os error 1)")
        return str(failed.value)

    assert words_of("part-00000-80ca.snappy") == words_of("part-00000-22a4.snappy")
    assert "Unable to open file (a new one): (os error 1)" in words_of("part-00000-80ca.snappy")


def test_a_file_uri_is_a_local_path(tmp_path: Path) -> None:
    table = CheckpointTable.create(f"file://{tmp_path}/with%20space")
    table.claim_epoch("x")
    table.append(commit(1))
    assert loaded(tmp_path / "with space").seq == 2


def test_no_moment_is_before_another_when_the_clock_is_set_back() -> None:
    """`Past` would take hub ends of before for those of after a commit."""
    readings = iter((1_000, 1_000, 400, 1_100))
    moments = Moments(lambda: next(readings))
    assert [moments.next() for _ in range(4)] == [1_000, 1_001, 1_002, 1_100]
