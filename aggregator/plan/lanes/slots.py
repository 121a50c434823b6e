"""How many tasks read a source, with which partitions, and whether there are slots for them. Pure.

A task is a thread with a consumer and a producer of its own, for as many partitions as it is given.
So tasks are a matter of cores, not of partitions: with fewer, records are sent in larger requests.

A task holds its slot for as long as its lane runs. A source needs one at least, and one for each
transform in it; with fewer slots some of them would never be read, and nothing would say so.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aggregator.model.values import SourcePartition


def tasks_per_source(cores: int, sources: int, slots: int | None) -> int:
    """The most tasks for each of `sources` sources: together about one for each core.

    With two for each core requests to the hub are half as large, and a record of 1 kB takes 1.4
    times the CPU (docs/results/2026-11-29-tasks.md). At most half of the `slots`, where these are
    known, so that there is room for lanes that come beside those that run; at least one.
    """
    wanted = cores // max(1, sources)
    if slots is not None:
        wanted = min(wanted, slots // (2 * max(1, sources)))
    return max(1, wanted)


def deal_tasks(partitions: Sequence[SourcePartition], tasks: int) -> list[list[SourcePartition]]:
    """The partitions of a reading by task: dealt out like cards, so that topics are spread."""
    hands = max(1, min(tasks, len(partitions)))
    ordered = sorted(partitions)
    return [ordered[hand::hands] for hand in range(hands)]


LOCAL_SLOTS = 256
"""`auto` gives at least this many: slots are threads that cost nothing while idle."""
GROWTH = 8
"""`auto` gives this many for each source, so that new topics need no new session."""


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """The master to use, its slots (None = unknown), how many are needed; and what is wrong."""

    master: str
    slots: int | None
    required: int
    warning: str = ""
    refusal: str = ""

    @property
    def has_room(self) -> bool:
        """Whether each source may have a second task, in a lane beside the one that runs."""
        return self.slots is None or self.slots >= 2 * self.required


def slots_of(master: str, conf: Mapping[str, str] | None, cores: int | None) -> int | None:
    """Task slots of a master URL, None when unknown.

    `conf` gives `spark.executor.instances` and `.cores` for real clusters; `cores` is what
    `local[*]` means.
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
    tasks: int,
    conf: Mapping[str, str] | None = None,
    cores: int | None = None,
) -> SlotPlan:
    """The master with its slots; refused when the tasks cannot each have one.

    A source needs one for each transform in it, and one for what is not transformed, or as many as
    its config says. `auto` becomes `local[N]` with room for growth. Unknown slots are a warning:
    nothing here can count them.
    """
    required = max(1, tasks)
    if master == "auto":
        slots = max(LOCAL_SLOTS, GROWTH * required)
        return SlotPlan(f"local[{slots}]", slots, required)
    known = slots_of(master, conf, cores)
    if known is None:
        warning = (
            f"the task slots of spark.master = {master} are not known; each task needs one, "
            f"{required} now: set spark.conf spark.executor.instances and spark.executor.cores"
        )
        return SlotPlan(master, None, required, warning if required > 1 else "")
    refusal = "" if known >= required else _too_few(master, known, required)
    return SlotPlan(master, known, required, refusal=refusal)


def _too_few(master: str, slots: int, tasks: int) -> str:
    return (
        f"spark.master = {master} gives {slots} task slots for {tasks} tasks at least (one for "
        "each source and each of its transforms, or as many as sources.<alias>.tasks says), and "
        f"the surplus would never be read: {_fix(master, tasks)}"
    )


def _fix(master: str, tasks: int) -> str:
    if master.startswith("local-cluster"):
        return f"raise its cores to {tasks} slots in all (slots are threads)"
    if master.startswith("local"):
        return f"set spark.master: auto or local[{tasks}]"
    return (
        "raise spark.executor.instances x spark.executor.cores (cores may exceed the physical "
        f"count) to {tasks}"
    )
