"""Frames over the hub tail: which origins it holds.

An origin frame has the columns cluster string, topic string, partition int, offset bigint (all
from the last set of origin headers, the one that our own hop wrote) and key binary.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.model import (
    ORIGIN_CLUSTER,
    ORIGIN_HEADERS,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TOPIC,
    OffsetRange,
    Positions,
    SourcePartition,
    TopicPartition,
)
from aggregator.stream.frames import BULK_OPTIONS

ORIGIN = ("cluster", "topic", "partition")


def read_ranges(
    spark: SparkSession, ranges: Mapping[TopicPartition, OffsetRange], options: Mapping[str, str]
) -> DataFrame:
    """The records of offset ranges of one cluster, once, as Spark's Kafka source gives them."""
    starts: dict[str, dict[str, int]] = defaultdict(dict)
    ends: dict[str, dict[str, int]] = defaultdict(dict)
    for tp, log in ranges.items():
        starts[tp.topic][str(tp.partition)] = log.earliest
        ends[tp.topic][str(tp.partition)] = log.latest
    assigned = {topic: [int(partition) for partition in starts[topic]] for topic in starts}
    return (
        spark.read.format("kafka")
        .options(**{**BULK_OPTIONS, **options})
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .load()
    )


def to_origins(records: DataFrame, quarantine: Collection[str] = ()) -> DataFrame:
    """The origin frame of hub records; records of others, without a whole origin, are left out.

    `quarantine` are topics whose records are not in their own hub topic: their key is null here,
    because they replace no record of their key there. Two more columns say where a record is in the
    hub: place string (topic/partition), hub_offset bigint.
    """
    # By place, not by a search: ours are the last ones of a record, always in this order.
    origins = records.select(
        origin_header(ORIGIN_CLUSTER).alias("cluster"),
        origin_header(ORIGIN_TOPIC).alias("topic"),
        origin_header(ORIGIN_PARTITION).try_cast("int").alias("partition"),
        origin_header(ORIGIN_OFFSET).try_cast("bigint").alias("offset"),
        F.when(~F.col("topic").isin(*quarantine), F.col("key")).alias("key")
        if quarantine
        else F.col("key"),
        F.concat_ws("/", "topic", "partition").alias("place"),
        F.col("offset").alias("hub_offset"),
    )
    return origins.dropna(subset=[*ORIGIN, "offset"])


def numbers_frame(
    spark: SparkSession,
    numbers: Mapping[SourcePartition, int],
    name: str,
    above: Mapping[SourcePartition, Mapping[TopicPartition, int]] | None = None,
) -> DataFrame:
    """A frame of cluster, topic, partition, and a number of each in the column `name`.

    With `above` it has a column above map<string,bigint> as well: place -> offset.
    """
    rows = []
    for sp, at in numbers.items():
        row = {**sp._asdict(), name: at}
        if above is not None:
            ends = above.get(sp, {})
            row["above"] = {f"{tp.topic}/{tp.partition}": end for tp, end in ends.items()}
        rows.append(row)
    fields = f"cluster: string, topic: string, partition: int, {name}: bigint"
    fields += "" if above is None else ", above: map<string,bigint>"
    # Not createDataFrame: it would start Python workers, seconds of a recovery.
    text = F.lit(json.dumps(rows))
    return spark.range(1).select(F.inline(F.from_json(text, f"array<struct<{fields}>>")))


def filter_beyond(
    origins: DataFrame,
    positions: Positions,
    above: Mapping[SourcePartition, Mapping[TopicPartition, int]] | None = None,
) -> DataFrame:
    """Origins at or above the positions; partitions without a position are left out.

    `above` says of a partition from which hub offset on its records count, where that is not from
    the first on. The columns place and hub_offset are gone.
    """
    known = numbers_frame(origins.sparkSession, dict(positions.items()), "position", above or None)
    beyond = origins.join(F.broadcast(known), [*ORIGIN]).filter(
        F.col("offset") >= F.col("position")
    )
    if above:
        start = F.try_element_at("above", F.col("place"))
        beyond = beyond.filter(start.isNull() | (F.col("hub_offset") >= start))
    return beyond.drop("position", "above", "place", "hub_offset")


def count_below(
    origins: DataFrame, limits: Mapping[SourcePartition, int]
) -> dict[SourcePartition, int]:
    """Per source partition of `limits` how many origins lie below its limit.

    Runs a Spark job; one row per source partition comes back.
    """
    known = numbers_frame(origins.sparkSession, limits, "limit")
    below = origins.join(F.broadcast(known), [*ORIGIN]).filter(F.col("offset") < F.col("limit"))
    counted = below.groupBy(*ORIGIN).agg(F.countDistinct("offset").alias("n"))
    return {
        SourcePartition(row["cluster"], row["topic"], row["partition"]): row["n"]
        for row in counted.collect()
    }


def highest_offsets(origins: DataFrame) -> dict[SourcePartition, tuple[int, int]]:
    """Per source partition the highest offset of an origin frame, and how many rows it has.

    Runs a Spark job; one row per source partition comes back, never one per record.
    """
    summary = origins.groupBy(*ORIGIN).agg(
        F.max("offset").alias("highest"), F.count("*").alias("n")
    )
    return {
        SourcePartition(row["cluster"], row["topic"], row["partition"]): (row["highest"], row["n"])
        for row in summary.collect()
    }


def origin_header(key: str) -> Column:
    """The value of one of our headers, null when it is not where we put it."""
    place = F.lit(ORIGIN_HEADERS.index(key) - len(ORIGIN_HEADERS))
    header = F.try_element_at("headers", place)
    return F.when(header["key"] == key, header["value"].cast("string"))
