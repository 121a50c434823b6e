"""Child processes that never outlive us: each is started by a guard that watches over this process.

See `aggregator.extras.embedded.guard` for how it notices. Works on Linux and macOS.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from aggregator.extras.embedded import guard
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import ClusterError

LOG_TAIL_LINES = 30
PAUSE_SECONDS = 30.0


class Terminable(Protocol):
    """A process that is first asked to end, however it was started."""

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens when it has ended."""

    def wait(self, seconds: float) -> bool:
        """Wait for its end; False when it is still there after `seconds`."""

    def kill(self) -> None:
        """End it at once (SIGKILL), paused or not, and wait until it is gone."""

    def terminate(self, seconds: float) -> bool:
        """Ask it to end (SIGTERM), paused or not; False when it had to be killed in the end."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if self.wait(seconds):
            return True
        self.kill()
        return False


class GuardedProcess(Terminable):
    """One running command; `pid` is the command's own, not its guard's.

    Its output is appended to `log`. `remove` is a folder to delete when this process dies without
    having ended the command. Raises `ClusterError` when the command cannot be started.
    """

    def __init__(self, command: Sequence[str], log: Path, *, remove: Path | None = None) -> None:
        self.log = log
        self._guard = subprocess.Popen(
            # Isolated and without site-packages: it needs neither and starts in 20 ms.
            [sys.executable, "-I", "-S", guard.__file__, str(log), str(remove or ""), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C in a terminal is for us: we decide what becomes of the child.
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        first = self._guard.stdout.readline().strip()
        if not first.isdigit():
            self._guard.wait()
            self._close()
            reason = first.removeprefix("error ") or "its guard died"
            raise ClusterError(f"cannot start {command[0]}: {reason}")
        self.pid = int(first)

    @property
    def alive(self) -> bool:
        """Whether the command is there, running or paused."""
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """None while it is there; then its exit code, 128 + N when signal N ended it."""
        code = self._guard.poll()
        if code is not None:
            self._close()
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command itself; nothing happens when it has ended."""
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                self.wait(5)  # It has just ended, and its guard is about to.

    def pause(self) -> None:
        """Stop all its threads (SIGSTOP); connections stay open. Returns when none of them runs.

        On a busy machine threads run for a moment after the signal, and a request may be answered.
        Raises ClusterError when a thread still runs after 30 s.
        """
        self.signal(signal.SIGSTOP)
        wait_until(
            lambda: self.is_paused,
            seconds=PAUSE_SECONDS,
            what=lambda: f"process {self.pid} does not stop",
        )

    def resume(self) -> None:
        """Let it run after `pause` (SIGCONT)."""
        self.signal(signal.SIGCONT)

    @property
    def is_paused(self) -> bool:
        """Whether none of its threads runs. Always true where the system has no /proc."""
        tasks = Path(f"/proc/{self.pid}/task")
        try:
            states = [
                (it / "stat").read_text().rpartition(")")[2].split()[0] for it in tasks.iterdir()
            ]
        except OSError:
            return True
        return all(state in "TtZX" for state in states)

    def kill(self) -> None:
        """End it at once (SIGKILL), paused or not, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        if not self.wait(30):
            raise ClusterError(f"process {self.pid} does not die of SIGKILL")

    def wait(self, seconds: float) -> bool:
        """Wait for its end; False when it is still there after `seconds`."""
        try:
            self._guard.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._close()
        return True

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines it wrote."""
        return log_tail(self.log, lines)

    def _close(self) -> None:
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()


def log_tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log file; empty when there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-lines:])
