"""Whose scratch folders are removed, and whose are not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from aggregator.datapath.spark.scratch import MIN_AGE_SECONDS, ScratchFolder, remove_left

MAKE_ONE = (
    "import os, signal; from aggregator.datapath.spark.scratch import ScratchFolder;"
    "print(ScratchFolder.make('eu').path, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, of this test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def age(path: Path) -> None:
    """Make it as old as what is removed."""
    then = path.stat().st_mtime - 2 * MIN_AGE_SECONDS
    os.utime(path, (then, then))


def test_what_a_killed_run_has_left_is_removed(temporary: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MAKE_ONE], capture_output=True, text=True)
    left = Path(done.stdout.strip())
    (left / "offsets").mkdir()
    assert left.parent == temporary
    assert remove_left() == []  # too young: its run might be about to lock it
    age(left)
    assert remove_left() == [left]
    assert not left.exists()


def test_what_a_run_that_lives_needs_stays(temporary: Path) -> None:
    mine = ScratchFolder.make("eu")
    (temporary / "aggregator-demo-1").mkdir()
    for path in temporary.iterdir():
        age(path)
    assert remove_left() == []
    mine.remove()
    assert not mine.path.exists()
    assert [path.name for path in temporary.iterdir()] == ["aggregator-demo-1"]
