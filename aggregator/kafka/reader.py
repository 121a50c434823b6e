"""Reads partitions of a cluster with a plain consumer, from given offsets on.

By assignment: no group is joined, nothing is committed. What the isolation level hides, markers
of transactions and what compaction has removed are offsets without a record.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.config.schema import Config
from aggregator.kafka.admin import HUB
from aggregator.kafka.admin.client_errors import text_of
from aggregator.kafka.credentials import reader_settings
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, Raw, TopicPartition

AT_ONCE = 500
POLL_SECONDS = 0.1
WHOLE_LOG = OffsetRange(0, 2**63 - 1)
"""From the first record to where the log ends when the reader gets there."""


class Polled(NamedTuple):
    """What one poll brought: records, ends that were reached (next offsets), and errors."""

    records: list[tuple[TopicPartition, Message]]
    ends: dict[TopicPartition, int]
    errors: list[tuple[TopicPartition, KafkaError]]

    def check(self, alias: str) -> None:
        """Raise ClusterError for the first error."""
        for tp, error in self.errors:
            raise ClusterError(f"{alias}: reading {tp}: {text_of(error)}")


class AssignedReader:
    """Reads partitions from their `starts` on; those in `left` until the caller finishes them.

    Takes over a consumer of `reader_settings`, and leaves it to the caller to close it.
    """

    def __init__(self, consumer: Consumer, starts: Mapping[TopicPartition, int]) -> None:
        self.left = set(starts)
        self.silent = 0.0
        """Seconds of polls since anything came; what the caller does in between does not count."""
        self._consumer = consumer
        consumer.assign([ClientPartition(*tp, start) for tp, start in starts.items()])

    def poll(self, most: int = AT_ONCE, seconds: float = POLL_SECONDS) -> Polled:
        """What comes within these seconds of the partitions that are left."""
        begin = time.monotonic()
        messages = self._consumer.consume(most, timeout=seconds)
        self.silent = 0.0 if messages else self.silent + time.monotonic() - begin
        return sort_messages(messages, self.left)

    def finish(self, tp: TopicPartition) -> None:
        """Read no more of a partition."""
        if tp in self.left:
            self.left.discard(tp)
            self._consumer.incremental_unassign([ClientPartition(*tp)])


class RangeReader:
    """Reads ranges of partitions of the config's clusters; a context manager.

    Keeps a consumer for each cluster that is asked for. Every method raises ClusterError when a
    cluster refuses, or sends nothing for as long as `supervision.connect_timeout`.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._timeout = config.supervision.connect_timeout
        self._consumers: dict[str, Consumer] = {}

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def first_since(self, alias: str, tp: TopicPartition, since_ms: int) -> int | None:
        """The first offset whose record has at least this timestamp; None when there is none."""
        asked = ClientPartition(*tp, since_ms)
        try:
            (found,) = self._consumer(alias).offsets_for_times([asked], timeout=self._timeout)
        except KafkaException as error:
            raise ClusterError(f"{alias}: {tp}: {text_of(error)}") from error
        if found.error is not None:
            raise ClusterError(f"{alias}: {tp}: {text_of(found.error)}")
        return int(found.offset) if found.offset >= 0 else None

    def read_one(self, alias: str, tp: TopicPartition, offset: int) -> Raw | None:
        """The record at exactly this offset, None when the log does not hold it any more."""
        for raw in self.read_range(alias, tp, OffsetRange(offset, offset + 1)):
            return raw if raw.offset == offset else None
        return None

    def read_range(self, alias: str, tp: TopicPartition, log: OffsetRange) -> Iterator[Raw]:
        """The records of an offset range that the log still holds, in order; one range at a time.

        `alias` is a source, or the hub (`HUB`).
        """
        consumer = self._consumer(alias)
        try:
            for _, raw in read_ranges(consumer, alias, {tp: log}, self._timeout):
                yield raw
        finally:
            consumer.unassign()

    def _consumer(self, alias: str) -> Consumer:
        if alias not in self._consumers:
            cluster = self._config.hub if alias == HUB else self._config.sources[alias]
            settings = reader_settings(cluster, "aggregator-reader")
            self._consumers[alias] = open_consumer(alias, settings)
        return self._consumers[alias]


def read_ranges(
    consumer: Consumer, alias: str, ranges: Mapping[TopicPartition, OffsetRange], silence: float
) -> Iterator[tuple[TopicPartition, Raw]]:
    """The records of these ranges that the logs still hold, each partition in its order.

    A partition is read to the end of its range, or to the end of its log if that comes before.
    Raises ClusterError when the cluster refuses one, or sends nothing for `silence` seconds.
    """
    wanted = {tp: log for tp, log in ranges.items() if log.earliest < log.latest}
    if not wanted:
        return
    reader = AssignedReader(consumer, {tp: log.earliest for tp, log in wanted.items()})
    while reader.left:
        polled = reader.poll()
        for tp, message in polled.records:
            raw = to_raw(message)
            if raw.offset < wanted[tp].latest:
                yield tp, raw
            if raw.offset >= wanted[tp].latest - 1:
                reader.finish(tp)
        for tp in polled.ends:
            reader.finish(tp)
        polled.check(alias)
        if reader.silent >= silence:
            first, more = min(reader.left), len(reader.left) - 1
            what = f"{first} and {more} more" if more else str(first)
            raise ClusterError(f"{alias}: reading {what}: no answer within {silence:g} s")


def open_consumer(alias: str, settings: Mapping[str, Any]) -> Consumer:
    """A consumer with these `reader_settings`. ClusterError for what it does not take."""
    try:
        return Consumer(dict(settings))
    except KafkaException as error:
        raise ClusterError(f"{alias}: {text_of(error)}") from error


def sort_messages(messages: Iterable[Message], left: set[TopicPartition]) -> Polled:
    """What a poll brought of the partitions that are left, and errors that are of none."""
    polled = Polled([], {}, [])
    for message in messages:
        tp = TopicPartition(str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if message.topic() is not None and tp not in left:
            continue
        if error is None:
            polled.records.append((tp, message))
        elif error.code() == KafkaError._PARTITION_EOF:
            polled.ends[tp] = int(message.offset() or 0)
        else:
            polled.errors.append((tp, error))
    return polled


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
