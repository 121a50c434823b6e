"""Avro by many schemas into one struct: what columns a schema has, and a column that reads all.

The only module that reaches through py4j for it: both are in the connector's Java.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

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
