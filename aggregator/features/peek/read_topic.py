"""Reads a topic at one cluster: configs, log ranges, its newest records, and each as it comes."""

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from confluent_kafka import Consumer

from aggregator.config.mask import mask_text
from aggregator.config.schema import Config
from aggregator.features.peek.batch_origins import (
    ENDLESS,
    BatchOrigins,
    Origins,
    Placed,
    origins_of,
    without_origin,
)
from aggregator.features.peek.decode_value import MOST_BYTES
from aggregator.features.peek.interpret import Interpreter
from aggregator.features.peek.topic_report import LogSpan, PeekedRecord, TopicLook
from aggregator.kafka.admin import HUB, ClusterAdmin, open_admin
from aggregator.kafka.admin.client_errors import text_of
from aggregator.kafka.credentials import reader_settings
from aggregator.kafka.reader import AssignedReader, open_consumer, to_raw
from aggregator.model.errors import AggregatorError, ClusterError
from aggregator.model.values import OffsetRange, Raw, TopicFacts, TopicPartition

MOST_PARTITIONS = 64
"""The most partitions to read: those with the most records."""


def tails(
    logs: Mapping[TopicPartition, OffsetRange], records: int
) -> dict[TopicPartition, OffsetRange]:
    """Where to read for the newest `records` of a topic.

    Behind the last record there may be markers, so a little more than that is read. Where more
    offsets than that hold no record (compaction, an aborted transaction), fewer are found.
    """
    filled = [
        (log.latest - log.earliest, tp) for tp, log in logs.items() if log.latest > log.earliest
    ]
    most = sorted(filled, key=lambda it: (-it[0], it[1]))[:MOST_PARTITIONS]
    return {
        tp: OffsetRange(max(logs[tp].earliest, logs[tp].latest - records - 2), logs[tp].latest)
        for _, tp in most
    }


def heads(
    logs: Mapping[TopicPartition, OffsetRange], begins: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetRange]:
    """Where to read for the first records from these offsets on; nothing of what is beyond a log.

    An offset that is deleted leads to the first one that is left. A partition without an offset is
    left out.
    """
    found = {
        tp: OffsetRange(max(logs[tp].earliest, begin), logs[tp].latest)
        for tp, begin in sorted(begins.items())
        if tp in logs
    }
    filled = [(tp, it) for tp, it in found.items() if it.earliest < it.latest]
    return dict(filled[:MOST_PARTITIONS])


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Where to read from: an offset of each partition, or else the first record of a time."""

    offset: int | None = None
    at_ms: int | None = None


SECONDS = 5.0
"""The caller waits for the answer."""
LEAST_SECONDS = 0.5
POLL_RECORDS = 100
SMALL = {"fetch.message.max.bytes": 100_000, "queued.max.messages.kbytes": 4_096}
"""A read must take no memory from the stream."""


class AbsentError(AggregatorError):
    """There is no such topic, or none that we may see."""


def look_at(
    config: Config,
    source: str | None,
    topic: str,
    records: int,
    *,
    partition: int | None = None,
    most: int | None = MOST_BYTES,
    start: ReadFrom | None = None,
) -> TopicLook:
    """The topic at a source, or with None at the hub, with some of its newest records.

    With `start` the first ones from there on, the oldest first. With `partition` of that one alone;
    what they say is cut off after `most` bytes. Only reads; joins no group. What cannot be read of
    it is a note. Raises ClusterError when the cluster does not answer in time, AbsentError when it
    has no such topic.
    """
    cluster = HUB if source is None else source
    deadline = time.monotonic() + min(SECONDS, config.supervision.connect_timeout)
    with open_admin(config, cluster) as admin:
        facts, configs, notes = _describe(admin, cluster, topic, _left(deadline))
        if partition is not None and partition >= facts.partitions:
            has = f"{topic} has {facts.partitions}, counted from 0"
            raise AbsentError(f"{cluster}: no partition {partition}: {has}")
        wanted = range(facts.partitions) if partition is None else (partition,)
        names = [TopicPartition(topic, number) for number in wanted]
        logs = admin.offsets(names, _left(deadline))
        windows = _windows(admin, logs.ranges, records, start, deadline)
    remarks = [*notes, *(f"{tp}: {why}" for tp, why in logs.failed.items())]
    found: list[PeekedRecord] = []
    if records and windows:
        read = config.hub if source is None else config.sources[source]
        settings = {**reader_settings(read, "aggregator-look"), **SMALL}
        with closing(open_consumer(cluster, settings)) as consumer:
            raws, more = _read(consumer, windows, records, start, deadline)
        remarks += more
        placed = [(TopicPartition(topic, number), raw) for number, raw in raws]
        origins = _origins_at(config, source, placed, remarks)
        interpreter = Interpreter(config, source, topic, most)
        found = [
            interpreter.show(tp.partition, raw, origins.get((tp, raw.offset))) for tp, raw in placed
        ]
    return TopicLook(
        source=source,
        topic=topic,
        replication_factor=facts.replication_factor,
        partitions=tuple(
            LogSpan(partition=tp.partition, earliest=log.earliest, latest=log.latest)
            for tp, log in sorted(logs.ranges.items())
        ),
        configs=dict(configs),
        records=tuple(found),
        notes=tuple(mask_text(note, config) for note in remarks),
    )


def _left(deadline: float) -> float:
    return max(LEAST_SECONDS, deadline - time.monotonic())


def _describe(
    admin: ClusterAdmin, cluster: str, topic: str, timeout: float
) -> tuple[TopicFacts, Mapping[str, str], tuple[str, ...]]:
    described = admin.describe_topics([topic], timeout)
    facts = described.topics.get(topic)
    if facts is None:
        raise AbsentError(f"{cluster}: {topic}: {described.failed.get(topic, 'no such topic')}")
    return facts, described.effective.get(topic, {}), described.notes


def _windows(
    admin: ClusterAdmin,
    logs: Mapping[TopicPartition, OffsetRange],
    records: int,
    start: ReadFrom | None,
    deadline: float,
) -> dict[TopicPartition, OffsetRange]:
    if start is None:
        return tails(logs, records)
    if start.offset is not None:
        return heads(logs, dict.fromkeys(logs, start.offset))
    return heads(logs, admin.offsets_at(start.at_ms or 0, logs, _left(deadline)))


def _read(
    consumer: Consumer,
    wanted: Mapping[TopicPartition, OffsetRange],
    records: int,
    start: ReadFrom | None,
    deadline: float,
) -> tuple[list[tuple[int, Raw]], list[str]]:
    """The newest records of these ranges, or with a start the first ones, by their timestamps.

    Each with its partition; and what could not be read.
    """
    sign = 1 if start is None else -1
    # No more of them than are wanted: values may be large.
    found: list[tuple[int, int, int, Raw]] = []
    counts = dict.fromkeys(wanted, 0)
    notes: list[str] = []
    reader = AssignedReader(consumer, {tp: log.earliest for tp, log in wanted.items()})
    while reader.left and time.monotonic() < deadline:
        polled = reader.poll(POLL_RECORDS)
        for tp, message in polled.records:
            raw = to_raw(message)
            counts[tp] += 1
            is_enough = start is not None and counts[tp] > records
            if raw.offset < wanted[tp].latest and not is_enough:
                key = (sign * raw.at_ms, sign * raw.offset, sign * tp.partition)
                heapq.heappush(found, (*key, raw))
            if len(found) > records:
                heapq.heappop(found)
            if raw.offset >= wanted[tp].latest - 1 or is_enough:
                reader.finish(tp)
        notes += [f"{tp} cannot be read: {text_of(error)}" for tp, error in polled.errors]
        for tp in {*polled.ends, *dict(polled.errors)}:
            reader.finish(tp)
    if reader.left:
        notes.append(f"{len(reader.left)} partitions were not read to their end in time")
    ordered = sorted(found, key=lambda it: it[:3], reverse=True)
    return [(sign * number, raw) for *_, number, raw in ordered], notes


def _origins_at(
    config: Config, source: str | None, records: Sequence[Placed], remarks: list[str]
) -> Origins:
    """The origins that batches have; a remark where they cannot be read, or not in time."""
    if source is not None:
        return {}
    origins: Origins = {}
    try:
        origins, late = origins_of(config, records)
        why = f"{late} partitions were not read to their end in time" if late else ""
    except AggregatorError as error:
        why = str(error)
    if why:
        remarks.append(f"origins of batches that were copied as they are: {why}")
    return origins


def follow(config: Config, look: TopicLook, most: int | None) -> Iterator[PeekedRecord]:
    """The records that come to these partitions after the look, without an end.

    A cluster that is away for a while is waited for. Raises ClusterError when it refuses. Where
    origins of batches cannot be read, which the look has said as well, records come without.
    """
    cluster = config.hub if look.source is None else config.sources[look.source]
    alias = look.source or "hub"
    starts = {TopicPartition(look.topic, it.partition): it.latest for it in look.partitions}
    with ExitStack() as stack:
        consumer = open_consumer(alias, reader_settings(cluster, "aggregator-look"))
        reader = AssignedReader(stack.enter_context(closing(consumer)), starts)
        batches: BatchOrigins | None = None
        has_batches = look.source is None
        while True:
            polled = reader.poll(POLL_RECORDS)
            # The registry may be slow each time.
            interpreter = Interpreter(config, look.source, look.topic, most)
            placed = [(tp, to_raw(message)) for tp, message in polled.records]
            wanted = without_origin(placed) if has_batches else {}
            origins: Origins = {}
            try:
                if wanted and batches is None:
                    ranges = {tp: OffsetRange(start, ENDLESS) for tp, start in starts.items()}
                    batches = stack.enter_context(BatchOrigins(config, ranges))
                if wanted and batches is not None:
                    origins = batches.find(wanted)
            except AggregatorError:
                has_batches = False
            for tp, raw in placed:
                starts[tp] = raw.offset + 1
                yield interpreter.show(tp.partition, raw, origins.get((tp, raw.offset)))
            for _, error in polled.errors:
                if not error.retriable():
                    why = mask_text(text_of(error), config)
                    raise ClusterError(f"{alias}: {look.topic}: {why}")
