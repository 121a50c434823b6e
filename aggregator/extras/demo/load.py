"""Writes generated events into one source at a given rate, and remembers what was acknowledged."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer

from aggregator.extras.demo.generator import EventMaker
from aggregator.extras.embedded.topics import ONCE
from aggregator.model.errors import ClusterError
from aggregator.model.values import SourcePartition

TICK_SECONDS = 0.005
FLUSH_SECONDS = 30.0


class Load:
    """A producer in a thread of its own, ended by `stop` or `abandon`.

    What is not `counted` is forgotten once it is acknowledged, so that it can run for days.
    """

    def __init__(
        self, alias: str, servers: str, maker: EventMaker, rate: float, *, counted: bool = True
    ) -> None:
        self.alias = alias
        self._counted = counted
        self._maker = maker
        self._rate = rate
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._offsets: dict[SourcePartition, set[int]] = {}
        self._counts: Counter[str] = Counter()
        self._failures: list[str] = []
        self._thread = threading.Thread(target=self._run, name=f"load-{alias}", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                **ONCE,
                "linger.ms": 0,
                "partitioner": "murmur2_random",
                "log_level": 0,
                "error_cb": lambda _error: None,
            }
        )

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more; returns when all is acknowledged. ClusterError when something is not."""
        self._end()
        left = self._producer.flush(FLUSH_SECONDS)
        if left or self._failures:
            why = self._failures[0] if self._failures else f"not within {FLUSH_SECONDS:g} s"
            raise ClusterError(f"{self.alias}: {left + len(self._failures)} records failed: {why}")

    def abandon(self) -> None:
        """Write no more; what a source that is away has not acknowledged is thrown away."""
        self._end()
        self._producer.purge()

    def counts(self) -> dict[str, int]:
        """Topic -> records acknowledged by now."""
        with self._lock:
            return dict(self._counts)

    def acknowledged(self) -> Mapping[SourcePartition, frozenset[int]]:
        """Source partition -> offsets of all acknowledged records."""
        with self._lock:
            return {partition: frozenset(offsets) for partition, offsets in self._offsets.items()}

    def _end(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        began, made = time.monotonic(), 0
        while not self._stop.is_set():
            due = int((time.monotonic() - began) * self._rate)
            while made < due and not self._stop.is_set():
                self._write()
                made += 1
            self._producer.poll(TICK_SECONDS)

    def _write(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        event = self._maker.make(now_ms)
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    event.topic,
                    event.value,
                    event.key,
                    on_delivery=self._delivered,
                    timestamp=now_ms,
                    headers=list(event.headers),
                )
                return
            except BufferError:
                # The source is slower than the wanted rate: it decides.
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if not self._counted:
            return
        with self._lock:
            if error is not None:
                self._failures.append(str(error))
                return
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None and partition is not None and offset is not None
            self._offsets.setdefault(SourcePartition(self.alias, topic, partition), set()).add(
                offset
            )
            self._counts[topic] += 1


@contextmanager
def loading(loads: Sequence[Load], end: Callable[[Load], None]) -> Iterator[None]:
    """Write while the block runs; then `end`, as `Load.stop` or `Load.abandon`, ends each."""
    for load in loads:
        load.start()
    try:
        yield
    finally:
        for load in loads:
            end(load)
