"""Reads ranges of the hub: by Spark's Kafka source, and with plain clients what that refuses.

Spark's source fails a whole read for one record whose timestamp is none that Spark can hold, such
as one in nanoseconds.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import ClusterConfig, Config
from aggregator.credentials import reader_settings
from aggregator.model import OffsetRange, TopicPartition
from aggregator.stream.ranges import read_ranges
from aggregator.tee.frames import MOST_MILLIS

POLL_MS = "60000"
"""How long a read may wait for a broker that does not answer."""
POLL_RECORDS = "5000"
"""Spark keeps what a poll brought for each partition: with ten times as many Java's heap is full of
it, and most of its time goes into collections."""
MALFORMED = "overflows when converting to Spark's microsecond-precision TimestampType"
PLAIN_SECONDS = 600.0
"""So long a topic with such a record is read with plain clients: a producer that writes one writes
more."""
PLAIN_POLL = 500
PLAIN_WAIT = 60.0
COLUMNS = (
    "topic string, partition int, offset bigint, timestamp bigint, "
    "headers array<struct<key:string,value:binary>>, key binary, value binary"
)

Ranges = Mapping[TopicPartition, OffsetRange]
Row = tuple[Any, ...]
"""What `COLUMNS` says, with a timestamp in microseconds."""


class Reader(Protocol):
    """Reads the records of some ranges, with headers or without."""

    def __call__(self, spark: SparkSession, ranges: Ranges, headers: bool, /) -> DataFrame:
        """A frame with the columns of Spark's Kafka source."""

    def is_helped(self, error: Exception, /) -> bool:
        """Whether a read that failed so is another one now."""


class HubReader:
    """Reads one topic of the hub."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._plain_until = 0.0

    def __call__(self, spark: SparkSession, ranges: Ranges, headers: bool) -> DataFrame:
        """The records of these ranges; fails when some are not there any more."""
        if self._is_plain:
            return _read_plainly(spark, self._config.hub, ranges)
        return read_ranges(spark, ranges, hub_options(self._config), headers=headers)

    def is_helped(self, error: Exception) -> bool:
        """Whether Spark's source has refused a record that plain clients read."""
        if self._is_plain or MALFORMED not in str(error):
            return False
        self._plain_until = time.monotonic() + PLAIN_SECONDS
        return True

    @property
    def _is_plain(self) -> bool:
        return time.monotonic() < self._plain_until


def hub_options(config: Config) -> Mapping[str, str]:
    """Options of Spark's Kafka source for the hub."""
    return {
        "kafka.max.poll.records": POLL_RECORDS,
        **{f"kafka.{k}": v for k, v in jvm_settings(config.hub, "consumer").items()},
        # One group for all batches, so that executors keep their consumers. Nothing is committed.
        "kafka.group.id": f"aggregator-{config.name}-tee",
        "kafkaConsumer.pollTimeoutMs": POLL_MS,
    }


def _read_plainly(spark: SparkSession, cluster: ClusterConfig, ranges: Ranges) -> DataFrame:
    """The same, a task for each range; a timestamp that Spark cannot hold is null."""
    parts = sorted(ranges.items())
    # No reset to where the log begins now: what was deleted meanwhile would be skipped silently.
    settings = {**reader_settings(cluster, "aggregator-tee"), "auto.offset.reset": "error"}
    context = spark.sparkContext
    if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        # Not the first python3 on the path, which need not have what is needed here.
        context.pythonExec = sys.executable
    numbers = context.parallelize(range(len(parts)), len(parts))
    rows = numbers.flatMap(lambda number: _rows(settings, *parts[number]))
    found = spark.createDataFrame(rows, COLUMNS, verifySchema=False)
    return found.withColumn("timestamp", F.timestamp_micros("timestamp"))


def _rows(settings: Mapping[str, Any], tp: TopicPartition, log: OffsetRange) -> Iterator[Row]:
    consumer = Consumer(dict(settings))
    try:
        consumer.assign([ClientPartition(tp.topic, tp.partition, log.earliest)])
        deadline = time.monotonic() + PLAIN_WAIT
        while time.monotonic() < deadline:
            for record in consumer.consume(PLAIN_POLL, timeout=1.0):
                error = record.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if error is not None or int(record.offset() or 0) >= log.latest:
                    return
                yield _row(tp, record)
                deadline = time.monotonic() + PLAIN_WAIT
        raise TimeoutError(f"{tp}: no record and no end within {PLAIN_WAIT:g} s")
    finally:
        consumer.close()


def _row(tp: TopicPartition, record: Message) -> Row:
    millis = record.timestamp()[1]
    micros = millis * 1000 if abs(millis) <= MOST_MILLIS else None
    headers: Any = record.headers() or None
    return *tp, record.offset(), micros, headers, record.key(), record.value()
