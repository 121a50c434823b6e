"""Keys and values of a frame as structs. What cannot be decoded keeps its row, with the reason.

Decoding is done on the JVM: no Python per record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from aggregator.config.schema import Config
from aggregator.errors import AggregatorError, RegistryError
from aggregator.registry import translated_topics
from aggregator.wire.avro import avro_value, incompatible, need_avro, reader_of
from aggregator.wire.named import Written, names, payload, schema_number, schema_of

Format = Literal["json", "avro", "text"]
MOST_SCHEMAS = 200
_BAD = "_not_json"


def decoded(
    frame: DataFrame,
    config: Config,
    format: Format,
    *,
    column: str = "value",
    schema: Any = None,
    reader: Any = None,
    source: str | None = None,
) -> DataFrame:
    """The frame with `<column>_decoded`, and `<column>_problem`: why that is null although there is
    a value.

    - json: by `schema`, a DDL text or a StructType, else by one that is inferred in a first pass.
    - avro: plain, written by `schema` (its JSON text, or that as Python); without one in
      Confluent's wire format: the schemas are those that the values name, asked for at the
      registry of their source (`sources.<alias>.schemas`, else `hub.schemas`), and their ids are
      collected in a first pass. `<column>_schema` is the id. All are read as `reader` says, else as
      that of them by which the most can be read. `source` is where a frame without origin columns
      lies.
    - text: UTF-8.

    Raises AggregatorError for a frame or a schema with which nothing can be decoded.
    """
    if format == "text":
        text = F.try_validate_utf8(F.col(column).cast("string"))
        return _with(frame, column, text, F.lit("is no UTF-8 text"))
    if format == "json":
        return _json(frame, column, schema)
    if format != "avro":
        raise AggregatorError(f"'{format}' is no format: json, avro or text")
    need_avro(frame.sparkSession)
    if schema is not None:
        value = avro_value(F.col(column), _text(schema), None if reader is None else _text(reader))
        return _with(frame, column, value, F.lit("is not what the schema says"))
    return _by_registry(frame, config, column, reader, source)


def _with(frame: DataFrame, column: str, value: Column, problem: Column) -> DataFrame:
    done = frame.withColumn(f"{column}_decoded", value)
    missing = F.col(column).isNotNull() & F.col(f"{column}_decoded").isNull()
    return done.withColumn(f"{column}_problem", F.when(missing, problem))


def _json(frame: DataFrame, column: str, schema: StructType | str | None) -> DataFrame:
    text = F.try_validate_utf8(F.col(column).cast("string"))
    if schema is None:
        if frame.isStreaming:
            raise AggregatorError("a live frame needs a schema: schema='id BIGINT, name STRING'")
        options = {"columnNameOfCorruptRecord": _BAD}
        schema = frame.sparkSession.read.options(**options).json(frame.select(text)).schema
    given = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(given, StructType):
        raise AggregatorError(
            "a schema of JSON is a StructType, or columns: 'id BIGINT, name STRING'"
        )
    fields = [it for it in given.fields if it.name != _BAD]
    if not fields:
        raise AggregatorError(f"no {column} of this frame is a JSON object")
    wanted = StructType([*fields, StructField(_BAD, StringType())])
    found = F.from_json(text, wanted, {"columnNameOfCorruptRecord": _BAD})
    # Once as a column: an expression that stands twice is computed twice.
    done = frame.withColumn(_BAD, found)
    whole = F.when(F.col(_BAD)[_BAD].isNull(), F.col(_BAD).dropFields(_BAD))
    return _with(done, column, whole, F.lit("is no JSON object of this schema")).drop(_BAD)


def _by_registry(
    frame: DataFrame, config: Config, column: str, reader: Any, source: str | None
) -> DataFrame:
    if frame.isStreaming:
        raise AggregatorError("which schemas a live frame will name is not known: give a schema")
    spark = frame.sparkSession
    origin = F.col("origin_cluster") if "origin_cluster" in frame.columns else F.lit(source)
    if source is None and "topic" in frame.columns:
        default, others = translated_topics(config)
        is_other = F.col("topic").isin(*others) if others else F.lit(False)
        # Their ids are the hub's, wherever they came from.
        origin = F.when(is_other != F.lit(default), F.lit(None)).otherwise(origin)
    number = schema_number(column)
    schemas, reasons = _schemas(frame, config, origin, number, source)
    chosen = None if reader is None else _text(reader)
    if chosen is None and schemas:
        chosen = reader_of(spark, list(schemas.values()))
    cases: Column | None = None
    for written, text in schemas.items():
        if chosen is None or (why := incompatible(spark, chosen, text)):
            reasons[written] = f"cannot be read as the others are ({why}); decode it by itself"
            continue
        here = names(written, origin, number)
        one = avro_value(payload(column), text, chosen)
        cases = F.when(here, one) if cases is None else cases.when(here, one)
    # Without any of them there is no type either.
    value = F.lit(None).cast("string") if cases is None else cases
    problem = F.when(number.isNull(), F.lit("is not in the wire format: no zero byte and an id"))
    for written, reason in reasons.items():
        problem = problem.when(names(written, origin, number), F.lit(reason))
    for written in schemas:
        problem = problem.when(
            names(written, origin, number), F.lit(f"is not what schema {written.number} says")
        )
    late = F.lit("names a schema that no value named when the ids were collected")
    done = frame.withColumn(f"{column}_schema", number)
    return _with(done, column, value, problem.otherwise(late))


def _schemas(
    frame: DataFrame, config: Config, origin: Column, number: Column, source: str | None
) -> tuple[dict[Written, str], dict[Written, str]]:
    """The schemas that the values name, and why some cannot be had."""
    named = frame.select(origin.alias("origin"), number.alias("number")).where("number is not null")
    rows = named.distinct().limit(MOST_SCHEMAS + 1).collect()
    if len(rows) > MOST_SCHEMAS:
        raise AggregatorError(
            f"values name more than {MOST_SCHEMAS} schemas, so these are hardly in the wire "
            "format; else decode a part of the frame at a time"
        )
    found: dict[Written, str] = {}
    failed: dict[Written, str] = {}
    for written in sorted((Written(*row) for row in rows), key=lambda it: (it.number, str(it))):
        try:
            schema = schema_of(config, written, source)
            if schema.kind != "AVRO":
                raise RegistryError(f"schema {written.number} is of type {schema.kind}, not Avro")
        except RegistryError as error:
            failed[written] = str(error)
        else:
            found[written] = schema.text
    return found, failed


def _text(schema: str | Mapping[str, Any]) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)
