"""Records to write: a number at once, or a steady load while a block runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Producer

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import ONCE, NewRecord
from support.reading import SECONDS

TURN_RECORDS = 50
TURNS = 10
"""At least TURN_RECORDS are written at once, and at most TURNS times a second. One by one they
would be as many requests, and as many again at the hub: brokers and readers would do little
else."""
KEY_RECORDS = 20
"""How many records in a row have the same key. A request is of one partition: if each record had a
key of its own, a turn would be a request for each partition."""
LINGER_MS = 20
THREE_DAYS_MS = 3 * 86_400_000
"""By its default a hub has forgotten the producers of records that are so old."""


def records(count: int, partition: int = -1) -> list[NewRecord]:
    """Numbered records with twenty keys, to be produced at once."""
    return [NewRecord(b"%d" % at, b"key-%d" % (at % 20), partition) for at in range(count)]


@contextmanager
def load(
    clusters: list[EmbeddedCluster],
    topic: str,
    per_second: int = 1_000,
    size: int = 0,
    client: Mapping[str, str] | None = None,
    turn: int = 0,
    age_ms: int = 0,
) -> Iterator[None]:
    """`per_second` records a second into each cluster, until the block ends; all acknowledged.

    A value is a number, filled up to `size` bytes. `client` holds further librdkafka settings;
    `turn` are written at once, where that is given: more are less work, where what is under way
    does not matter. Their timestamps are `age_ms` ago.
    """
    turn = turn or max(TURN_RECORDS, per_second // TURNS)
    stop = threading.Event()
    left: list[int] = []
    seconds = turn / per_second

    def write(servers: str) -> None:
        own = {**ONCE, "linger.ms": LINGER_MS, **(client or {})}
        producer = Producer({"bootstrap.servers": servers, **own})
        number = 0
        while not stop.is_set():
            began = time.monotonic()
            then = int(time.time() * 1000) - age_ms
            for _ in range(turn):
                key = b"key-%d" % (number // KEY_RECORDS % 211)
                producer.produce(topic, (b"%d" % number).ljust(size, b"."), key, timestamp=then)
                number += 1
            # Not poll(timeout): it returns as soon as anything was delivered.
            producer.poll(0)
            stop.wait(max(0.0, began + seconds - time.monotonic()))
        left.append(producer.flush(SECONDS))

    threads = [
        threading.Thread(target=write, args=(cluster.bootstrap_servers,)) for cluster in clusters
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert left == [0] * len(clusters)
