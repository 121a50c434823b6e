"""Which sources are paused, in a real table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from aggregator.checkpoint import notes
from aggregator.checkpoint.controls import SCHEMA, Controls, Paused, to_resume
from aggregator.checkpoint.controls import TABLE as TABLE_OF_CONTROLS
from aggregator.checkpoint.delta import TABLE, make_durable, open_delta, translated
from aggregator.checkpoint.notes import append_note, read_notes, tidy
from aggregator.errors import CheckpointConflictError, CheckpointError, RefusedError
from aggregator.model import Part, Pause


def test_the_newest_word_about_a_source_counts(tmp_path: Path) -> None:
    controls = Controls(str(tmp_path / "state"), {})
    assert controls.read() == Paused()
    assert not (tmp_path / "state").exists()
    first = controls.put("eu", paused=True, by="ann")
    controls.put("us", paused=True)
    assert controls.read().sources.keys() == {"eu", "us"}
    controls.put("us", paused=False)
    controls.put("us", paused=False)
    # Paused once more while it is: since the first time, and by whoever did it then.
    controls.put("eu", paused=True, by="bob")
    assert Controls(str(tmp_path / "state"), {}).read().sources == {"eu": Pause(first, by="ann")}
    controls.put("eu", paused=False)
    later = controls.put("eu", paused=True)
    assert controls.read().sources == {"eu": Pause(later)}
    assert later > first


def test_topics_and_partitions_are_paused_by_themselves(tmp_path: Path) -> None:
    controls = Controls(str(tmp_path / "state"), {})
    topic, partition = Part("eu", "orders"), Part("eu", "orders", 3)
    first = controls.put_parts([partition], paused=True, by="ann")
    controls.put_parts([partition], paused=True, by="bob")
    second = controls.put_parts([topic], paused=True, by="bob")
    controls.put("eu", paused=True)
    found = controls.read()
    assert found.parts == {partition: Pause(first, by="ann"), topic: Pause(second, by="bob")}
    assert found.sources.keys() == {"eu"}
    controls.put("eu", paused=False)
    assert controls.read().parts == found.parts
    controls.put_parts(to_resume(topic, found.parts), paused=False)
    assert controls.read() == Paused()


def test_a_table_from_before_there_were_parts_is_read(tmp_path: Path) -> None:
    old = pa.schema([it for it in SCHEMA if it.name not in ("topic", "partition", "by")])
    row = {"at": datetime.now(UTC), "cluster": "eu", "paused": True, "stopped": False}
    append_note(str(tmp_path / "state"), {}, TABLE_OF_CONTROLS, row, old)
    controls = Controls(str(tmp_path / "state"), {})
    assert controls.read().sources.keys() == {"eu"}
    controls.put_parts([Part("us", "orders")], paused=True)
    assert controls.read().sources.keys() == {"eu"}
    assert controls.read().parts.keys() == {Part("us", "orders")}


def test_many_notes_become_few_files_and_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "TIDY_EVERY", 8)
    path = str(tmp_path / "state")
    controls = Controls(path, {})
    first = controls.put("eu", paused=True, by="ann")
    for _ in range(19):
        controls.put("us", paused=True)
    assert controls.read().sources["eu"] == Pause(first, by="ann")
    table = open_delta(path, {}, TABLE_OF_CONTROLS)
    assert table is not None
    assert len(table.file_uris()) <= 8
    assert len(read_notes(path, {}, TABLE_OF_CONTROLS)) == 20


def test_of_what_has_a_key_the_newest_row_stays(tmp_path: Path) -> None:
    path, begin = str(tmp_path / "state"), datetime(2026, 1, 1, tzinfo=UTC)
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.string())])
    for number in range(7):
        row = {"at": begin + timedelta(microseconds=number), "id": "ab'"[number % 3]}
        append_note(path, {}, "t", row, schema, "id")
    assert tidy(path, {}, "t", "id") == 4
    assert [row["id"] for row in read_notes(path, {}, "t")] == ["b", "'", "a"]
    assert tidy(path, {}, "none") is None


def test_what_is_forced_to_the_disk_is_the_row_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controls, others = (Controls(str(tmp_path / "state"), {}) for _ in range(2))
    controls.put("eu", paused=True)
    forced: list[int] = []
    written, append = make_durable, notes.append_rows

    def with_another(*arguments: Any) -> None:
        append(*arguments)
        monkeypatch.setattr(notes, "append_rows", append)
        others.put("us", paused=True)
        forced.clear()

    def durable(path: str, version: int, table: str) -> None:
        forced.append(version)
        written(path, version, table)

    monkeypatch.setattr(notes, "make_durable", durable)
    monkeypatch.setattr(notes, "append_rows", with_another)
    controls.put("eu", paused=False)
    assert forced == [1, 2]


def test_what_is_resumed_with_what() -> None:
    topic, first, other = Part("eu", "a"), Part("eu", "a", 0), Part("eu", "b", 0)
    assert to_resume(topic, [first, other]) == [first]
    assert to_resume(topic, [topic, first]) == [topic, first]
    assert to_resume(first, [first, other]) == [first]
    assert to_resume(first, []) == []
    with pytest.raises(RefusedError, match="eu/a is paused as a whole: aggregator resume eu"):
        to_resume(first, [topic, first])


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder is to be")
    with pytest.raises(CheckpointError, match="the table of controls cannot be written"):
        Controls(str(tmp_path / "state"), {}).put("eu", paused=True)


def test_another_writer_is_a_conflict_in_the_checkpoint_table_alone() -> None:
    with pytest.raises(CheckpointConflictError), translated("state", "written", TABLE):
        raise CommitFailedError("version 7 is there")
    with (
        pytest.raises(CheckpointError, match="controls was written by another") as told,
        translated("state", "written", "controls"),
    ):
        raise CommitFailedError("version 7 is there")
    assert not isinstance(told.value, CheckpointConflictError)
