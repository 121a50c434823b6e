"""Reads the hub partitions that scans need, from their starts, until all scans are done."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

from confluent_kafka import Message

from aggregator.config.schema import ClusterConfig
from aggregator.features.quarantine.records import origin_of
from aggregator.kafka.credentials import reader_settings
from aggregator.kafka.reader import AssignedReader, open_consumer
from aggregator.model.errors import ClusterError
from aggregator.model.values import ORIGIN_HEADERS, Raw, SourcePartition, TopicPartition

POLL_RECORDS = 2_000
REPORT_SECONDS = 2.0
FETCH = {"queued.max.messages.kbytes": 16_384}
"""How much of a partition is fetched ahead: it must take no memory from a stream beside it."""


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """The progress of reading: records read, and the most offsets that are left."""

    read: int
    left: int


class Scan(Protocol):
    """A consumer of a hub partition's records, from `start` on, until it is `done`."""

    @property
    def start(self) -> int:
        """Where to begin."""

    @property
    def end(self) -> int:
        """No record from here on is needed."""

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
    report: Callable[[ReadProgress], None] = lambda _: None,
    stop: Event | None = None,
) -> None:
    """Hand the scans their records, in the order of each partition.

    Reads uncommitted: also what no transaction has committed yet. Raises ClusterError when
    the hub refuses, answers nothing for `silence` seconds, or is not read by the deadline (by the
    monotonic clock), and when `stop` is set.
    """
    left = {tp: scan for tp, scan in scans.items() if not scan.done}
    if not left:
        return
    at = {tp: scan.start for tp, scan in left.items()}
    settings = {**reader_settings(hub, "aggregator-groups"), **FETCH}
    with closing(open_consumer("hub", settings)) as consumer:
        reader = AssignedReader(consumer, at)
        reported_at = time.monotonic()
        while left:
            now = time.monotonic()
            if stop is not None and stop.is_set():
                raise ClusterError("hub: stopped while it was read")
            if reader.silent > silence or now > deadline:
                raise ClusterError(_late(left, silence if now <= deadline else None))
            polled = reader.poll(POLL_RECORDS)
            for tp, message in polled.records:
                at[tp] = int(message.offset() or 0) + 1
                if not left[tp].done:
                    _take(message, left[tp])
            for tp, end in polled.ends.items():
                # Offsets behind the last record may hold no record. A new leader may report an end
                # that is too low.
                left[tp].done = left[tp].done or end >= left[tp].end
            polled.check("hub")
            for tp in [tp for tp, scan in left.items() if scan.done]:
                del left[tp]
                reader.finish(tp)
            if now - reported_at > REPORT_SECONDS:
                reported_at = now
                behind = sum(scan.end - at[tp] for tp, scan in left.items())
                report(ReadProgress(sum(scan.read for scan in scans.values()), behind))


def _take(message: Message, scan: Scan) -> None:
    headers: Any = message.headers() or []
    offset = int(message.offset() or 0)
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
