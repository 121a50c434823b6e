"""Turns source partitions into frames of records, and records into hub rows.

A record frame has the columns of `aggregator.stream.transform.RECORD_SCHEMA`. A hub row frame has
exactly what Spark's Kafka sink reads: topic string, partition int (null = by key), key binary,
value binary, headers array<struct<key string, value binary>>. No action is run here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.model import Positions, Route, SourcePartition
from aggregator.stream.headers import filter_not_from_hub, with_origin_headers
from aggregator.stream.partitioning import with_hub_partition, with_hub_topic
from aggregator.stream.poison import to_quarantine, with_poison
from aggregator.stream.transform import load_transform

FETCH_OPTION = "kafka.max.partition.fetch.bytes"
SMALLEST_FETCH, LARGEST_FETCH = 1 << 20, 8 << 20
FETCHED_AT_ONCE = 128 << 20
"""What all consumers may hold of one fetch each."""

BULK_OPTIONS = {
    # Outside real-time mode Spark asks for the log's range at every poll, two round trips each:
    # few large polls instead of Kafka's 500 records.
    "kafka.max.poll.records": "50000",
    FETCH_OPTION: str(LARGEST_FETCH),
}
"""Options of a Kafka source that reads a known range, where the user set none."""

WAIT_OPTION, REQUEST_OPTION = "kafka.fetch.max.wait.ms", "kafka.request.timeout.ms"
SHORTEST_WAIT_MS, LONGEST_WAIT_MS = 500, 10_000
IDLE_FETCHES_PER_SECOND = 400
"""What 200 partitions do by Kafka's default: of that two cores feel little."""

RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


def live_options(options: Mapping[str, str], partitions: int) -> dict[str, str]:
    """Options of a Kafka source that reads what comes: those given, how long a broker may wait, and
    how much it may send at once.

    Each partition has a consumer, which asks again when the broker has waited so long in vain: with
    thousands that alone is more than some cores can do. So the more `partitions` are read in all,
    the longer a broker may wait, and together they ask `IDLE_FETCHES_PER_SECOND` times. With few
    it is Kafka's default, because a lane whose batch ends drops what it has fetched and not read,
    and asks anew only when the fetch under way is answered. It stays well below the time in which a
    request has to be answered.

    A consumer asks for more of its partition when it has handed out what it had, so each fetch
    costs a round trip in which nothing comes. The fewer partitions, the more memory there is for
    each: Kafka's default of 1 MB is the least.
    """
    answered = int(options.get(REQUEST_OPTION, 2 * LONGEST_WAIT_MS))
    wait = max(SHORTEST_WAIT_MS, partitions * 1000 // IDLE_FETCHES_PER_SECOND)
    fetch = min(max(FETCHED_AT_ONCE // max(partitions, 1), SMALLEST_FETCH), LARGEST_FETCH)
    return {
        WAIT_OPTION: str(min(wait, LONGEST_WAIT_MS, answered // 2)),
        FETCH_OPTION: str(fetch),
        **options,
    }


@dataclass(frozen=True, slots=True)
class Reading:
    """What one Kafka source of a query reads: partitions of one cluster that share a transform."""

    cluster: str
    transform: str
    routes: tuple[Route, ...]
    positions: Positions


def plan_readings(routes: Sequence[Route], positions: Positions) -> list[Reading]:
    """Group a lane's positions into as few Kafka sources as possible, in a stable order.

    One per cluster, and one more for each transform in use there, because a transform sees only
    the topics that asked for it. Every position needs a route; a missing one is a KeyError.
    """
    by_topic = {(route.cluster, route.topic): route for route in routes}
    grouped: dict[tuple[str, str], dict[SourcePartition, int]] = defaultdict(dict)
    for partition, position in positions.items():
        route = by_topic[partition.cluster, partition.topic]
        grouped[route.cluster, route.transform][partition] = position
    return [
        Reading(
            cluster,
            transform,
            tuple(by_topic[cluster, topic] for topic in sorted({sp.topic for sp in offsets})),
            Positions(offsets),
        )
        for (cluster, transform), offsets in sorted(grouped.items())
    ]


def read_stream(spark: SparkSession, reading: Reading, options: Mapping[str, str]) -> DataFrame:
    """The records of a reading, from its positions on, as an endless record frame.

    `options` are the source's Kafka options (`kafka.*` and reader options).
    """
    reader = spark.readStream.format("kafka").options(**options).options(**_assignment(reading))
    return reader.load().select(*RECORD_COLUMNS)


def to_hub_rows(records: DataFrame, reading: Reading, hub_names: Collection[str] = ()) -> DataFrame:
    """Hub rows of a record frame: looped records dropped, transformed, routed, tagged.

    Records that a route's limits say the hub would refuse go to the quarantine topic instead, or
    end the query, as the route says.
    """
    kept = filter_not_from_hub(records, hub_names)
    if reading.transform:
        kept = load_transform(reading.transform)(kept)
    routed = kept.transform(with_hub_topic, reading.routes).transform(
        with_hub_partition, reading.routes
    )
    if any(route.poison.limits for route in reading.routes):
        routed = routed.transform(with_poison, reading.routes, reading.cluster).transform(
            to_quarantine, reading.routes, reading.cluster
        )
    return routed.transform(with_origin_headers, reading.cluster).select(
        F.col("hub_topic").alias("topic"),
        F.col("hub_partition").alias("partition"),
        "key",
        "value",
        "headers",
    )


def parse_offsets(reading: Reading, offsets_json: str | None) -> Positions:
    """Positions out of the offsets that a query's progress reports for one of its sources."""
    by_topic: dict[str, dict[str, int]] = json.loads(offsets_json) if offsets_json else {}
    return Positions(
        {
            SourcePartition(reading.cluster, topic, int(partition)): offset
            for topic, partitions in by_topic.items()
            for partition, offset in partitions.items()
        }
    )


def _assignment(reading: Reading) -> dict[str, str]:
    partitions: dict[str, list[int]] = defaultdict(list)
    offsets: dict[str, dict[str, int]] = defaultdict(dict)
    for partition, position in reading.positions.items():
        partitions[partition.topic].append(partition.partition)
        offsets[partition.topic][str(partition.partition)] = position
    return {
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(offsets),
        "includeHeaders": "true",
        # Lost data is never skipped silently; positions are checked before each start.
        "failOnDataLoss": "true",
    }
