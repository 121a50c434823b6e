"""Another time of day for a process and its children, by libfaketime, set while they run.

What is monotonic stays as it is, and so do the times of files.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "LIBFAKETIME"
INSTALL = "apt install libfaketime"
PLATFORM = sysconfig.get_config_var("MULTIARCH") or ""
PLACE = Path("/usr/lib") / PLATFORM / "faketime" / "libfaketime.so.1"


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
            # With it, timed waits of Java return at once (0.9.10, OpenJDK 17, glibc 2.36).
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
    """The library: by the environment variable, else Debian's; NoWallClockError without it."""
    found = Path(os.environ.get(VARIABLE) or PLACE)
    if not found.is_file():
        raise NoWallClockError(
            f"another time of day needs libfaketime, which is not at {found}: `{INSTALL}` gets it, "
            f"and the environment variable {VARIABLE} may name the file"
        )
    return found
