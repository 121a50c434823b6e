"""A column that says whether a JSON object has fields that a struct has not (`JsonFields.java`).

The only module that reaches through py4j for it: Spark registers a class of Java by its name, and
this one has to be told what is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

NAME = "aggregator_has_new_field"


def has_new_field(
    spark: SparkSession, value: Column, struct: str, left_out: Sequence[str]
) -> Column:
    """Whether the object in a value (binary) has a field, with a type, that is not known.

    `struct` is `StructType.json()`, `left_out` are paths, as a.b, of fields that nobody wants to
    know of. One struct for a session at a time.
    """
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    paths = gateway.new_array(jvm.java.lang.String, len(left_out))
    for at, path in enumerate(left_out):
        paths[at] = path
    check = jvm.aggregator.connector.JsonFields(struct, paths)
    kind = jvm.org.apache.spark.sql.types.DataTypes.BooleanType
    registry: Any = spark._jsparkSession.udf()
    registry.register(NAME, check, kind)
    return F.call_function(NAME, value)
