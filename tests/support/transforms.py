"""Transforms for tests: good ones and broken ones."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

NO_FUNCTION = 1


def only_even_in_capitals(records: DataFrame) -> DataFrame:
    """Keep the records of even offsets, with their value in capitals."""
    even = records.filter(F.pmod("offset", F.lit(2)) == 0)
    return even.withColumn("value", F.upper(F.col("value").cast("string")).cast("binary"))


def timestamp_as_value(records: DataFrame) -> DataFrame:
    """The value is the year that the record is of, or `none`."""
    year = F.coalesce(F.year("timestamp").cast("string"), F.lit("none"))
    return records.withColumn("value", year.cast("binary"))


def value_as_text(records: DataFrame) -> DataFrame:
    """Break the schema: the value is no longer binary."""
    return records.withColumn("value", F.col("value").cast("string"))


def without_headers(records: DataFrame) -> DataFrame:
    """Break the schema: the headers are gone."""
    return records.drop("headers")


def unknown_column(records: DataFrame) -> DataFrame:
    """Fail: there is no such column."""
    return records.withColumn("value", F.col("nothing"))


def nothing(_records: DataFrame) -> None:
    """Return no frame at all."""


def reshuffled(frame: DataFrame) -> DataFrame:
    """Rows go through a shuffle."""
    return frame.repartition(2)


def once_each(frame: DataFrame) -> DataFrame:
    """Rows are kept to be compared."""
    return frame.dropDuplicates(["key"])


def through_python(frame: DataFrame) -> DataFrame:
    """Rows are sent through a Python process, many at once."""
    same = F.udf(lambda value: value, "binary", useArrow=False)
    return frame.withColumn("value", same("value"))


def twice(frame: DataFrame) -> DataFrame:
    """A record becomes two."""
    return frame.withColumn("copy", F.explode(F.array(F.lit(1), F.lit(2)))).drop("copy")


def sorted_by_key(frame: DataFrame) -> DataFrame:
    """Rows in another order."""
    return frame.sort("key")
