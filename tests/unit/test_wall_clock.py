"""Tests of what a clock that can be set needs, and of what is said without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from faults.__main__ import app
from faults.schedule import kinds_of
from support.wall_clock import VARIABLE, WallClock


def test_without_the_library_a_campaign_says_how_to_get_it_before_it_starts_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent.so"))
    done = CliRunner().invoke(app, ["--kinds", "clock-step", "--out", str(tmp_path)])
    assert done.exit_code == 2
    (line,) = done.output.splitlines()
    assert "pip install libfaketime" in line and VARIABLE in line
    assert not list(tmp_path.iterdir())


def test_a_clock_is_set_by_a_file_that_the_library_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libfaketime.so.1"
    library.touch()
    monkeypatch.setenv(VARIABLE, str(library))
    clock = WallClock(tmp_path / "clock")
    file = Path(clock.env["FAKETIME_TIMESTAMP_FILE"])
    assert (clock.env["LD_PRELOAD"], file.read_text("utf-8")) == (str(library), "+0\n")
    clock.set(-3600)
    assert file.read_text("utf-8") == "-3600\n"
    assert {it.name for it in tmp_path.iterdir()} == {"clock", library.name}


def test_a_clock_is_set_only_where_that_is_asked_for() -> None:
    assert "clock-step" not in kinds_of(executors=True, store=True)
