"""Recovery after an unclean stop: scan the hub tail, replay what is missing, return new positions.

The hub itself is the record of what arrived: Spark's Kafka sink promises at-least-once and gives
no offsets back. The caller makes sure that the old writer is gone and the hub is settled, and
commits the positions that come out. A crash in here changes nothing that another recovery would
not find: it just starts again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from aggregator.failpoint import failpoint, passing
from aggregator.model import OffsetRange, Positions, Route, SourcePartition
from aggregator.plan.recovery import TailPlan, plan_replay, recovered_positions
from aggregator.recover.replay import missing_rows
from aggregator.recover.tail import (
    count_below,
    filter_beyond,
    highest_offsets,
    read_ranges,
    to_origins,
)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery did: offsets of the tail read, origins found beyond the positions, records
    replayed, seconds; and the positions from which the lanes go on.
    """

    positions: Positions
    tail: int = 0
    found: int = 0
    replayed: int = 0
    seconds: float = 0.0
    below: Mapping[SourcePartition, int] = field(default_factory=dict)
    """Of how many offsets that the source has deleted meanwhile the hub holds the record."""


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """Options of the hub as a source and as a sink, of the sources, and what shapes a hub row."""

    hub_options: Mapping[str, str]
    sink_options: Mapping[str, str]
    source_options: Mapping[str, Mapping[str, str]]
    hub_names: Collection[str]
    compacted: Collection[str]


def recover(
    spark: SparkSession,
    tail: TailPlan,
    logs: Mapping[SourcePartition, OffsetRange],
    routes: Sequence[Route],
    settings: RecoverySettings,
    progress: Callable[[str], None],
) -> Recovered:
    """Make the hub hold every record below the returned positions exactly once.

    Holds when nobody else writes records of these source partitions meanwhile, and for what `logs`
    says that the sources still hold. Work is bounded by the tail. `progress` gets a line per step.
    """
    began = time.monotonic()
    if not tail.ranges:
        return Recovered(tail.positions)
    records = read_ranges(spark, tail.ranges, settings.hub_options)
    quarantine = {route.poison.quarantine for route in routes} - {""}
    found = filter_beyond(to_origins(records, quarantine), tail.positions, tail.above).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    try:
        highest = highest_offsets(found)
        failpoint("after-scan")
        tops = {sp: top for sp, (top, _) in highest.items()}
        ranges = plan_replay(tail.positions, tops, logs)
        deleted = {
            sp: log.earliest for sp, log in logs.items() if tail.positions[sp] < log.earliest
        }
        below = count_below(found, deleted) if deleted else {}
        count = sum(number for _, number in highest.values())
        replayed = 0
        if ranges:
            spread = sum(log.latest - log.earliest for log in ranges.values())
            progress(f"{count} records found beyond the checkpoint; comparing {spread} offsets")
            missing = missing_rows(
                spark,
                ranges,
                found,
                routes,
                settings.source_options,
                settings.hub_names,
                settings.compacted,
            ).persist(StorageLevel.MEMORY_AND_DISK)
            try:
                replayed = missing.count()
                if replayed:
                    progress(f"writing {replayed} missing records")
                    failpoint("before-replay")
                    with passing("mid-replay"):
                        missing.write.format("kafka").options(**settings.sink_options).save()
            finally:
                missing.unpersist()
    finally:
        found.unpersist()
    return Recovered(
        recovered_positions(tail.positions, tops),
        tail.offsets,
        count,
        replayed,
        time.monotonic() - began,
        below,
    )
