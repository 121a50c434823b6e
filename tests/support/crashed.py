"""Makes what a crash leaves behind: a hub that holds some records, a checkpoint before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Producer

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.model.values import Positions, SourcePartition
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.rows import Checkpoint
from support.reading import SECONDS, Record


def with_origin(record: Record, alias: str, form: str = "headers") -> Record:
    """A source record as the hub would hold it, its origin in five headers or in one header."""
    if form == "header":
        text = f"{alias}/{record.topic}/{record.partition}/{record.offset}"
        return record._replace(headers=(*record.headers, ("origin", text.encode())))
    values = (alias, record.topic, record.partition, record.offset, record.timestamp)
    names = ("cluster", "topic", "partition", "offset", "timestamp")
    origin = tuple(
        (f"origin.{name}", str(value).encode()) for name, value in zip(names, values, strict=True)
    )
    return record._replace(headers=record.headers + origin)


def write_again(cluster: EmbeddedCluster, topic: str, records: Sequence[Record]) -> None:
    """Write hub records as they were, each to the partition it was in."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
        producer.poll(0)
    assert producer.flush(SECONDS) == 0


def crash_at_zero(config: Config, topic: str, partitions: Mapping[str, int]) -> None:
    """The checkpoint of a run that was killed before its first batch ended.

    `partitions`: how many partitions the topic has in each source (alias -> number).
    """
    table = CheckpointTable.create(config.checkpoint.path)
    table.claim_epoch("somebody who is gone")
    for alias, count in partitions.items():
        positions = {SourcePartition(alias, topic, number): 0 for number in range(count)}
        table.append(
            Checkpoint(
                alias, 1, -1, Positions(positions), hub_ends={}, snapshot_at_ms=0, clean=False
            )
        )
