"""A locale that is not UTF-8 changes neither what is written nor whether a command ends well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LATIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command on a terminal that has the letters of Western Europe."""
    called = "import sys; from aggregator.cli.main import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", called, *arguments],
        cwd=folder,
        env={**os.environ, **LATIN},
        capture_output=True,
        encoding="latin-1",
        check=False,
    )


def test_what_is_shown_of_a_letter_that_the_locale_lacks_is_another_one(tmp_path: Path) -> None:
    config = tmp_path / "aggregator.yaml"
    config.write_text(
        "name: all\n"
        "hub: {bootstrap_servers: 127.0.0.1:1}\n"
        "sources: {eu: {bootstrap_servers: 127.0.0.1:2, topics: {include: ['größe-ж.*']}}}\n",
        "utf-8",
    )
    done = run(tmp_path, "config")
    assert done.returncode == 0, done.stderr
    assert "größe-?.*" in done.stdout
