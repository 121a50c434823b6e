"""Turns readings into frames of records, and records into the rows that the hub's sink takes.

A record frame has the columns of `aggregator.datapath.spark.transform.RECORD_SCHEMA`. Where nothing
is transformed a frame has `offset` alone: the sink takes the record as the reader of the same task
has it, so nothing of it is copied into a row and out again. No action is run here.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.datapath.connector.connector import SOURCE
from aggregator.datapath.connector.spec import Reading
from aggregator.datapath.spark.transform import load_transform
from aggregator.model.values import Positions, Route, SourcePartition

SINK_COLUMNS = {
    "offset": "bigint",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
"""What the sink reads of a row. Where a record goes, and its origin, it knows from its task."""


def plan_readings(routes: Sequence[Route], positions: Positions) -> list[Reading]:
    """Group a lane's positions into as few sources of a query as possible, in a stable order.

    One per cluster, and one more for each transform in use there, because a transform sees only
    the topics that asked for it. Every position needs a route; a missing one is a KeyError.
    """
    by_topic = {(route.cluster, route.topic): route for route in routes}
    grouped: dict[tuple[str, str], dict[SourcePartition, int]] = defaultdict(dict)
    for partition, position in positions.items():
        route = by_topic[partition.cluster, partition.topic]
        grouped[route.cluster, route.transform][partition] = position
    return [
        Reading(
            cluster,
            transform,
            tuple(by_topic[cluster, topic] for topic in sorted({sp.topic for sp in offsets})),
            Positions(offsets),
        )
        for (cluster, transform), offsets in sorted(grouped.items())
    ]


def union_of(spark: SparkSession, lane: str, readings: Sequence[Reading]) -> DataFrame:
    """The rows of all readings of a lane (by its key), as one endless frame for the sink."""
    whole = any(reading.transform for reading in readings)
    rows = (
        to_sink_rows(read_records(spark, lane, number), reading, whole=whole)
        for number, reading in enumerate(readings)
    )
    return reduce(DataFrame.unionByName, rows)


def read_records(spark: SparkSession, lane: str, reading: int) -> DataFrame:
    """The records of one reading of a lane, from its positions on, as an endless frame."""
    options = {"lane": lane, "reading": str(reading)}
    return spark.readStream.format(SOURCE).options(**options).load()


def to_sink_rows(records: DataFrame, reading: Reading, *, whole: bool) -> DataFrame:
    """Rows for the sink: transformed where the reading says so.

    `whole`: with all of SINK_COLUMNS, as frames for a union have the same ones.
    """
    if reading.transform:
        return load_transform(reading.transform)(records).select(*SINK_COLUMNS)
    if not whole:
        return records.select("offset")
    absent = {name: kind for name, kind in SINK_COLUMNS.items() if name != "offset"}
    return records.select(
        "offset", *(F.lit(None).cast(kind).alias(name) for name, kind in absent.items())
    )
