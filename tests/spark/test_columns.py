"""Column functions, each on a few rows: origin headers and loop guard.

The origin is read in both forms, and the notebook's columns come of it; so do those of a landing
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from chispa import assert_df_equality
from kafka.partitioner.default import murmur2
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.datapath.spark.headers import (
    filter_not_from_hub,
    headers_before_origin,
    origin_columns,
    origin_texts,
)
from aggregator.datapath.spark.transform import RECORD_SCHEMA
from aggregator.extras.notebook import with_origin_columns
from aggregator.extras.notebook.decode_columns import decoded
from aggregator.extras.notebook.odd_times import has_odd_time, without_odd_times
from aggregator.features.delta_sink.decoders import MISFIT, JsonDecoder
from aggregator.features.delta_sink.landing_rows import with_landing_columns
from aggregator.model.record_rules import ANY_ORIGIN
from aggregator.plan.lanes.murmur2 import partition_for_key
from support.frames import frame_of
from support.sessions import plain_config

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

ONE = [("origin", b"eu/orders/3/41")]
PLACE = ("eu", "orders", 3, 41)


def record(
    spark: SparkSession,
    headers: Headers,
    topic: str = "orders",
    moment: datetime = MOMENT,
    partition: int = 3,
    offset: int = 41,
) -> DataFrame:
    row = (b"k", b"v", topic, partition, offset, moment, headers)
    return frame_of(spark, [row], RECORD_SCHEMA)


def test_records_that_have_been_to_this_hub_are_dropped(spark: SparkSession) -> None:
    stays: list[Headers] = [
        None,
        [],
        [("origin.cluster", None)],
        [("origin.cluster", b"eu"), ("other", b"central")],
        [("origin.cluster", b"centra")],
        # Called as ours, and not in our form; or in it, and of another cluster.
        [("origin", None)],
        [("origin", b"central")],
        [("origin", b"central/a/b")],
        [("origin", b"central/a/0/x")],
        [("origin", b"https://central/a/0/1")],
        [("origin", b"central/a/0/1\n")],
        [("origin", b"eu/central/0/1"), ("other", b"central/a/0/1")],
        [("origin.cluster", b"central/a/0/1")],
    ]
    goes: list[Headers] = [
        [("origin.cluster", b"central")],
        [("origin.cluster", None), ("origin.cluster", b"hub-id")],
        [("origin.cluster", b"central"), ("origin.cluster", b"eu")],
        [("origin", b"central/a/0/1")],
        [("origin", b"hub-id/a.b/12/4000000000"), ("origin", b"eu/a/0/1"), ("x", None)],
        [("origin", b"eu/a/0/1"), ("origin.cluster", b"central")],
        [("origin.cluster", b"eu"), ("origin", b"central/a/0/1")],
    ]
    frame = frame_of(spark, list(enumerate(stays + goes)), ROW_SCHEMA)
    wanted = frame_of(spark, list(enumerate(stays)), ROW_SCHEMA)
    assert_df_equality(filter_not_from_hub(frame, ["central", "hub-id"]), wanted)
    assert filter_not_from_hub(frame, []) is frame
    five: list[tuple[str, bytes | None]] = [*ORIGIN]
    whole: list[Headers] = [five, [("a", None), *five, ("b", b"1")], [("origin", b"eu/a/0/1")]]
    stays = [None, [("origin", b"central")], [("origin.cluster", b"a")], five[:4], five[1:]]
    frame = frame_of(spark, list(enumerate(stays + whole)), ROW_SCHEMA)
    wanted = frame_of(spark, list(enumerate(stays)), ROW_SCHEMA)
    assert_df_equality(filter_not_from_hub(frame, [ANY_ORIGIN]), wanted)


ORIGINS: list[tuple[Headers, tuple[str, str, int, int] | None]] = [
    (ORIGIN, PLACE),
    (ONE, PLACE),
    ([("origin", b"web"), ("a", None), *ONE], PLACE),
    ([("origin", b"web"), ("a", None), *ORIGIN], PLACE),
    # A hub of hubs: the last hop counts, whatever form an earlier one had.
    ([("origin", b"us/old/0/7"), *ORIGIN], PLACE),
    ([("origin", b"us/old/0/7"), *ONE], PLACE),
    ([*((name, b"7") for name, _ in ORIGIN), *ONE], PLACE),
    ([("origin", b"eu/a/2147483647/9223372036854775807")], ("eu", "a", 2**31 - 1, 2**63 - 1)),
    *(
        (headers, None)
        for headers in (
            None,
            [],
            [("a", b"1")],
            [*ONE, ("behind", b"1")],
            [*ORIGIN, ("behind", b"1")],
            ORIGIN[1:],
            [*ORIGIN, ("origin", None)],
        )
    ),
    *(
        ([*ORIGIN, ("origin", text)], None)
        for text in (
            b"",
            b"/",
            b"web",
            b"a/b/c",
            b"a/b/1/",
            b"a/b//2",
            b"a//1/2",
            b"/b/1/2",
            b"a/b/1/2/",
            b"a/b/c/1/2",
            b"a/b/x/2",
            b"a/b/1/x",
            b"a/b/-1/2",
            b"a/b/1/+2",
            b"a/b/1/2 ",
            b"a/b/1/2\n",
            b"a/b/2147483648/2",
            b"a/b/1/9223372036854775808",
        )
    ),
]


def test_the_origin_is_read_in_either_form(spark: SparkSession) -> None:
    frame = frame_of(spark, [(at, headers) for at, (headers, _) in enumerate(ORIGINS)], ROW_SCHEMA)
    parts = origin_columns("texts")
    read = frame.withColumn("texts", origin_texts()).select(
        "id", *(column.alias(name) for name, column in parts.items())
    )
    found = {row["id"]: row for row in read.collect()}
    for at, (headers, place) in enumerate(ORIGINS):
        row = found[at]
        if place is not None:
            assert tuple(row)[1:5] == place, headers
            # The one header says none.
            five = (headers or ())[-1][0] != "origin"
            assert row["timestamp"] == (int(MILLIS) if five else None), headers
        else:
            assert None in tuple(row)[1:5], headers


def test_the_own_headers_are_those_before_the_origin(spark: SparkSession) -> None:
    own: list[Headers] = [[("a", b"1"), ("origin", b"web"), ("b", None)], [("x", b""), *ONE]]
    rows = [(at, [*(mine or ()), *ours]) for at, mine in enumerate(own) for ours in (ORIGIN, ONE)]
    frame = frame_of(spark, [*rows, (9, ORIGIN), (9, ONE)], ROW_SCHEMA)
    for row in frame.select("id", headers_before_origin().alias("headers")).collect():
        if row["id"] == 9:
            assert row["headers"] is None
        else:
            found = [(key, None if it is None else bytes(it)) for key, it in row["headers"]]
            assert found == own[row["id"]]


def test_the_notebooks_columns_are_of_either_form(spark: SparkSession) -> None:
    own: Headers = [("a", b"1"), ("a", b"2"), ("n", None), ("origin", b"web")]
    earlier = [("origin", b"us/old/0/7"), *((name, b"7") for name, _ in ORIGIN)]
    cases: list[tuple[Headers, Any, Any, Any]] = [
        ([*(own or ()), *ORIGIN], PLACE, MOMENT, {"a": b"2", "n": None, "origin": b"web"}),
        ([*(own or ()), *ONE], PLACE, None, {"a": b"2", "n": None, "origin": b"web"}),
        ([*earlier, *ONE], PLACE, None, {}),
        ([*ONE, *ORIGIN], PLACE, MOMENT, {}),
        ([("origin", b"web")], (None,) * 4, None, {"origin": b"web"}),
        (None, (None,) * 4, None, None),
    ]
    for headers, place, moment, left in cases:
        (row,) = with_origin_columns(record(spark, headers)).collect()
        assert (row["topic"], row["partition"], row["offset"]) == ("orders", 3, 41)
        names = ("cluster", "topic", "partition", "offset")
        assert tuple(row[f"origin_{name}"] for name in names) == place, headers
        stamp = row["origin_timestamp"]
        assert (stamp and stamp.astimezone(UTC)) == moment
        found = row["headers"]
        assert (found and {k: None if v is None else bytes(v) for k, v in found.items()}) == left


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


@pytest.mark.parametrize(
    ("millis", "at_hub", "day"),
    [
        (MILLIS, "2026-02-01 00:00:00", "2026-01-31"),
        (None, "2026-02-01 00:00:00", "2026-02-01"),
        ("-1", "2026-02-01 00:00:00", "2026-02-01"),
        ("0", "1999-12-31 23:59:59", None),
        # Microseconds and nanoseconds.
        (MILLIS + "000", "2026-02-01 00:00:00", "2026-02-01"),
        (MILLIS + "000000", None, None),
        ("9" * 19, "2999-01-01 00:00:00", None),
        ("soon", "2026-02-01 00:00:00", "2026-02-01"),
    ],
)
def test_a_record_lands_on_a_day_that_there_is_whatever_its_timestamp_says(
    spark: SparkSession, millis: str | None, at_hub: str | None, day: str | None
) -> None:
    own = [(name, value) for name, value in ORIGIN if name != "origin.timestamp"]
    headers = [*own, ("origin.timestamp", (millis or "").encode())] if millis else None
    frame = record(spark, headers).withColumn("timestamp", F.lit(at_hub).cast("timestamp"))
    frame = frame.withColumn("key", F.lit(b"k")).withColumn("value", F.lit(b"v"))
    today = spark.range(1).select(F.current_date().alias("day")).collect()[0]["day"]
    (row,) = with_landing_columns(frame).select("day", "value").collect()
    later = spark.range(1).select(F.current_date().alias("day")).collect()[0]["day"]
    assert row["value"] == b"v"
    assert row["day"].isoformat() in ([day] if day else [today.isoformat(), later.isoformat()])


def test_json_is_an_object_alone_with_white_space_or_a_mark_around_it(spark: SparkSession) -> None:
    values: dict[str, tuple[Any, str | None]] = {
        '{"a": 5, "b": {"c": 1.5}}': ((5, (1.5,)), None),
        '\ufeff {"a": 6}\n': ((6, None), None),
        '\r\n\t{"a": 7, "b": {"c": "}{"}} ': ((7, (None,)), MISFIT),
        '{"a": 8} trailing': (None, "not JSON"),
        '{"a": 9}{"a": 10}': (None, "not JSON"),
        '{"a": 9': (None, "not JSON"),
        "[1]": (None, "JSON, but no object"),
        '{"a": 11, "__corrupt": null}': ((11, None), None),
        # As the documentation says: what a column of this type makes of it.
        '{"b": {"c": 9007199254740993}}': ((None, (9007199254740992.0,)), None),
        '{"b": {"c": 1e400}}': ((None, (float("inf"),)), None),
        '{"a": 9223372036854775808}': ((None, None), MISFIT),
    }
    rows = [(text.encode(), None) for text in values]
    frame = frame_of(spark, rows, "value binary, decode_error string").drop("decode_error")
    decoder = JsonDecoder()
    first = frame.limit(2)
    struct = decoder.columns(lambda _: first, {"type": "struct", "fields": []}).struct
    found = decoder.decode(frame, struct).collect()
    results = {bytes(it["value"]).decode(): (it["decoded"], it["decode_error"]) for it in found}
    assert results == values
    # A name that Spark was given by us is a field like others, and no batch is begun twice for it.
    later = frame_of(spark, [(b'{"a": 1, "__corrupt": 5}',)], "value binary")
    decoder = JsonDecoder()
    assert decoder.columns(lambda _: later, struct).struct == struct
    with pytest.raises(Exception, match="not as those before") as surprise:
        decoder.decode(later, struct).collect()
    assert decoder.is_unexpected(surprise.value)
    struct = decoder.columns(lambda _: later, struct).struct
    assert decoder.columns(lambda _: later, struct).struct == struct
    (row,) = decoder.decode(later, struct).collect()
    assert (row["decoded"]["__corrupt"], row["decode_error"]) == (5, None)


def test_json_of_a_notebook_is_decoded_whatever_the_names_of_its_fields_are(
    spark: SparkSession,
) -> None:
    values: dict[bytes, dict[str, Any] | None] = {
        b'{"a": 1}': {"a": 1},
        # Of fields that differ in case alone each is there.
        b'{"A": 2}': {"A": 2},
        b'\xef\xbb\xbf\n{"a": 3}': {"a": 3},
        # As what cannot be read was called.
        b'{"_not_json": 4}': {"_not_json": 4},
        b'{"": 5, "x.y": 6}': {"x.y": 6},
        b"[1]": None,
    }
    frame = frame_of(spark, [(it,) for it in values], "value binary")
    for row in decoded(frame, plain_config(), "json").collect():
        found, wanted = row["value_decoded"], values[bytes(row["value"])]
        assert (found is None) == (wanted is None) == (row["value_problem"] is not None)
        if found is not None and wanted is not None:
            assert {name: it for name, it in found.asDict().items() if it is not None} == wanted


def test_times_that_python_lacks_are_null_however_deep(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr(
        "date'2026-01-31' AS good",
        "struct(1 AS n, timestamp_micros(9223372036854775807) AS at) AS one",
        "array(map('k', date_from_unix_date(2147483647)), map('l', date'9999-12-31')) AS deep",
        "CAST(NULL AS struct<at: timestamp_ntz>) AS none",
    )
    odd = {}
    for each in frame.schema.fields:
        is_odd = has_odd_time(each.dataType)
        assert is_odd is not None
        odd[each.name] = is_odd(F.col(each.name))
    (row,) = frame.select(
        F.struct(*(it.alias(name) for name, it in odd.items())).alias("odd"),
        *(without_odd_times(it.dataType, F.col(it.name)).alias(it.name) for it in frame.schema),
    ).collect()
    assert row["odd"].asDict() == {"good": False, "one": True, "deep": True, "none": False}
    assert row["one"].asDict() == {"n": 1, "at": None}
    assert row["deep"] == [{"k": None}, {"l": date(9999, 12, 31)}]
    assert (row["good"], row["none"]) == (date(2026, 1, 31), None)


@pytest.mark.parametrize("schema", [None, "a BIGINT"])
def test_json_of_a_notebook_is_a_whole_value_as_in_the_tables(
    spark: SparkSession, schema: str | None
) -> None:
    values: dict[bytes, tuple[int | None, str | None]] = {
        b'{"a": 1}': (1, None),
        b'{"a": 2} \r\n': (2, None),
        b'{"a": 3} x': (None, "not JSON"),
        b'{"a": 4}{"b": 5}': (None, "not JSON"),
        b'{"a": 5}\x00': (None, "not JSON"),
        b'{"a": 6': (None, "is no JSON object of this schema"),
        b'{"c": ' + b"[" * 100 + b"]" * 100 + b"}": (None, "nested in more than 100 levels"),
    }
    frame = frame_of(spark, [(it,) for it in values], "value binary")
    found = decoded(frame, plain_config(), "json", schema=schema)
    assert found.columns == ["value", "value_decoded", "value_problem"]
    assert found.schema["value_decoded"].dataType.simpleString() == "struct<a:bigint>"
    for row in found.collect():
        number = row["value_decoded"] and row["value_decoded"]["a"]
        assert (number, row["value_problem"]) == values[bytes(row["value"])]
