"""Lands one batch of a hub topic: reads its ranges, decodes, and appends them in one commit.

Spark's source keeps its consumers from batch to batch, and fails a whole read for one record whose
timestamp is none that Spark can hold, such as one in nanoseconds. What it refuses is read by our
own. So is all of a hub where batches are copied as they are: Spark's source does not show the
headers of batches, where the origins of their records are.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.datapath.spark.ranges import known_origins, read_exactly, read_ranges
from aggregator.features.delta_sink.decoders import Decoder
from aggregator.features.delta_sink.hub_topics_now import TopicNow
from aggregator.features.delta_sink.landed_commits import Unclear
from aggregator.features.delta_sink.landing_rows import with_landing_columns
from aggregator.features.delta_sink.landing_table import Appended, LandingTable
from aggregator.features.delta_sink.next_batch import (
    Batch,
    Landed,
    LostBefore,
    Receded,
    plan_batch,
    plan_beginning,
)
from aggregator.features.delta_sink.value_columns import EMPTY, Struct
from aggregator.model.errors import AggregatorError
from aggregator.model.values import OffsetRange, TopicPartition
from aggregator.store.checkpoint.checkpoint_table import stored_state

POLL_MS = "60000"
"""How long a read may wait for a broker that does not answer."""
POLL_RECORDS = "5000"
"""Spark keeps what a poll brought for each partition: with ten times as many Java's heap is full of
it, and most of its time goes into collections."""
MALFORMED = "overflows when converting to Spark's microsecond-precision TimestampType"
OWN_SECONDS = 600.0
"""How long a topic with such a record is read by our own source: its producer will write more."""

Ranges = Mapping[TopicPartition, OffsetRange]


class HubReader:
    """Reads one topic of the hub."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._own_until = 0.0

    def __call__(self, spark: SparkSession, ranges: Ranges, headers: bool) -> DataFrame:
        """The records of these ranges, with the columns of Spark's Kafka source, and maybe
        `timestamp_ms`; fails when some are not there any more.

        Raises CheckpointError and AggregatorError where the checkpoint does not say whose batches
        were copied as they are.
        """
        options = hub_options(self._config)
        if self._config.topics.has_batches:
            return read_exactly(spark, ranges, {**options, **self._origins()})
        if self._reads_by_own:
            return read_exactly(spark, ranges, options)
        return read_ranges(spark, ranges, options, headers=headers)

    def is_helped(self, error: Exception) -> bool:
        """Whether Spark's source has refused a record that our own reads."""
        if self._reads_by_own or MALFORMED not in str(error):
            return False
        self._own_until = time.monotonic() + OWN_SECONDS
        return True

    def _origins(self) -> Mapping[str, str]:
        """All that these ranges can have: a partition is committed before it is copied."""
        place = self._config.checkpoint
        known = stored_state(place).entries
        if not known:
            raise AggregatorError(
                f"the origins of batches are not known: {place.path} has no position yet"
                " (checkpoint.path has to be that of the instance that copies)"
            )
        return known_origins(known)

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


@dataclass(frozen=True, slots=True)
class TableKnown:
    """What is known of a table: what has landed, and its columns."""

    landed: Landed
    columns: Struct = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of a batch; `known` is the new state, None when it must be read again."""

    known: TableKnown | None
    committed: bool = False
    offsets: int = 0
    records: int = 0
    undecoded: int = 0
    lost: tuple[LostBefore, ...] = ()
    replaced: Landed | None = None
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0
    refused: str = ""

    @property
    def is_overtaken(self) -> bool:
        """Whether nothing was taken, as the table does not end where the batch begins."""
        return self.known is None and not self.committed and not self.refused


def land(
    read: HubReader,
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
    is_new = known is None
    if known is None:
        landed = table.landed()
        if isinstance(landed, Unclear):
            return Attempt(None, refused=landed.reason)
        known = TableKnown(landed, table.columns())
    batch = plan_batch(known.landed, topic.topic_id, topic.logs, limit)
    if isinstance(batch, Receded):
        # Another tee may have landed more than there was when the hub was asked.
        return Attempt(known, refused="" if is_new else str(batch))
    if batch is None:
        # A partition without records has its position from now on.
        here = plan_beginning(known.landed, topic.topic_id, topic.logs)
        return Attempt(replace(known, landed=here))
    try:
        appended, columns, left_out = _append(read, table, decoder, known.columns, batch)
    except Exception as error:
        if not read.is_helped(error) and (decoder is None or not decoder.is_unexpected(error)):
            raise
        appended, columns, left_out = _append(read, table, decoder, known.columns, batch)
    if appended is None:
        # The JVM of a tee that was killed was quicker, say: the table knows what it did.
        return Attempt(None)
    after = TableKnown(replace(batch.after, version=appended.version), columns)
    return Attempt(
        # Where others have written since, the table says whether that matters.
        after if appended.version == batch.follows + 1 else None,
        True,
        batch.offsets,
        appended.records,
        appended.undecoded,
        batch.lost,
        batch.replaced,
        left_out,
        time.monotonic() - began,
    )


def _append(
    read: HubReader, table: LandingTable, decoder: Decoder | None, have: Struct, batch: Batch
) -> tuple[Appended | None, Struct, tuple[str, ...]]:
    ranges = {TopicPartition(table.topic, each): log for each, log in batch.ranges.items()}

    def read_batch(headers: bool) -> DataFrame:
        return read(table.spark, ranges, headers)

    rows = with_landing_columns(read_batch(True))
    if decoder is None:
        return table.append(rows, batch), have, ()
    columns = decoder.columns(read_batch, have)
    rows = decoder.decode(rows, columns.struct)
    return table.append(rows, batch), columns.struct, columns.left_out
