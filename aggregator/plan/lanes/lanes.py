"""Source partitions -> lanes: which of them share a streaming query. Pure.

By default one lane unions everything. What is new while it runs gets a lane beside it, so that the
union need not stop; a source that is left out stops no other. The plan is stable: a lane keeps the
partitions that it has.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from aggregator.model.values import Lane, SourcePartition

UNION = "union"

How = Literal["auto", "source"]


def plan_lanes(
    partitions: Collection[SourcePartition],
    how: How = "auto",
    current: Sequence[Lane] = (),
    alone: Collection[str] = (),
    apart: Collection[SourcePartition] = (),
    *,
    room: bool = True,
) -> tuple[Lane, ...]:
    """Put every partition into exactly one lane; in a stable order.

    `auto`: one lane of all sources. `source`: a lane for each. `current` are the lanes that there
    are: their partitions stay where they are, those that are not wanted are taken out, and what is
    new joins the lane of its source alone, or gets one. Sources in `alone` (aliases) share no lane.
    So do partitions in `apart`, but for others of them, so that no lane restarts for them; nor
    does anything else join theirs.
    Without `room` for another lane's tasks what is new joins a lane that there is, if it may share.
    """
    wanted = sorted(set(partitions))
    aliases = {sp.cluster for sp in wanted}
    kept = _kept(current, set(wanted), frozenset(alone))
    placed = {sp for lane in kept.values() for sp in lane}
    split = frozenset(apart) if room else frozenset[SourcePartition]()
    new = by_cluster(sp for sp in wanted if sp not in placed)
    if all(split.issuperset(lane) for lane in kept.values()) and how == "auto":
        shared = {alias: found for alias, found in new.items() if alias not in alone}
        together = {sp for found in shared.values() for sp in found if sp not in split}
        if len({sp.cluster for sp in together}) > 1:
            kept[free_name(UNION, kept, aliases)] = sorted(together)
            new = by_cluster(sp for sp in wanted if sp not in placed and sp not in together)
    for found in (part for them in new.values() for part in _split(them, split)):
        alias, rests = found[0].cluster, found[0] in split
        own = [
            name
            for name, lane in kept.items()
            if {sp.cluster for sp in lane} == {alias} and rests == split.issuperset(lane)
        ]
        if not own and not room and alias not in alone:
            open_ = {n: {sp.cluster for sp in lane} for n, lane in kept.items()}
            open_ = {n: clusters for n, clusters in open_.items() if clusters.isdisjoint(alone)}
            own = [*(n for n, clusters in open_.items() if alias in clusters), *open_]
        name = own[0] if own else free_name(alias, kept, aliases - {alias})
        kept[name] = [*kept.get(name, ()), *found]
    return tuple(Lane(name, tuple(sorted(found))) for name, found in kept.items())


def by_cluster(partitions: Iterable[SourcePartition]) -> dict[str, list[SourcePartition]]:
    """The partitions of each source, in their order."""
    found: dict[str, list[SourcePartition]] = defaultdict(list)
    for sp in partitions:
        found[sp.cluster].append(sp)
    return dict(found)


def _kept(
    current: Sequence[Lane], wanted: set[SourcePartition], alone: frozenset[str]
) -> dict[str, list[SourcePartition]]:
    kept = {}
    for lane in current:
        shared = len(lane.clusters) > 1
        left = [
            sp for sp in lane.partitions if sp in wanted and not (shared and sp.cluster in alone)
        ]
        if left:
            kept[lane.name] = left
    return kept


def _split(
    partitions: Sequence[SourcePartition], apart: frozenset[SourcePartition]
) -> list[list[SourcePartition]]:
    both = (
        [sp for sp in partitions if sp not in apart],
        [sp for sp in partitions if sp in apart],
    )
    return [part for part in both if part]


def free_name(wish: str, taken: Collection[str], others: Collection[str]) -> str:
    """The name, or it with a number behind: not in use, and not the name of another source."""
    name, number = wish, 2
    while name in taken or name in others:
        name, number = f"{wish}-{number}", number + 1
    return name
