"""Turns records of the hub into the rows of a landing table. Column functions; runs no action."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from aggregator.stream.headers import headers_before_origin, origin_columns, origin_texts

DAY = "day"
DECODED = "decoded"
ERROR = "decode_error"
ORIGIN = ("cluster", "topic", "partition", "offset")


def with_landing_columns(records: DataFrame) -> DataFrame:
    """Rows of a landing table, without what is decoded.

    In: a Kafka frame with `headers`. Out: topic, partition, offset, timestamp, day (date, UTC, by
    the origin's timestamp, else the record's), origin_cluster, origin_topic, origin_partition,
    origin_offset, origin_timestamp (null for a record that did not come through an aggregator; the
    last one also where the origin is one header), headers (the record's own, in their order, null
    when there are none), key, value (binary).
    """
    origin = origin_columns("texts")
    at = F.timestamp_millis(origin["timestamp"])
    has_origin = origin["cluster"].isNotNull() & origin["offset"].isNotNull()
    return records.withColumn("texts", origin_texts()).select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        F.to_date(F.coalesce(at, F.col("timestamp"))).alias(DAY),
        *(origin[name].alias(f"origin_{name}") for name in ORIGIN),
        at.alias("origin_timestamp"),
        _own_headers(has_origin).alias("headers"),
        "key",
        "value",
    )


def _own_headers(has_origin: Column) -> Column:
    return F.when(has_origin, headers_before_origin()).otherwise(F.col("headers"))
