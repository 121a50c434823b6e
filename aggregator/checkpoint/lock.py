"""One writer at a time on a local checkpoint: an OS lock on `<checkpoint.path>/lock`."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TextIO

from aggregator.checkpoint.delta import local_path, translated
from aggregator.errors import CheckpointConflictError


@dataclass(frozen=True, slots=True)
class Owner:
    """Who writes the checkpoint; `str(owner)` is what an epoch is claimed with."""

    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    since: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def __str__(self) -> str:
        return f"host {self.host}, pid {self.pid}, since {self.since}"


class WriterLock:
    """Held for the life of a writer; the OS frees it when the process ends, however it ends.

    On an object store there is no such lock: there the epoch alone refuses the older writer.
    """

    def __init__(self, file: TextIO | None, owner: Owner) -> None:
        self._file = file
        self.owner = owner

    @classmethod
    def acquire(cls, path: str, owner: Owner | None = None) -> Self:
        """Take the lock of the checkpoint at `path` (the setting checkpoint.path).

        CheckpointConflictError names the holder when there is one; CheckpointError when the
        folder cannot be made or written.
        """
        owner = owner or Owner()
        folder = local_path(path)
        if folder is None:
            return cls(None, owner)
        with translated(path, "locked"):
            folder.mkdir(parents=True, exist_ok=True)
            # Opened without truncation: the text in it is the holder's, until we are.
            file = open(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644), "r+")  # noqa: SIM115
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = _holder(file)
                file.close()
                raise CheckpointConflictError(
                    f"checkpoint.path {path}: another aggregator runs on it ({holder}); stop that "
                    "one first, or give this one a checkpoint.path of its own"
                ) from error
            file.truncate(0)
            json.dump({"host": owner.host, "pid": owner.pid, "since": owner.since}, file)
            file.flush()
        return cls(file, owner)

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _holder(file: TextIO) -> str:
    try:
        return str(Owner(**json.load(file)))
    except (ValueError, TypeError):
        # The holder has the lock but has not written its name yet.
        return "it has just started"
