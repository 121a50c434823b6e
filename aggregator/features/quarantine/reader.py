"""Reads parts of single partitions with plain consumers: of the quarantine topic, or elsewhere.

By assignment: no group is joined, nothing is committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.config.schema import ClusterConfig, Config
from aggregator.features.quarantine.ledger import Ledger
from aggregator.features.quarantine.records import Raw, parse
from aggregator.kafka.admin import HUB, ClusterAdmin
from aggregator.kafka.admin.client_errors import text_of
from aggregator.kafka.credentials import reader_settings
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, TopicPartition
from aggregator.plan.topics.quarantine_topics import (
    QUARANTINE_PARTITION,
    duplicates_topic,
    quarantine_topic,
)

POLL_RECORDS = 500
POLL_SECONDS = 0.2


class QuarantineReader:
    """A consumer for each cluster that is asked for; a context manager.

    Every method raises ClusterError when a cluster refuses, or tells nothing for as long as
    `supervision.connect_timeout`.
    """

    def __init__(self, config: Config, place: TopicPartition | None = None) -> None:
        self.place = quarantine_partition(config) if place is None else place
        """The partition that notes go to as well: of the quarantine topic, if it is no other."""
        self._config = config
        self._timeout = config.supervision.connect_timeout
        self._consumers: dict[str, Consumer] = {}

    def __enter__(self) -> QuarantineReader:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def read_ledger(
        self, admin: ClusterAdmin, ledger: Ledger, since_ms: int | None = None
    ) -> Ledger:
        """Add to a ledger what the topic holds and it does not; `admin` is the hub's.

        A new one begins with what arrived at `since_ms`. Nothing when there is no such topic.
        """
        log = log_of(self.place, admin, self._timeout, exists=len(ledger) > 0)
        if log is None:
            return ledger
        if log.latest < ledger.next_offset:
            ledger.clear()
        start = max(ledger.next_offset, log.earliest)
        if since_ms is not None and not ledger.next_offset:
            start = max(start, self._first_since(since_ms, log))
        for raw in self.read_range(HUB, self.place, OffsetRange(start, log.latest)):
            ledger.add(parse(raw), raw.offset, raw.at_ms if raw.by_broker else None)
        return ledger

    def _first_since(self, since_ms: int, log: OffsetRange) -> int:
        asked = ClientPartition(*self.place, since_ms)
        try:
            (found,) = self._consumer(HUB).offsets_for_times([asked], timeout=self._timeout)
        except KafkaException as error:
            raise ClusterError(f"hub: {self.place}: {text_of(error.args[0])}") from error
        if found.error is not None:
            raise ClusterError(f"hub: {self.place}: {text_of(found.error)}")
        return int(found.offset) if found.offset >= 0 else log.latest

    def read_one(self, alias: str, tp: TopicPartition, offset: int) -> Raw | None:
        """The record at exactly this offset, None when the log does not hold it any more."""
        for raw in self.read_range(alias, tp, OffsetRange(offset, offset + 1)):
            return raw if raw.offset == offset else None
        return None

    def read_range(self, alias: str, tp: TopicPartition, log: OffsetRange) -> Iterator[Raw]:
        """The records of an offset range that the log still holds, in order; one range at a time.

        `alias` is a source, or the hub (`HUB`).
        """
        if log.earliest >= log.latest:
            return
        consumer = self._consumer(alias)
        consumer.assign([ClientPartition(tp.topic, tp.partition, log.earliest)])
        try:
            yield from self._records(consumer, alias, tp, log)
        finally:
            consumer.unassign()

    def _records(
        self, consumer: Consumer, alias: str, tp: TopicPartition, log: OffsetRange
    ) -> Iterator[Raw]:
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            for message in consumer.consume(POLL_RECORDS, timeout=POLL_SECONDS):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise ClusterError(f"{alias}: reading {tp}: {text_of(error)}")
                raw = to_raw(message)
                if raw.offset < log.latest:
                    yield raw
                if raw.offset >= log.latest - 1:
                    return
                deadline = time.monotonic() + self._timeout
        raise ClusterError(f"{alias}: reading {tp}: no answer within {self._timeout:g} s")

    def _consumer(self, alias: str) -> Consumer:
        if alias not in self._consumers:
            cluster = self._config.hub if alias == HUB else self._config.sources[alias]
            self._consumers[alias] = open_consumer(cluster)
        return self._consumers[alias]


def quarantine_partition(config: Config) -> TopicPartition:
    """The one partition that everything goes to that the hub refuses."""
    return TopicPartition(quarantine_topic(config), QUARANTINE_PARTITION)


def duplicates_partition(config: Config) -> TopicPartition:
    """The one partition that everything goes to that dedup drops."""
    return TopicPartition(duplicates_topic(config), QUARANTINE_PARTITION)


def quarantine_log(config: Config, admin: ClusterAdmin, timeout: float) -> OffsetRange | None:
    """What the quarantine topic spans now; as `log_of`."""
    return log_of(quarantine_partition(config), admin, timeout)


def log_of(
    place: TopicPartition, admin: ClusterAdmin, timeout: float, *, exists: bool = False
) -> OffsetRange | None:
    """What a partition spans now; None when there is no such topic.

    `admin` is the hub's; `exists` saves a question. Raises ClusterError when the hub does not tell.
    """
    if not exists and place.topic not in admin.partition_counts(timeout):
        return None
    found = admin.offsets([place], timeout)
    if place not in found.ranges:
        raise ClusterError(f"hub: {place}: {found.failed[place]}")
    return found.ranges[place]


def open_consumer(cluster: ClusterConfig) -> Consumer:
    """A consumer that tells the ends of partitions, and commits nothing.

    Raises ClusterError for settings that it does not take.
    """
    try:
        return Consumer(reader_settings(cluster, "aggregator-quarantine"))
    except KafkaException as error:
        raise ClusterError(f"{cluster.bootstrap_servers}: {text_of(error)}") from error


def to_raw(message: Message) -> Raw:
    """A record without its client's words."""
    headers: Any = message.headers() or []
    kind, at_ms = message.timestamp()
    return Raw(
        int(message.offset() or 0),
        at_ms,
        _bytes(message.key()),
        _bytes(message.value()),
        [(name, _bytes(value)) for name, value in headers],
        kind == TIMESTAMP_LOG_APPEND_TIME,
    )


def _bytes(content: Any) -> bytes | None:
    return None if content is None else bytes(content)
