"""How many processes test side by side, where `make test` leaves it to the machine."""

from __future__ import annotations

import os
from pathlib import Path

PER_CORE = 1.5
"""A process that tests, with all that it starts, keeps two thirds of a core busy: it waits for
brokers, leases and time limits. With one for each core a quarter of the cores was idle."""
GIGABYTES = 3.0
"""What one takes: Java with Spark, which it keeps, and the brokers and applications of a test."""
CGROUP = Path("/sys/fs/cgroup")


def jobs(cores: float, gigabytes: float) -> int:
    """How many processes a machine with these cores and this memory gets; at least one."""
    return max(1, min(round(PER_CORE * cores), int(gigabytes / GIGABYTES)))


def jobs_here(group: Path = CGROUP) -> int:
    """How many this machine gets; `group` has the limits of the container that this runs in."""
    return jobs(_cores(group), _bytes(group) / 2**30)


def _cores(group: Path) -> float:
    # The number of cores does not show what a container is given.
    quota, period = (*_limit(group / "cpu.max"), "100000")[:2]
    known = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    return cores if quota == "max" else min(cores, int(quota) / int(period))


def _bytes(group: Path) -> int:
    (limit, *_) = _limit(group / "memory.max")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return memory if limit == "max" else min(memory, int(limit))


def _limit(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8").split() or ["max"]
    except OSError:
        return ["max"]
