"""The processes of this machine, as `ps` lists them."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple


class Process(NamedTuple):
    """One that is there and is no zombie: its ids, those of its parent and group, its command."""

    pid: int
    parent: int
    group: int
    command: str


def processes() -> list[Process]:
    """All of them, with their whole command lines."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,pgid=,stat=,args="],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(None, 4) for line in listed.stdout.splitlines()]
    return [
        Process(int(row[0]), int(row[1]), int(row[2]), row[4])
        for row in rows
        if len(row) == 5 and not row[3].startswith("Z")
    ]


def is_there(pid: int) -> bool:
    """Whether there is such a process; one that no one has waited for yet counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
