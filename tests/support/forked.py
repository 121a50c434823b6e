"""One `aggregator` that is a fork of a process that has imported it (see `support.forks`)."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from aggregator.extras.embedded.processes import Terminable
from support import forks

TESTS = Path(__file__).parents[1]


class Forks:
    """The process that forks, and the questions to it: one at a time, from any thread."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", forks.__name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=TESTS,
                # Threads of a library would not be there in a fork.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self._lock = threading.Lock()
        self._socket = ours
        self._lines = ours.makefile("rw")
        assert self._read() == forks.READY

    def ask(self, request: Mapping[str, Any]) -> Any:
        """What it answers to one request."""
        with self._lock:
            self._lines.write(json.dumps(request) + "\n")
            self._lines.flush()
            return self._read()

    def _read(self) -> Any:
        line = self._lines.readline()
        assert line, f"the process that forks has ended: {self._process.poll()}"
        return json.loads(line)


_STARTING = threading.Lock()


def _forks() -> Forks:
    # Two threads of a test may want the first one.
    with _STARTING:
        return _started()


@cache
def _started() -> Forks:
    return Forks()


class ForkedProcess(Terminable):
    """One running `aggregator`, used as an `aggregator.extras.embedded.processes.GuardedProcess`
    is.

    All that it writes goes to `log`; what it writes on stdout goes to `out` where that is given.
    With `again` it takes the Java of one that has ended well, and leaves it to the next one; what
    that Java writes goes to the log of the process that started it.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        out: Path | None = None,
        *,
        again: bool = False,
    ) -> None:
        log.touch()
        start = {
            "arguments": [*arguments],
            "env": {**os.environ, **(env or {})},
            "folder": str(Path.cwd()),
            "out": str((out or log).absolute()),
            "log": str(log.absolute()),
            "again": again,
        }
        self.pid: int = _forks().ask({"start": start})
        self._code: int | None = None
        self._end: int | None = None
        """It can be read from when the process has ended; None where it has already."""
        with suppress(ProcessLookupError):
            self._end = os.pidfd_open(self.pid)

    @property
    def alive(self) -> bool:
        """Whether it is there, running or frozen."""
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """None while it is there; then its exit code, 128 + N when signal N ended it."""
        if self._code is None and not self._is_there():
            code: int = _forks().ask({"ask": self.pid})
            self._code = code if code >= 0 else 128 - code
        return self._code

    def _is_there(self) -> bool:
        """Without a question to the process that forks: a wait looks ten times a second."""
        if self._end is not None and select.select([self._end], [], [], 0)[0]:
            os.close(self._end)
            self._end = None
        return self._end is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it alone; nothing happens when it has ended."""
        # It may end in between, and then no other process has its pid yet.
        with suppress(ProcessLookupError):
            if self.alive:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once (SIGKILL), frozen or not, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        assert self.wait(30), f"process {self.pid} does not die of SIGKILL"

    def wait(self, seconds: float) -> bool:
        """Wait for its end; False when it is still there after `seconds`."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True
