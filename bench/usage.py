"""What process groups have used: CPU seconds and memory, as Linux counts them."""

from __future__ import annotations

import os
from pathlib import Path

RUNS = frozenset("RSDTtI")
KIB = 1024


def members(*groups: int) -> dict[int, list[str]]:
    """PID -> the fields after the name in /proc/PID/stat, of live processes of these groups."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) in groups and fields[0] in RUNS:
            found[int(path.parent.name)] = fields
    return found


def cpu_seconds(*groups: int) -> float:
    """CPU seconds, of the user and of the kernel, of live processes of these groups."""
    ticks = sum(int(fields[11]) + int(fields[12]) for fields in members(*groups).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes(*groups: int) -> int:
    """Memory that process groups hold; what several processes share is counted once."""
    total = 0
    for pid in members(*groups):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * KIB for line in lines if line.startswith("Pss:"))
    return total
