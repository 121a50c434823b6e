"""Which sources are paused, in a real table."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake.exceptions import CommitFailedError

from aggregator.checkpoint.controls import Controls
from aggregator.checkpoint.delta import TABLE, translated
from aggregator.errors import CheckpointConflictError, CheckpointError


def test_the_newest_word_about_a_source_counts(tmp_path: Path) -> None:
    controls = Controls(str(tmp_path / "state"), {})
    assert controls.paused() == {}
    assert not (tmp_path / "state").exists()
    first = controls.put("eu", paused=True)
    controls.put("us", paused=True)
    assert controls.paused().keys() == {"eu", "us"}
    controls.put("us", paused=False)
    controls.put("us", paused=False)
    # Paused once more while it is: since the first time.
    controls.put("eu", paused=True)
    assert Controls(str(tmp_path / "state"), {}).paused() == {"eu": first}
    controls.put("eu", paused=False)
    later = controls.put("eu", paused=True)
    assert controls.paused() == {"eu": later}
    assert later > first


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
