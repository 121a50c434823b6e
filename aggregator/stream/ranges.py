"""Frames over offset ranges of one cluster, read once, and the origins that their records have.

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
    TopicPartition,
)

ORIGIN = ("cluster", "topic", "partition")

BULK_OPTIONS = {
    # Spark asks for the log's range at every poll, two round trips each: few large polls instead
    # of Kafka's 500 records.
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
}
"""Options of a Kafka source that reads a known range, where the user set none."""


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


def origin_header(key: str) -> Column:
    """The value of one of our headers, null when it is not where we put it."""
    place = F.lit(ORIGIN_HEADERS.index(key) - len(ORIGIN_HEADERS))
    header = F.try_element_at("headers", place)
    return F.when(header["key"] == key, header["value"].cast("string"))
