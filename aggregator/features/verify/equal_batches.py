"""Batches that were copied as they are, compared by a hash of their content, without unpacking.

A batch counts as equal when each side has exactly one of its origin, with the same hash. All other
records are compared one by one, and so is everything when a finding might involve an equal batch.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from aggregator.datapath.spark.ranges import Holes, read_batches
from aggregator.features.verify.audit_scope import Window as SourceWindow
from aggregator.features.verify.compact_frames import Numbers
from aggregator.features.verify.small import small_frame
from aggregator.model.values import OffsetRange, TopicPartition

SIDE = ("sid", "offset", "last", "hash", "hid", "nth")


@dataclass(frozen=True, slots=True)
class EqualBatches:
    """Batches that are the same at both sides.

    `batches` has a row for each: sid, hid, `offset` (the origin of its last record), `nth` (the
    same at the hub, behind the first offset that is read), `weight` (its records) and tid.
    `sids` are the source partitions of which there are any, `records` how many records they hold.
    """

    batches: DataFrame
    sids: frozenset[int]
    records: int
    sources: Mapping[str, Holes] = field(default_factory=dict)
    hub: Holes = field(default_factory=dict)


def equal_batches(
    spark: SparkSession,
    numbers: Numbers,
    source_options: Mapping[str, Mapping[str, str]],
    hub_options: Mapping[str, str],
) -> EqualBatches | None:
    """The equal batches of the windows that are copied so; None where there are none.

    Raises PySparkException or Py4JError when a batch cannot be read.
    """
    windows = {sid: it for sid, it in enumerate(numbers.windows) if is_comparable(it)}
    if not windows:
        return None
    sides = [
        *_source_sides(spark, windows, source_options),
        _hub_side(spark, numbers, windows, hub_options),
    ]
    tids = small_frame(
        spark,
        [(sid, numbers.tids[it.hub_topic]) for sid, it in windows.items()],
        "sid int, tid int",
    )
    found = (
        filter_equal(reduce(DataFrame.unionByName, sides))
        .join(tids, "sid")
        .localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
    )
    first, behind = F.col("offset") - F.col("weight") + 1, F.col("offset") + 1
    at_sources = to_islands(found, "sid", first, behind).collect()
    if not at_sources:
        return None
    begin, end = F.col("nth") - F.col("weight") + 1, F.col("nth") + 1
    at_hub = to_islands(found, "hid", begin, end).collect()
    sources: dict[str, dict[TopicPartition, list[OffsetRange]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in _ordered(at_sources, "sid"):
        of = windows[row["sid"]].partition
        sources[of.cluster][of.topic_partition].append(OffsetRange(row["begin"], row["end"]))
    hub: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for row in _ordered(at_hub, "hid"):
        tp, log = numbers.hub[row["hid"]]
        hub[tp].append(OffsetRange(log.earliest + row["begin"], log.earliest + row["end"]))
    return EqualBatches(
        found,
        frozenset(row["sid"] for row in at_sources),
        sum(row["end"] - row["begin"] for row in at_sources),
        sources,
        hub,
    )


def is_comparable(window: SourceWindow) -> bool:
    """Whether records of this partition are the same at the hub in each bit, and all are there."""
    changes = window.loose or window.translated or window.sparse or window.superseding
    return window.as_batches and window.compared and not changes


def _ordered(rows: Iterable[Row], of: str) -> list[Row]:
    return sorted(rows, key=lambda row: (row[of], row["begin"]))


def _source_sides(
    spark: SparkSession,
    windows: Mapping[int, SourceWindow],
    options: Mapping[str, Mapping[str, str]],
) -> list[DataFrame]:
    nowhere = F.lit(None)
    found = []
    for cluster in sorted({it.partition.cluster for it in windows.values()}):
        own = {sid: it for sid, it in windows.items() if it.partition.cluster == cluster}
        numbered = small_frame(
            spark,
            [(*it.partition.topic_partition, sid) for sid, it in own.items()],
            "topic string, partition int, sid int",
        )
        wanted = {it.partition.topic_partition: it.read for it in own.values()}
        found.append(
            read_batches(spark, wanted, options[cluster])
            .join(numbered, ["topic", "partition"])
            .withColumns({"hid": nowhere.cast("int"), "nth": nowhere.cast("bigint")})
            .select(*SIDE)
        )
    return found


def _hub_side(
    spark: SparkSession,
    numbers: Numbers,
    windows: Mapping[int, SourceWindow],
    options: Mapping[str, str],
) -> DataFrame:
    topics = {it.hub_topic for it in windows.values()}
    logs = {hid: it for hid, it in enumerate(numbers.hub) if it[0].topic in topics}
    places = small_frame(
        spark,
        [(*tp, hid, log.earliest) for hid, (tp, log) in logs.items()],
        "topic string, partition int, hid int, start bigint",
    )
    origins = small_frame(
        spark,
        [("/".join(map(str, it.partition)), it.hub_topic, sid) for sid, it in windows.items()],
        "place string, topic string, sid int",
    )
    return (
        read_batches(spark, dict(logs.values()), options)
        .join(places, ["topic", "partition"])
        .join(origins, ["place", "topic"])
        .withColumn("nth", F.col("last") - F.col("start"))
        .withColumn("last", F.col("origin") + F.col("last") - F.col("offset"))
        .withColumn("offset", F.col("origin"))
        .select(*SIDE)
    )


def filter_equal(sides: DataFrame) -> DataFrame:
    """The batches of which each side has one, and the same one.

    In: sid, the offsets at the source of the first and the `last` record, hash, and at the hub hid
    and `nth` of the last record. Out: sid, hid, nth, `offset` (of the last record), weight.
    """
    same = (F.col("lasts") == 1) & (F.col("hashes") == 1)
    return (
        sides.groupBy("sid", "offset")
        .agg(
            F.count_if(F.col("hid").isNull()).alias("source"),
            F.count("hid").alias("copies"),
            F.count_distinct("last").alias("lasts"),
            F.count_distinct("hash").alias("hashes"),
            F.max("last").alias("last"),
            F.max("hid").alias("hid"),
            F.max("nth").alias("nth"),
        )
        .filter((F.col("source") == 1) & (F.col("copies") == 1) & same)
        .select(
            "sid",
            "hid",
            "nth",
            F.col("last").alias("offset"),
            (F.col("last") - F.col("offset") + 1).alias("weight"),
        )
    )


def to_islands(found: DataFrame, of: str, begin: Column, end: Column) -> DataFrame:
    """The ranges [begin, end) of each number in `of`, those that touch as one."""
    order = Window.partitionBy(of).orderBy("begin")
    behind = F.coalesce(F.lag("end").over(order) != F.col("begin"), F.lit(True))
    return (
        found.select(of, begin.alias("begin"), end.alias("end"))
        .withColumn("behind", behind)
        .withColumn("island", F.sum(F.col("behind").cast("int")).over(order))
        .groupBy(of, "island")
        .agg(F.min("begin").alias("begin"), F.max("end").alias("end"))
    )
