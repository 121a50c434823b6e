"""From the lanes that run to those that are planned: which end, which start now, which later. Pure.

A lane ends after its running batch, which may take minutes. Nobody waits for it: what is to take
its place is planned now and starts when it has ended, and everything else goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from aggregator.model import Lane, SourcePartition


@dataclass(frozen=True, slots=True)
class Steps:
    """What is to be done with lanes: `leave` (names) are to end, `start` to begin at once.

    `later` are to begin when the lanes that hold their partitions or their name have ended.
    """

    leave: frozenset[str]
    start: tuple[Lane, ...]
    later: tuple[Lane, ...]


def plan_steps(
    planned: Sequence[Lane],
    changed: Collection[str],
    running: Mapping[str, Lane],
    ending: Collection[str],
    resting: Collection[SourcePartition],
) -> Steps:
    """The steps to the planned lanes. No partition is ever in two lanes that run.

    `changed` are the names of planned lanes that do not run as they are planned, `ending` those of
    running ones that were told to end. A planned lane with partitions that are `resting` is left
    out: it is planned again when these are well.
    """
    leave = running.keys() - ({lane.name for lane in planned} - set(changed))
    ends = leave | set(ending)
    held = {sp for name in ends for sp in running[name].partitions}
    start: list[Lane] = []
    later: list[Lane] = []
    for lane in planned:
        # One that ends is to begin again, even when it is planned now as it was.
        if lane.name not in changed and lane.name not in ending:
            continue
        own = set(lane.partitions)
        if own.isdisjoint(resting):
            waits = lane.name in ends or not own.isdisjoint(held)
            (later if waits else start).append(lane)
    return Steps(frozenset(leave - set(ending)), tuple(start), tuple(later))


def lanes_to_be(
    running: Mapping[str, Lane], ending: Collection[str], later: Sequence[Lane]
) -> tuple[Lane, ...]:
    """The lanes as they will be when those that end have ended: what a new plan is to keep to."""
    return (*(lane for name, lane in running.items() if name not in ending), *later)
