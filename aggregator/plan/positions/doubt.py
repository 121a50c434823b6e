"""What a start does not trust of a checkpoint until it has read the hub. Pure.

None of our records are in the hub behind the ends in the checkpoint, except what is unclean. If
there is something, another writer wrote it, or the checkpoint is older than it looks: commits were
lost, the folder was restored from a backup, or it is gone. To look costs little, and what it would
cost not to look is every record of that time once more.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.model.values import OffsetRange, Route, SourcePartition, TopicPartition

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Believed:
    """What a start would believe: partitions that are `clean`, and where the hub was.

    `hub_ends` are the furthest that any commit of a run knows. `by_hand` are ends that belong to
    positions set by hand: they say nothing of other partitions. `absent` are partitions
    without a position, `away` sources whose topics are unknown. `is_empty`: there is no
    commit at all.
    """

    clean: Collection[SourcePartition]
    hub_ends: Ends
    by_hand: Mapping[SourcePartition, Ends] = field(default_factory=dict)
    absent: Collection[SourcePartition] = ()
    away: Collection[str] = ()
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Doubt:
    """What to search for in the hub, and behind which of its ends.

    `ends` are those of partitions that the checkpoint calls clean; `sources` those of which any
    partition that it does not know has to be looked for, behind `hub_ends`. `reason` says why, in
    words; "" where nothing speaks against the checkpoint.
    """

    ends: Mapping[SourcePartition, Ends] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    hub_ends: Ends = field(default_factory=dict)
    reason: str = ""


def plan_doubt(
    routes: Iterable[Route],
    believed: Believed,
    hub_logs: Mapping[TopicPartition, OffsetRange],
    silent: Collection[str] = (),
) -> Doubt:
    """Decide about a start, by what the hub's logs hold before anything is committed.

    A partition is doubted when a hub topic that it goes to holds anything behind the known ends, or
    is `silent` about that; one whose route is unknown when any hub topic does. A source that is
    away is always doubted: its records may be in hub topics that are not known yet.
    """
    known = believed.hub_ends
    topics_of: dict[tuple[str, str], set[str]] = {}
    for route in routes:
        topics_of.setdefault((route.cluster, route.topic), set()).update(route.hub_topics)
    beyond = _beyond(hub_logs, known)
    topics = {tp.topic for tp in beyond} | set(silent)
    ends = {}
    for sp in believed.clean:
        own = believed.by_hand.get(sp)
        bound = known if own is None else _furthest(known, own)
        own_topics = {tp.topic for tp in _beyond(hub_logs, bound)} | set(silent)
        further = topics if own is None else own_topics
        into = topics_of.get((sp.cluster, sp.topic))
        if further if into is None else further & into:
            ends[sp] = bound
    new = {sp.cluster for sp in believed.absent if topics & topics_of[sp.cluster, sp.topic]}
    reason = ""
    if ends or new:
        count = sum(
            hub_logs[tp].latest - max(known.get(tp, 0), hub_logs[tp].earliest) for tp in beyond
        )
        named = {tp.topic for tp in beyond}
        reason = _reason(count, named, is_empty=believed.is_empty) if beyond else _unknown(topics)
    return Doubt(ends, frozenset(new | set(believed.away)), dict(known), reason)


def _beyond(
    hub_logs: Mapping[TopicPartition, OffsetRange], known: Ends
) -> frozenset[TopicPartition]:
    """The hub partitions that hold anything behind these ends."""
    return frozenset(
        tp
        for tp, log in hub_logs.items()
        if log.latest > max(log.earliest, known.get(tp, log.earliest))
    )


def _furthest(one: Ends, other: Ends) -> dict[TopicPartition, int]:
    return {tp: max(one.get(tp, 0), other.get(tp, 0)) for tp in one.keys() | other.keys()}


def _unknown(topics: Collection[str]) -> str:
    return (
        f"the hub does not show what it holds in {', '.join(sorted(topics))}: when it does, what "
        "the checkpoint does not know of is looked for there"
    )


def _reason(count: int, topics: Collection[str], *, is_empty: bool) -> str:
    named = ", ".join(sorted(topics))
    if is_empty:
        return (
            f"there is no checkpoint, and the hub holds {count} records in {named}: looking which "
            "of them are ours (run --fresh skips this where none can be)"
        )
    return (
        f"the hub holds {count} records in {named} that the checkpoint does not know of: "
        "looking whether they are ours"
    )
