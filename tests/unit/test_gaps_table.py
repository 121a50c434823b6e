"""The table of gaps: its rows, what they add up to, and what is said when it cannot be used."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from aggregator.model.errors import CheckpointError
from aggregator.model.values import LogId, SourcePartition
from aggregator.plan.positions.gaps import Decision, GapRecord, gap_id
from aggregator.plan.positions.start import Gap, GapKind
from aggregator.store import state_store
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore

NOW = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
SP = SourcePartition("eu", "orders", 0)


def record(partition: int = 0, position: int = 20, kind: str = "BELOW_EARLIEST") -> GapRecord:
    gap = Gap(
        SP._replace(partition=partition),
        GapKind(kind),
        position,
        None if kind == "TOPIC_GONE" else position + 10,
        "ten offsets were deleted",
        position,
        None if kind == "TOPIC_GONE" else 10,
        LogId("C", "T"),
        LogId("D", "U"),
    )
    return GapRecord(gap_id(gap), gap, NOW, 3)


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(path / "gaps")).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["gap"], row["seq"]))


@pytest.fixture
def table(tmp_path: Path) -> GapTable:
    return GapTable(StateStore(str(tmp_path)))


def test_without_a_table_there_are_no_gaps_and_none_is_made(
    table: GapTable, tmp_path: Path
) -> None:
    assert table.load() == {}
    table.append([])
    assert not (tmp_path / "gaps").exists()


def test_what_is_recorded_comes_back_and_the_newest_row_counts(
    table: GapTable, tmp_path: Path
) -> None:
    first, second = record(0), record(1, kind="TOPIC_GONE")
    table.append([first, second])
    assert table.load() == {first.id: first, second.id: second}
    settled = replace(first, decision=Decision.SKIP, decided_at=NOW, resolved=True, resumes_at=30)
    table.append([settled])
    assert GapTable(StateStore(str(tmp_path))).load() == {first.id: settled, second.id: second}
    written = [row for row in rows(tmp_path) if row["gap"] == first.id]
    assert [(row["seq"], row["decision"], row["resolved"]) for row in written] == [
        (1, "stop", False),
        (2, "skip", True),
    ]
    assert (written[0]["from_offset"], written[0]["to_offset"], written[0]["lost"]) == (20, 30, 10)
    assert (written[0]["topic_id_then"], written[0]["topic_id_now"]) == ("T", "U")


def test_open_gaps_of_a_partition_are_resolved_when_something_else_settles_them(
    table: GapTable,
) -> None:
    ours, other, done = record(0), record(1), record(0, position=5).closed("before", NOW)
    table.append([ours, other, done])
    later = NOW + timedelta(hours=1)
    (closed,) = table.resolve([SP], "positions set", later)
    assert closed == replace(ours, decided_at=later, resolved=True, note="positions set")
    assert table.load()[ours.id] == closed
    assert table.load()[done.id] == done
    assert not table.load()[other.id].resolved
    assert table.resolve([SP], "positions set", later) == []


def test_two_that_append_at_once_lose_nothing(table: GapTable, tmp_path: Path) -> None:
    """The running instance, which made the table, and the command line."""
    table.append([record(99)])
    batches: Sequence[list[GapRecord]] = [[record(number), record(99)] for number in range(8)]
    failed: list[BaseException] = []

    def append(batch: list[GapRecord]) -> None:
        try:
            table.append(batch)
        except BaseException as error:  # shown below
            failed.append(error)

    threads = [threading.Thread(target=append, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(table.load()) == 9
    # One number each, so that the last word is the last whatever a clock says.
    last = record(99).id
    assert [it["seq"] for it in rows(tmp_path) if it["gap"] == last] == [*range(1, 10)]


def test_a_damaged_table_is_never_taken_for_an_empty_one(table: GapTable, tmp_path: Path) -> None:
    table.append([record()])
    (commit,) = (tmp_path / "gaps" / "_delta_log").glob("*1.json")
    commit.write_text(commit.read_text()[:40])
    with pytest.raises(CheckpointError, match="the log of the table of gaps is damaged"):
        table.load()


def test_a_full_disk_is_named_with_the_fix(
    table: GapTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    table.append([record()])
    monkeypatch.setattr(state_store, "write_deltalake", full)
    with pytest.raises(CheckpointError, match=r"table of gaps cannot be written.*free some space"):
        table.append([record(1)])


def test_upkeep_drops_what_was_replaced_and_never_an_open_gap_or_the_newest_word(
    table: GapTable, tmp_path: Path
) -> None:
    assert table.tidy() is None
    still_open, skipped, undecided = record(0), record(1), record(2)
    table.append([still_open, skipped])
    table.append([replace(skipped, decision=Decision.SKIP, decided_at=NOW)])
    table.append([replace(skipped, decision=Decision.SKIP, resolved=True, resumes_at=30)])
    table.append([undecided])
    table.append([replace(undecided, note="seen")])
    before = table.load()
    assert table.tidy() == 3
    assert table.load() == before
    assert len(rows(tmp_path)) == len(before) == 3
    assert len(DeltaTable(str(tmp_path / "gaps")).file_uris()) == 1
    # The numbers continue, and there is nothing left to drop.
    table.append([replace(undecided, resolved=True)])
    assert [it["seq"] for it in rows(tmp_path) if it["gap"] == undecided.id] == [2, 3]
    assert (table.tidy(), table.tidy()) == (1, 0)


def test_a_writer_of_gaps_makes_the_table_tidy_now_and_then(
    table: GapTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_store, "TIDY_EVERY", 4)
    for number in range(4):
        table.append([replace(record(), note=f"{number}")])
    assert [it["note"] for it in rows(tmp_path)] == ["3"]
