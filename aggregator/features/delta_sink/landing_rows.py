"""Turns records of the hub into the rows of a landing table. Column functions; runs no action."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from aggregator.datapath.spark.headers import (
    headers_before_origin,
    moment,
    origin_columns,
    origin_texts,
    timestamp_ms,
)

DAY = "day"
DECODED = "decoded"
ERROR = "decode_error"
ORIGIN = ("cluster", "topic", "partition", "offset")
FIRST_DAY = "2000-01-01"
"""No record of Kafka is older; one that says so has no timestamp, or one that is not meant."""


def with_landing_columns(records: DataFrame) -> DataFrame:
    """Rows of a landing table, without what is decoded.

    In: a Kafka frame with `headers`, and `timestamp_ms` where it is by `read_exactly`. Out: topic,
    partition, offset, timestamp, odd_timestamp (bigint, what a record says whose timestamp is null
    for that), day (date, UTC, by the origin's timestamp, else the record's, else of now),
    origin_cluster, origin_topic,
    origin_partition, origin_offset, origin_timestamp (null for a record that did not come through
    an aggregator; the last one also where the origin is one header, or says no time), headers (the
    record's own, in their order, null when there are none), key, value (binary).
    """
    origin = origin_columns("texts")
    at = moment(origin["timestamp"])
    millis = timestamp_ms(records)
    own = moment(millis)
    has_origin = origin["cluster"].isNotNull() & origin["offset"].isNotNull()
    return records.withColumn("texts", origin_texts()).select(
        "topic",
        "partition",
        "offset",
        own.alias("timestamp"),
        F.when(own.isNull(), millis).alias("odd_timestamp"),
        F.coalesce(_day(at), _day(own), F.current_date()).alias(DAY),
        *(origin[name].alias(f"origin_{name}") for name in ORIGIN),
        at.alias("origin_timestamp"),
        F.when(has_origin, headers_before_origin()).otherwise(F.col("headers")).alias("headers"),
        "key",
        "value",
    )


def _day(at: Column) -> Column:
    """The day of a moment; null for one that no record has, which would be a folder of its own."""
    # A clock that is ahead makes no folders up to the end of time.
    tomorrow = F.current_timestamp() + F.expr("interval 1 day")
    return F.when(at.between(F.lit(FIRST_DAY).cast("timestamp"), tomorrow), F.to_date(at))
