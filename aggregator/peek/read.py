"""Reads what a topic is like at one cluster: configs, what its logs hold, its newest records."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.config.schema import ClusterConfig, Config
from aggregator.discover import HUB, ClusterAdmin, open_admin
from aggregator.discover.errors import text_of
from aggregator.errors import ClusterError, RefusedError
from aggregator.model import OffsetRange, TopicFacts, TopicPartition
from aggregator.peek.core import shown, tails
from aggregator.peek.document import LogSpan, PeekedHeader, PeekedRecord, TopicLook
from aggregator.quarantine.reader import open_consumer, to_raw
from aggregator.quarantine.records import Raw, origin_of

SECONDS = 5.0
"""A look is for somebody who waits for it."""
POLL_RECORDS = 500


def look_at(config: Config, source: str | None, topic: str, records: int) -> TopicLook:
    """The topic at a source, or with None at the hub, with so many of its newest records.

    Only reads; joins no group. Raises ClusterError when the cluster does not answer in time,
    RefusedError when it has no such topic.
    """
    cluster = HUB if source is None else source
    timeout = min(SECONDS, config.supervision.connect_timeout)
    with open_admin(config, cluster) as admin:
        facts, configs, notes = _describe(admin, cluster, topic, timeout)
        names = [TopicPartition(topic, number) for number in range(facts.partitions)]
        logs = admin.offsets(names, timeout)
    notes = (*notes, *(f"{tp}: {why}" for tp, why in logs.failed.items()))
    found: list[tuple[int, int, Raw]] = []
    if records and logs.ranges:
        read = config.hub if source is None else config.sources[source]
        found = _newest(read, logs.ranges, records, timeout)
    return TopicLook(
        source=source,
        topic=topic,
        replication_factor=facts.replication_factor,
        partitions=tuple(
            LogSpan(partition=tp.partition, earliest=log.earliest, latest=log.latest)
            for tp, log in sorted(logs.ranges.items())
        ),
        configs=dict(configs),
        records=tuple(_record(*it) for it in found),
        notes=notes,
    )


def _describe(
    admin: ClusterAdmin, cluster: str, topic: str, timeout: float
) -> tuple[TopicFacts, Mapping[str, str], tuple[str, ...]]:
    described = admin.describe_topics([topic], timeout)
    facts = described.topics.get(topic)
    if facts is None:
        raise RefusedError([f"{cluster}: {topic}: {described.failed.get(topic, 'no such topic')}"])
    return facts, described.effective.get(topic, {}), described.notes


def _newest(
    cluster: ClusterConfig,
    logs: Mapping[TopicPartition, OffsetRange],
    records: int,
    timeout: float,
) -> list[tuple[int, int, Raw]]:
    """The newest records of these logs by their timestamps: partition, timestamp, record."""
    wanted = tails(logs, records)
    left = set(wanted)
    found: list[tuple[int, int, Raw]] = []
    consumer = open_consumer(cluster)
    try:
        consumer.assign(
            [ClientPartition(tp.topic, tp.partition, log.earliest) for tp, log in wanted.items()]
        )
        deadline = time.monotonic() + timeout
        while left and time.monotonic() < deadline:
            for message in consumer.consume(POLL_RECORDS, timeout=0.1):
                tp = TopicPartition(str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise ClusterError(
                            f"{cluster.bootstrap_servers}: reading {tp}: {text_of(error)}"
                        )
                    left.discard(tp)
                    continue
                raw = to_raw(message)
                found.append((tp.partition, raw.at_ms, raw))
                if raw.offset >= wanted[tp].latest - 1:
                    left.discard(tp)
    finally:
        consumer.close()
    return sorted(found, key=lambda it: (it[1], it[2].offset), reverse=True)[:records]


def _record(partition: int, timestamp_ms: int, raw: Raw) -> PeekedRecord:
    origin = origin_of(raw)
    return PeekedRecord(
        partition=partition,
        offset=raw.offset,
        timestamp_ms=timestamp_ms,
        key=shown(raw.key),
        value=shown(raw.value),
        value_bytes=len(raw.value or b""),
        headers=tuple(PeekedHeader(name=name, value=shown(value)) for name, value in raw.headers),
        origin=None if origin is None else str(origin),
    )
