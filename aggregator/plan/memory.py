"""Whether the driver's heap is enough for so many source partitions. Pure."""

from __future__ import annotations

import math
import re

from aggregator.config.schema import Config
from aggregator.plan.producer import is_local

HEAP = "spark.driver.memory"
DEFAULT_HEAP = "2g"
GIB, MIB = 2**30, 2**20
LEAST_BYTES, LEAST_PER_PARTITION = GIB // 2, 3 * MIB // 2
"""With 2 GB a thousand partitions were read well; with two thousand the last lanes took 40 to 60 s
each to start, and with 5 GB they did not."""
GOOD_BYTES, GOOD_PER_PARTITION = GIB, 2 * MIB
UNITS = {"k": 2**10, "m": MIB, "g": GIB, "t": 2**40}


def memory_warnings(config: Config, partitions: int) -> tuple[str, ...]:
    """A warning when the heap is too small for so many partitions in all, which names a good one.

    On executors tasks have memory of their own; there, and when the size cannot be read, none.
    """
    given = config.spark.conf.get(HEAP, DEFAULT_HEAP)
    if not is_local(config.spark.master) or is_enough(given, partitions):
        return ()
    return (
        f"spark.conf {HEAP} = {given} is little for {partitions} source partitions: records would "
        "come late while Java looks for free memory; "
        f"set spark.conf.{HEAP}: {good_heap(partitions)}",
    )


def is_enough(heap: str, partitions: int) -> bool:
    """Whether so many partitions fit; True when the size cannot be read, which Spark will say."""
    size = heap_bytes(heap)
    return size is None or size >= LEAST_BYTES + partitions * LEAST_PER_PARTITION


def good_heap(partitions: int) -> str:
    """A heap with room for so many partitions."""
    return f"{math.ceil((GOOD_BYTES + partitions * GOOD_PER_PARTITION) / GIB)}g"


def heap_bytes(text: str) -> int | None:
    """Bytes of a size as Spark reads this setting (`2g`, `512m`, `512` = MiB); None for others."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    return int(match.group(1)) * UNITS[match.group(2) or "m"] if match else None
