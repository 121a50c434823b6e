"""How much of the heap the Kafka clients of each task may use. Pure."""

import re
from collections.abc import Mapping

HEAP, EXECUTOR_HEAP = "spark.driver.memory", "spark.executor.memory"
DEFAULT_HEAP, DEFAULT_EXECUTOR_HEAP = "2g", "1g"
"""Ours for the driver, and Spark's own."""
MIB = 2**20
UNITS = {"k": 2**10, "m": MIB, "g": 2**30, "t": 2**40}

SHARE = 4
"""All consumers together may hold a quarter of the heap in fetches, all producers another one."""
LEAST_FETCH, MOST_FETCH = 2 * MIB, 50 * MIB
"""Kafka's own default for all that a broker sends at once is the most."""
LEAST_PARTITION_FETCH, MOST_PARTITION_FETCH = MIB, 8 * MIB
"""A consumer asks for more of a partition when it has handed out what it had, so each fetch costs a
round trip in which nothing comes."""
MOST_BUFFER = 64 * MIB


def fetch_sizes(heap: int, tasks: int) -> dict[str, str]:
    """Consumer settings when `tasks` tasks share a heap of `heap` bytes."""
    fetch = min(max(heap // SHARE // max(1, tasks), LEAST_FETCH), MOST_FETCH)
    partition = min(max(fetch // 4, LEAST_PARTITION_FETCH), MOST_PARTITION_FETCH)
    return {"fetch.max.bytes": str(fetch), "max.partition.fetch.bytes": str(partition)}


def buffer_memory(heap: int, tasks: int, least: int) -> int:
    """Bytes that a producer may buffer when `tasks` tasks share the heap; at least `least`."""
    return max(least, min(heap // SHARE // max(1, tasks), MOST_BUFFER))


def request_room(heap: int) -> int:
    """Bytes of the largest request: two tasks that buffer one each stay within their share."""
    return heap // SHARE // 2


def heap_of(conf: Mapping[str, str], *, local: bool) -> int:
    """Bytes of the heap in which tasks run: the driver's with a local master, else an executor's.

    The default where the size cannot be read, which Spark will say.
    """
    name, default = (HEAP, DEFAULT_HEAP) if local else (EXECUTOR_HEAP, DEFAULT_EXECUTOR_HEAP)
    return heap_bytes(conf.get(name, default)) or heap_bytes(default) or 2**30


def heap_bytes(text: str) -> int | None:
    """Bytes of a size as Spark reads this setting (`2g`, `512m`, `512` = MiB); None for others."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    return int(match.group(1)) * UNITS[match.group(2) or "m"] if match else None
