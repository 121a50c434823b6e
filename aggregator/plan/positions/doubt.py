"""What a start does not trust of a checkpoint until it has read the hub. Pure.

None of our records are in the hub behind the ends in the checkpoint, except what is unclean. If
there is something, another writer wrote it, or the checkpoint is older than it looks: commits were
lost, the folder was restored from a backup, or it is gone. To look costs little, and what it would
cost not to look is every record of that time once more. Nor is a checkpoint trusted that knows of
more than the hub holds: what the hub has lost would be missing for good.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.model.values import OffsetRange, Route, SourcePartition, TopicPartition
from aggregator.plan.positions.hub_losses import lost_topics

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Believed:
    """What a start would believe: partitions that are `clean`, and where the hub was.

    `hub_ends` are the furthest that any commit of a run knows. `by_hand` are ends that belong to
    positions set by hand: they say nothing of other partitions. `absent` are partitions
    without a position, `away` sources whose topics are unknown. `is_empty`: there is no
    commit at all. `own_ends` are the hub's ends in the commit of each partition, clean or not.
    """

    clean: Collection[SourcePartition]
    hub_ends: Ends
    by_hand: Mapping[SourcePartition, Ends] = field(default_factory=dict)
    absent: Collection[SourcePartition] = ()
    away: Collection[str] = ()
    is_empty: bool = False
    own_ends: Mapping[SourcePartition, Ends] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Doubt:
    """What to search for in the hub, and behind which of its ends.

    `ends` are those of partitions that the checkpoint calls clean; `sources` those of which any
    partition that it does not know has to be looked for, behind `hub_ends`. `reason` says why, in
    words; "" where nothing speaks against the checkpoint. `lost` are the hub topics of partitions
    that hold less than was copied.
    """

    ends: Mapping[SourcePartition, Ends] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    hub_ends: Ends = field(default_factory=dict)
    reason: str = ""
    lost: Mapping[SourcePartition, frozenset[str]] = field(default_factory=dict)


def plan_doubt(
    routes: Iterable[Route],
    believed: Believed,
    hub_logs: Mapping[TopicPartition, OffsetRange],
    silent: Collection[str] = (),
) -> Doubt:
    """Decide about a start, by what the hub's logs hold before anything is committed.

    A partition is doubted when a hub topic that it goes to holds anything behind the known ends, or
    is `silent` about that, or holds less than its commit knows of, which one that is not clean may
    know as well; one whose route is unknown when any hub topic does. A source that is away is
    always doubted: its records may be in hub topics that are not known yet.
    """
    # What comes into a topic that has lost records comes behind its end of now.
    known = {
        tp: min(end, hub_logs[tp].latest) if tp in hub_logs else end
        for tp, end in believed.hub_ends.items()
    }
    topics_of: dict[tuple[str, str], set[str]] = {}
    for route in routes:
        topics_of.setdefault((route.cluster, route.topic), set()).update(route.hub_topics)
    beyond = _beyond(hub_logs, known)
    topics = {tp.topic for tp in beyond} | set(silent)
    ends: dict[SourcePartition, Ends] = {}
    routed = {
        sp: topics_of[sp.cluster, sp.topic]
        for sp in {*believed.clean, *believed.own_ends}
        if (sp.cluster, sp.topic) in topics_of
    }
    lost = lost_topics(believed.own_ends, routed, hub_logs)
    ends |= {sp: believed.own_ends[sp] for sp in lost.keys() - set(believed.clean)}
    for sp in believed.clean:
        own = believed.by_hand.get(sp)
        bound = known if own is None else _furthest(known, own)
        own_topics = {tp.topic for tp in _beyond(hub_logs, bound)} | set(silent)
        further = topics if own is None else own_topics
        into = topics_of.get((sp.cluster, sp.topic))
        if sp in lost or (further if into is None else further & into):
            # Of what is not known now its own may still show that something is lost.
            ends[sp] = {**believed.own_ends.get(sp, {}), **bound}
    new = {sp.cluster for sp in believed.absent if topics & topics_of[sp.cluster, sp.topic]}
    reason = ""
    if ends or new:
        count = sum(
            hub_logs[tp].latest - max(known.get(tp, 0), hub_logs[tp].earliest) for tp in beyond
        )
        named = {tp.topic for tp in beyond}
        reason = _reason(count, named, is_empty=believed.is_empty) if beyond else _unknown(topics)
        if lost:
            less = _less(frozenset().union(*lost.values()))
            reason = f"{less}; {reason}" if topics else less
    return Doubt(ends, frozenset(new | set(believed.away)), dict(known), reason, lost)


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


def _less(topics: Collection[str]) -> str:
    return (
        f"the hub holds less in {', '.join(sorted(topics))} than the checkpoint knows of: what it "
        "lacks is copied again (run --fresh trusts the checkpoint)"
    )


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
