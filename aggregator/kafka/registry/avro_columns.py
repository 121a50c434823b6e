"""Decodes Avro columns in Spark by one schema or by many, and finds one that can read the others.

The only module that reaches through py4j for it: Spark hands out neither Avro's parser nor its
rules of compatibility, and what reads by many schemas is in the connector's Java.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from aggregator.model.errors import AggregatorError

_WRAP = "value"


def need_avro(spark: SparkSession) -> None:
    """Raise AggregatorError when the session has no Avro."""
    if "spark-avro" not in spark.conf.get("spark.jars", ""):  # type: ignore[operator]
        raise AggregatorError(
            "this session cannot read Avro: open it by open_hub or open_session; where the jars "
            "are in a folder, `aggregator jars --set avro --download FOLDER` adds what is missing"
        )


def avro_value(payload: Column, writer: str, reader: str | None) -> Column:
    """What a payload says, in the shape of `reader`, else of `writer`; null when it cannot be read.

    Spark makes a row of nulls out of what cannot be read. In a record of one field, which is
    written as its field alone, only that one is null.
    """
    options = {"mode": "PERMISSIVE"}
    if reader is not None:
        options["avroSchema"] = _wrapped(reader)
    return from_avro(payload, _wrapped(writer), options)[_WRAP]


def no_column(spark: SparkSession, schema: str, reader: str | None = None) -> str:
    """Why Spark has no column for what is written by a schema; nothing when it has.

    Whatever a registry holds: no JSON, no Avro, a record within itself, a decimal of many digits.
    """
    try:
        spark.range(0).select(avro_value(F.lit(None).cast("binary"), schema, reader))
    except (Py4JJavaError, PySparkException, ValueError, RecursionError) as error:
        said = error.java_exception if isinstance(error, Py4JJavaError) else error
        return " ".join(str(said).split())
    return ""


def incompatible(spark: SparkSession, reader: str, writer: str) -> str:
    """Why what was written by one schema cannot be read as another says; nothing when it can."""
    jvm: Any = spark.sparkContext._jvm
    parsed = [getattr(jvm.org.apache.avro, "Schema$Parser")().parse(it) for it in (reader, writer)]
    check = jvm.org.apache.avro.SchemaCompatibility.checkReaderWriterCompatibility(*parsed)
    if str(check.getType()) == "COMPATIBLE":
        return ""
    found = check.getResult().getIncompatibilities()
    return "; ".join(f"{it.getLocation()} {it.getMessage()}" for it in found)


def reader_of(spark: SparkSession, writers: Sequence[str]) -> str:
    """The schema that can read the most of what all of them have written, the last of those."""

    def read(candidate: str) -> int:
        return sum(not incompatible(spark, candidate, it) for it in writers)

    distinct = list(dict.fromkeys(writers))
    return max(reversed(distinct), key=lambda it: (read(it), _fields(it)))


def _fields(schema: str) -> int:
    plain = json.loads(schema)
    return len(plain.get("fields", ())) if isinstance(plain, dict) else 0


def _wrapped(schema: str) -> str:
    field = {"name": _WRAP, "type": json.loads(schema)}
    return json.dumps({"type": "record", "name": "AggregatorValue", "fields": [field]})


NAME = "aggregator_avro_rows"


def columns_of(spark: SparkSession, schema: str) -> dict[str, Any]:
    """The struct, as Spark's `jsonValue()`, that values of a schema become.

    ValueError with the reason when it is no schema of Avro.
    """
    jvm: Any = spark.sparkContext._jvm
    try:
        return dict(json.loads(jvm.aggregator.connector.AvroTypes.structOf(schema)))
    except Py4JJavaError as error:
        said = error.java_exception
        reason = str(said.getMessage() or said.getClass().getSimpleName())
        raise ValueError(reason.splitlines()[0]) from error


def avro_rows(spark: SparkSession, known: Mapping[str, Any], parts: Sequence[Column]) -> Column:
    """A struct of `value`, in the shape of a table's struct, and `error`, why it is null.

    `known` is as `AvroRows.java` says. `parts` are the registry's cluster (text or null), the name
    of the schema, and the payload. One of them for a session at a time.
    """
    jvm: Any = spark.sparkContext._jvm
    text = {"name": "error", "type": "string", "nullable": True, "metadata": {}}
    value = {"name": "value", "type": known["struct"], "nullable": True, "metadata": {}}
    of = json.dumps({"type": "struct", "fields": [value, text]})
    java: Any = spark._jsparkSession
    java.udf().register(
        NAME,
        jvm.aggregator.connector.AvroRows(json.dumps(known)),
        jvm.org.apache.spark.sql.types.DataType.fromJson(of),
    )
    return F.call_function(NAME, *parts)
