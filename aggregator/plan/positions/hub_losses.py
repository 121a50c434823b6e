"""What the hub has lost of what the checkpoint calls copied: it is older, or a topic is new. Pure.

The hub's ends in a checkpoint were acknowledged by it. A hub partition that ends before them was
restored from a backup that is older than the checkpoint, was created again, or has lost records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.model.values import OffsetRange, Positions, SourcePartition, TopicPartition
from aggregator.plan.positions.start import Gap, GapKind, Observed, Remembered

Ends = Mapping[TopicPartition, int]


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
