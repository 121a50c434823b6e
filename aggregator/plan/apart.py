"""Lanes when some sources must not share one: those that have just come back, and catch up.

A source that was taken out of a shared lane comes back with a backlog; read in the shared lane it
would delay the others, and fail it again if it is not well yet. So it gets lanes of its own until
it has caught up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from aggregator.model import Lane, SourcePartition
from aggregator.plan.lanes import MAX_PARTITIONS, LanePlan, by_cluster, deal, free_name, plan_lanes

CATCH_UP = "catchup"


def plan_lanes_apart(
    partitions: Collection[SourcePartition],
    apart: Collection[str],
    lanes: Literal["auto"] | int = "auto",
    max_partitions: int = MAX_PARTITIONS,
    current: Sequence[Lane] = (),
) -> LanePlan:
    """As `plan_lanes`, but sources (aliases) in `apart` share no lane with others.

    They get lanes of their own beside the planned ones, and join those when they are no longer in
    `apart`. A lane of their own that runs already stays.
    """
    aliases = {sp.cluster for sp in partitions} | set(apart)
    aside = _aside(
        [sp for sp in partitions if sp.cluster in apart], aliases, max_partitions, current
    )
    over = {lane.name for lane in aside} | {
        lane.name for lane in current if _is_catch_up(lane, aliases)
    }
    rest = plan_lanes(
        [sp for sp in partitions if sp.cluster not in apart],
        lanes,
        max_partitions,
        [lane for lane in current if lane.name not in over],
        taken=over,
    )
    return LanePlan((*rest.lanes, *aside), rest.warnings)


def _aside(
    partitions: Iterable[SourcePartition],
    aliases: Collection[str],
    limit: int,
    current: Sequence[Lane],
) -> list[Lane]:
    lanes = []
    taken = {lane.name for lane in current}
    for alias, found in sorted(by_cluster(sorted(set(partitions))).items()):
        left = set(found)
        for lane in current:
            if lane.clusters == (alias,) and (stays := left & set(lane.partitions)):
                lanes.append(Lane(lane.name, tuple(sorted(stays))))
                left -= stays
        for group in deal(sorted(left), -(-len(left) // limit)):
            name = free_name(f"{CATCH_UP}-{alias}", taken | set(aliases), aliases)
            taken.add(name)
            lanes.append(Lane(name, tuple(group)))
    return lanes


def _is_catch_up(lane: Lane, aliases: Collection[str]) -> bool:
    """Whether a lane is one of ours; a source may be called like one."""
    return lane.name.startswith(f"{CATCH_UP}-") and lane.name not in aliases
