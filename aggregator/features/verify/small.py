"""Small tables of the driver as frames, without a Python worker."""

import json
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

Value = str | int | bool | None


def small_frame(spark: SparkSession, rows: Iterable[Sequence[Value]], schema: str) -> DataFrame:
    """A frame of these rows, marked to be broadcast; `schema` is "name type, ...".

    `createDataFrame` would start Python workers: seconds, each time. This is one literal.
    """
    names = [field.split()[0] for field in schema.split(", ")]
    text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    fields = ", ".join(": ".join(field.split()) for field in schema.split(", "))
    parsed = F.from_json(F.lit(text), f"array<struct<{fields}>>", {"mode": "FAILFAST"})
    return F.broadcast(spark.range(0, 1, 1, 1).select(F.inline(parsed)))
