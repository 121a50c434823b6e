"""Programs that tests need are found, or installed, or it is said how: no test is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.debian import program


def put(folder: Path, name: str, script: str) -> None:
    """A program of that name, which does no more than this."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_the_first_that_is_there_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "chromium-browser", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = program("chromium", "chromium-browser", package="chromium")
    assert found == str(tmp_path / "chromium-browser")


def test_where_nothing_can_be_installed_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"no apt-get here: install chromium or google-chrome "):
        program("chromium", "google-chrome", package="chromium")


def test_what_apt_says_is_shown_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "apt-get", "echo no such package; exit 100")
    # Whether we are root or not: it is called as it is.
    put(tmp_path, "sudo", 'shift; exec "$@"')
    put(tmp_path, "sh", 'exec /bin/sh -c "apt-get install"')
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"(?s)on Debian: apt install chromium.*no such package"):
        program("chromium-of-no-one", package="chromium")
