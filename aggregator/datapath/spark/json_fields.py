"""Java column functions over JSON objects: new fields, and where an object ends.

Whether an object has fields that a struct has not says `JsonFields.java`, and whether it can be
read `JsonEnds.java`. The only module that reaches through py4j for it: Spark registers a class
of Java by its name, and the first one needs what is known.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

NAME = "aggregator_has_new_field"
ENDS = "aggregator_json_ends"
CASE = "spark.sql.caseSensitive"


def has_new_field(
    spark: SparkSession, value: Column, struct: str, left_out: Sequence[str]
) -> Column:
    """Whether the object in a value (binary) has a field, with a type, that is not known.

    `struct` is `StructType.json()`, `left_out` are paths, as a.b, of fields not to
    know of. One struct for a session at a time.
    """
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    paths = gateway.new_array(jvm.java.lang.String, len(left_out))
    for at, path in enumerate(left_out):
        paths[at] = path
    _register(spark, NAME, jvm.aggregator.connector.JsonFields(struct, paths), "BooleanType")
    return F.call_function(NAME, value)


def why_no_object(spark: SparkSession, value: Column) -> Column:
    """Why the object that a value (binary) begins with cannot be read; null where it can.

    Something but white space is behind it, or it is nested too deep. Only its brackets are read.
    """
    jvm: Any = spark.sparkContext._jvm
    _register(spark, ENDS, jvm.aggregator.connector.JsonEnds(), "StringType")
    return F.call_function(ENDS, value)


@contextmanager
def by_case(spark: SparkSession) -> Iterator[None]:
    """Names that differ in case alone are of two fields meanwhile."""
    before = spark.conf.get(CASE)
    spark.conf.set(CASE, "true")
    try:
        yield
    finally:
        spark.conf.set(CASE, str(before))


def _register(spark: SparkSession, name: str, function: Any, kind: str) -> None:
    jvm: Any = spark.sparkContext._jvm
    registry: Any = spark._jsparkSession.udf()
    registry.register(name, function, getattr(jvm.org.apache.spark.sql.types.DataTypes, kind))
