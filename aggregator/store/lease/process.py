"""Processes of this machine, known by id and start: whether they live, and how to end them."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from aggregator.plan.lease import Life

POLL_SECONDS = 0.05
KILL_SECONDS = 30.0
"""How long a killed process may take to be gone: the kernel frees its memory first."""


def started_of(pid: int) -> int:
    """When a process started, in ticks of its kernel; 0 when it is gone, or unknown."""
    found = _stat(pid)
    return int(found[19]) if found else 0


def life_of(pid: int, started: int) -> Life:
    """What the process table says about the process `pid` that started at `started`.

    A zombie, not reaped yet, is gone: its files and locks are free.
    """
    found = _stat(pid)
    if found is None:
        return _by_signal(pid)
    if not started:
        return Life.UNKNOWN
    if int(found[19]) != started or found[0] in "ZX":
        return Life.GONE
    return Life.FROZEN if found[0] == "T" else Life.RUNS


def wait_gone(
    pid: int, started: int, seconds: float, pause: Callable[[float], object] = time.sleep
) -> bool:
    """Wait until the process is gone, or frozen; False when it is still there."""
    deadline = time.monotonic() + seconds
    while (life := life_of(pid, started)) is Life.RUNS and time.monotonic() < deadline:
        pause(POLL_SECONDS)
    return life is Life.GONE


def ask(pid: int, started: int) -> None:
    """Send SIGTERM to the process, if it is still that one. PermissionError when it is not ours."""
    _send(pid, started, signal.SIGTERM)


def kill(pid: int, started: int) -> bool:
    """Kill the process, if it is still that one, and wait for its death; False when it stays.

    PermissionError when it is not ours.
    """
    _send(pid, started, signal.SIGKILL)
    deadline = time.monotonic() + KILL_SECONDS
    while life_of(pid, started) is not Life.GONE:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _send(pid: int, started: int, number: signal.Signals) -> None:
    # A process whose start is not known is never hit: its id may be another's by now.
    if life_of(pid, started) in (Life.RUNS, Life.FROZEN):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None when there is no such file."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    # The name before them is in brackets and may hold anything.
    return text.rpartition(")")[2].split()


def _by_signal(pid: int) -> Life:
    """Without /proc, or where it hides what others run: a process that is there is not known."""
    if pid <= 0:
        return Life.GONE
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Life.GONE
    except PermissionError:
        pass
    return Life.UNKNOWN
