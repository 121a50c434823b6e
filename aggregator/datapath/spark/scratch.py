"""The scratch folder of one generation of a lane; folders left by killed runs are removed.

A folder is locked while its run lives. The kernel lets go of the lock with the process, so a
process that gets the lock knows that the folder is unused, also where several containers share one
folder for temporary files and each has process ids of its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from aggregator.model.errors import AggregatorError

PREFIX = "aggregator-lane-"
MIN_AGE_SECONDS = 60.0
"""Younger folders are left alone: their run may be about to lock them."""


@dataclass(frozen=True, slots=True)
class ScratchFolder:
    """A new folder, and the handle that keeps it locked."""

    path: Path
    handle: int

    @classmethod
    def make(cls, lane: str) -> ScratchFolder:
        """Make and lock one among the temporary files. AggregatorError when that cannot be."""
        try:
            path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{lane}-"))
            handle = os.open(path, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise AggregatorError(
                f"no scratch folder for lane {lane}: {error}; make room there, or let the "
                "environment variable TMPDIR name another folder"
            ) from error
        return cls(path, handle)

    def remove(self) -> None:
        """Remove it with all that is in it, and let go of the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.handle)


def remove_left() -> list[Path]:
    """Remove the folders of runs that are no more, such as killed ones; returns them.

    What belongs to another user, or cannot be removed, stays where it is.
    """
    return [path for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if _removed(path)]


def _removed(path: Path) -> bool:
    try:
        if time.time() - path.stat().st_mtime < MIN_AGE_SECONDS:
            return False
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        finally:
            os.close(handle)
    except OSError:  # in use, another user's, or gone meanwhile: not ours to remove
        return False
    return True
