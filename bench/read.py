"""Reads the hub as a stranger would: how far its logs are, what arrives live, and all it holds."""

from __future__ import annotations

import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from aggregator.model.errors import ClusterError
from bench.measure import record_id

ASK_SECONDS = 10.0
LATE_MS = 1_000.0
"""A record that comes later is one that had to be caught up with."""
SILENT_SECONDS = 60.0
"""The hub may be silent for this long before the end of a topic is reached."""


class Ends:
    """The end offsets of a topic, asked with one client that is kept."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._partitions = [TopicPartition(topic, each) for each in range(partitions)]

    def total(self) -> int:
        """How many records the topic holds, if none was deleted; ClusterError without an answer."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = dict.fromkeys(self._partitions, latest)
        try:
            # librdkafka must know the leaders already: `aggregator.kafka.admin.offsets` says why.
            self._admin.list_topics(self._partitions[0].topic, timeout=ASK_SECONDS)
            answers = self._admin.list_offsets(asked, request_timeout=ASK_SECONDS)
            ends = [answer.result(ASK_SECONDS).offset for answer in answers.values()]
        except KafkaException as error:
            raise ClusterError(f"hub: {error.args[0]}") from error
        if min(ends) < 0:  # what librdkafka returns when it had no answer
            raise ClusterError(f"hub: no answer within {ASK_SECONDS:g} s")
        return sum(ends)


class Tail:
    """Follows a topic live; notes how long after its timestamp each record arrives.

    `count` is of all records, `distinct` of different ones; `late_at` is the moment (monotonic) at
    which the last record came that was more than `LATE_MS` old.
    """

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self.count = self.distinct = 0
        self.late_at = 0.0
        self._seen: dict[str, bytearray] = defaultdict(bytearray)
        self._consumer = _consumer(servers)
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        self._window = (0.0, 0.0)
        self._latencies = array("d")
        self._error = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)

    def __enter__(self) -> Tail:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def measure(self, begin_ms: float, end_ms: float) -> None:
        """Note only records stamped from `begin_ms` to before `end_ms`, from now on."""
        self._window = (begin_ms, end_ms)

    def latencies(self) -> list[float]:
        """Milliseconds of each noted record; ClusterError when the hub could not be read."""
        if self._error:
            raise ClusterError(f"hub: {self._error}")
        return list(self._latencies)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                # Not `consume`: it waits to fill its list, and that would count as latency.
                message = self._consumer.poll(0.1)
                if message is not None and not _at_end(message):
                    self._note(message, time.time_ns() / 1_000_000)
        except (ClusterError, KafkaException) as error:
            self._error = str(error)

    def _note(self, message: Message, now_ms: float) -> None:
        stamp = message.timestamp()[1]
        begin, end = self._window
        if begin <= stamp < end:
            self._latencies.append(now_ms - stamp)
        if now_ms - stamp > LATE_MS:
            self.late_at = time.monotonic()
        self._note_number(message.value())
        self.count += 1

    def _note_number(self, value: bytes | str | None) -> None:
        identity = record_id(value if isinstance(value, bytes) else None)
        if identity is None:
            return
        seen, number = self._seen[identity[0]], identity[1]
        if number >= len(seen):
            seen.extend(bytes(number + 1 - len(seen)))
        self.distinct += not seen[number]
        seen[number] = 1


def values_of(servers: str, topic: str, partitions: int) -> Iterator[bytes | None]:
    """The value of every record of a topic; ClusterError when its end cannot be reached."""
    consumer = _consumer(servers)
    try:
        waiting = set(range(partitions))
        consumer.assign([TopicPartition(topic, each, 0) for each in sorted(waiting)])
        deadline = time.monotonic() + SILENT_SECONDS
        while waiting:
            messages = consumer.consume(5_000, 0.2)
            if messages:
                deadline = time.monotonic() + SILENT_SECONDS
            for message in messages:
                if message.error() is None:
                    value = message.value()
                    yield value if value is None or isinstance(value, bytes) else value.encode()
                elif _at_end(message):
                    waiting.discard(message.partition() or 0)
            if time.monotonic() > deadline:
                raise ClusterError(f"the hub does not answer: {len(waiting)} ends not reached")
    finally:
        consumer.close()


def _consumer(servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            # A partition whose queue is full is not fetched for a second by default: counting was
            # an eighth as fast.
            "fetch.queue.backoff.ms": 10,
            "log_level": 0,
        }
    )


def _at_end(message: Message) -> bool:
    """Whether this is no record but the news that a partition's end is reached."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise ClusterError(f"hub: {error}")
