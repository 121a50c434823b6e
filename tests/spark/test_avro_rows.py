"""Avro by Java into columns: what is deep, wide or odd costs a record its value at most."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from aggregator.features.delta_sink.decoders import MISFIT
from aggregator.features.delta_sink.value_columns import EMPTY, plan_columns
from aggregator.kafka.registry.avro_columns import avro_rows, columns_of
from support.frames import frame_of

TOO_DEEP = "is not what schema 7 says: it is nested too deep"
LEVELS = 25
WIDE = 12
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}


def record_of(name: str, **fields: Any) -> dict[str, Any]:
    named = [{"name": name, "type": of} for name, of in fields.items()]
    return {"type": "record", "name": name, "fields": named}


def zigzag(number: int) -> bytes:
    left, found = number * 2 if number >= 0 else -number * 2 - 1, bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


def read(spark: SparkSession, schema: Any, payload: bytes, by: Any = None) -> Row:
    """What one payload says in the columns of its schema, or of one before it."""
    text = json.dumps(schema)
    seen = columns_of(spark, text if by is None else json.dumps(by))
    known = {
        "struct": plan_columns(EMPTY, seen).struct,
        "texts": [text],
        "avro": {"eu/7": {"text": 0, "called": "7"}},
    }
    frame = frame_of(spark, [(payload,)], "payload binary")
    names = [F.lit("eu"), F.lit("7"), F.col("payload")]
    (row,) = frame.select(avro_rows(spark, known, names).alias("it")).collect()
    found: Row = row["it"]
    return found


def test_a_number_is_there_however_deep_and_a_record_that_is_deeper_is_text(
    spark: SparkSession,
) -> None:
    schema = record_of(f"R{LEVELS}", v="int")
    for at in reversed(range(LEVELS - 1)):
        schema = record_of(f"R{at}", v="int", next=schema)
    found = read(spark, schema, b"".join(map(zigzag, range(LEVELS))))
    assert found["error"] is None
    here = found["value"]
    for at in range(20):
        assert here["v"] == at
        here = here["next"]
    assert here["v"] == 20
    deeper = {"v": 21, "next": {"v": 22, "next": {"v": 23, "next": {"v": 24}}}}
    assert json.loads(here["next"]) == deeper


def test_what_is_nested_too_deep_for_text_has_a_reason(spark: SparkSession) -> None:
    tree = record_of("Tree", v="int", next=["null", "Tree"])
    for levels in (2_000, 500_000):
        payload = zigzag(5) + (zigzag(1) + zigzag(5)) * levels + zigzag(0)
        found = read(spark, tree, payload)
        assert (found["value"], found["error"]) == (None, TOO_DEEP)
    # One that a table has no column for is passed over.
    endless = record_of("Endless", next="Endless")
    found = read(spark, endless, b"", by=record_of("Endless", v="int"))
    assert (found["value"], found["error"]) == (None, TOO_DEEP)


def test_a_schema_that_names_records_at_many_places_costs_what_its_columns_do(
    spark: SparkSession,
) -> None:
    schema: Any = "int"
    for at in range(WIDE):
        other = f"R{at - 1}" if at else "int"
        others = {f"f{place}": ["null", other, "string"] for place in range(1, WIDE)}
        schema = record_of(f"R{at}", f0=["null", schema, "string"], **others)
    found = read(spark, schema, zigzag(0) * (WIDE - 1) + zigzag(2) + zigzag(1) + b"x")
    assert found["error"] is None
    assert found["value"][-1]["member_string"] == "x"


def test_a_time_that_its_column_cannot_hold_whole_has_a_reason(spark: SparkSession) -> None:
    before, schema = record_of("T", at=MICROS), record_of("T", at=NANOS)
    found = read(spark, schema, zigzag(1_795_000_000_000_001_000), by=before)
    assert found["error"] is None
    assert found["value"]["at"].timestamp() == 1_795_000_000.000001
    found = read(spark, schema, zigzag(1_795_000_000_000_001_001), by=before)
    assert (found["value"]["at"], found["error"]) == (None, MISFIT)
