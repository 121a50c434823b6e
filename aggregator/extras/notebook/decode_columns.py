"""Keys and values of a frame as structs. What cannot be decoded keeps its row, with the reason.

Decoding is done on the JVM, without Python per record; that of Protobuf in Python, in batches.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from aggregator.config.schema import Config
from aggregator.datapath.spark.headers import by_case, why_no_object
from aggregator.extras.notebook.odd_times import has_odd_time, without_odd_times
from aggregator.extras.notebook.schemas_of_values import named_by
from aggregator.features.delta_sink.decoders import text_of
from aggregator.kafka.registry import Schema
from aggregator.kafka.registry.avro_columns import (
    avro_value,
    incompatible,
    need_avro,
    no_column,
    reader_of,
)
from aggregator.kafka.registry.schemas_of_frame import Written
from aggregator.model.errors import AggregatorError

Format = Literal["json", "avro", "protobuf", "json_schema", "text"]
_BAD = f"_not_json_{uuid4().hex}"
"""No record has a field of this name: Spark would read nothing of the frame."""
_ENDS = f"_ends_{uuid4().hex}"
_FOUND = "_found"
_NO_OBJECT = "is no JSON object of this schema"
_ODD_TIME = "holds a time outside of the years 1 to 9999, which is null here"


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
    a value, or a time in it.

    - json: by `schema`, a DDL text or a StructType, else by one that is inferred in a first pass.
    - avro: plain, written by `schema` (its JSON text, or that as Python); without one in
      Confluent's wire format, or named in `headers`: the schemas are those that the values name,
      asked for at the registry of their source (`sources.<alias>.schemas`, else `hub.schemas`),
      and their ids are collected in a first pass. `<column>_schema` is the id, null where a GUID
      names it. All are read as `reader` says, else as
      that of them by which the most can be read. `source` is where a frame without origin columns
      lies.
    - protobuf: the same. `schema` is the text of a .proto file, `reader` a message's full name;
      without one it is the message with the most fields of those that values name, or the first of
      `schema`.
    - json_schema: JSON in the wire format, by `schema` as with json. The registry has to know the
      id, and the value is not checked by what it knows.
    - text: UTF-8.

    Raises AggregatorError for a frame or a schema with which nothing can be decoded.
    """
    if format == "text":
        text = F.try_validate_utf8(F.col(column).cast("string"))
        return _with(frame, column, text, F.lit("is no UTF-8 text"))
    if format == "json":
        return _json(frame, column, schema, F.col(column))
    if format == "json_schema":
        return _json_by_registry(frame, config, column, schema, source)
    if format == "protobuf":
        if schema is not None:
            return _protobuf(frame, column, str(schema), reader)
        return _protobuf_by_registry(frame, config, column, reader, source)
    if format != "avro":
        raise AggregatorError(f"'{format}' is no format: {', '.join(get_args(Format))}")
    need_avro(frame.sparkSession)
    if schema is not None:
        value = avro_value(F.col(column), _text(schema), None if reader is None else _text(reader))
        return _with(frame, column, value, F.lit("is not what the schema says"))
    return _avro_by_registry(frame, config, column, reader, source)


def _with(frame: DataFrame, column: str, value: Column, problem: Column) -> DataFrame:
    done = frame.withColumn(f"{column}_decoded", value)
    missing = F.col(column).isNotNull() & F.col(f"{column}_decoded").isNull()
    return done.withColumn(f"{column}_problem", F.when(missing, problem))


def _with_sane_times(frame: DataFrame, column: str) -> DataFrame:
    """The frame with null in place of times that Python lacks: one of them fails `collect`."""
    name, problem = f"{column}_decoded", f"{column}_problem"
    of = frame.schema[name].dataType
    is_odd = has_odd_time(of)
    if is_odd is None:
        return frame
    why = F.when(F.col(name).isNotNull() & is_odd(F.col(name)), F.lit(_ODD_TIME))
    named = frame.withColumn(problem, F.coalesce(F.col(problem), why))
    return named.withColumn(name, without_odd_times(of, F.col(name)))


def _json(
    frame: DataFrame,
    column: str,
    schema: StructType | str | None,
    content: Column,
    problem: Column | str = _NO_OBJECT,
) -> DataFrame:
    # Spark reads one value and passes over what is behind it: that is no JSON, as in the tables.
    ends = why_no_object(frame.sparkSession, text_of(content).cast("binary"))
    frame = frame.withColumn(_ENDS, ends)
    text = F.when(F.col(_ENDS).isNull(), F.try_validate_utf8(text_of(content)))
    if schema is None:
        if frame.isStreaming:
            raise AggregatorError("a live frame needs a schema: schema='id BIGINT, name STRING'")
        reader = frame.sparkSession.read.options(columnNameOfCorruptRecord=_BAD)
        # Else of two fields whose names differ in case alone one would be null in all rows.
        with by_case(frame.sparkSession):
            schema = reader.json(frame.select(text)).schema
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
    # Once as a column: an expression used twice is computed twice.
    done = frame.withColumn(_BAD, found)
    whole = F.when(F.col(_BAD)[_BAD].isNull(), F.col(_BAD).dropFields(_BAD))
    why = F.coalesce(F.col(_ENDS), F.lit(problem))
    return _with(done, column, whole, why).drop(_BAD, _ENDS)


def _avro_by_registry(
    frame: DataFrame, config: Config, column: str, reader: Any, source: str | None
) -> DataFrame:
    named = named_by(frame, config, column, "AVRO", source)
    spark = frame.sparkSession
    chosen = None if reader is None else _text(reader)
    readable = dict[Written, Schema]()
    for written, schema in named.schemas.items():
        if why := no_column(spark, schema.text):
            named.reasons[written] = f"schema {written.schema} makes no column of Spark: {why}"
        else:
            readable[written] = schema
    if chosen is None and readable:
        chosen = reader_of(spark, [it.text for it in readable.values()])
    cases: Column | None = None
    for written, schema in readable.items():
        if chosen is None or (why := incompatible(spark, chosen, schema.text)):
            reason = f"cannot be read as the others are ({why}); decode it by itself"
            named.reasons[written] = reason
            continue
        one = avro_value(named.payload, schema.text, chosen)
        here = named.by(written)
        cases = F.when(here, one) if cases is None else cases.when(here, one)
    # Without any of them there is no type either.
    value = F.lit(None).cast("string") if cases is None else cases
    done = frame.withColumn(f"{column}_schema", named.number)
    misread = {it: f"is not what schema {it.schema} says" for it in readable}
    found = _with(done, column, value, named.problem(misread))
    return _with_sane_times(found, column)


def _json_by_registry(
    frame: DataFrame, config: Config, column: str, schema: Any, source: str | None
) -> DataFrame:
    named = named_by(frame, config, column, "JSON", source)
    problem = named.problem(dict.fromkeys(named.schemas, _NO_OBJECT))
    content = F.when(named.by_any(named.schemas), named.payload)
    done = frame.withColumn(f"{column}_schema", named.number)
    return _json(done, column, schema, content, problem)


def _protobuf(frame: DataFrame, column: str, text: str, reader: Any) -> DataFrame:
    # Here and below: its runtime is loaded for those who have such records.
    from aggregator.extras.notebook.protobuf_structs import decoded_by, reading_of
    from aggregator.features.peek.protobuf_value import ProtoFile, class_of

    file = ProtoFile(text)
    try:
        kind = class_of(file, reader or "")
    except ValueError as error:
        raise AggregatorError(f"the schema of Protobuf: {error}") from error
    reading = reading_of([file], kind, framed=False)
    done = frame.withColumn(_FOUND, decoded_by(reading, F.lit(0), F.col(column)))
    found = F.col(_FOUND)
    return _with(done, column, found["value"], found["problem"]).drop(_FOUND)


def _protobuf_by_registry(
    frame: DataFrame, config: Config, column: str, reader: Any, source: str | None
) -> DataFrame:
    from aggregator.extras.notebook.protobuf_structs import (
        choosing,
        decoded_by,
        message_of,
        reading_of,
        why_none,
    )
    from aggregator.features.peek.protobuf_value import ProtoFile

    named = named_by(frame, config, column, "PROTOBUF", source, choosing)
    files = {it: ProtoFile(found.text, found.imported) for it, found in named.schemas.items()}
    kind = message_of([(files[it], head) for it, head in named.heads if it in files], reader)
    done = frame.withColumn(f"{column}_schema", named.number)
    if kind is None:
        for written, head in named.heads:
            if written in files:
                named.reasons[written] = why_none(files[written], head)
        # Without a message there is no type either.
        return _with(done, column, F.lit(None).cast("string"), named.problem({}))
    at = F.lit(None).cast("int")
    for index, written in enumerate(files):
        at = F.when(named.by(written), F.lit(index)).otherwise(at)
    reading = reading_of(tuple(files.values()), kind, framed=True)
    done = done.withColumn(_FOUND, decoded_by(reading, at, named.payload))
    found = F.col(_FOUND)
    problem = named.problem(dict.fromkeys(files, found["problem"]))
    return _with(done, column, found["value"], problem).drop(_FOUND)


def _text(schema: str | Mapping[str, Any]) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)
