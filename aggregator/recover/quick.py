"""A quick look at a short hub tail, with plain clients: mostly it shows that nothing is missing.

What a killed writer had under way arrives as a rule, or none of it; then there is nothing to write
again, and the lanes can start as soon as the JVM is warm enough for them. Whatever is not plainly
so is left to the Spark job, which decides by the same plans.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.config.kafka_settings import reader_settings
from aggregator.config.schema import ClusterConfig, Config
from aggregator.failpoint import failpoint
from aggregator.model import (
    ORIGIN_CLUSTER,
    ORIGIN_HEADERS,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TOPIC,
    OffsetRange,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.recovery import TailPlan, plan_replay, recovered_positions
from aggregator.recover.recovery import Recovered

QUICK_OFFSETS = 150_000
"""A longer tail is Spark's from the beginning."""
QUICK_SECONDS = 5.0
"""What takes longer is given up, and Spark's. About what its first job costs in a cold JVM."""
BATCH = 2_000
POLL_SECONDS = 0.2

ORIGIN = (ORIGIN_CLUSTER, ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET)
PLACES = tuple(ORIGIN_HEADERS.index(name) - len(ORIGIN_HEADERS) for name in ORIGIN)

Logs = Mapping[SourcePartition, OffsetRange]


class UnclearError(Exception):
    """The clients cannot tell; Spark is to look."""


@dataclass(slots=True)
class Found:
    """The origin offsets that a tail holds beyond the positions, and in how many records."""

    offsets: dict[SourcePartition, set[int]] = field(default_factory=lambda: defaultdict(set))
    records: int = 0


def look_quickly(config: Config, tail: TailPlan, logs: Logs) -> Recovered | None:
    """What a recovery comes to when the hub lacks nothing of this tail; None when that is unclear.

    None as well when something is missing, has been deleted from a source meanwhile, or when a
    cluster does not answer in time: nothing is decided here but that there is nothing to do.
    """
    began = time.monotonic()
    if not 0 < tail.offsets <= QUICK_OFFSETS:
        return None
    deadline = began + QUICK_SECONDS
    try:
        found = _found(config.hub, tail, deadline)
        failpoint("after-quick-look")
        tops = {sp: max(offsets) for sp, offsets in found.offsets.items()}
        if any(sp in logs and at < logs[sp].earliest for sp, at in tail.positions.items()):
            return None
        ranges: dict[str, dict[TopicPartition, OffsetRange]] = defaultdict(dict)
        for sp, log in plan_replay(tail.positions, tops, logs).items():
            ranges[sp.cluster][sp.topic_partition] = log

        def whole(alias: str) -> bool:
            records = read(config.sources[alias], ranges[alias], deadline)
            return all(
                offset in found.offsets[SourcePartition(alias, tp.topic, tp.partition)]
                for tp, offset, _ in records
            )

        with ThreadPoolExecutor(max(1, len(ranges)), thread_name_prefix="quick-look") as pool:
            if not all(pool.map(whole, ranges)):
                return None
    except (UnclearError, KafkaException, UnicodeDecodeError):
        return None
    return Recovered(
        recovered_positions(tail.positions, tops),
        tail.offsets,
        found.records,
        0,
        time.monotonic() - began,
    )


def _found(hub: ClusterConfig, tail: TailPlan, deadline: float) -> Found:
    found = Found()
    for tp, offset, message in read(hub, tail.ranges, deadline):
        origin = origin_of(message)
        if origin is None:
            continue
        sp, at = origin
        first = tail.above.get(sp, {}).get(tp, 0)
        if offset >= first and at >= tail.positions.get(sp, at + 1):
            found.offsets[sp].add(at)
            found.records += 1
    return found


def origin_of(message: Message) -> tuple[SourcePartition, int] | None:
    """Where a hub record comes from, None for a record of others.

    UnclearError for a number that is not written as we write it.
    """
    headers: Any = message.headers() or ()
    if len(headers) < len(ORIGIN_HEADERS):
        return None
    values = []
    for name, place in zip(ORIGIN, PLACES, strict=True):
        found, value = headers[place]
        if found != name or value is None:
            return None
        values.append(bytes(value).decode())
    cluster, topic, partition, offset = values
    if not (partition.isdecimal() and offset.isdecimal()):
        raise UnclearError(f"{partition}, {offset}")
    return SourcePartition(cluster, topic, int(partition)), int(offset)


def read(
    cluster: ClusterConfig, ranges: Mapping[TopicPartition, OffsetRange], deadline: float
) -> Iterator[tuple[TopicPartition, int, Message]]:
    """The records of offset ranges of one cluster, each with its place.

    UnclearError when they are not all there to be read before the deadline, and KafkaException when
    the cluster refuses.
    """
    consumer = Consumer(
        {
            **reader_settings(cluster, "aggregator-recovery"),
            # A range that is gone is no reason to read another one.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        consumer.assign(
            [ClientPartition(tp.topic, tp.partition, log.earliest) for tp, log in ranges.items()]
        )
        left = set(ranges)
        while left:
            if time.monotonic() > deadline:
                raise UnclearError("it takes too long")
            for message in consumer.consume(BATCH, timeout=POLL_SECONDS):
                tp = TopicPartition(str(message.topic()), int(message.partition() or 0))
                offset, end = int(message.offset() or 0), ranges[tp].latest
                error = message.error()
                if error is None and offset < end:
                    yield tp, offset, message
                elif error is not None and (
                    error.code() != KafkaError._PARTITION_EOF or offset < end
                ):
                    raise UnclearError(error.str())
                if error is not None or offset >= end - 1:
                    left.discard(tp)
    finally:
        consumer.close()
