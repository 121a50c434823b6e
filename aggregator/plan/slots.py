"""Task slots: how many the Spark master gives, and the trigger that they are enough for.

In real-time mode a task holds its slot for the whole batch, one per source partition. With too
few slots the surplus partitions read nothing, for ever and without an error; then micro-batches are
used, whose tasks come and go.
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
    """The master to use, its slots (None = unknown), what is needed, and the trigger they fit."""

    master: str
    slots: int | None
    required: int
    trigger: str = "realtime"
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


def fitting_trigger(trigger: str, slots: int | None, partitions: int) -> str:
    """The trigger that is asked for, but micro-batches where real-time mode lacks slots."""
    too_few = slots is not None and slots < partitions
    return "microbatch" if trigger == "realtime" and too_few else trigger


def plan_slots(
    master: str,
    partitions: int,
    trigger: str = "realtime",
    conf: Mapping[str, str] | None = None,
    cores: int | None = None,
) -> SlotPlan:
    """The master with its slots; the trigger is microbatch where real-time mode would starve some.

    `auto` becomes `local[N]` with room for growth. Micro-batch runs tasks in waves and has no
    such bound. Unknown slots are a warning: nothing here can count them.
    """
    required = partitions if trigger == "realtime" else 1
    if master == "auto":
        slots = max(MIN_LOCAL_SLOTS, GROWTH * partitions)
        return SlotPlan(f"local[{slots}]", slots, required, trigger)
    known = slots_of(master, conf, cores)
    if known is None:
        warning = (
            f"the task slots of spark.master = {master} are not known; real-time mode needs one "
            f"per source partition, {partitions} now: set spark.conf spark.executor.instances and "
            "spark.executor.cores, or use stream.trigger: microbatch"
        )
        return SlotPlan(master, None, required, trigger, warning if required > 1 else "")
    fitting = fitting_trigger(trigger, known, required)
    warning = "" if fitting == trigger else too_few_slots(master, known, partitions)
    return SlotPlan(master, known, required, fitting, warning)


def too_few_slots(master: str, slots: int, partitions: int) -> str:
    """Why micro-batches are used, and what to do about it."""
    return (
        f"spark.master = {master} gives {slots} task slots for {partitions} source partitions; in "
        "real-time mode the surplus would read nothing, so micro-batches are used in its place, "
        f"whose records arrive seconds later: {_fix(master, partitions)}"
    )


def _fix(master: str, partitions: int) -> str:
    if master == "auto":
        return "restart, to get a session with more"
    micro = "or say so with stream.trigger: microbatch"
    if master.startswith("local-cluster"):
        return f"raise its cores to {partitions} slots in all (slots are threads), {micro}"
    if master.startswith("local"):
        return f"set spark.master: auto or local[{partitions}], {micro}"
    return (
        "raise spark.executor.instances x spark.executor.cores (cores may exceed the physical "
        f"count) to {partitions}, {micro}"
    )
