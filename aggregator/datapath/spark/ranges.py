"""Frames over offset ranges of one cluster, read once, and the origins that their records have.

An origin frame has the columns cluster string, topic string, partition int, offset bigint: all
from the last origin of a record, the one that our own hop wrote, in either form.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from aggregator.datapath.connector.spec import origins_of_batches
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition

RANGES = "aggregator.connector.RangeSource"
ORIGIN = ("cluster", "topic", "partition")
Holes = Mapping[TopicPartition, Sequence[OffsetRange]]
"""What need not be read, by partition: in order, and without overlaps."""
NOTHING: Holes = {}

BULK_OPTIONS = {
    # Spark asks for the log's range at every poll, two round trips each: few large polls instead
    # of Kafka's 500 records.
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
}
"""Options of a Kafka source that reads a known range, where the user set none."""


def known_origins(partitions: Iterable[SourcePartition]) -> dict[str, str]:
    """An option for reading the hub: these may have batches there that were copied as they are.

    Records of such batches then have the one header with their origin, as if it were their own.
    """
    return {"origins": json.dumps(origins_of_batches(partitions))}


def any_origins() -> dict[str, str]:
    """An option for reading a source that may be a hub: of whomever batches there are.

    Records of batches that were copied as they are then have a header with an origin, which says
    only that they have one.
    """
    return {"origins": json.dumps({**origins_of_batches(()), "any": True})}


def read_ranges(
    spark: SparkSession,
    ranges: Mapping[TopicPartition, OffsetRange],
    options: Mapping[str, str],
    *,
    headers: bool = True,
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
        .option("includeHeaders", str(headers).lower())
        .option("failOnDataLoss", "true")
        .load()
    )


def read_exactly(
    spark: SparkSession,
    ranges: Mapping[TopicPartition, OffsetRange],
    options: Mapping[str, str],
    without: Holes = NOTHING,
    *,
    partial: bool = False,
) -> DataFrame:
    """The same records, whatever their timestamps say, which fails that source: see `RangeSource`.

    Out: its columns, always with `headers`, and `timestamp_ms` (bigint), the exact timestamp, -1 of
    a record that has none. `timestamp` is null for one that has none, and for one beyond the year
    9999. With `partial` what the logs no longer hold is left out; else that fails. What lies in
    `without` is not read.
    """
    read = {"ranges": _bounds(ranges, without), "exact": not partial}
    return _exactly(spark, options, read)


def read_batches(
    spark: SparkSession, ranges: Mapping[TopicPartition, OffsetRange], options: Mapping[str, str]
) -> DataFrame:
    """The batches in these ranges that may be copied as they are; none of it is unpacked.

    Out: topic, partition, offset and last (bigint, of the first and the last record), hash
    (bigint, of what its records are, without their offsets). With `known_origins` those that were
    copied so, with place ("cluster/topic/partition") and origin (bigint, the offset there of the
    first record); else these are null. None where kafka-clients is not the pinned version.
    """
    return _exactly(
        spark, options, {"ranges": _bounds(ranges, NOTHING), "exact": True, "batches": True}
    )


def _bounds(
    ranges: Mapping[TopicPartition, OffsetRange], without: Holes
) -> dict[str, dict[str, list[int]]]:
    """By topic and partition: first, behind the last, and so on, of what is read."""
    wanted: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for tp, log in ranges.items():
        starts, ends = [log.earliest], []
        for hole in without.get(tp, ()):
            starts.append(hole.latest)
            ends.append(hole.earliest)
        parts = zip(starts, [*ends, log.latest], strict=True)
        wanted[tp.topic][str(tp.partition)] = [
            at for start, end in parts if start < end for at in (start, end)
        ]
    return wanted


def read_topics(
    spark: SparkSession,
    topics: Collection[str],
    options: Mapping[str, str],
    since_ms: int | None = None,
) -> DataFrame:
    """All that the logs hold when the frame is read, with the columns of `read_exactly`.

    With `since_ms` of each partition what follows its first record that is as new as that.
    """
    return _exactly(spark, options, {"topics": sorted(topics), "since": since_ms})


def follow_topics(
    spark: SparkSession, topics: Collection[str], options: Mapping[str, str]
) -> DataFrame:
    """What comes from now on, as a streaming frame with the columns of `read_exactly`."""
    given = _given(options, {"topics": sorted(topics)})
    return spark.readStream.format(RANGES).options(**given).load()


def _exactly(
    spark: SparkSession, options: Mapping[str, str], wanted: Mapping[str, object]
) -> DataFrame:
    return spark.read.format(RANGES).options(**_given(options, wanted)).load()


def _given(options: Mapping[str, str], wanted: Mapping[str, object]) -> dict[str, str]:
    return {**BULK_OPTIONS, **options, "read": json.dumps(wanted)}
