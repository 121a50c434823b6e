"""Source and hub records as small rows of numbers that can be compared by their origin.

A row frame has the columns of `ROW`. Of a record it carries hashes (xxhash64) only, so that little
is shuffled. No action is run here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from aggregator.model import OffsetRange, SourcePartition, TopicPartition
from aggregator.stream.headers import (
    filter_not_from_hub,
    headers_before_origin,
    is_one_header,
    origin_columns,
    origin_texts,
)
from aggregator.stream.ranges import ORIGIN
from aggregator.verify.core import Standing
from aggregator.verify.core import Window as SourceWindow
from aggregator.verify.small import Value, small_frame

ROW = (
    "sid int, offset bigint, place bigint, zone int, must boolean, "
    "k bigint, v bigint, h bigint, t bigint, s bigint, tombstone boolean, tid int"
)
"""`sid` numbers the source partition, `offset` is the origin's. A hub row has a `place`, a source
row has none. `k`, `v`, `h`, `t` stand for key, value, own headers and timestamp; they are null
where they are not compared. `s` is the timestamp of a hub record whose origin does not say it, in
the place of `t`. `must`: the hub has to have it. `tid` numbers the hub topic."""

BEFORE, ALONE, OWN, BEYOND = 0, 1, 2, 3
"""Zones of a hub record by its origin: below what is compared; compared, and the source may have
forgotten it; compared, and the source has to have it; beyond everything the source has."""
NO_ORIGIN, UNKNOWN_SOURCE, OTHER_TOPIC = 10, 11, 12
"""Zones of a foreign record. Its `sid` is -1 minus the number of its hub partition, and its
`offset` the one at the hub, so that each is on its own."""

PLACE_BITS = 45
"""A place is (hub partition's number, offsets behind the first that is read, late) in one number,
so that the smallest is the first. Late: behind a record of a higher origin."""


@dataclass(frozen=True)
class Numbers:
    """What the numbers in the rows of one job stand for."""

    windows: tuple[SourceWindow, ...]
    hub: tuple[tuple[TopicPartition, OffsetRange], ...]

    @cached_property
    def tids(self) -> dict[str, int]:
        """Hub topic -> `tid`."""
        return {name: tid for tid, name in enumerate(sorted({w.hub_topic for w in self.windows}))}

    def place(self, packed: int) -> tuple[TopicPartition, int]:
        """The hub partition and offset of a place."""
        tp, log = self.hub[packed >> PLACE_BITS]
        return tp, log.earliest + ((packed & ((1 << PLACE_BITS) - 1)) >> 1)


@dataclass(frozen=True, slots=True)
class Others:
    """Whose records may be in the hub though they are not compared in this job.

    Those of `known` may be anywhere, as may all of the sources in `unreachable`; those of
    `elsewhere` belong to hub topics of other jobs.
    """

    known: Collection[SourcePartition] = ()
    elsewhere: Collection[SourcePartition] = ()
    unreachable: Collection[str] = ()


def source_rows(
    records: DataFrame, cluster: str, numbers: Numbers, hub_names: Collection[str]
) -> DataFrame:
    """The row frame of one source's records: those of the windows that would be copied."""
    table = small_frame(
        records.sparkSession,
        [
            (*it.partition[1:], sid, it.loose, numbers.tids[it.hub_topic])
            for sid, it in enumerate(numbers.windows)
            if it.compared and it.partition.cluster == cluster
        ],
        "topic string, partition int, sid int, loose boolean, tid int",
    )
    kept = filter_not_from_hub(records, hub_names)
    return kept.join(table, ["topic", "partition"]).select(
        "sid",
        "offset",
        F.lit(None).cast("bigint").alias("place"),
        F.lit(None).cast("int").alias("zone"),
        (~F.col("loose")).alias("must"),
        *_digests(F.col("headers"), F.unix_millis("timestamp"), F.col("loose")),
        F.lit(None).cast("bigint").alias("s"),
        F.col("value").isNull().alias("tombstone"),
        "tid",
    )


def hub_rows(
    records: DataFrame,
    numbers: Numbers,
    others: Others,
    stamped: Collection[str],
) -> DataFrame:
    """The row frame of hub records; those of `others` that do no harm are left out.

    The hub topics in `stamped` have timestamps of their own (LogAppendTime).
    """
    spark = records.sparkSession
    parts = origin_columns("texts")
    tagged = records.withColumn("texts", origin_texts()).select(
        *("key", "value", "headers", "timestamp"),
        F.col("topic").alias("hub_topic"),
        F.col("partition").alias("hub_partition"),
        F.col("offset").alias("hub_offset"),
        *(parts[name].alias(name) for name in (*ORIGIN, "offset")),
        parts["timestamp"].alias("said"),
    )
    placed = tagged.join(_places(spark, numbers, stamped), ["hub_topic", "hub_partition"]).join(
        _origins(spark, numbers, others), ["cluster", "topic", "partition"], "left"
    )
    foreign = F.col("zone") >= NO_ORIGIN
    loose = F.coalesce("loose", F.lit(False))
    rows = (
        placed.withColumn("zone", _zone(others.unreachable))
        .filter("zone is not null")
        .select(
            F.when(foreign, -1 - F.col("hid")).otherwise(F.col("sid")).alias("sid"),
            F.when(foreign, F.col("hub_offset")).otherwise(F.col("offset")).alias("offset"),
            "hid",
            (F.col("hub_offset") - F.col("start")).alias("nth"),
            "zone",
            *_digests(headers_before_origin(), _said(), loose),
            F.when(~loose, _unsaid()).alias("s"),
            "tid",
        )
    )
    return rows.select(
        *("sid", "offset", "zone", "k", "v", "h", "t", "s", "tid"),
        _place().alias("place"),
        F.lit(None).cast("boolean").alias("must"),
        F.lit(None).cast("boolean").alias("tombstone"),
    )


def _place() -> Column:
    """`hid` and `nth` in one number, with whether a record of a higher origin came before."""
    before = (
        Window.partitionBy("sid", "hid").orderBy("nth").rowsBetween(Window.unboundedPreceding, -1)
    )
    late = F.coalesce(F.max("offset").over(before) > F.col("offset"), F.lit(False))
    return (
        F.shiftleft(F.col("hid").cast("bigint"), PLACE_BITS)
        + F.shiftleft("nth", 1)
        + late.cast("bigint")
    )


def _zone(unreachable: Collection[str]) -> Column:
    whole = F.col("cluster").isNotNull() & F.col("topic").isNotNull()
    whole = whole & F.col("partition").isNotNull() & (F.col("offset") >= 0)
    silent = F.col("cluster").isin(sorted(unreachable)) if unreachable else F.lit(False)
    dropped = F.lit(None).cast("int")
    return (
        F.when(~F.coalesce(whole, F.lit(False)), NO_ORIGIN)
        .when(F.col("known").isNull(), F.when(~silent, UNKNOWN_SOURCE))
        .when(F.col("route_tid") != F.col("tid"), OTHER_TOPIC)
        .when(F.col("sid").isNull(), dropped)
        .when(F.col("offset") >= F.col("beyond"), BEYOND)
        .when(F.col("offset") >= F.col("upto"), dropped)
        .when(F.col("offset") < F.col("first"), BEFORE)
        .when(F.col("strict"), OWN)
        .otherwise(ALONE)
    )


def _digests(headers: Column, timestamp: Column, loose: Column) -> list[Column]:
    """k, v, h, t; null where a transform may have changed the record."""
    # Most records have no headers: then nothing is hashed. A hash passes over nulls, which the text
    # shows; and no lambda, as Spark interprets those, at a high price.
    hashed = F.when(F.size(headers) > 0, F.xxhash64(headers, headers.cast("string")))
    columns = {
        "k": F.xxhash64(F.col("key").isNull(), "key"),
        "v": F.xxhash64(F.col("value").isNull(), "value"),
        "h": F.coalesce(hashed, F.lit(0)),
        "t": timestamp,
    }
    return [F.when(~loose, column.cast("bigint")).alias(name) for name, column in columns.items()]


def _said() -> Column:
    """What the origin says, when the record's own agrees; else a number that no timestamp is.

    A source record without a timestamp (-1) gets that of its writing. Null for an origin that says
    none.
    """
    said, own = F.col("said"), F.unix_millis("timestamp")
    differs = ~F.col("stamped") & (said >= 0) & (said != own)
    compared = F.when(said.isNull(), -2).when(differs, -3).otherwise(said)
    return F.when(~is_one_header(), compared)


def _unsaid() -> Column:
    """The record's own timestamp, where nothing else tells that of its source."""
    return F.when(is_one_header() & ~F.col("stamped"), F.unix_millis("timestamp"))


def _places(spark: SparkSession, numbers: Numbers, stamped: Collection[str]) -> DataFrame:
    rows = [
        (*tp, hid, log.earliest, numbers.tids[tp.topic], tp.topic in stamped)
        for hid, (tp, log) in enumerate(numbers.hub)
    ]
    return small_frame(
        spark,
        rows,
        "hub_topic string, hub_partition int, hid int, start bigint, tid int, stamped boolean",
    )


def _origins(spark: SparkSession, numbers: Numbers, others: Others) -> DataFrame:
    """The partitions whose records may be in the hub; `sid` is null for those not compared.

    `route_tid` is their hub topic, -1 for one of another job, and null where it may be any.
    """
    rows: dict[SourcePartition, tuple[Value, ...]] = dict.fromkeys(others.known, (None,) * 7)
    rows |= dict.fromkeys(others.elsewhere, (None, -1, *(None,) * 5))
    for sid, it in enumerate(numbers.windows):
        tid = numbers.tids[it.hub_topic]
        compared = it.standing is not Standing.CONFLICT
        strict = it.compared and not it.sparse
        bounds = (it.read.earliest, it.read.latest, it.beyond)
        rows[it.partition] = (sid if compared else None, tid, *bounds, strict, it.loose)
    return small_frame(
        spark,
        [(*sp, True, *row) for sp, row in rows.items()],
        "cluster string, topic string, partition int, known boolean, sid int, route_tid int, "
        "first bigint, upto bigint, beyond bigint, strict boolean, loose boolean",
    )
