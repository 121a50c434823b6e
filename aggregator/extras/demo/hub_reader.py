"""Reads the hub with a plain consumer, as any stranger would: a live tail, and a full reading."""

import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.extras.demo.verdict import Flow, Found, origin_of
from aggregator.kafka.reader import WHOLE_LOG, read_ranges
from aggregator.model.errors import ClusterError
from aggregator.model.values import TopicPartition

ASK_SECONDS = 10.0
READ_SECONDS = 60.0
"""How long the hub may be silent before its end is reached."""


@dataclass(frozen=True, slots=True)
class Example:
    """One hub record, for the eyes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str
    value: str
    headers: tuple[tuple[str, str], ...]


class Tail:
    """Follows the hub live: counts what arrives, and how long after its timestamp."""

    def __init__(self, servers: str, topics: Sequence[str]) -> None:
        self._consumer = _consumer(servers)
        self._topics = tuple(topics)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._counts: Counter[Flow] = Counter()
        self._latencies = array("d")
        self._measure_from_ms: float | None = None
        self._error = ""
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)

    def start(self) -> None:
        """Begin to follow; the topics may appear later."""
        self._thread.start()

    def stop(self) -> None:
        """End it. ClusterError when the hub could not be read."""
        self._stop.set()
        self._thread.join()
        self._consumer.close()
        if self._error:
            raise ClusterError(f"hub: {self._error}")

    def measure_from(self, moment_ms: float) -> None:
        """From now on, note the latency of records whose timestamp is not before `moment_ms`."""
        self._measure_from_ms = moment_ms

    def counts(self) -> dict[Flow, int]:
        """Records that have arrived by now, duplicates too."""
        with self._lock:
            return dict(self._counts)

    def latencies(self) -> list[float]:
        """Milliseconds from each measured record's timestamp to its arrival here."""
        with self._lock:
            return list(self._latencies)

    def _run(self) -> None:
        try:
            partitions: list[ClientPartition] = []
            while not partitions and not self._stop.wait(0.1):
                partitions = _partitions(self._consumer, self._topics)
            self._consumer.assign(partitions)
            while not self._stop.is_set():
                # Not `consume`: it waits to fill its list, and that would count as latency.
                message = self._consumer.poll(0.1)
                if message is not None:
                    self._note(message, time.time_ns() / 1_000_000)
        except (ClusterError, KafkaException) as error:
            self._error = str(error)

    def _note(self, message: Message, now_ms: float) -> None:
        if _at_end(message):
            return
        headers: Any = message.headers()
        origin = origin_of(list(headers or ()))
        stamp = message.timestamp()[1]
        begin = self._measure_from_ms
        with self._lock:
            if origin is not None:
                self._counts[Flow(origin[0].cluster, origin[0].topic)] += 1
            if begin is not None and stamp >= begin:
                self._latencies.append(now_ms - stamp)


class DemoReader:
    """Reads all that hub topics hold, partition by partition; `example` is one of the records."""

    def __init__(self, servers: str, topics: Sequence[str]) -> None:
        self._servers = servers
        self._topics = tuple(topics)
        self.example: Example | None = None

    def read(self) -> Iterator[Found]:
        """Every record, in the order of its hub partition. ClusterError when it cannot be read."""
        try:
            with closing(_consumer(self._servers)) as consumer:
                places = _partitions(consumer, self._topics)
                if not places:
                    raise ClusterError(f"the hub has no topics {' and '.join(self._topics)}")
                ranges = {TopicPartition(it.topic, it.partition): WHOLE_LOG for it in places}
                for tp, raw in read_ranges(consumer, "hub", ranges, READ_SECONDS):
                    if self.example is None:
                        self.example = Example(
                            topic=tp.topic,
                            partition=tp.partition,
                            offset=raw.offset,
                            timestamp_ms=raw.at_ms,
                            key=_text(raw.key),
                            value=_text(raw.value),
                            headers=tuple((name, _text(value)) for name, value in raw.headers),
                        )
                    yield Found(tp.topic, tp.partition, origin_of(raw.headers))
        except KafkaException as error:
            raise ClusterError(f"hub: {error.args[0]}") from error


def _consumer(servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "demo",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
            "error_cb": lambda _error: None,
        }
    )


def _partitions(consumer: Consumer, topics: Sequence[str]) -> list[ClientPartition]:
    """All partitions of the topics, from their start; none until every topic is there."""
    known = consumer.list_topics(timeout=ASK_SECONDS).topics
    if any(topic not in known or not known[topic].partitions for topic in topics):
        return []
    return [ClientPartition(topic, each, 0) for topic in topics for each in known[topic].partitions]


def _at_end(message: Message) -> bool:
    """Whether this is no record but the news that a partition's end is reached."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise ClusterError(f"hub: {error}")


def _text(value: Any) -> str:
    return "null" if value is None else bytes(value).decode("utf-8", errors="replace")
