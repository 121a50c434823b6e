"""Finds copied records that the hub has lost: by an old backup, a new topic, a cut log. Pure.

The hub's ends in a checkpoint were acknowledged by it. A hub partition that ends before them was
restored from a backup that is older than the checkpoint, was created again, or has lost records.
A hub topic with another id was created again, however much it holds by now. One that acknowledges
a record before what it had acknowledged earlier was cut off, as by an unclean election: it soon
grows beyond its former end, so what it has lost is marked in all commits that may know of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from aggregator.model.values import OffsetRange, Positions, SourcePartition, TopicPartition
from aggregator.plan.positions.start import Gap, GapKind, Observed, Remembered

Ends = Mapping[TopicPartition, int]
Place = TypeVar("Place", TopicPartition, int)

NO_ID = "-"
LOST = "lost"
"""In place of a hub topic's id in a commit: it has lost records, and is read before they count.

Until then it may grow beyond its former end. Where it was seen that partitions were cut off, the id
follows, and of each of these an offset behind which nothing of the former log is left.
"""


def cut_id(hub_id: str, cuts: Mapping[int, int]) -> str:
    """In place of a hub topic's id: its partitions were cut off at these offsets, or before.

    What the id says already, of others or of the same, stays.
    """
    least = least_cuts(cuts_in(hub_id), cuts)
    own = id_before(hub_id) or NO_ID
    return " ".join([LOST, own, *(f"{number}:{least[number]}" for number in sorted(least))])


def is_lost(hub_id: str) -> bool:
    """Whether it says, in place of a hub topic's id, that records are lost."""
    return hub_id.startswith(LOST) and hub_id.split(" ", 1)[0] == LOST


def id_before(hub_id: str) -> str:
    """The id of a hub topic without what else it says; "" where it is not known."""
    if not is_lost(hub_id):
        return hub_id
    own = hub_id.split(" ")[1:2]
    return "" if own == [NO_ID] else "".join(own)


def cuts_in(hub_id: str) -> dict[int, int]:
    """Where the partitions of a hub topic were cut off, by what is in place of its id."""
    parts = hub_id.split(" ")[2:] if is_lost(hub_id) else []
    return {int(number): int(at) for number, at in (part.split(":") for part in parts)}


def cut_ids(hub_ids: Mapping[str, str], cuts: Ends) -> dict[str, str]:
    """The ids of hub topics, with what was cut off of them."""
    of_topic: dict[str, dict[int, int]] = {}
    for tp, at in cuts.items():
        of_topic.setdefault(tp.topic, {})[tp.partition] = at
    return {**hub_ids, **{name: cut_id(hub_ids.get(name, ""), it) for name, it in of_topic.items()}}


def least_cuts(one: Mapping[Place, int], other: Mapping[Place, int]) -> dict[Place, int]:
    """Where partitions, or their numbers, were cut off by either: the lower offset."""
    return {it: min(ends[it] for ends in (one, other) if it in ends) for it in {**one, **other}}


def least_ends(bounds: Iterable[Ends]) -> dict[TopicPartition, int]:
    """Of several bounds one that holds for all: per hub partition the lowest, where all know it."""
    least: dict[TopicPartition, int] | None = None
    for ends in bounds:
        if least is None:
            least = dict(ends)
        elif least != ends:
            least = {tp: min(at, ends[tp]) for tp, at in least.items() if tp in ends}
    return least or {}


def cut_ends(ends: Ends, cuts: Ends) -> Ends:
    """Bounds of what may be beyond positions: what comes now lies behind where it was cut off."""
    return {tp: min(end, cuts.get(tp, end)) for tp, end in ends.items()}


def plan_cuts(known: Ends, now: Ends) -> dict[TopicPartition, int]:
    """Which hub partitions end before an end that was known of them earlier, and where."""
    return {tp: end for tp, end in now.items() if end < known.get(tp, end)}


def cuts_of(
    ids: Mapping[SourcePartition, Mapping[str, str]],
    lost: Mapping[SourcePartition, Collection[str]],
) -> dict[TopicPartition, int]:
    """Where the `lost` hub topics of partitions were cut off, by the ids in their commits."""
    cuts: dict[TopicPartition, int] = {}
    for sp, topics in lost.items():
        for name in topics:
            own = cuts_in(ids.get(sp, {}).get(name, ""))
            cuts = least_cuts(cuts, {TopicPartition(name, it): at for it, at in own.items()})
    return cuts


def words_of(cuts: Ends) -> str:
    """What was cut off, in words."""
    first, *others = sorted(cuts)
    more = f" and {len(others)} more partitions" if others else ""
    return (
        f"{first.topic}-{first.partition}{more} has lost records that were acknowledged, from "
        f"offset {cuts[first]} on or before, as after an unclean leader election"
    )


def limited(
    hub_logs: Mapping[TopicPartition, OffsetRange], cuts: Ends
) -> dict[TopicPartition, OffsetRange]:
    """The logs of hub partitions, up to where they are what they were before they were cut off."""
    return {
        tp: OffsetRange(min(log.earliest, at), min(log.latest, at))
        for tp, log in hub_logs.items()
        for at in [cuts.get(tp, log.latest)]
    }


@dataclass(frozen=True, slots=True)
class Held:
    """Up to where the hub certainly holds what was copied of a partition, and its bound there.

    `unknown`: below `position` more may be missing, and the history does not reach that far.
    """

    position: int
    ends: Ends = field(default_factory=dict)
    unknown: bool = False


def lost_topics(
    own_ends: Mapping[SourcePartition, Ends],
    into: Mapping[SourcePartition, Collection[str]],
    hub_logs: Mapping[TopicPartition, OffsetRange],
) -> dict[SourcePartition, frozenset[str]]:
    """The hub topics of each partition that hold less than its commit knows of, by its `own_ends`.

    Of those that it is written `into`, or of all where that is not known. A topic of which no log
    is given says nothing. Partitions of which nothing is lost are left out.
    """
    asked = {tp.topic for tp in hub_logs}
    # The partitions of a commit share its ends.
    less: dict[int, frozenset[str]] = {}
    found = {}
    for sp, ends in own_ends.items():
        if id(ends) not in less:
            less[id(ends)] = frozenset(
                tp.topic
                for tp, end in ends.items()
                if tp.topic in asked and end > (hub_logs[tp].latest if tp in hub_logs else 0)
            )
        topics = less[id(ends)]
        if topics and (own := topics.intersection(into.get(sp, topics))):
            found[sp] = own
    return found


def renewed_topics(
    own_ids: Mapping[SourcePartition, Mapping[str, str]],
    into: Mapping[SourcePartition, Collection[str]],
    now: Mapping[str, str],
) -> dict[SourcePartition, frozenset[str]]:
    """The hub topics of each partition that were created again since its commit.

    `own_ids` are the ids (hub topic -> id) in each commit, `now` those of now: one that is not
    known proves nothing. Only topics that it is written `into` count.
    """
    # The partitions of a commit share its ids.
    other: dict[int, frozenset[str]] = {}
    found = {}
    for sp, ids in own_ids.items():
        if id(ids) not in other:
            other[id(ids)] = renewed_ids(ids, now)
        if (topics := other[id(ids)]) and (own := topics.intersection(into.get(sp, ()))):
            found[sp] = own
    return found


def renewed_ids(ids: Mapping[str, str], now: Mapping[str, str]) -> frozenset[str]:
    """The hub topics that have another id `now`, or have lost records."""
    return frozenset(
        name for name, it in ids.items() if is_lost(it) or (it and now.get(name, it) != it)
    )


def merged(
    one: Mapping[SourcePartition, frozenset[str]], other: Mapping[SourcePartition, frozenset[str]]
) -> dict[SourcePartition, frozenset[str]]:
    """The topics of each partition in either."""
    none = frozenset[str]()
    return {sp: one.get(sp, none) | other.get(sp, none) for sp in one.keys() | other.keys()}


def same_topics(
    ends: Ends, ids: Mapping[str, str], now: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """The ends without those of topics that were created again since, by their `ids`."""
    return {
        tp: end
        for tp, end in ends.items()
        if not (own := ids.get(tp.topic, "")) or now.get(tp.topic, own) == own
    }


def has_all(
    ends: Ends, topics: Collection[str], hub_logs: Mapping[TopicPartition, OffsetRange]
) -> bool:
    """Whether the hub still holds these topics up to these ends, which have to be known."""
    return all(
        tp in ends and ends[tp] <= log.latest for tp, log in hub_logs.items() if tp.topic in topics
    )


def plan_unknown(
    held: Mapping[SourcePartition, Held],
    lost: Mapping[SourcePartition, Collection[str]],
    known: Remembered,
    positions: Positions,
    observed: Observed,
) -> Iterable[Gap]:
    """A gap for each partition of which the hub may lack more than the history can say."""
    for sp, it in sorted(held.items()):
        if not it.unknown:
            continue
        log = observed.offsets.get(sp)
        start = min(log.earliest if log is not None else 0, it.position)
        reason = (
            f"hub topic {', '.join(sorted(lost[sp]))} has lost records, and the checkpoint's "
            f"history begins at offset {it.position}: which of those before it the hub lacks is "
            "not known; `aggregator positions set` to an earlier offset writes what it lacks"
        )
        log_id, at = known.log(sp), positions[sp]
        yield Gap(sp, GapKind.HUB_LOST, start, it.position, reason, at, None, log_id, log_id)
