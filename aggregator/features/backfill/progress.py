"""The progress of a backfill: what the hub was found to hold, and its lane's reports. Pure.

It is exactly once for the same reason as the live flow: positions are reported when the hub has
acknowledged everything below, and at each start the hub is asked what it holds beyond them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aggregator.features.backfill.ranges import Backfill
from aggregator.model.values import (
    LogId,
    OffsetRange,
    Ranges,
    Skip,
    SourcePartition,
    TopicPartition,
)

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Scanned:
    """A backfill whose range was searched for in the hub, and what its lane must skip.

    `behind` are hub ends behind all that was found: they bound it once the lane is through.
    `foreign` says why what was found is not of this log, in words: then it cannot continue.
    """

    backfill: Backfill
    skips: Mapping[SourcePartition, Skip]
    behind: Ends
    foreign: str = ""


def after_scan(
    backfill: Backfill,
    found: Mapping[SourcePartition, Ranges],
    logs: Mapping[SourcePartition, OffsetRange],
    hub_logs: Mapping[TopicPartition, OffsetRange],
) -> Scanned:
    """Where a backfill continues after the hub was read from its bound to the ends of `hub_logs`.

    `found` are origin offsets that the hub holds, `logs` what the source holds now. What it has
    deleted and the hub does not hold is lost.
    """
    positions: dict[SourcePartition, int] = {}
    lost: dict[SourcePartition, int] = {}
    skips: dict[SourcePartition, Skip] = {}
    for part in backfill.parts:
        sp, at = part.partition, part.position
        held = [
            (max(first, at), min(last, part.end))
            for first, last in found.get(sp, ())
            if first < part.end and last > at
        ]
        log = logs.get(sp)
        if log is not None and log.earliest > at:
            gone = min(log.earliest, part.end)
            lost[sp] = (gone - at) - sum(
                max(0, min(last, gone) - first) for first, last in held if first < gone
            )
            at = gone
        for first, last in held:
            if first <= at < last:
                at = last
        positions[sp] = at
        if ranges := [(max(first, at), last) for first, last in held if last > at]:
            skips[sp] = Skip(ranges)
    behind = {tp: log.latest for tp, log in hub_logs.items()}
    moved = backfill.moved(positions, lost)
    if skips:
        # What is beyond a hole lies behind the old bound, and only behind that.
        bound = {tp: log.earliest for tp, log in hub_logs.items()} | dict(backfill.bound)
    else:
        bound = behind
    return Scanned(replace(moved, bound=bound), skips, behind)


def after_report(
    backfill: Backfill,
    positions: Mapping[SourcePartition, int],
    ends: Ends,
    behind: Ends,
    *,
    skipping: bool,
) -> Backfill:
    """The same from its only task's report; `ends` is how far the hub had acknowledged it.

    What the positions do not cover, the task has sent later than that. While it may still be
    `skipping` the older bound holds.
    """
    moved = backfill.moved(positions, {})
    if skipping:
        return moved
    return replace(moved, bound={tp: max(end, ends.get(tp, 0)) for tp, end in behind.items()})


def why_wrong(backfill: Backfill, now: LogId, live: Mapping[SourcePartition, int]) -> str:
    """Why a backfill can never continue, in words; "" when it can.

    `now` is the log that is there by that name, `live` the positions of the live flow.
    """
    if backfill.log.is_other_cluster(now):
        return f"source {backfill.cluster} is another cluster now (id {now.cluster})"
    if backfill.log.is_other_topic(now):
        return f"topic {backfill.topic} was deleted and created again (id {now.topic})"
    for part in backfill.parts:
        at = live.get(part.partition)
        if at is not None and at < part.end and part.left:
            return (
                f"the live flow of {part.partition} was set back to {at}, and reads what is left "
                "of it by itself"
            )
    return ""


def commit_seconds(interval: float, running: float) -> float:
    """How often progress is committed: as the live flow's, and less often the longer it runs. A
    backfill of a day must not leave a table of ten thousand commits.

    """
    return max(interval, running / 100)
