"""Source partitions -> lanes: which of them share a streaming query.

Sources stay apart while there are few, so that a hung one stalls nobody else. A lane holds at
most `max_partitions`, because at the end of a batch all its tasks start anew and wait for each
other. The plan is stable: a lane that needs no change is returned as it was, so it runs on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aggregator.config.schema import StreamConfig
from aggregator.model import Lane, SourcePartition

MAX_PARTITIONS = StreamConfig().max_partitions_per_lane
MAX_LANES_APART = 16
"""With `auto`, more sources than this share lanes: a query costs threads and driver time."""
SHARED = "shared"


@dataclass(frozen=True, slots=True)
class LanePlan:
    """The lanes, in a stable order, and what is worth saying about them."""

    lanes: tuple[Lane, ...]
    warnings: tuple[str, ...] = ()


def plan_lanes(
    partitions: Collection[SourcePartition],
    lanes: Literal["auto"] | int = "auto",
    max_partitions: int = MAX_PARTITIONS,
    current: Sequence[Lane] = (),
    taken: Collection[str] = (),
) -> LanePlan:
    """Put every partition into exactly one lane.

    `auto`: no lane above `max_partitions`; a lane per source (several for a large one) up to
    `MAX_LANES_APART` sources, beyond that small sources share. A number: that many lanes (fewer
    when there are fewer partitions), each source's partitions together as far as they go.

    `current` are the lanes that run now: partitions stay where they are, vanished ones are taken
    out, new ones join a lane of their source with room, or a new lane. When `current` cannot be
    kept (a number of lanes that is now smaller) everything is planned anew. No new lane gets a
    name in `taken`.
    """
    wanted = sorted(set(partitions))
    kept = _kept(current, set(wanted), max_partitions if lanes == "auto" else None)
    if lanes != "auto" and len(kept) > lanes:
        kept = {}
    if not kept:
        groups = _auto(wanted, max_partitions) if lanes == "auto" else _fixed(wanted, lanes)
        return _finish({}, groups, lanes, max_partitions, taken)
    placed = {sp for lane in kept.values() for sp in lane}
    new: dict[str, list[SourcePartition]] = defaultdict(list)
    for sp in wanted:
        if sp not in placed:
            new[sp.cluster].append(sp)
    groups = (
        _grow_auto(kept, new, max_partitions) if lanes == "auto" else _grow_fixed(kept, new, lanes)
    )
    return _finish(kept, groups, lanes, max_partitions, taken)


def required_slots(lanes: Iterable[Lane]) -> int:
    """Task slots that the lanes hold in real-time mode: one per source partition, all the time."""
    return sum(len(lane.partitions) for lane in lanes)


def deal(partitions: Sequence[SourcePartition], hands: int) -> list[list[SourcePartition]]:
    """Deal sorted partitions out like cards: sizes differ by one, each topic is spread evenly."""
    return [list(partitions[hand::hands]) for hand in range(hands)]


def _kept(
    current: Sequence[Lane], wanted: set[SourcePartition], limit: int | None
) -> dict[str, list[SourcePartition]]:
    """What of the running lanes stays; above `limit` (a smaller setting) the surplus moves out."""
    kept = {}
    for lane in current:
        left = [sp for sp in lane.partitions if sp in wanted][:limit]
        if left:
            kept[lane.name] = left
    return kept


def by_cluster(partitions: Iterable[SourcePartition]) -> dict[str, list[SourcePartition]]:
    """The partitions of each source, in their order."""
    found: dict[str, list[SourcePartition]] = defaultdict(list)
    for sp in partitions:
        found[sp.cluster].append(sp)
    return found


def _auto(wanted: Sequence[SourcePartition], limit: int) -> list[list[SourcePartition]]:
    sources = by_cluster(wanted)
    apart = {alias: deal(found, -(-len(found) // limit)) for alias, found in sources.items()}
    if len(sources) <= MAX_LANES_APART:
        return [group for groups in apart.values() for group in groups]
    groups: list[list[SourcePartition]] = []
    shared: list[list[SourcePartition]] = []
    for alias, found in sources.items():
        if len(apart[alias]) > 1:
            groups += apart[alias]
        else:
            _first_fit(shared, found, limit)
    return groups + shared


def _first_fit(
    lanes: list[list[SourcePartition]], found: list[SourcePartition], limit: int
) -> None:
    """Add `found` to the first lane with room for all of it, or to a new one."""
    for lane in lanes:
        if len(lane) + len(found) <= limit:
            lane.extend(found)
            return
    lanes.append(list(found))


def _fixed(wanted: Sequence[SourcePartition], count: int) -> list[list[SourcePartition]]:
    sources = by_cluster(wanted)
    count = min(count, len(wanted))
    if count < len(sources):
        bins: list[list[SourcePartition]] = [[] for _ in range(count)]
        for found in sorted(sources.values(), key=len, reverse=True):
            min(bins, key=len).extend(found)
        return bins
    share = dict.fromkeys(sources, 1)
    for _ in range(count - len(sources)):
        splittable = [alias for alias in sources if share[alias] < len(sources[alias])]
        share[max(splittable, key=lambda alias: len(sources[alias]) / share[alias])] += 1
    return [group for alias, found in sources.items() for group in deal(found, share[alias])]


def _grow_auto(
    kept: dict[str, list[SourcePartition]], new: Mapping[str, list[SourcePartition]], limit: int
) -> list[list[SourcePartition]]:
    """Place new partitions; changes `kept` in place and returns the groups for new lanes.

    They join a lane only when all of one source fit, so at most one lane per source restarts;
    otherwise they get lanes of their own and the running ones are left alone.
    """
    groups: list[list[SourcePartition]] = []
    shared: list[list[SourcePartition]] = []
    aliases = {sp.cluster for lane in kept.values() for sp in lane} | set(new)
    for alias, found in new.items():
        own = [lane for lane in kept.values() if any(sp.cluster == alias for sp in lane)]
        own.sort(key=lambda lane: len({sp.cluster for sp in lane}))
        crowded = not own and len(aliases) > MAX_LANES_APART and len(found) <= limit
        if crowded:
            own = [lane for name, lane in kept.items() if _is_shared(name, lane)]
        room = [lane for lane in own if len(lane) + len(found) <= limit]
        if room:
            room[0].extend(found)
        elif crowded:
            _first_fit(shared, found, limit)
        else:
            groups += deal(found, -(-len(found) // limit))
    return groups + shared


def _grow_fixed(
    kept: dict[str, list[SourcePartition]], new: Mapping[str, list[SourcePartition]], count: int
) -> list[list[SourcePartition]]:
    groups: list[list[SourcePartition]] = []
    for alias, found in new.items():
        lanes = [*kept.values(), *groups]
        own = [lane for lane in lanes if any(sp.cluster == alias for sp in lane)]
        if own:
            min(own, key=len).extend(found)
        elif len(lanes) < count:
            groups.append(list(found))
        else:
            min(lanes, key=len).extend(found)
    return groups


def _is_shared(name: str, lane: Sequence[SourcePartition]) -> bool:
    clusters = {sp.cluster for sp in lane}
    return len(clusters) > 1 or (name.startswith(f"{SHARED}-") and name not in clusters)


def _finish(
    kept: Mapping[str, list[SourcePartition]],
    groups: list[list[SourcePartition]],
    lanes: Literal["auto"] | int,
    limit: int,
    taken: Collection[str],
) -> LanePlan:
    names = {*kept, *taken}
    done = [Lane(name, tuple(sorted(found))) for name, found in kept.items()]
    everyone = {sp.cluster for group in [*kept.values(), *groups] for sp in group}
    for group in groups:
        clusters = {sp.cluster for sp in group}
        alias = next(iter(clusters)) if len(clusters) == 1 else None
        name = free_name(alias, names, everyone)
        names.add(name)
        done.append(Lane(name, tuple(sorted(group))))
    warnings = tuple(
        f"lane {lane.name} holds {len(lane.partitions)} partitions, above "
        f"stream.max_partitions_per_lane = {limit}: its batch ends will be felt; "
        "set stream.lanes to auto or to a larger number"
        for lane in done
        if lanes != "auto" and len(lane.partitions) > limit
    )
    return LanePlan(tuple(done), warnings)


def free_name(alias: str | None, taken: Collection[str], aliases: Collection[str]) -> str:
    """`eu`, `eu-2`, ... or `shared-1`, ...: not in use, and not the name of another source."""
    if alias is not None and alias not in taken:
        return alias
    base, number = (alias, 2) if alias is not None else (SHARED, 1)
    while f"{base}-{number}" in {*taken, *aliases}:
        number += 1
    return f"{base}-{number}"
