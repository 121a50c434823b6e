"""Another time of day for a process and its children, by libfaketime, set while they run.

What is monotonic stays as it is, and so do the times of files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "LIBFAKETIME"
PACKAGE = "libfaketime"
INSTALL = f"pip install {PACKAGE}"
IN_PACKAGE = Path("vendor") / "libfaketime" / "src" / "libfaketime.so.1"


class NoWallClockError(Exception):
    """The library is not on this machine."""


class WallClock:
    """The time of day of those who run with `env`; it is right at first."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.env: Mapping[str, str] = {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # With it, timed waits of Java return at once (OpenJDK 17, glibc 2.36).
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "NO_FAKE_STAT": "1",
        }
        self.set(0)

    def set(self, seconds: int) -> None:
        """Have it `seconds` ahead of the right time; it is so within a second."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n", "utf-8")
        # One who reads meanwhile has the whole of either.
        new.replace(self._file)


def library() -> Path:
    """The library: by the environment variable, else that of the package; NoWallClockError without.

    Up to version 0.9.10, which Debian 12 has, Python cannot sleep with it.
    """
    spec = find_spec(PACKAGE)
    places = [Path(it) / IN_PACKAGE for it in (spec and spec.submodule_search_locations) or ()]
    if named := os.environ.get(VARIABLE):
        places = [Path(named)]
    for found in places:
        if found.is_file():
            return found
    raise NoWallClockError(
        f"another time of day needs libfaketime: `{INSTALL}` gets it (with a C compiler), and the "
        f"environment variable {VARIABLE} may name the file, of version 0.9.11 or newer"
    )
