"""Lands one batch of a hub topic: reads its ranges, decodes, and appends them in one commit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.model import TopicPartition
from aggregator.stream.ranges import read_ranges
from aggregator.tee.core import Batch, Landed, LostBefore, Receded, plan_batch
from aggregator.tee.core_columns import EMPTY, Struct
from aggregator.tee.decode import Decoder
from aggregator.tee.frames import with_landing_columns
from aggregator.tee.hub import TopicNow
from aggregator.tee.table import LandingTable

POLL_MS = "60000"
"""How long a read may wait for a broker that does not answer."""
POLL_RECORDS = "5000"
"""Spark keeps what a poll brought for each partition: with ten times as many Java's heap is full of
it, and most of its time goes into collections."""


@dataclass(frozen=True, slots=True)
class TableKnown:
    """What is known of a table: what has landed, and its columns."""

    landed: Landed
    columns: Struct = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of a batch; `known` is what holds from now on, None what is to be read again."""

    known: TableKnown | None
    offsets: int = 0
    records: int = 0
    undecoded: int = 0
    lost: tuple[LostBefore, ...] = ()
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0
    refused: str = ""


def hub_options(config: Config) -> Mapping[str, str]:
    """Options of Spark's Kafka source for the hub."""
    return {
        "kafka.max.poll.records": POLL_RECORDS,
        **{f"kafka.{k}": v for k, v in jvm_settings(config.hub, "consumer").items()},
        # One group for all batches, so that executors keep their consumers. Nothing is committed.
        "kafka.group.id": f"aggregator-{config.name}-tee",
        "kafkaConsumer.pollTimeoutMs": POLL_MS,
    }


def land(
    config: Config,
    table: LandingTable,
    decoder: Decoder | None,
    known: TableKnown | None,
    topic: TopicNow,
    limit: int,
) -> Attempt:
    """Land the next batch, if there is one. Raises PySparkException or Py4JJavaError.

    And RegistryError while the schemas cannot be asked for that records name.
    """
    began = time.monotonic()
    if known is None:
        known = TableKnown(table.landed(), table.columns())
    batch = plan_batch(known.landed, topic.topic_id, topic.logs, limit)
    if isinstance(batch, Receded):
        return Attempt(known, refused=str(batch))
    if batch is None:
        return Attempt(known)
    rows, columns, left_out = _rows(config, table, decoder, known.columns, batch)
    try:
        appended = table.append(rows, batch)
    except Exception as error:
        if decoder is None or not decoder.is_surprised(error):
            raise
        rows, columns, left_out = _rows(config, table, decoder, known.columns, batch)
        appended = table.append(rows, batch)
    if appended is None:
        # The JVM of a tee that was killed was quicker, say: the table knows what it did.
        return Attempt(None)
    return Attempt(
        TableKnown(batch.after, columns),
        batch.offsets,
        appended.records,
        appended.undecoded,
        batch.lost,
        left_out,
        time.monotonic() - began,
    )


def _rows(
    config: Config, table: LandingTable, decoder: Decoder | None, have: Struct, batch: Batch
) -> tuple[DataFrame, Struct, tuple[str, ...]]:
    ranges = {TopicPartition(table.topic, each): log for each, log in batch.ranges.items()}

    def read(headers: bool) -> DataFrame:
        return read_ranges(table.spark, ranges, hub_options(config), headers=headers)

    rows = with_landing_columns(read(True))
    if decoder is None:
        return rows, have, ()
    columns = decoder.columns(read, have)
    return decoder.decode(rows, columns.struct), columns.struct, columns.left_out
