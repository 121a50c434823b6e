"""Recovery after an unclean stop: scan the hub tail, replay what is missing, return new positions.

The hub itself is the record of what arrived: Spark's Kafka sink promises at-least-once and gives
no offsets back. The caller makes sure that the old writer is gone and the hub is settled, and
commits the positions that come out. A crash in here changes nothing that another recovery would
not find: it just starts again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from aggregator.model import Positions, Route
from aggregator.plan.recovery import TailPlan, plan_replay, recovered_positions
from aggregator.recover.replay import missing_rows
from aggregator.recover.tail import filter_beyond, highest_offsets, read_ranges, to_origins


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
    routes: Sequence[Route],
    settings: RecoverySettings,
    progress: Callable[[str], None],
) -> Recovered:
    """Make the hub hold every record below the returned positions exactly once.

    Holds when nobody else writes records of these source partitions meanwhile. Work is bounded by
    the tail. `progress` gets a line per step.
    """
    began = time.monotonic()
    if not tail.ranges:
        return Recovered(tail.positions)
    progress(f"reading {tail.offsets} offsets of the hub tail")
    records = read_ranges(spark, tail.ranges, settings.hub_options)
    found = filter_beyond(to_origins(records), tail.positions).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        highest = highest_offsets(found)
        ranges = plan_replay(tail.positions, {sp: top for sp, (top, _) in highest.items()})
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
                    missing.write.format("kafka").options(**settings.sink_options).save()
            finally:
                missing.unpersist()
    finally:
        found.unpersist()
    return Recovered(
        recovered_positions(tail.positions, ranges),
        tail.offsets,
        count,
        replayed,
        time.monotonic() - began,
    )
