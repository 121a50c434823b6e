"""Wheels that tests read files of, and do not install: downloaded once, by their hash."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from aggregator.datapath.jars import cache_folder


def wheel(name: str, requirement: str) -> Path:
    """The wheel of this file name, which a pinned requirement has pip download."""
    folder = cache_folder() / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / name).exists():
            wanted = folder / f"{name}.txt"
            wanted.write_text(requirement)
            subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                    *("--require-hashes", "-r", str(wanted), "-d", str(folder)),
                ],
                check=True,
                timeout=300,
            )
    return folder / name
