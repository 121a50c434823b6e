"""Frames over the hub tail: which origins it holds.

An origin frame has the columns cluster string, topic string, partition int, offset bigint (all
from the last set of origin headers, the one that our own hop wrote) and key binary.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

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


def to_origins(records: DataFrame) -> DataFrame:
    """The origin frame of hub records; records of others, without a whole origin, are left out."""
    # By place, not by a search: ours are the last ones of a record, always in this order.
    origins = records.select(
        _origin(ORIGIN_CLUSTER).alias("cluster"),
        _origin(ORIGIN_TOPIC).alias("topic"),
        _origin(ORIGIN_PARTITION).try_cast("int").alias("partition"),
        _origin(ORIGIN_OFFSET).try_cast("bigint").alias("offset"),
        "key",
    )
    return origins.dropna(subset=[*ORIGIN, "offset"])


def filter_beyond(origins: DataFrame, positions: Positions) -> DataFrame:
    """Origins at or above the positions; partitions without a position are left out."""
    spark = origins.sparkSession
    rows = [(sp.cluster, sp.topic, sp.partition, at) for sp, at in positions.items()]
    known = spark.createDataFrame(
        rows, "cluster string, topic string, partition int, position bigint"
    )
    beyond = origins.join(F.broadcast(known), [*ORIGIN])
    return beyond.filter(F.col("offset") >= F.col("position")).drop("position")


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


def _origin(key: str) -> Column:
    """The value of one of our headers, null when it is not where we put it."""
    place = F.lit(ORIGIN_HEADERS.index(key) - len(ORIGIN_HEADERS))
    header = F.try_element_at("headers", place)
    return F.when(header["key"] == key, header["value"].cast("string"))
