"""Writes the records of a benchmark into the sources: all at once, or at a steady rate.

A value begins with its source and number (`eu:0000000012:`) and goes on with random bytes, so that
it can be counted in the hub without any header, and compression gains nothing.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer

from aggregator.errors import ClusterError

FILLERS = 256
"""So many different values: together beyond the 64 KB that lz4 looks back, for 1,000 bytes each."""
KEYS = 10_000
SMALLEST = 32
FLUSH_SECONDS = 60.0
TICK_SECONDS = 0.002

PRODUCER = {
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 262_144,
    "log_level": 0,
}


class Values:
    """Values of `size` bytes; the same seed gives the same ones. ValueError below 32 bytes."""

    def __init__(self, size: int, seed: int = 1) -> None:
        if size < SMALLEST:
            raise ValueError(f"a record needs at least {SMALLEST} bytes, for its number")
        self._size = size
        source = random.Random(seed)
        self._fillers = [source.randbytes(size) for _ in range(FILLERS)]

    def make(self, source: str, number: int) -> bytes:
        """The value of a source's record `number`."""
        head = b"%s:%010d:" % (source.encode(), number)
        return head + self._fillers[number % FILLERS][: self._size - len(head)]


class Writer:
    """Writes the numbered records of one source into one topic."""

    def __init__(self, source: str, servers: str, topic: str, values: Values, linger: int) -> None:
        self.sent = 0
        self._source, self._topic, self._values = source, topic, values
        self._failures: list[str] = []
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": linger, **PRODUCER})

    def write(self) -> None:
        """Write the next record, stamped with the time of this call."""
        value = self._values.make(self._source, self.sent)
        key = b"key-%d" % (self.sent % KEYS)
        stamp = time.time_ns() // 1_000_000
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, timestamp=stamp, on_delivery=self._delivered
                )
                break
            except BufferError:
                self._producer.poll(0.05)
        self.sent += 1

    def serve(self) -> None:
        """Take acknowledgements in."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all is acknowledged; ClusterError when something is not."""
        left = self._producer.flush(FLUSH_SECONDS) + len(self._failures)
        if left:
            why = self._failures[0] if self._failures else f"not within {FLUSH_SECONDS:g} s"
            raise ClusterError(f"{self._source}: {left} of {self.sent} records not written: {why}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(str(error))


def preload(sources: Mapping[str, str], topic: str, records: int, values: Values) -> None:
    """Write so many records into the topic of each source (alias -> servers); all acknowledged."""
    for source, servers in sources.items():
        writer = Writer(source, servers, topic, values, linger=20)
        for number in range(records):
            writer.write()
            if number % 1000 == 0:
                writer.serve()
        writer.flush()


@contextmanager
def steady(
    sources: Mapping[str, str], topic: str, rate: float, values: Values
) -> Iterator[Counter[str]]:
    """Write `rate` records/s in all, in turn to each source, until the block ends.

    Gives what each source was sent so far. ClusterError at the end when one was not acknowledged.
    """
    writers = [Writer(source, to, topic, values, linger=0) for source, to in sources.items()]
    sent: Counter[str] = Counter(dict.fromkeys(sources, 0))
    stop = threading.Event()

    def run() -> None:
        began, made = time.monotonic(), 0
        while not stop.wait(TICK_SECONDS):
            due = int((time.monotonic() - began) * rate)
            while made < due and not stop.is_set():
                writers[made % len(writers)].write()
                made += 1
            for source, writer in zip(sources, writers, strict=True):
                writer.serve()
                sent[source] = writer.sent

    thread = threading.Thread(target=run, name="load", daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join()
    for source, writer in zip(sources, writers, strict=True):
        writer.flush()
        sent[source] = writer.sent
