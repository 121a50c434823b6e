"""What a lane's query is made of: its readings, and the rows that its sink takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from aggregator.datapath.connector.connector import Connector
from aggregator.datapath.connector.spec import Clients, Reading, render_spec
from aggregator.datapath.spark.frames import SINK_COLUMNS, plan_readings, to_sink_rows, union_of
from aggregator.datapath.spark.transform import RECORD_SCHEMA
from aggregator.model.values import Positions, Route, SourcePartition
from aggregator.plan.lanes.slots import deal_tasks
from support.frames import frame_of

UPPER = "support.transforms:only_even_in_capitals"
MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)
EU, US = SourcePartition("eu", "orders", 0), SourcePartition("us", "orders", 0)
PLAIN = Reading("eu", "", (Route("eu", "orders", "orders", 1, 1),), Positions({EU: 0}))
CHANGED = Reading(
    "us", UPPER, (Route("us", "orders", "orders", 1, 1, transform=UPPER),), Positions({US: 0})
)


def route(topic: str, **options: Any) -> Route:
    defaults = {"hub_topic": topic, "partitions": 6, "hub_partitions": 4}
    return Route(cluster="eu", topic=topic, **{**defaults, **options})


def records(spark: SparkSession, *offsets: int) -> DataFrame:
    rows = [(b"k", b"v%d" % at, "orders", 0, at, MOMENT, [("h", b"1")]) for at in offsets]
    return frame_of(spark, rows, RECORD_SCHEMA)


def columns_of(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


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


def test_of_records_that_are_copied_as_they_are_a_row_has_the_offset_alone(
    spark: SparkSession,
) -> None:
    rows = to_sink_rows(records(spark, 3, 4), PLAIN, whole=False)
    assert columns_of(rows) == {"offset": "bigint"}
    assert [row["offset"] for row in rows.collect()] == [3, 4]


def test_beside_records_that_are_changed_their_rows_have_the_same_columns_and_no_content(
    spark: SparkSession,
) -> None:
    rows = to_sink_rows(records(spark, 3), PLAIN, whole=True)
    assert columns_of(rows) == SINK_COLUMNS
    (row,) = rows.collect()
    assert row.asDict() == {"offset": 3, "key": None, "value": None, "headers": None}


def test_of_records_that_are_changed_a_row_has_what_the_sink_sends(spark: SparkSession) -> None:
    rows = to_sink_rows(records(spark, 3, 4), CHANGED, whole=True)
    assert columns_of(rows) == SINK_COLUMNS
    (row,) = rows.collect()
    assert (row["offset"], bytes(row["key"]), bytes(row["value"])) == (4, b"k", b"V4")
    assert [(key, bytes(value)) for key, value in row["headers"]] == [("h", b"1")]


def test_rows_of_both_kinds_fit_into_one_frame(spark: SparkSession) -> None:
    plain = to_sink_rows(records(spark, 3), PLAIN, whole=True)
    both = plain.unionByName(to_sink_rows(records(spark, 4), CHANGED, whole=True))
    assert columns_of(both) == SINK_COLUMNS
    found = [(row["offset"], row["value"] and bytes(row["value"])) for row in both.collect()]
    assert sorted(found) == [(3, None), (4, b"V4")]


@pytest.fixture
def connector(spark: SparkSession) -> Iterator[Connector]:
    made = Connector(spark)
    yield made
    made.forget(made.key("union", 1), "union", 1)


def known(connector: Connector, readings: Sequence[Reading]) -> str:
    """Make a lane of these readings known, as it is before its query starts; returns its key."""
    key = connector.key("union", 1)
    settings = {"bootstrap.servers": "127.0.0.1:9"}
    consumers = {reading.cluster: settings for reading in readings}
    clients = Clients(consumers, settings, dict.fromkeys(consumers, "an-id"))
    tasks = [deal_tasks(list(reading.positions), 1) for reading in readings]
    connector.put(render_spec(key, "union", 1, readings, tasks, clients, (), {}, {}, 1), "union", 1)
    return key


@pytest.mark.parametrize(
    ("readings", "columns"),
    [
        ([PLAIN], {"offset": "bigint"}),
        ([PLAIN, Reading("us", "", CHANGED.routes, CHANGED.positions)], {"offset": "bigint"}),
        ([CHANGED], SINK_COLUMNS),
        ([PLAIN, CHANGED], SINK_COLUMNS),
    ],
)
def test_all_readings_of_a_lane_are_one_endless_frame(
    spark: SparkSession,
    connector: Connector,
    readings: Sequence[Reading],
    columns: dict[str, str],
) -> None:
    frame = union_of(spark, known(connector, readings), readings)
    assert frame.isStreaming
    assert columns_of(frame) == columns


def test_the_options_of_a_source_name_its_lane_and_hold_no_secret(
    spark: SparkSession, connector: Connector
) -> None:
    key = known(connector, [PLAIN])
    shown = str(union_of(spark, key, [PLAIN])._jdf.queryExecution().toString())
    # Spark shows a plan to anyone who looks; the address is an example of all settings.
    assert key in shown
    assert "127.0.0.1" not in shown
