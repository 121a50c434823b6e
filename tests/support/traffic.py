"""An application that moves: a producer and a consumer group stop here and resume elsewhere."""

from __future__ import annotations

import threading
from collections import Counter

from confluent_kafka import Consumer, Producer, TopicPartition

from aggregator.extras.embedded.topics import ONCE
from support.reading import SECONDS, wait_for

TURN_SECONDS = 0.02
KEYS = 37
AT_ONCE = 500


class MovingProducer:
    """Writes numbers, one after the other, to wherever it is started; all are acknowledged."""

    def __init__(self, topic: str, per_second: int) -> None:
        self.topic = topic
        self.written = 0
        self._each = max(1, round(per_second * TURN_SECONDS))
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, servers: str) -> None:
        """Begin to write there."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._write, args=(servers,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it; everything is written when this returns."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(SECONDS)
            assert not self._thread.is_alive()
            self._thread = None

    def _write(self, servers: str) -> None:
        producer = Producer({"bootstrap.servers": servers, **ONCE, "linger.ms": 5})
        while not self._stop.is_set():
            for _ in range(self._each):
                key = b"key-%d" % (self.written % KEYS)
                producer.produce(self.topic, b"%d" % self.written, key)
                self.written += 1
            producer.poll(0)
            self._stop.wait(TURN_SECONDS)
        assert producer.flush(SECONDS) == 0


class MovingConsumer:
    """A group that notes each number it sees, in order, and commits what it has seen.

    `seen` has the numbers, with their keys, over all places at which it was.
    """

    def __init__(self, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self.seen: list[tuple[bytes, int]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, servers: str, most: int | None = None) -> None:
        """Join the group there, and read on, `most` records at most."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._read, args=(servers, most), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group; what was seen is committed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(SECONDS)
            assert not self._thread.is_alive()
            self._thread = None

    def until(self, number: int) -> None:
        """Wait until it has seen `number` different ones."""
        wait_for(lambda: len(self.numbers()) >= number, f"{self.group} sees {number}")

    def numbers(self) -> Counter[int]:
        """How often each number was seen."""
        return Counter(number for _, number in list(self.seen))

    def doubles(self) -> int:
        """How many were seen again."""
        return sum(times - 1 for times in self.numbers().values())

    def order_kept(self) -> bool:
        """Whether the numbers of each key came in their order, each first sight counted."""
        last: dict[bytes, int] = {}
        for key, number in self.seen:
            if number <= last.get(key, -1):
                return False
            last[key] = number
        return True

    def _read(self, servers: str, most: int | None) -> None:
        end = None if most is None else len(self.seen) + most
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not self._stop.is_set() and (end is None or len(self.seen) < end):
                left = AT_ONCE if end is None else min(AT_ONCE, end - len(self.seen))
                found = consumer.consume(left, timeout=0.1)
                at: dict[int, int] = {}
                for message in found:
                    if message.error() is None:
                        self.seen.append((message.key() or b"", int(message.value() or b"-1")))
                        at[int(message.partition() or 0)] = int(message.offset() or 0) + 1
                if at:
                    rows = [TopicPartition(self.topic, it, offset) for it, offset in at.items()]
                    consumer.commit(offsets=rows, asynchronous=False)
        finally:
            consumer.close()


def wait_a_moment_of(producer: MovingProducer, more: int) -> None:
    """Wait until it has written `more` more records."""
    target = producer.written + more
    wait_for(lambda: producer.written >= target, f"{producer.topic} has {target}")
