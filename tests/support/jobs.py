"""How many processes test side by side, where `make test` leaves it to the machine."""

from __future__ import annotations

import os

PER_CORE = 2
"""A process that tests keeps half a core busy, and waits the rest of the time: for Java to start,
for an interval of the product, for a deadline that is to pass."""
GIGABYTES = 3.0
"""What one takes: three brokers that it keeps, Java with Spark, and what a test starts besides."""


def jobs(cores: int, gigabytes: float) -> int:
    """So many processes for a machine with so many cores and so much memory; at least one."""
    return max(1, min(PER_CORE * cores, int(gigabytes / GIGABYTES)))


def jobs_here() -> int:
    """So many on this machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return jobs(_cores(), memory)


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
