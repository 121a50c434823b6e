"""Records that a hub topic would refuse: their size to the byte, the reason, where they go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from aggregator.model import Limits, PoisonRule, Positions, Route, SourcePartition
from aggregator.stream.frames import Reading, to_hub_rows
from aggregator.stream.headers import with_origin_headers
from aggregator.stream.poison import hub_bytes
from aggregator.stream.transform import RECORD_SCHEMA

EITHER_WAY = True

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
Headers = list[tuple[str, bytes | None]] | None


class Given(NamedTuple):
    """A source record, in the order of RECORD_SCHEMA."""

    key: bytes | None = b"k"
    value: bytes | None = b"v"
    topic: str = "orders"
    partition: int = 3
    offset: int = 41
    timestamp: datetime = NOW
    headers: Headers = None


def frame(spark: SparkSession, records: Sequence[Given]) -> DataFrame:
    return spark.createDataFrame(list(records), RECORD_SCHEMA)


def rows(
    spark: SparkSession, limits: Limits, *records: Given, room: int = 1_000_000, to: str = "q"
) -> list[Any]:
    """Hub rows of records of `orders`, whose rule is given, and of `free`, which has none."""
    rule = PoisonRule(to, limits, room)
    routes = (
        Route("eu", "free", "all.free", 6, 4, "source_partition"),
        Route("eu", "orders", "all.orders", 6, 4, "source_partition", poison=rule),
    )
    reading = Reading("eu", "", routes, Positions({SourcePartition("eu", "orders", 3): 0}))
    return to_hub_rows(frame(spark, records), reading).collect()


def headers_of(row: Any) -> list[tuple[str, bytes | None]]:
    return [(key, None if value is None else bytes(value)) for key, value in row["headers"]]


def java_bytes(spark: SparkSession, row: Any) -> int:
    """What Kafka's own code makes of a record: the size of its batch, uncompressed."""
    jvm: Any = spark._jvm
    records = jvm.org.apache.kafka.common.record
    gateway: Any = spark.sparkContext._gateway
    headers = gateway.new_array(jvm.org.apache.kafka.common.header.Header, len(row["headers"]))
    for at, (key, value) in enumerate(row["headers"]):
        headers[at] = jvm.org.apache.kafka.common.header.internals.RecordHeader(key, value)
    one = gateway.new_array(records.SimpleRecord, 1)
    one[0] = records.SimpleRecord(1_700_000_000_000, row["key"], row["value"], headers)
    none = jvm.org.apache.kafka.common.compress.Compression.NONE
    return int(records.MemoryRecords.withRecords(none, one).sizeInBytes())


contents = (
    st.none() | st.binary(max_size=80) | st.sampled_from([0, 63, 64, 8191, 8192, 70_000]).map(bytes)
)
given_records = st.builds(
    Given,
    key=contents,
    value=contents,
    topic=st.sampled_from(["o", "t" * 63, "t" * 64, "t" * 249]),
    partition=st.integers(0, 100_000),
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.sampled_from([NOW, datetime(1970, 1, 1, tzinfo=UTC), NOW + 9000 * DAY]),
    headers=st.none() | st.lists(st.tuples(st.text(max_size=70), contents), max_size=70),
)


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example([Given(value=bytes(size)) for size in (1_048_300, 1_048_400, 1_048_575, 1_048_576, 2**21)])
@given(st.lists(given_records, min_size=1, max_size=30))
def test_the_size_is_what_kafka_makes_of_the_record(
    spark: SparkSession, records: list[Given]
) -> None:
    sized = frame(spark, records).withColumn("size", hub_bytes("eu-1"))
    for row in with_origin_headers(sized, "eu-1").collect():
        assert row["size"] == java_bytes(spark, row)


def test_exactly_the_limit_passes_and_one_byte_more_does_not(spark: SparkSession) -> None:
    for headers in (None, [("a", b"1"), ("b", None)]):
        whole = Given(value=bytes(5_000), headers=headers)
        (row,) = rows(spark, Limits(key_required=True), whole)
        size = java_bytes(spark, row)
        fits, larger = (
            rows(spark, Limits(max_bytes=limit), whole)[0] for limit in (size, size - 1)
        )
        assert (fits["topic"], fits["partition"], headers_of(fits)) == (
            "all.orders",
            3,
            headers_of(row),
        )
        assert (larger["topic"], larger["partition"], bytes(larger["value"])) == (
            "q",
            0,
            whole.value,
        )
        own = headers or []
        assert headers_of(larger) == [
            *own,
            ("quarantine.reason", b"too_large"),
            ("quarantine.hub_topic", b"all.orders"),
            ("quarantine.size", str(size).encode()),
            ("quarantine.kept", b"whole"),
            *headers_of(row)[len(own) :],
        ]


def test_what_does_not_fit_into_quarantine_is_left_out(spark: SparkSession) -> None:
    big = bytes(4_000)
    records = [
        Given(value=big, offset=0),
        Given(value=big, offset=1, headers=[("h", b"1")]),
        Given(value=b"v", offset=2, headers=[("h", big)]),
        Given(key=big, offset=3),
        Given(offset=4),
    ]
    found = {
        int(dict(headers_of(row))["origin.offset"] or b""): row
        for row in rows(spark, Limits(max_bytes=1_000), *records, room=2_000)
    }
    assert [row["topic"] for row in found.values()] == ["q"] * 4 + ["all.orders"]
    kept = [dict(headers_of(found[at])).get("quarantine.kept") for at in range(5)]
    assert kept == [b"key", b"key", b"nothing", b"nothing", None]
    assert [found[at]["key"] for at in range(5)] == [b"k", b"k", None, None, b"k"]
    assert [found[at]["value"] for at in range(5)] == [None, None, None, None, b"v"]
    assert headers_of(found[1])[0] == ("h", b"1")
    assert headers_of(found[2])[0][0] == "quarantine.reason"
    assert int(dict(headers_of(found[2]))["quarantine.size"] or b"") > 4_000
    for row in found.values():
        assert java_bytes(spark, row) <= 2_000


@pytest.mark.parametrize(
    ("limits", "record", "reason"),
    [
        (Limits(key_required=True), Given(key=None), b"no_key"),
        (Limits(key_required=True), Given(key=b""), None),
        (Limits(ahead_ms=3_600_000), Given(timestamp=NOW + DAY), b"timestamp"),
        (Limits(ahead_ms=3_600_000), Given(timestamp=NOW + timedelta(minutes=50)), None),
        (Limits(behind_ms=3_600_000), Given(timestamp=NOW - DAY), b"timestamp"),
        (Limits(behind_ms=3_600_000), Given(timestamp=NOW - timedelta(minutes=50)), None),
        # No timestamp (-1): the hub's record has the time of its arrival.
        (
            Limits(behind_ms=3_600_000),
            Given(timestamp=datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
            None,
        ),
        (Limits(max_bytes=100, key_required=True), Given(key=None), b"no_key"),
        (Limits(max_bytes=100), Given(topic="free", value=bytes(500)), None),
    ],
)
def test_the_reason(
    spark: SparkSession, limits: Limits, record: Given, reason: bytes | None
) -> None:
    (row,) = rows(spark, limits, record)
    assert dict(headers_of(row)).get("quarantine.reason") == reason
    assert (row["topic"] == "q") is (reason is not None)
    assert row["key"] == record.key
    assert row["value"] == record.value


def test_each_topic_has_limits_of_its_own(spark: SparkSession) -> None:
    routes = tuple(
        Route("eu", f"t{limit}", "h", 1, 4, poison=PoisonRule("q", Limits(max_bytes=limit), 9_999))
        for limit in (500, 501, 1_000)
    )
    reading = Reading("eu", "", routes, Positions({SourcePartition("eu", "t500", 0): 0}))
    records = [Given(value=bytes(700), topic=route.topic) for route in routes]
    found = to_hub_rows(frame(spark, records), reading).collect()
    assert [row["topic"] for row in found] == ["q", "q", "h"]


def test_stop_says_which_record_why_and_what_to_do(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as caught:
        rows(spark, Limits(max_bytes=500), Given(), Given(value=bytes(501)), to="")
    for words in (
        "hub topic all.orders",
        "eu/orders-3@41",
        "too_large",
        "topics.on_poison: quarantine",
    ):
        assert words in str(caught.value)
    (row,) = rows(spark, Limits(max_bytes=500), Given(), to="")
    assert row["topic"] == "all.orders"


def test_without_limits_there_is_nothing_to_evaluate(spark: SparkSession) -> None:
    rule = PoisonRule("q", Limits(), 1_000, Limits(max_bytes=5))
    reading = Reading("eu", "", (Route("eu", "orders", "h", 1, 1, poison=rule),), Positions())
    plan = to_hub_rows(frame(spark, [Given()]), reading)._jdf.queryExecution().toString()
    assert "quarantine" not in plan
    assert "CASE WHEN isnull(headers" in plan


def test_the_moment_is_that_of_the_batch(spark: SparkSession) -> None:
    """A bound of now: what was written a moment ago is refused, what is yet to come is not."""
    before = Given(timestamp=datetime.now(UTC) - timedelta(seconds=1), offset=0)
    after = Given(timestamp=datetime.now(UTC) + timedelta(minutes=1), offset=1)
    found = rows(spark, Limits(behind_ms=0), before, after)
    assert [row["topic"] for row in found] == ["q", "all.orders"]
