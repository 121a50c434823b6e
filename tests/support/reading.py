"""A plain consumer that says what a topic holds; it knows nothing of the code under test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

SECONDS = 240.0
ASK_SECONDS = 10.0
LOOK_SECONDS = 0.2
"""Each look is two requests for each partition."""
LISTED_SECONDS = 1.0
"""How long a found topic is not looked up again: a listing has the topics of all tests."""
TURN_SECONDS = 0.05
END_WAIT_MS = 20
"""How long a fetch at the end of a log waits before it says so: half a second by default."""
NO_LEADER_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    # What the client itself says of a partition that had no leader when it last looked.
    KafkaError._UNKNOWN_PARTITION,
)
ORIGIN = ("cluster", "topic", "partition", "offset", "timestamp")

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]


class Origin(NamedTuple):
    """Where a hub record says that it came from.

    `timestamp` is the record's own where it says none: when its origin is one header.
    """

    cluster: str
    topic: str
    partition: int
    offset: int
    timestamp: int


class Record(NamedTuple):
    """A record as a plain consumer sees it. `headers` are all of them, in their order."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def form(self) -> str:
        """How the origin is written: in five `headers`, or in one `header`."""
        return "header" if self.headers and self.headers[-1][0] == "origin" else "headers"

    @property
    def own_headers(self) -> Headers:
        """The headers without the last five, or the last one, which are the origin's."""
        return self.headers[: -1 if self.form == "header" else -len(ORIGIN)]

    @property
    def origin(self) -> Origin:
        """The last five headers, or the last one; AssertionError when they are anything else."""
        if self.form == "header":
            parts = (self.headers[-1][1] or b"").decode().split("/")
            assert len(parts) == 4, f"no origin: {self}"
            cluster, topic, partition, offset = parts
            return Origin(cluster, topic, int(partition), int(offset), self.timestamp)
        last = self.headers[-len(ORIGIN) :]
        names = tuple(name for name, _ in last)
        assert names == tuple(f"origin.{name}" for name in ORIGIN), f"no origin: {self}"
        cluster, topic, *numbers = ((value or b"").decode() for _, value in last)
        return Origin(cluster, topic, *(int(number) for number in numbers))


def wait_for(check: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
    """Call `check` until it returns something true; AssertionError with `what` when it is late."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)
    return found


def read_topic(bootstrap: str, topic: str) -> list[Record]:
    """Every committed record of the topic, partition by partition in the order of the log."""
    consumer = _consumer(bootstrap)
    found: list[Message] = []
    try:
        waiting = set(_partitions(consumer, topic))
        consumer.assign([TopicPartition(topic, each, 0) for each in sorted(waiting)])
        deadline = time.monotonic() + SECONDS
        while waiting:
            assert time.monotonic() < deadline, f"the end of {topic} is not reached"
            for message in consumer.consume(10_000, timeout=TURN_SECONDS):
                error = message.error()
                if error is None:
                    found.append(message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    waiting.discard(message.partition())
    finally:
        consumer.close()
    records = [_record(message) for message in found]
    return sorted(records, key=lambda record: (record.partition, record.offset))


def wait_until_topic_has(bootstrap: str, topic: str, records: int, seconds: float = SECONDS) -> int:
    """Wait until a topic exists and its logs span at least `records` offsets; return how many."""
    seen, trouble = 0, ""
    deadline = time.monotonic() + seconds
    while True:
        # A new client after an error: one that has met a broker as it came back kept its first
        # impression of it for as long as it lived.
        consumer = _consumer(bootstrap)
        found: list[int] = []
        listed = 0.0
        try:
            while True:
                if not found or time.monotonic() > listed + LISTED_SECONDS:
                    found, listed = _partitions(consumer, topic, ASK_SECONDS), time.monotonic()
                ends = [watermarks(consumer, topic, each, ASK_SECONDS) for each in found]
                seen = sum(high - low for low, high in ends)
                if found and seen >= records:
                    return seen
                assert time.monotonic() < deadline, (
                    f"{topic} has {seen} of {records} records after {seconds:g} s{trouble}"
                )
                time.sleep(LOOK_SECONDS)
        except KafkaException as error:
            trouble = f": {error}"
        finally:
            consumer.close()


def watermarks(
    consumer: Consumer, topic: str, partition: int, seconds: float = SECONDS
) -> tuple[int, int]:
    """First and end offset of a partition.

    A partition that has no leader yet is asked again until the time is over.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            asked = TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(asked, timeout=seconds, cached=False)
            return low, high
        except KafkaException as error:
            if error.args[0].code() not in NO_LEADER_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
            # It answers by what it knows: a partition without a leader stays so until it looks.
            consumer.list_topics(topic, timeout=seconds)


def topics_of(bootstrap: str) -> dict[str, int]:
    """Topic -> partition count of a cluster."""
    consumer = _consumer(bootstrap)
    try:
        listed = consumer.list_topics(timeout=SECONDS).topics
        return {name: len(topic.partitions) for name, topic in listed.items()}
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str, seconds: float = SECONDS) -> list[int]:
    """The partitions; none when the topic does not exist."""
    listed = consumer.list_topics(timeout=seconds).topics
    return sorted(listed[topic].partitions) if topic in listed else []


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "independent-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": END_WAIT_MS,
            "log_level": 0,
        }
    )


def _record(message: Message) -> Record:
    headers: Any = message.headers()
    return Record(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        _bytes(message.key()),
        _bytes(message.value()),
        tuple(headers or ()),
    )


def _bytes(content: Any) -> bytes | None:
    return None if content is None else bytes(content)
