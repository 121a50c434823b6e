"""Which batches are equal at both sides, and the ranges that need not be read."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.features.verify.equal_batches import filter_equal, to_islands
from support.frames import frame_of

SIDES = "sid int, offset bigint, last bigint, hash bigint, hid int, nth bigint"
EQUAL = "sid int, hid int, nth bigint, offset bigint, weight bigint"
Row = tuple[Any, ...]


def source(offset: int, last: int, content: int = 7, sid: int = 0) -> Row:
    return (sid, offset, last, content, None, None)


def hub(offset: int, last: int, nth: int, content: int = 7, sid: int = 0) -> Row:
    return (sid, offset, last, content, 3, nth)


def sorted_rows(frame: DataFrame) -> list[Row]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize(
    ("rows", "equal"),
    [
        ([source(10, 19), hub(10, 19, 109)], [(0, 3, 109, 19, 10)]),
        ([source(10, 19), hub(10, 19, 109, content=8)], []),
        ([source(10, 19), hub(10, 18, 109)], []),
        ([source(10, 19), hub(11, 19, 109)], []),
        ([source(10, 19), hub(10, 19, 109, sid=1)], []),
        ([source(10, 19), hub(10, 19, 109), hub(10, 19, 209)], []),
        ([source(10, 19), hub(10, 19, 109), hub(10, 29, 229)], []),
        ([source(10, 19)], []),
        ([hub(10, 19, 109)], []),
    ],
    ids=[
        "the same",
        "another content",
        "another length",
        "another offset",
        "another partition",
        "twice",
        "twice with another end",
        "only at the source",
        "only at the hub",
    ],
)
def test_a_batch_is_equal_where_each_side_has_it_once(
    spark: SparkSession, rows: list[Row], equal: list[Row]
) -> None:
    assert sorted_rows(filter_equal(frame_of(spark, rows, SIDES))) == equal


def test_ranges_that_touch_are_one_and_a_gap_parts_them(spark: SparkSession) -> None:
    found = frame_of(
        spark,
        [(0, 3, 30, 19, 10), (0, 3, 9, 29, 10), (0, 4, 9, 49, 10), (1, 3, 19, 9, 10)],
        EQUAL,
    )
    first, behind = F.col("offset") - F.col("weight") + 1, F.col("offset") + 1
    at_source = to_islands(found, "sid", first, behind).select("sid", "begin", "end")
    assert sorted_rows(at_source) == [(0, 10, 30), (0, 40, 50), (1, 0, 10)]
    begin, end = F.col("nth") - F.col("weight") + 1, F.col("nth") + 1
    at_hub = to_islands(found, "hid", begin, end).select("hid", "begin", "end")
    assert sorted_rows(at_hub) == [(3, 0, 20), (3, 21, 31), (4, 0, 10)]
