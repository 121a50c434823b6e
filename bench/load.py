"""Writes the records of a benchmark into the sources: all at once, or at a steady rate.

A value begins with its source and number (`eu:0000000012:`), so that it can be counted in the hub
without any header. What follows is JSON, or random bytes, with which compression gains nothing.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer

from aggregator.model.errors import ClusterError

FILLERS = 256
"""Different values: together beyond the 64 KB that lz4 looks back, for 1,000 bytes each."""
KEYS = 10_000
SMALLEST = 32
LINGER_MS = 20
FLUSH_SECONDS = 60.0
TICK_SECONDS = 0.002

PRODUCER = {
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 262_144,
    # librdkafka's own bound leaves no room for the key beside a value of 1 MB.
    "message.max.bytes": 2_000_000,
    "log_level": 0,
}


class Values:
    """Values of `size` bytes, `random` or `json`; the same seed gives the same ones.

    ValueError below 32 bytes.
    """

    def __init__(self, size: int, kind: str = "random", seed: int = 1) -> None:
        if size < SMALLEST:
            raise ValueError(f"a record needs at least {SMALLEST} bytes, for its number")
        self._size = size
        source = random.Random(seed)
        self._fillers = [
            _json(source, size) if kind == "json" else source.randbytes(size)
            for _ in range(FILLERS)
        ]

    def make(self, source: str, number: int) -> bytes:
        """The value of a source's record `number`."""
        head = b"%s:%010d:" % (source.encode(), number)
        return head + self._fillers[number % FILLERS][: self._size - len(head)]


def _json(source: random.Random, size: int) -> bytes:
    """Orders as a shop might write them, cut off at `size` bytes."""
    lines: list[dict[str, object]] = []
    while len(json.dumps(lines)) < size:
        lines.append(
            {
                "order_id": f"{source.getrandbits(64):016x}",
                "customer": f"customer-{source.randrange(100_000)}",
                "amount": round(source.uniform(1, 500), 2),
                "currency": source.choice(("EUR", "USD", "JPY")),
                "status": source.choice(("created", "paid", "shipped", "returned")),
                "at": f"2026-01-{source.randrange(1, 29):02d}T{source.randrange(24):02d}:00:00Z",
            }
        )
    return json.dumps(lines).encode()[:size]


class Writer:
    """Writes the numbered records of one source into one topic."""

    def __init__(
        self,
        source: str,
        servers: str,
        topic: str,
        values: Values,
        linger: int,
        compression: str = "none",
    ) -> None:
        self.sent = 0
        self._source, self._topic, self._values = source, topic, values
        self._failures: list[str] = []
        own = {"bootstrap.servers": servers, "linger.ms": linger, "compression.type": compression}
        self._producer = Producer({**own, **PRODUCER})

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


def preload(
    sources: Mapping[str, str], topic: str, records: int, values: Values, compression: str
) -> None:
    """Write records into the topic of each source (alias -> servers); all are acknowledged."""
    for source, servers in sources.items():
        writer = Writer(source, servers, topic, values, LINGER_MS, compression)
        for number in range(records):
            writer.write()
            if number % 1000 == 0:
                writer.serve()
        writer.flush()


class Load:
    """A steady load of this many records/s in all, in turn to each source (alias -> servers)."""

    def __init__(self, sources: Mapping[str, str], topic: str, rate: float, values: Values) -> None:
        self._writers = {
            source: Writer(source, servers, topic, values, linger=0)
            for source, servers in sources.items()
        }
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    @property
    def sent(self) -> dict[str, int]:
        """How many records each source was sent so far."""
        return {source: writer.sent for source, writer in self._writers.items()}

    @property
    def total(self) -> int:
        """How many records were sent so far."""
        return sum(writer.sent for writer in self._writers.values())

    def stop(self) -> None:
        """Send no more, and wait for the acknowledgements; ClusterError when one is missing."""
        self._stop.set()
        self._thread.join()
        for writer in self._writers.values():
            writer.flush()

    def _run(self) -> None:
        writers = list(self._writers.values())
        began, made = time.monotonic(), 0
        while not self._stop.wait(TICK_SECONDS):
            due = int((time.monotonic() - began) * self._rate)
            while made < due and not self._stop.is_set():
                writers[made % len(writers)].write()
                made += 1
            for writer in writers:
                writer.serve()


@contextmanager
def steady(sources: Mapping[str, str], topic: str, rate: float, values: Values) -> Iterator[Load]:
    """A load that runs until the block ends, or until it is stopped in there.

    ClusterError at the end when a record was not acknowledged.
    """
    load = Load(sources, topic, rate, values)
    try:
        yield load
    finally:
        load.stop()
