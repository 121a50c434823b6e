"""Whether the memory of a machine or container has room for Java's heap.

Linux ends a process that needs more than its container has, and says nothing to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from aggregator.model.errors import AggregatorError
from aggregator.plan.lanes.memory import MIB

BESIDE = 512 * MIB
"""What Java needs beside its heap, and Python."""
SPARK_LEAST = 450 * MIB
"""Spark does not start with less, and says so in a Java stack trace."""
LEAST_HEAP = 512 * MIB
CONTROL = Path("/sys/fs/cgroup")
OWN_GROUPS, MACHINE = Path("/proc/self/cgroup"), Path("/proc/meminfo")
V1, V2 = "memory.limit_in_bytes", "memory.max"


def memory_limit(
    control: Path = CONTROL, groups: Path = OWN_GROUPS, machine: Path = MACHINE
) -> int | None:
    """The bytes that this process and those beside it may use; None where that cannot be read."""
    texts = [_text(file) for file in _limit_files(control, _text(groups))]
    found = [int(it) for it in texts if it.strip().isdigit()]
    for line in _text(machine).splitlines():
        if line.startswith("MemTotal:"):
            found.append(int(line.split()[1]) * 1024)
    return min(found, default=None)


def require_heap(heap: int) -> None:
    """AggregatorError for a heap with which Spark does not start."""
    if heap < SPARK_LEAST:
        raise AggregatorError(
            f"spark.driver.memory is {heap // MIB} MiB, and Spark does not start with less than "
            f"{SPARK_LEAST // MIB}: set spark.conf to {{spark.driver.memory: {LEAST_HEAP // MIB}m}}"
        )


def why_too_small(heap: int, limit: int | None) -> str:
    """What is wrong with such a heap where so much memory is, and the fix; nothing if it fits."""
    if limit is None or heap + BESIDE <= limit:
        return ""
    room = (
        f"spark.driver.memory is {heap // MIB} MiB, and there are {limit // MIB} MiB of memory here"
    )
    fits = (limit - BESIDE) // MIB
    fix = f"set spark.conf to {{spark.driver.memory: {fits}m}}, or provide more memory"
    if fits * MIB < LEAST_HEAP:
        fix = f"provide at least {(BESIDE + LEAST_HEAP) // MIB} MiB"
    return f"{room}: the kernel may kill Java without a word; {fix}"


def _limit_files(control: Path, groups: str) -> Iterator[Path]:
    """The files with the limits of a process's groups, and of those around them."""
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = (control / "memory", V1) if controllers else (control, V2)
        own = PurePosixPath(path.lstrip("/"))
        # A container may see the groups of its host by name, and only its own as files.
        for each in (own, *own.parents):
            yield base / each / name


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError:
        return ""
