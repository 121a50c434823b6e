"""Which sources are paused, in a real table."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from aggregator.checkpoint.controls import SCHEMA, Controls, Paused, to_resume
from aggregator.checkpoint.controls import TABLE as TABLE_OF_CONTROLS
from aggregator.checkpoint.delta import TABLE, translated
from aggregator.checkpoint.notes import append_note
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
