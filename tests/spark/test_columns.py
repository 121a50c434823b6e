"""Column functions, each on a few rows: origin headers, loop guard, hub topic, hub partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from chispa import assert_df_equality
from kafka.partitioner.default import murmur2
from pyspark.sql import DataFrame, SparkSession

from aggregator.model import Positions, Route, SourcePartition
from aggregator.plan.murmur2 import partition_for_key
from aggregator.stream.frames import (
    Reading,
    live_options,
    parse_offsets,
    plan_readings,
    to_hub_rows,
)
from aggregator.stream.headers import filter_not_from_hub, with_origin_headers
from aggregator.stream.partitioning import with_hub_partition, with_hub_topic
from aggregator.stream.transform import RECORD_SCHEMA

EITHER_WAY = True

MIB = 1 << 20
Headers = Sequence[tuple[str, bytes | None]] | None

ROW_SCHEMA = "id int, headers array<struct<key:string,value:binary>>"
MOMENT = datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=UTC)
MILLIS = str(int(MOMENT.timestamp() * 1000))
ORIGIN = [
    ("origin.cluster", b"eu"),
    ("origin.topic", b"orders"),
    ("origin.partition", b"3"),
    ("origin.offset", b"41"),
    ("origin.timestamp", MILLIS.encode()),
]


def route(topic: str, **options: Any) -> Route:
    defaults = {"hub_topic": topic, "partitions": 6, "hub_partitions": 4}
    return Route(cluster="eu", topic=topic, **{**defaults, **options})


def record(
    spark: SparkSession,
    headers: Headers,
    topic: str = "orders",
    moment: datetime = MOMENT,
    partition: int = 3,
    offset: int = 41,
) -> DataFrame:
    row = (b"k", b"v", topic, partition, offset, moment, headers)
    return spark.createDataFrame([row], RECORD_SCHEMA)


def headers_of(frame: DataFrame) -> list[tuple[str, bytes | None]]:
    (row,) = frame.collect()
    return [(key, None if value is None else bytes(value)) for key, value in row["headers"]]


@pytest.mark.parametrize(
    "own",
    [
        None,
        [],
        [("a", b"1"), ("b", None), ("a", b""), ("a", b"1")],
        [("origin.cluster", b"evil"), ("origin.timestamp", None)],
    ],
)
def test_origin_headers_come_behind_the_records_own(spark: SparkSession, own: Headers) -> None:
    tagged = with_origin_headers(record(spark, own), "eu")
    assert headers_of(tagged) == [*(own or ()), *ORIGIN]


def test_origin_headers_touch_nothing_else(spark: SparkSession) -> None:
    frame = record(spark, None)
    tagged = with_origin_headers(frame, "eu")
    assert tagged.columns == frame.columns
    assert_df_equality(tagged.drop("headers"), frame.drop("headers"))


@pytest.mark.parametrize("millis", [-1, 0, 1, 4_102_444_800_123])
def test_origin_timestamp_is_in_milliseconds(spark: SparkSession, millis: int) -> None:
    moment = spark.sql(f"select timestamp_millis({millis}) as timestamp")
    frame = record(spark, None).drop("timestamp").crossJoin(moment)
    assert headers_of(with_origin_headers(frame, "eu"))[-1] == (
        "origin.timestamp",
        str(millis).encode(),
    )


def test_records_that_have_been_to_this_hub_are_dropped(spark: SparkSession) -> None:
    stays: list[Headers] = [
        None,
        [],
        [("origin.cluster", None)],
        [("origin.cluster", b"eu"), ("other", b"central")],
        [("origin.cluster", b"centra")],
    ]
    goes: list[Headers] = [
        [("origin.cluster", b"central")],
        [("origin.cluster", None), ("origin.cluster", b"hub-id")],
        [("origin.cluster", b"central"), ("origin.cluster", b"eu")],
    ]
    frame = spark.createDataFrame(list(enumerate(stays + goes)), ROW_SCHEMA)
    wanted = spark.createDataFrame(list(enumerate(stays)), ROW_SCHEMA)
    assert_df_equality(filter_not_from_hub(frame, ["central", "hub-id"]), wanted)
    assert filter_not_from_hub(frame, []) is frame


def test_hub_topic_follows_the_route(spark: SparkSession) -> None:
    routes = [route("orders"), route("payments", hub_topic="eu.payments"), route("refunds")]
    frame = spark.createDataFrame(
        [(r.topic, r.hub_topic) for r in routes], "topic string, want string"
    )
    got = with_hub_topic(frame, routes)
    assert [row["hub_topic"] for row in got.collect()] == [row["want"] for row in got.collect()]


def test_hub_partition_follows_the_rule_of_the_route(spark: SparkSession) -> None:
    routes = [
        route("by-key"),
        route("by-source", partition_by="source_partition", hub_partitions=4),
        route("in-turn", partition_by="round_robin", hub_partitions=5),
        route("by-cluster", partition_by="cluster", hub_partitions=7),
    ]
    places = [(partition, offset) for partition in range(6) for offset in (0, 1, 2, 12_345_678_901)]
    rules: dict[str, Callable[[int, int], int | None]] = {
        "by-key": lambda partition, offset: None,
        "by-source": lambda partition, offset: partition % 4,
        "in-turn": lambda partition, offset: (partition + offset) % 5,
        "by-cluster": lambda partition, offset: (murmur2(b"eu") & 0x7FFFFFFF) % 7,
    }
    rows = [(r.topic, partition, offset) for r in routes for partition, offset in places]
    wanted = [(*row, rules[row[0]](row[1], row[2])) for row in rows]
    schema = "topic string, partition int, offset bigint"
    got = with_hub_partition(spark.createDataFrame(rows, schema), routes)
    assert_df_equality(
        got, spark.createDataFrame(wanted, f"{schema}, hub_partition int"), ignore_nullable=True
    )


def test_our_partition_for_a_key_is_the_java_producers(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    name = "org.apache.kafka.clients.producer.internals.BuiltInPartitioner"
    (java,) = (m for m in loader.loadClass(name).getMethods() if m.getName() == "partitionForKey")
    keys = [b"", b"\xff\xfe\x00", *(b"k" * size for size in range(1, 12))]
    for key in [*keys, *(b"order-%d" % number for number in range(100))]:
        for partitions in (1, 4, 12):
            arguments = gateway.new_array(jvm.java.lang.Object, 2)
            arguments[0], arguments[1] = bytearray(key), partitions
            chosen = java.invoke(None, arguments)
            assert chosen == partition_for_key(key, partitions)
            assert chosen == (murmur2(key) & 0x7FFFFFFF) % partitions


def test_a_hub_row_is_what_the_sink_reads(spark: SparkSession) -> None:
    routes = (route("orders", hub_topic="all", partition_by="source_partition"),)
    reading = Reading("eu", "", routes, Positions({SourcePartition("eu", "orders", 3): 0}))
    rows = to_hub_rows(record(spark, None), reading, ["central"])
    assert [(field.name, field.dataType.simpleString()) for field in rows.schema.fields] == [
        ("topic", "string"),
        ("partition", "int"),
        ("key", "binary"),
        ("value", "binary"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    (row,) = rows.collect()
    assert (row["topic"], row["partition"], bytes(row["key"]), bytes(row["value"])) == (
        "all",
        3,
        b"k",
        b"v",
    )
    assert headers_of(rows) == ORIGIN
    came_back = record(spark, [("origin.cluster", b"central")])
    assert to_hub_rows(came_back, reading, ["central"]).isEmpty()


def test_a_reading_holds_what_shares_a_cluster_and_a_transform() -> None:
    routes = [
        route("b"),
        route("a"),
        route("changed", transform="m:f"),
        Route("us", "a", "a", 1, 4),
    ]
    positions = Positions(
        {
            SourcePartition("us", "a", 0): 4,
            SourcePartition("eu", "b", 1): 3,
            SourcePartition("eu", "a", 0): 1,
            SourcePartition("eu", "changed", 0): 2,
        }
    )
    readings = plan_readings(routes, positions)
    assert [(r.cluster, r.transform, [x.topic for x in r.routes]) for r in readings] == [
        ("eu", "", ["a", "b"]),
        ("eu", "m:f", ["changed"]),
        ("us", "", ["a"]),
    ]
    assert Positions().merged({k: v for r in readings for k, v in r.positions.items()}) == positions
    assert plan_readings(list(reversed(routes)), positions) == readings
    with pytest.raises(KeyError):
        plan_readings(routes[:1], positions)


def test_offsets_of_a_reading_become_positions() -> None:
    reading = Reading("eu", "", (), Positions())
    assert parse_offsets(reading, '{"a":{"0":5,"1":7},"b":{"3":0}}') == Positions(
        {
            SourcePartition("eu", "a", 0): 5,
            SourcePartition("eu", "a", 1): 7,
            SourcePartition("eu", "b", 3): 0,
        }
    )
    assert parse_offsets(reading, None) == Positions()


@pytest.mark.parametrize(
    ("partitions", "wait", "fetch"),
    [
        (0, 500, 8 * MIB),
        (16, 500, 8 * MIB),
        (32, 500, 4 * MIB),
        (200, 500, MIB),
        (1_000, 2_500, MIB),
        (100_000, 10_000, MIB),
    ],
)
def test_the_more_partitions_the_longer_a_broker_may_wait_and_the_less_it_sends_at_once(
    partitions: int, wait: int, fetch: int
) -> None:
    assert live_options({"a": "b"}, partitions) == {
        "a": "b",
        "kafka.fetch.max.wait.ms": str(wait),
        "kafka.max.partition.fetch.bytes": str(fetch),
    }


def test_a_fetch_does_not_wait_beyond_the_time_for_an_answer_nor_against_the_users_will() -> None:
    short = {"kafka.request.timeout.ms": "8000"}
    assert live_options(short, 100_000)["kafka.fetch.max.wait.ms"] == "4000"
    given = {"kafka.fetch.max.wait.ms": "7", "kafka.max.partition.fetch.bytes": "8"}
    assert live_options(given, 100_000) == given
