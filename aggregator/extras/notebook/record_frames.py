"""Frames of records at the hub and at sources, with their origin as columns; and the session."""

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import ClusterConfig, Config
from aggregator.datapath.spark.headers import (
    is_of_origin,
    moment,
    origin_columns,
    origin_texts,
    timestamp_ms,
)
from aggregator.datapath.spark.ranges import follow_topics, known_origins, read_exactly, read_topics
from aggregator.datapath.spark.session import open_reader
from aggregator.extras.notebook.delta_frames import read_table
from aggregator.kafka.discovery.prepare import prepare
from aggregator.model.errors import AggregatorError, JarsError
from aggregator.model.values import OffsetRange, TopicPartition
from aggregator.store.checkpoint.checkpoint_table import stored_state

Offsets = Mapping[int, tuple[int, int]]
"""Partition -> (first offset, the one behind the last)."""


@dataclass(frozen=True, slots=True)
class Span:
    """Which records of a topic: by time [since, until), or by offsets; without any, all."""

    since: datetime | None = None
    until: datetime | None = None
    offsets: Offsets | None = None


ALL = Span()
PYTHON = "PYSPARK_PYTHON"
"""Names the Python of Spark's workers."""


def open_session(config: Config, master: str) -> SparkSession:
    """A Spark session that can read Kafka, Delta and Avro, with the settings and jars of the
    config.

    JarsError when the jars or a Java cannot be had. Where a folder is named that holds the jars,
    and not those for Avro, the session goes without them.
    """
    try:
        spark = open_reader(config, master, ("avro",))
    except JarsError:
        spark = open_reader(config, master)
    if master.startswith("local") and PYTHON not in os.environ:
        # Not the first python3 on the path, which need not have what is needed here.
        spark.sparkContext.pythonExec = sys.executable
    return spark


def hub_records(
    spark: SparkSession,
    config: Config,
    *topics: str,
    span: Span = ALL,
    sources: Collection[str] = (),
) -> DataFrame:
    """What the hub holds now: the records of `topics`, or of all hub topics of this config.

    Columns: topic, partition, offset, timestamp (null where a record has none, or one that is no
    time up to the year 9999), timestamp_ms (what it says), key, value (binary); origin_cluster,
    origin_topic, origin_partition, origin_offset, origin_timestamp (null for a record that did not
    come through an aggregator; the last one also where the origin is one header, or that of a whole
    batch, which leaves it to `timestamp`); headers, a map of the record's own headers to their last
    value. With `sources` only records that came from these. Without `topics` the clusters are
    asked, so ClusterError when they do not answer.
    """
    names = topics or hub_topics(config)
    options = _hub_options(config)
    found = read_records(spark, options, names, span).transform(with_origin_columns)
    return found.where(F.col("origin_cluster").isin(*sources)) if sources else found


def live_records(spark: SparkSession, config: Config, *topics: str) -> DataFrame:
    """A streaming frame of what comes to the hub from now on, with the columns of `hub_records`."""
    names = topics or hub_topics(config)
    stream = follow_topics(spark, names, _hub_options(config))
    return stream.transform(with_origin_columns)


def source_records(
    spark: SparkSession, config: Config, source: str, topic: str, span: Span = ALL
) -> DataFrame:
    """What a source's topic holds now, with the columns of `hub_records` that are not of origin."""
    cluster = config.sources[config.chosen(source)[0]]
    found = read_records(spark, _options(cluster), (topic,), span)
    return found.withColumn("headers", _own_headers()).select(*_plain(found), "headers")


def read_records(
    spark: SparkSession, options: Mapping[str, str], topics: Collection[str], span: Span
) -> DataFrame:
    """A Kafka frame with `headers` of these topics, as they are now."""
    if span.offsets is not None:
        if len(topics) != 1:
            raise AggregatorError("offsets are those of one topic: name it")
        (topic,) = topics
        ranges = {TopicPartition(topic, at): OffsetRange(*it) for at, it in span.offsets.items()}
        # What of the range the log no longer holds is not there, and that is all.
        return read_exactly(spark, ranges, options, partial=True)
    since, until = (None if it is None else _millis(it) for it in (span.since, span.until))
    found = read_topics(spark, topics, options, since)
    # Timestamps are those of the sources and in no order: the log is not cut off by them.
    if since is not None:
        found = found.where(F.col("timestamp_ms") >= since)
    if until is not None:
        found = found.where(F.col("timestamp_ms") < until)
    return found


def hub_topics(config: Config) -> tuple[str, ...]:
    """The topics that this config writes and that the hub has; AggregatorError if there are none.

    ClusterError when the hub does not answer.
    """
    plan = prepare(config).plan
    names = sorted({route.hub_topic for route in plan.routes} & set(plan.hub.topics))
    if not names:
        raise AggregatorError("the hub has none of the topics of this config yet: run it first")
    return tuple(names)


def _plain(frame: DataFrame) -> list[Column]:
    """What is no matter of headers, of a Kafka frame."""
    millis = timestamp_ms(frame)
    place = [F.col(name) for name in ("topic", "partition", "offset")]
    times = [moment(millis).alias("timestamp"), millis.alias("timestamp_ms")]
    return [*place, *times, F.col("key"), F.col("value")]


def with_origin_columns(frame: DataFrame) -> DataFrame:
    """Origin headers as columns. In: a Kafka frame with `headers`; out: as `hub_records` says.

    Of several origins (a hub of hubs) the last one counts, the nearest hop, in whichever form.
    """
    origin = origin_columns("texts")
    names = ("cluster", "topic", "partition", "offset")
    return frame.withColumn("texts", origin_texts()).select(
        *_plain(frame),
        *(origin[name].alias(f"origin_{name}") for name in names),
        moment(origin["timestamp"]).alias("origin_timestamp"),
        _own_headers().alias("headers"),
    )


def checkpoints(spark: SparkSession, config: Config) -> DataFrame:
    """The checkpoint table: one row per position, hub end and epoch of each commit."""
    return read_table(spark, config, "checkpoints")


def _options(cluster: ClusterConfig) -> dict[str, str]:
    return {f"kafka.{k}": v for k, v in jvm_settings(cluster, "consumer").items()}


def _hub_options(config: Config) -> dict[str, str]:
    """With what the checkpoint knows of whose batches the hub may hold as they are.

    Whatever the config says now: they were perhaps copied when it said something else.
    """
    return {**_options(config.hub), **known_origins(stored_state(config.checkpoint).entries)}


def _millis(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise AggregatorError(f"{moment.isoformat()} has no UTC offset: write tzinfo=UTC, say")
    return int(moment.astimezone(UTC).timestamp() * 1000)


def _own_headers() -> Column:
    own = F.filter("headers", lambda header: ~is_of_origin(header))
    names = F.array_distinct(F.transform(own, lambda header: header["key"]))

    def last(name: Column) -> Column:
        same = F.filter(own, lambda header: header["key"] == name)
        return F.try_element_at(same, F.lit(-1))["value"]

    return F.map_from_arrays(names, F.transform(names, last))
