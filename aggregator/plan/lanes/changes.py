"""The steps from running to planned lanes: which end, which start now, which later. Pure.

A lane ends when its tasks have reported their positions. Nothing waits for it: its successor is
planned now and starts when it has ended, and everything else continues meanwhile.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from aggregator.model.values import Lane, SourcePartition


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps for lanes: `leave` (names) end, `start` begin at once.

    `hold` are partitions that a running lane stops reading. `later` begin when the lanes that have
    their partitions or their name have released them.
    """

    leave: frozenset[str]
    hold: Mapping[str, frozenset[SourcePartition]]
    start: tuple[Lane, ...]
    later: tuple[Lane, ...]


def plan_steps(
    planned: Sequence[Lane],
    changed: Collection[str],
    running: Mapping[str, Lane],
    ending: Collection[str],
) -> Steps:
    """The steps to the planned lanes. No partition is ever in two lanes that run.

    `changed` are the names of planned lanes that must restart to match the plan, `ending` those of
    running ones that are ending. A lane that only reads less keeps running.
    """
    goal = {lane.name: lane for lane in planned}
    leave = running.keys() - (goal.keys() - set(changed))
    ends = leave | set(ending)
    hold = {
        name: frozenset(less)
        for name, lane in running.items()
        if name not in ends and (less := set(lane.partitions) - set(goal[name].partitions))
    }
    taken = {sp for name in ends for sp in running[name].partitions}
    taken |= {sp for less in hold.values() for sp in less}
    start: list[Lane] = []
    later: list[Lane] = []
    for lane in planned:
        # One that ends must start again, even when its plan has not changed.
        if lane.name not in changed and lane.name not in ending:
            continue
        waits = lane.name in ends or not taken.isdisjoint(lane.partitions)
        (later if waits else start).append(lane)
    return Steps(frozenset(leave - set(ending)), hold, tuple(start), tuple(later))
