"""Writes again what a hub tail proves missing, in order; and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.model import OffsetRange, Positions, Route, SourcePartition
from aggregator.recover.tail import ORIGIN, read_ranges
from aggregator.stream.frames import RECORD_COLUMNS, Reading, plan_readings, to_hub_rows


def missing_rows(
    spark: SparkSession,
    ranges: Mapping[SourcePartition, OffsetRange],
    found: DataFrame,
    routes: Sequence[Route],
    source_options: Mapping[str, Mapping[str, str]],
    hub_names: Collection[str],
    compacted: Collection[str],
) -> DataFrame:
    """Hub rows for the source records of `ranges` that `found` (an origin frame) does not hold.

    Exact by origin: no offset arithmetic, because compaction and transaction markers leave gaps.
    Of a hub topic in `compacted`, a record is not missing when a later record of its key and
    source partition was found: it may have been compacted away, and would now come too late.
    Rows are in order of their offset per source partition.
    """
    starts = Positions({sp: log.earliest for sp, log in ranges.items()})
    rows = [
        _missing_of(spark, reading, ranges, found, source_options, hub_names, compacted)
        for reading in plan_readings(routes, starts)
    ]
    return reduce(DataFrame.unionByName, rows)


def _missing_of(
    spark: SparkSession,
    reading: Reading,
    ranges: Mapping[SourcePartition, OffsetRange],
    found: DataFrame,
    source_options: Mapping[str, Mapping[str, str]],
    hub_names: Collection[str],
    compacted: Collection[str],
) -> DataFrame:
    wanted = {sp.topic_partition: ranges[sp] for sp in reading.positions}
    records = read_ranges(spark, wanted, source_options[reading.cluster]).select(*RECORD_COLUMNS)
    own = found.filter(F.col("cluster") == reading.cluster).drop("cluster")
    missing = records.join(own.drop("key"), ["topic", "partition", "offset"], "left_anti")
    topics = [route.topic for route in reading.routes if route.hub_topic in compacted]
    if topics:
        later = (
            own.filter(F.col("topic").isin(topics) & F.col("key").isNotNull())
            .groupBy("topic", "partition", "key")
            .agg(F.max("offset").alias("later"))
        )
        superseded = missing.join(later, ["topic", "partition", "key"]).filter("later > offset")
        missing = missing.join(
            superseded.select("topic", "partition", "offset"),
            ["topic", "partition", "offset"],
            "left_anti",
        )
    # The joins may have dealt the records out anew: back together per source partition, in order.
    ordered = missing.repartition("topic", "partition").sortWithinPartitions(*ORIGIN[1:], "offset")
    return to_hub_rows(ordered.select(*RECORD_COLUMNS), reading, hub_names)
