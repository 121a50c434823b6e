"""Which schema a key or a value names, as columns: by its first bytes, and by a header."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from aggregator.extras.notebook.protobuf_structs import choosing
from aggregator.kafka.registry import ID_HEADERS
from aggregator.kafka.registry.schemas_of_frame import (
    Written,
    as_written,
    header_of,
    names,
    payload,
    schema_name,
    schema_number,
)
from support.frames import frame_of

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
VALUE = ID_HEADERS["value"]
BY_GUID, BY_ID = b"\1" + GUID.bytes, b"\0\0\1\0\2"
HEADED = b"\0\xff\xff\xff\xffrest"
HIGHEST = 2**32 - 1
Headers = Sequence[tuple[str, bytes | None]] | None
CASES: list[tuple[bytes | None, Headers, int | UUID | None, bytes | None]] = [
    (HEADED, None, HIGHEST, b"rest"),
    (HEADED, [], HIGHEST, b"rest"),
    (HEADED, [("other", BY_GUID), (ID_HEADERS["key"], BY_GUID)], HIGHEST, b"rest"),
    (HEADED, [(VALUE, BY_ID), ("other", None), (VALUE, BY_GUID)], GUID, HEADED),
    (b"rest", [(VALUE, BY_GUID), (VALUE, BY_ID)], 2**16 + 2, b"rest"),
    (b"rest", [(VALUE, BY_GUID + b"\2\2")], GUID, b"\2\2rest"),
    (HEADED, [(VALUE, BY_ID), (VALUE, None)], HIGHEST, b"rest"),
    (b"rest", [(VALUE, b"\1" + UUID(int=5).bytes)], UUID(int=5), b"rest"),
    (None, [(VALUE, BY_GUID)], None, None),
]
"""A value, its headers, the schema that it names, and what that describes."""
NAMELESS: list[tuple[bytes, Headers]] = [
    (b"\0\0\0\1", None),
    (b"\1\0\0\0\1x", None),
    *((HEADED, [(VALUE, odd)]) for odd in (b"", BY_ID[:-1], BY_GUID[:-1], b"\2" + GUID.bytes)),
]
AS_READ = "value binary, headers array<struct<key:string,value:binary>>"
AS_MAP = "value binary, headers map<string,binary>"


@pytest.mark.parametrize("schema", [AS_READ, AS_MAP])
def test_a_header_names_the_schema_and_else_the_first_bytes(
    spark: SparkSession, schema: str
) -> None:
    cases = [*CASES, *((value, headers, None, b"-") for value, headers in NAMELESS)]
    rows = [
        (it, headers if headers is None or schema == AS_READ else dict(headers))
        for it, headers, *_ in cases
    ]
    frame = frame_of(spark, rows, schema).coalesce(1)
    header = header_of(frame, "value")
    name, content = schema_name("value", header), payload("value", header)
    by_guid = names(Written("eu", GUID), F.lit("eu"), name)
    found = frame.select(
        name.alias("named"),
        content.alias("content"),
        by_guid.alias("by_guid"),
        schema_number(name).alias("number"),
        choosing(content).alias("chosen"),
    ).collect()
    for row, (_, _, expected, described) in zip(found, cases, strict=True):
        assert (row.named and as_written("eu", row.named)) == (
            None if expected is None else Written("eu", expected)
        )
        assert (row.by_guid or False) == (expected == GUID)
        assert row.number == (expected if isinstance(expected, int) else None)
        if described != b"-":
            assert row.content == described
        if described == b"\2\2rest":
            assert row.chosen == b"\2\2"


def test_a_frame_without_headers_and_another_column_have_no_such_header(
    spark: SparkSession,
) -> None:
    rows = [(HEADED, [(VALUE, BY_GUID)])]
    whole = frame_of(spark, rows, AS_READ)
    bare = whole.select("value")
    named = schema_name("value", header_of(bare, "value"))
    assert bare.select(named.alias("it")).first() == (str(HIGHEST),)
    before = whole.withColumnRenamed("value", "before")
    named = schema_name("before", header_of(before, "before"))
    assert before.select(named.alias("it")).first() == (str(HIGHEST),)
