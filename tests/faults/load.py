"""Independent producers: a steady load into each source, and what was acknowledged of it."""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from aggregator.extras.embedded.topics import ONCE
from support.silence import of_its_header

TICK_SECONDS = 0.01
TIMEOUT_MS = 600_000
"""How long a record may wait for a source that is away; longer than any fault."""
KEYS = 997
DAILY_SWING = 0.8
"""By which part of itself a rate is lower at night and higher at noon."""


class NewRecord(NamedTuple):
    """A record to write."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]


def record(rng: random.Random, alias: str, number: int) -> NewRecord:
    """A record of many shapes: most with a key, some without, tombstones, headers of all kinds."""
    kind = rng.random()
    key = None if kind < 0.02 else b"key-%d" % rng.randrange(KEYS)
    body = {"source": alias, "number": number, "padding": "x" * rng.randrange(200)}
    value = None if 0.02 <= kind < 0.04 else json.dumps(body).encode()
    headers: list[tuple[str, str | bytes | None]] = []
    if kind > 0.7:
        headers = [("trace", rng.randbytes(8)), ("empty", b""), ("none", None), ("trace", b"2")]
    return NewRecord(key, value, headers)


def alias_of(message: Message) -> str:
    """The source of a hub record: by its header, else by what `record` wrote; "" if by neither."""
    alias, value = of_its_header(message), message.value()
    if alias or not isinstance(value, bytes):
        return alias
    try:
        return str(json.loads(value)["source"])
    except (ValueError, KeyError, TypeError):
        return ""


class Writer:
    """Writes into one source in a thread of its own, acks=all, until it is stopped."""

    def __init__(
        self,
        alias: str,
        servers: str,
        topic: str,
        partitions: int,
        rate: float,
        seed: int,
        linger_ms: float,
    ) -> None:
        self.alias = alias
        self.age_ms = 0
        """How old its records say they are: so they look where history is copied."""
        self.day_seconds = 0.0
        """How long a day of its load is: a fifth of the rate at its begin, nearly twice at noon."""
        self.is_keyed = False
        """Whether each record has a key, as in a topic that is compacted."""
        self.failed: list[str] = []
        self._topic = topic
        self._rate = rate
        self._rng = random.Random(f"{seed}-{alias}")
        self._acks = [bytearray() for _ in range(partitions)]
        self._acknowledged = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer-{alias}", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                **ONCE,
                "linger.ms": linger_ms,
                "message.timeout.ms": TIMEOUT_MS,
                "queue.buffering.max.messages": 1_000_000,
                # As every Java client does.
                "partitioner": "murmur2_random",
                "log_level": 0,
                "error_cb": lambda _error: None,
            }
        )

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged by now."""
        return self._acknowledged

    def acks(self) -> Mapping[tuple[str, int], bytearray]:
        """(alias, partition) -> a byte per offset, 1 where it was acknowledged."""
        return {(self.alias, number): acks for number, acks in enumerate(self._acks)}

    def due(self, seconds: float) -> float:
        """How many records have to be written in the first `seconds`."""
        if not self.day_seconds:
            return seconds * self._rate
        turn = 2 * math.pi / self.day_seconds
        return self._rate * (seconds - DAILY_SWING * math.sin(turn * seconds) / turn)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, seconds: float = 60.0) -> None:
        """Write no more, and wait for the last acknowledgements."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if left := self._producer.flush(seconds):
            self.failed.append(f"{self.alias}: {left} records are not acknowledged at the end")

    def _run(self) -> None:
        began, made = time.monotonic(), 0
        while not self._stop.is_set():
            due = int(self.due(time.monotonic() - began))
            while made < due and not self._stop.is_set():
                new = record(self._rng, self.alias, made)
                self._write(new._replace(key=new.key or b"key") if self.is_keyed else new)
                made += 1
            self._producer.poll(TICK_SECONDS)

    def _write(self, new: NewRecord) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    new.value,
                    new.key,
                    headers=new.headers,
                    on_delivery=self._delivered,
                    timestamp=time.time_ns() // 1_000_000 - self.age_ms,
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(f"{self.alias}: {error}")
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        acks = self._acks[partition]
        if len(acks) <= offset:
            acks.extend(bytes(offset + 1 - len(acks)))
        acks[offset] = 1
        self._acknowledged += 1
