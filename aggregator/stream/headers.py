"""Column functions that read and write the origin headers of a record."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from aggregator.model import (
    ORIGIN_CLUSTER,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TIMESTAMP,
    ORIGIN_TOPIC,
)


def with_origin_headers(frame: DataFrame, cluster: str) -> DataFrame:
    """Append the five origin headers behind the record's own.

    In: a Kafka source frame with `headers` (null for a record without any), `topic`, `partition`,
    `offset`, `timestamp`. Out: the same frame, `headers` never null. Values are UTF-8 text.
    The record's own headers keep their order, duplicates and null values.
    """
    origin = F.array(
        header(ORIGIN_CLUSTER, F.lit(cluster)),
        header(ORIGIN_TOPIC, F.col("topic")),
        header(ORIGIN_PARTITION, F.col("partition").cast("string")),
        header(ORIGIN_OFFSET, F.col("offset").cast("string")),
        header(ORIGIN_TIMESTAMP, F.unix_millis("timestamp").cast("string")),
    )
    # The branch costs less than concat(coalesce(headers, empty), origin): most records have no
    # headers, and then nothing is copied.
    own = F.col("headers")
    return frame.withColumn(
        "headers", F.when(own.isNull(), origin).otherwise(F.concat(own, origin))
    )


def filter_not_from_hub(frame: DataFrame, hub_names: Collection[str]) -> DataFrame:
    """Drop records whose origin chain already names this hub: nothing goes round in circles.

    In and out: a frame with `headers`. `hub_names` are the names under which this hub is a source
    elsewhere. A record without headers stays.
    """
    names = [F.lit(name.encode()) for name in sorted(set(hub_names))]
    if not names:
        return frame
    came_back = F.exists(
        "headers",
        lambda header: (
            (header["key"] == ORIGIN_CLUSTER)
            & F.coalesce(header["value"].isin(*names), F.lit(False))
        ),
    )
    return frame.filter(~F.coalesce(came_back, F.lit(False)))


def header(key: str, value: Column) -> Column:
    """One header as a column: its value is the UTF-8 text of `value`."""
    return F.struct(F.lit(key).alias("key"), value.cast("binary").alias("value"))
