"""Reads ranges of the hub: by Spark's Kafka source, or our own for what that refuses.

Spark's source keeps its consumers from batch to batch, and fails a whole read for one record whose
timestamp is none that Spark can hold, such as one in nanoseconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.datapath.spark.ranges import read_exactly, read_ranges
from aggregator.model.values import OffsetRange, TopicPartition

POLL_MS = "60000"
"""How long a read may wait for a broker that does not answer."""
POLL_RECORDS = "5000"
"""Spark keeps what a poll brought for each partition: with ten times as many Java's heap is full of
it, and most of its time goes into collections."""
MALFORMED = "overflows when converting to Spark's microsecond-precision TimestampType"
OWN_SECONDS = 600.0
"""How long a topic with such a record is read by our own source: its producer will write more."""

Ranges = Mapping[TopicPartition, OffsetRange]


class Reader(Protocol):
    """Reads the records of some ranges, with headers or without."""

    def __call__(self, spark: SparkSession, ranges: Ranges, headers: bool, /) -> DataFrame:
        """A frame with the columns of Spark's Kafka source, and maybe `timestamp_ms`."""

    def is_helped(self, error: Exception, /) -> bool:
        """Whether a read that failed so is another one now."""


class HubReader:
    """Reads one topic of the hub."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._own_until = 0.0

    def __call__(self, spark: SparkSession, ranges: Ranges, headers: bool) -> DataFrame:
        """The records of these ranges; fails when some are not there any more."""
        options = hub_options(self._config)
        if self._reads_by_own:
            return read_exactly(spark, ranges, options)
        return read_ranges(spark, ranges, options, headers=headers)

    def is_helped(self, error: Exception) -> bool:
        """Whether Spark's source has refused a record that our own reads."""
        if self._reads_by_own or MALFORMED not in str(error):
            return False
        self._own_until = time.monotonic() + OWN_SECONDS
        return True

    @property
    def _reads_by_own(self) -> bool:
        return time.monotonic() < self._own_until


def hub_options(config: Config) -> Mapping[str, str]:
    """Options of Spark's Kafka source for the hub."""
    return {
        "kafka.max.poll.records": POLL_RECORDS,
        **{f"kafka.{k}": v for k, v in jvm_settings(config.hub, "consumer").items()},
        # One group for all batches, so that executors keep their consumers. Nothing is committed.
        "kafka.group.id": f"aggregator-{config.name}-tee",
        "kafkaConsumer.pollTimeoutMs": POLL_MS,
    }
