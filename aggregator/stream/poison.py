"""Column functions that keep records which their hub topic would refuse out of its way.

Sizes are exact: those of a batch with this one record, as the broker weighs it when the producer
does not compress (record format 2, KIP-98).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from aggregator.model import (
    ORIGIN_HEADERS,
    QUARANTINE_HUB_TOPIC,
    QUARANTINE_KEPT,
    QUARANTINE_REASON,
    QUARANTINE_SIZE,
    PoisonReason,
    Route,
)
from aggregator.plan.poison import STOPPED
from aggregator.plan.quarantine import QUARANTINE_PARTITION
from aggregator.stream.headers import header
from aggregator.stream.partitioning import by_route

BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 3
"""Attributes, and the deltas of timestamp and offset, which are 0 in a batch of one record."""
QUARANTINE_OVERHEAD_BYTES = 128
"""The four headers of a quarantined record without the name of the hub topic, rounded up."""
FEW_HEADERS = 8
SMALL_BYTES = 1024
"""More than what our headers, without the names of cluster and topic, and all lengths take, also
those of a few other headers."""

NO_HEADERS = "array<struct<key:string,value:binary>>"


def with_poison(frame: DataFrame, routes: Sequence[Route], cluster: str) -> DataFrame:
    """Add `poison` (string): why the hub would refuse a record, null when it takes it.

    In: a record frame with `hub_topic`, before its origin headers are added. Judged by the limits
    of each record's route; the time is that of the batch. `poison` is a PoisonReason.
    """
    return frame.withColumn("poison", by_route(routes, lambda route: _reason(route, cluster)))


def to_quarantine(frame: DataFrame, routes: Sequence[Route], cluster: str) -> DataFrame:
    """Send the poisoned rows to the quarantine topic of their route; drops `poison`.

    In: what `with_poison` gives, with `hub_partition`. Key, value and own headers are kept when
    they fit there, else key and headers, else nothing; the headers of QUARANTINE_HEADERS come
    behind the record's own. Of a route without a quarantine topic, a poisoned row ends the query,
    with an error that names its origin, the reason and the setting.
    """
    poisoned = F.col("poison").isNotNull()
    marked = frame.withColumn("size", F.when(poisoned, hub_bytes(cluster))).withColumn(
        "kept", F.when(poisoned, by_route(routes, _kept))
    )
    own = F.when(F.col("kept") != "nothing", F.col("headers"))
    reasons = F.array(
        header(QUARANTINE_REASON, F.col("poison")),
        header(QUARANTINE_HUB_TOPIC, F.col("hub_topic")),
        header(QUARANTINE_SIZE, F.col("size").cast("string")),
        header(QUARANTINE_KEPT, F.col("kept")),
    )
    goes_to = by_route(routes, lambda route: _quarantine(route, cluster))
    quarantined = {
        "headers": F.concat(F.coalesce(own, F.array().cast(NO_HEADERS)), reasons),
        "hub_topic": goes_to,
        "hub_partition": F.lit(QUARANTINE_PARTITION),
        "key": F.when(F.col("kept") != "nothing", F.col("key")),
        "value": F.when(F.col("kept") == "whole", F.col("value")),
    }
    return marked.withColumns(
        {
            name: F.when(poisoned, column).otherwise(F.col(name))
            for name, column in quarantined.items()
        }
    ).drop("poison", "size", "kept")


def hub_bytes(cluster: str) -> Column:
    """The size of the batch that brings a record to the hub, alone and uncompressed.

    Over a record frame whose `headers` are still the record's own.
    """
    body = _body_bytes(cluster)
    # As _varint_bytes, but the long expression stands in it once.
    length = F.floor((F.length(F.bin(2 * body)) + 6) / 7)
    return F.lit(BATCH_OVERHEAD_BYTES) + length + body


def _body_bytes(cluster: str) -> Column:
    """The size of a record in its batch, without the length that stands before it."""
    name = len(cluster.encode())
    # Numbers are shorter than 64 digits, so that their length takes one byte.
    origin = (
        F.lit(sum(1 + len(key) for key in ORIGIN_HEADERS) + (1 if name < 64 else 2) + name + 3)
        + _field_bytes(F.octet_length("topic"))
        + _digits(F.col("partition"))
        + _digits(F.col("offset"))
        + _digits(F.unix_millis("timestamp"))
    )
    own = F.aggregate(
        "headers",
        F.lit(0),
        lambda sum_, each: (
            sum_
            + _field_bytes(F.octet_length(each["key"]))
            + _field_bytes(F.octet_length(each["value"]))
        ),
    ) + _varint_bytes(F.size("headers") + len(ORIGIN_HEADERS))
    return (
        F.lit(RECORD_OVERHEAD_BYTES)
        + _field_bytes(F.octet_length("key"))
        + _field_bytes(F.octet_length("value"))
        + F.when(F.col("headers").isNull(), 1).otherwise(own)
        + origin
    )


def _largest_body(limit: int) -> int:
    """The largest record whose batch is within the limit; below 0 when there is none."""
    return max(
        min(limit - BATCH_OVERHEAD_BYTES - count, (1 << (7 * count - 1)) - 1)
        for count in range(1, 6)
    )


def _reason(route: Route, cluster: str) -> Column:
    limits = route.poison.limits
    found: list[tuple[Column, PoisonReason]] = []
    if limits.key_required:
        found.append((F.col("key").isNull(), PoisonReason.NO_KEY))
    at, now = F.unix_millis("timestamp"), F.unix_millis(F.current_timestamp())
    if limits.ahead_ms is not None:
        found.append((at > now + limits.ahead_ms, PoisonReason.TIMESTAMP))
    if limits.behind_ms is not None:
        # Below 0 stands for a record without a timestamp, and the hub's is the time of arrival.
        found.append(((at >= 0) & (at < now - limits.behind_ms), PoisonReason.TIMESTAMP))
    if limits.max_bytes is not None:
        found.append((_is_larger(route, cluster, limits.max_bytes), PoisonReason.TOO_LARGE))
    reason = F.lit(None).cast("string")
    for condition, words in reversed(found):
        reason = F.when(condition, F.lit(str(words))).otherwise(reason)
    return reason


def _is_larger(route: Route, cluster: str, limit: int) -> Column:
    """Exact, but small records with few headers, nearly all, are let through at a glance."""
    names = len(cluster.encode()) + len(route.topic.encode())
    # Not by a lambda over the headers: Spark compiles this, and interprets that.
    each = [F.get("headers", F.lit(at)) for at in range(FEW_HEADERS)]
    parts = [
        F.col("key"),
        F.col("value"),
        *(head[name] for head in each for name in ("key", "value")),
    ]
    content = sum((F.coalesce(F.octet_length(part), F.lit(0)) for part in parts), F.lit(0))
    few = F.col("headers").isNull() | (F.size("headers") <= FEW_HEADERS)
    small = few & (content <= limit - SMALL_BYTES - names)
    return ~small & (_body_bytes(cluster) > _largest_body(limit))


def _kept(route: Route) -> Column:
    room = route.poison.quarantine_bytes - QUARANTINE_OVERHEAD_BYTES - len(route.hub_topic)
    without = F.col("size") - F.coalesce(F.octet_length("value"), F.lit(0))
    return F.when(F.col("size") <= room, "whole").when(without <= room, "key").otherwise("nothing")


def _quarantine(route: Route, cluster: str) -> Column:
    if route.poison.quarantine:
        return F.lit(route.poison.quarantine)
    return F.raise_error(
        F.concat(
            F.lit(f"hub topic {route.hub_topic} would refuse {cluster}/"),
            F.concat_ws("-", "topic", "partition"),
            F.lit("@"),
            F.col("offset"),
            F.lit(" ("),
            F.col("poison"),
            F.lit(
                f"), {STOPPED}: raise the limits of {route.hub_topic}, or set "
                "topics.on_poison: quarantine"
            ),
        )
    ).cast("string")


def _field_bytes(length: Column) -> Column:
    """A length and what it counts; a null is one byte."""
    return F.when(length.isNull(), 1).otherwise(_varint_bytes(length) + length)


def _varint_bytes(number: Column) -> Column:
    """How many bytes a length, 0 or more, takes: seven bits each, the lowest one is the sign."""
    size = F.lit(5)
    for bits, count in ((27, 4), (20, 3), (13, 2), (6, 1)):
        size = F.when(number < 2**bits, count).otherwise(size)
    return size


def _digits(number: Column) -> Column:
    return F.length(number.cast("string"))
