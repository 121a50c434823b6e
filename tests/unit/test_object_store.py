"""The real object store of the campaign: what is said where its program is absent."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from faults.__main__ import app
from support.object_store import VARIABLE, NoStoreError, program


def test_a_campaign_that_needs_the_store_says_at_once_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(app, ["--only", "take-overs-store", "--out", str(tmp_path)])
    assert done.exit_code == 2
    (line,) = done.output.splitlines()
    assert "go install github.com/versity/versitygw" in line and VARIABLE in line
    assert not list(tmp_path.iterdir())


def test_the_program_is_the_one_that_the_variable_names_else_that_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("versitygw", "another"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    assert program() == str(tmp_path / "versitygw")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "another"))
    assert program() == str(tmp_path / "another")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(NoStoreError):
        program()
