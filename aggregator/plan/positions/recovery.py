"""What a recovery reads, and its result: positions, and what the next lanes skip. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from aggregator.model.values import (
    OffsetRange,
    Positions,
    Ranges,
    Route,
    Skip,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.positions.start import Gap, GapKind, Remembered

NOTHING: Mapping[SourcePartition, Mapping[TopicPartition, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TailPlan:
    """The hub tail that may hold records beyond the positions: [earliest, latest) per partition.

    `above` says of a source partition where its own tail begins, in hub partitions in which the
    whole tail begins earlier. What lies before that is not beyond its position, whatever its origin
    says: it may be of an earlier topic of the same name.
    """

    positions: Positions
    ranges: Mapping[TopicPartition, OffsetRange]
    above: Mapping[SourcePartition, Mapping[TopicPartition, int]] = field(default_factory=dict)

    @property
    def offsets(self) -> int:
        """How many offsets the tail spans."""
        return sum(log.latest - log.earliest for log in self.ranges.values())


def plan_tail(
    positions: Positions,
    hub_ends: Mapping[TopicPartition, int],
    hub_logs: Mapping[TopicPartition, OffsetRange],
    own_ends: Mapping[SourcePartition, Mapping[TopicPartition, int]] = NOTHING,
) -> TailPlan:
    """The tail behind a checkpoint, within what the hub's logs hold now.

    `hub_ends` is the checkpoint's lower bound for all; a hub partition that it does not know (the
    topic was created or has grown since) is read from its beginning. Empty ranges are left out.
    `own_ends` are the bounds of single partitions, which may be higher.
    """
    ranges = {}
    for tp, log in hub_logs.items():
        start = min(max(hub_ends.get(tp, log.earliest), log.earliest), log.latest)
        if start < log.latest:
            ranges[tp] = OffsetRange(start, log.latest)
    above = {
        sp: {tp: end for tp, end in ends.items() if tp in ranges and end > ranges[tp].earliest}
        for sp, ends in own_ends.items()
    }
    return TailPlan(positions, ranges, {sp: ends for sp, ends in above.items() if ends})


def recovered_positions(
    positions: Positions,
    found: Mapping[SourcePartition, Ranges],
    logs: Mapping[SourcePartition, OffsetRange],
) -> Positions:
    """Positions below which the hub holds everything that the sources still hold.

    `found` are the origin offsets that the tail holds per source partition, `logs` what the sources
    hold; a partition without one is another log by now. A hole and offsets that are no records look
    the same, so a position moves up to the first of either, and the next lane reads through the
    rest.
    """
    moved = {}
    for sp, ranges in found.items():
        at, top = positions[sp], ranges[-1][1]
        if (log := logs.get(sp)) is not None:
            # What was deleted meanwhile cannot be read; `plan_losses` names it.
            at = max(at, min(log.earliest, top))
        for start, end in ranges:
            if start <= at < end:
                at = end
        moved[sp] = at
    return positions.merged(moved)


def plan_skips(
    positions: Positions,
    found: Mapping[SourcePartition, Skip],
    log_ends: Mapping[SourcePartition, int],
) -> dict[SourcePartition, Skip]:
    """What to skip beyond these positions; nothing of a partition that has no hole.

    `log_ends` are ends of logs that are certain to be younger than all that was read of them. What
    was found beyond one is of a log that was cut since: what comes there now are other records.
    """
    skips = {}
    for sp, skip in found.items():
        at, last = positions[sp], log_ends.get(sp)
        ranges = [
            (max(at, start), end if last is None else min(end, last))
            for start, end in skip.ranges
            if end > at and (last is None or start < last)
        ]
        if ranges := [(start, end) for start, end in ranges if start < end]:
            skips[sp] = Skip(ranges, skip.later)
    return skips


def highest(found: Mapping[SourcePartition, Ranges]) -> dict[SourcePartition, int]:
    """The NEXT offset behind all that was found, per partition of which anything was."""
    return {sp: ranges[-1][1] for sp, ranges in found.items()}


def counts_below(
    found: Mapping[SourcePartition, Ranges], logs: Mapping[SourcePartition, OffsetRange]
) -> dict[SourcePartition, int]:
    """How many offsets deleted at the source the hub holds the record of."""
    return {
        sp: sum(max(0, min(end, logs[sp].earliest) - start) for start, end in ranges)
        for sp, ranges in found.items()
        if sp in logs
    }


def plan_losses(
    before: Remembered,
    after: Positions,
    tops: Mapping[SourcePartition, int],
    logs: Mapping[SourcePartition, OffsetRange],
    found: Mapping[SourcePartition, int],
) -> tuple[Gap, ...]:
    """What a recovery could not replay, because it was deleted from the source meanwhile.

    `tops` are the NEXT offsets behind what the hub holds, `found` says of how many offsets below
    the log's earliest the hub holds the record. A partition of which the hub held nothing beyond
    its position is left out: that shows by itself.
    """
    gaps = []
    for sp in sorted(after):
        position, log = before.positions[sp], logs.get(sp)
        reached = max(tops.get(sp, position), position)
        if log is None or not position < min(log.earliest, reached):
            continue
        lost = min(log.earliest, reached) - position - found.get(sp, 0)
        if lost > 0:
            lost += max(0, log.earliest - reached)
            reason = (
                f"up to {lost} of the offsets {position} to {log.earliest - 1} were deleted before "
                "they were copied"
            )
            gaps.append(
                Gap(
                    sp,
                    GapKind.BELOW_EARLIEST,
                    position,
                    log.earliest,
                    reason,
                    after[sp],
                    lost,
                    before.log(sp),
                    before.log(sp),
                )
            )
    return tuple(gaps)


def earlier_hub_ends(
    own_ends: Mapping[SourcePartition, Mapping[TopicPartition, int]],
    routes: Iterable[Route],
) -> dict[TopicPartition, int]:
    """The bounds in hub topics that these partitions may have gone to, and that no route names.

    Such a topic was renamed in the config since, or quarantine was. Of several bounds the lowest
    holds; a partition that names none never went there.
    """
    present = {name for route in routes for name in route.hub_topics}
    earlier: dict[TopicPartition, int] = {}
    for ends in own_ends.values():
        for tp, end in ends.items():
            if tp.topic not in present:
                earlier[tp] = min(end, earlier.get(tp, end))
    return earlier


def needed_topics(
    routes: Iterable[Route],
    partitions: Collection[SourcePartition],
    own_ends: Mapping[SourcePartition, Mapping[TopicPartition, int]],
    earlier: Collection[TopicPartition],
) -> dict[SourcePartition, frozenset[str]]:
    """The hub topics that have to be seen as a whole before each of these can be recovered.

    All partitions of them: by its key a record goes to any. `earlier` are those of before the
    config was changed, of which only the partitions whose bounds name them need any.
    """
    routed: dict[tuple[str, str], frozenset[str]] = {}
    for route in routes:
        key = (route.cluster, route.topic)
        routed[key] = routed.get(key, frozenset()) | route.hub_topics
    return {
        sp: routed.get((sp.cluster, sp.topic), frozenset())
        | {tp.topic for tp in earlier if tp in own_ends.get(sp, {})}
        for sp in partitions
    }


def hub_topics_of(
    routes: Iterable[Route], partitions: Collection[SourcePartition]
) -> frozenset[str]:
    """The hub topics to which records of these source partitions go, quarantine topics included."""
    topics = {(sp.cluster, sp.topic) for sp in partitions}
    own = [route for route in routes if (route.cluster, route.topic) in topics]
    return frozenset(name for route in own for name in route.hub_topics)
