"""Task slots: how many the Spark master gives, and whether every source partition gets one.

In real-time mode a task holds its slot for the whole batch, one per source partition. With too
few slots the surplus partitions read nothing, for ever and without an error; so it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MIN_LOCAL_SLOTS = 1024
"""`auto` gives at least so many: slots are threads that cost nothing while idle."""
GROWTH = 4
"""`auto` gives so many times the partitions, so that new topics need no new session."""


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """The master to use, its slots (None = unknown), what is needed, and what speaks against it."""

    master: str
    slots: int | None
    required: int
    refusal: str = ""
    warning: str = ""


def slots_of(
    master: str, conf: Mapping[str, str] | None = None, cores: int | None = None
) -> int | None:
    """Task slots of a master URL, None when it cannot be told.

    `conf` gives `spark.executor.instances` and `.cores` for real clusters; `cores` is what
    `local[*]` stands for.
    """
    conf = conf or {}
    if master == "local":
        return 1
    if match := re.fullmatch(r"local\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\]", master):
        return cores if match.group(1) == "*" else int(match.group(1))
    if match := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master):
        return int(match.group(1)) * int(match.group(2))
    try:
        instances = int(conf["spark.executor.instances"])
        return instances * int(conf["spark.executor.cores"])
    except (KeyError, ValueError):
        return None


def plan_slots(
    master: str,
    partitions: int,
    trigger: str = "realtime",
    conf: Mapping[str, str] | None = None,
    cores: int | None = None,
) -> SlotPlan:
    """The master with its slots, refused when real-time mode would starve partitions.

    `auto` becomes `local[N]` with room for growth. Micro-batch runs tasks in waves and has no
    such bound. Unknown slots are a warning: nothing here can count them.
    """
    required = partitions if trigger == "realtime" else 1
    if master == "auto":
        slots = max(MIN_LOCAL_SLOTS, GROWTH * partitions)
        return SlotPlan(f"local[{slots}]", slots, required)
    known = slots_of(master, conf, cores)
    if known is None:
        warning = (
            f"the task slots of spark.master = {master} are not known; real-time mode needs one "
            f"per source partition, {partitions} now: set spark.conf spark.executor.instances and "
            "spark.executor.cores, or use stream.trigger: microbatch"
        )
        return SlotPlan(master, None, required, warning=warning if required > 1 else "")
    if known < required:
        return SlotPlan(
            master,
            known,
            required,
            refusal=(
                f"spark.master = {master} gives {known} task slots for {partitions} source "
                "partitions; in real-time mode the surplus partitions would read nothing: "
                + _fix(master, partitions)
            ),
        )
    return SlotPlan(master, known, required)


def _fix(master: str, partitions: int) -> str:
    micro = "or stream.trigger: microbatch"
    if master.startswith("local-cluster"):
        return f"raise its cores to {partitions} slots in all (slots are threads), {micro}"
    if master.startswith("local"):
        return f"set spark.master: auto or local[{partitions}], {micro}"
    return (
        "raise spark.executor.instances x spark.executor.cores (cores may exceed the physical "
        f"count) to {partitions}, {micro}"
    )
