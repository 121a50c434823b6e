"""Reads the hub partitions that scans want, from their starts on, until all of them are done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.config.schema import ClusterConfig
from aggregator.features.quarantine.records import Raw, origin_of
from aggregator.kafka.admin.client_errors import text_of
from aggregator.kafka.credentials import reader_settings
from aggregator.model.errors import ClusterError
from aggregator.model.values import ORIGIN_HEADERS, SourcePartition, TopicPartition

POLL_RECORDS = 2_000
POLL_SECONDS = 0.2
TELL_SECONDS = 2.0
FETCH = {"queued.max.messages.kbytes": 16_384}
"""So much of a partition is fetched ahead: it is to take no memory from a stream beside it."""


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """How far the reading is: records read, and offsets that are left at most."""

    read: int
    left: int


class Scan(Protocol):
    """What takes the records of a hub partition, from `start` on, until it is `done`."""

    @property
    def start(self) -> int:
        """Where to begin."""

    @property
    def end(self) -> int:
        """No record from here on is wanted."""

    @property
    def read(self) -> int:
        """How many records it has taken."""

    done: bool

    def take(self, offset: int, origin: SourcePartition | None, at: int, /) -> None:
        """The next record: its hub offset, and the partition and offset that it comes from."""


def read_scans(
    hub: ClusterConfig,
    scans: Mapping[TopicPartition, Scan],
    *,
    silence: float,
    deadline: float,
    tell: Callable[[ReadProgress], None] = lambda _: None,
    stop: Event | None = None,
) -> None:
    """Hand the scans their records, in the order of each partition.

    Reads as whoever writes: also what no transaction has committed yet. Raises ClusterError when
    the hub refuses, tells nothing for `silence` seconds, or is not read by the deadline (by the
    monotonic clock), and when `stop` is set.
    """
    left = {tp: scan for tp, scan in scans.items() if not scan.done}
    if not left:
        return
    at = {tp: scan.start for tp, scan in left.items()}
    try:
        consumer = Consumer({**reader_settings(hub, "aggregator-groups"), **FETCH})
    except KafkaException as error:
        raise ClusterError(f"hub: {text_of(error)}") from error
    try:
        consumer.assign([ClientPartition(*tp, at[tp]) for tp in left])
        heard = told = time.monotonic()
        while left:
            now = time.monotonic()
            if stop is not None and stop.is_set():
                raise ClusterError("hub: stopped while it was read")
            if now - heard > silence or now > deadline:
                raise ClusterError(_late(left, silence if now <= deadline else None))
            for message in consumer.consume(POLL_RECORDS, timeout=POLL_SECONDS):
                heard = time.monotonic()
                _take(message, left, at)
            for tp in [tp for tp, scan in left.items() if scan.done]:
                del left[tp]
                consumer.incremental_unassign([ClientPartition(*tp)])
            if now - told > TELL_SECONDS:
                told = now
                behind = sum(scan.end - at[tp] for tp, scan in left.items())
                tell(ReadProgress(sum(scan.read for scan in scans.values()), behind))
    finally:
        consumer.close()


def _take(message: Message, left: Mapping[TopicPartition, Scan], at: dict[Any, int]) -> None:
    tp = TopicPartition(str(message.topic()), int(message.partition() or 0))
    scan = left.get(tp)
    if scan is None:
        return
    error, offset = message.error(), int(message.offset() or 0)
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise ClusterError(f"hub: reading {tp}: {text_of(error)}")
    if error is not None:
        # Behind the last record may stand what is none. A broker that has just begun to lead may
        # tell an end that is too low.
        scan.done = scan.done or offset >= scan.end
        return
    at[tp] = offset + 1
    if scan.done:
        return
    headers: Any = message.headers() or []
    origin = origin_of(Raw(offset, 0, None, None, headers[-len(ORIGIN_HEADERS) :]))
    if origin is None:
        scan.take(offset, None, 0)
    else:
        scan.take(offset, origin.partition, origin.offset)


def _late(left: Mapping[TopicPartition, Scan], silence: float | None) -> str:
    first = min(left)
    what = f"hub: {len(left)} partitions, {first} the first, were not read to their end"
    if silence is None:
        return f"{what} in time: give more with --timeout"
    return f"{what}: no answer for {silence:g} s"
