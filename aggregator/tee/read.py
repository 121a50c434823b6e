"""Reads ranges of the hub, by Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.model import OffsetRange, TopicPartition
from aggregator.stream.ranges import read_ranges

POLL_MS = "60000"
"""How long a read may wait for a broker that does not answer."""
POLL_RECORDS = "5000"
"""Spark keeps what a poll brought for each partition: with ten times as many Java's heap is full of
it, and most of its time goes into collections."""

Ranges = Mapping[TopicPartition, OffsetRange]


class Reader(Protocol):
    """Reads the records of some ranges, with headers or without."""

    def __call__(self, spark: SparkSession, ranges: Ranges, headers: bool, /) -> DataFrame:
        """A frame with the columns of Spark's Kafka source."""


class HubReader:
    """Reads one topic of the hub."""

    def __init__(self, config: Config) -> None:
        self._options = hub_options(config)

    def __call__(self, spark: SparkSession, ranges: Ranges, headers: bool) -> DataFrame:
        """The records of these ranges; fails when some are not there any more."""
        return read_ranges(spark, ranges, self._options, headers=headers)


def hub_options(config: Config) -> Mapping[str, str]:
    """Options of Spark's Kafka source for the hub."""
    return {
        "kafka.max.poll.records": POLL_RECORDS,
        **{f"kafka.{k}": v for k, v in jvm_settings(config.hub, "consumer").items()},
        # One group for all batches, so that executors keep their consumers. Nothing is committed.
        "kafka.group.id": f"aggregator-{config.name}-tee",
        "kafkaConsumer.pollTimeoutMs": POLL_MS,
    }
