"""Reads a hub topic as it is written, and measures the longest silence of each source."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from support.reading import watermarks

CLUSTER = "origin.cluster"


@dataclass
class Arrivals:
    """Per source (alias): how many records arrived, when the last did, and its longest silence.

    In seconds.
    """

    counts: Counter[str] = field(default_factory=Counter)
    last: dict[str, float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)
    records: int = 0

    def arrived(self, alias: str, now: float) -> None:
        """A record of this source was read."""
        self.records += 1
        self.counts[alias] += 1
        if alias in self.last:
            self.longest[alias] = max(self.longest.get(alias, 0.0), now - self.last[alias])
        self.last[alias] = now

    def silence(self, alias: str) -> float:
        """The longest silence of a source; one that still lasts counts."""
        return max(self.longest.get(alias, 0.0), time.monotonic() - self.last[alias])


def of_its_header(message: Message) -> str:
    """The source that a header names; "" without one, as at a source."""
    headers: Any = dict(message.headers() or ())
    alias: str = headers.get(CLUSTER, b"").decode()
    return alias


@contextmanager
def listening(
    bootstrap: str,
    topic: str,
    partitions: int,
    alias_of: Callable[[Message], str] = of_its_header,
) -> Iterator[Arrivals]:
    """Listen from the topic's end on, in a thread, until the block ends.

    `alias_of` says from which source a record came.
    """
    arrivals, stop = Arrivals(), threading.Event()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "listener",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    ends = []
    for number in range(partitions):
        _, high = watermarks(consumer, topic, number)
        ends.append(TopicPartition(topic, number, high))
    consumer.assign(ends)

    def listen() -> None:
        while not stop.is_set():
            for message in consumer.consume(1_000, timeout=0.05):
                if message.error() is None:
                    arrivals.arrived(alias_of(message), time.monotonic())

    thread = threading.Thread(target=listen, name="listener")
    thread.start()
    try:
        yield arrivals
    finally:
        stop.set()
        thread.join()
        consumer.close()
