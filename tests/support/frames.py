"""Rows as a frame of a Spark session, without Python workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructType


def frame_of(
    spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType | str
) -> DataFrame:
    """A frame of these rows; `schema` as for `createDataFrame`.

    `createDataFrame` itself has a Python worker serialize each partition of a list: a second and
    more on a busy machine, where an Arrow table takes some 0.04 s.
    """
    columns = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    assert isinstance(columns, StructType)
    dicts = [_plain(row, columns) for row in rows]
    return spark.createDataFrame(
        pa.Table.from_pylist(dicts, to_arrow_schema(columns, timezone="UTC")), columns
    )


def _plain(value: Any, kind: DataType) -> Any:
    """A value as Arrow takes it: structs as dictionaries."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        pairs = zip(kind.fields, value, strict=True)
        return {field.name: _plain(each, field.dataType) for field, each in pairs}
    if isinstance(kind, ArrayType):
        return [_plain(each, kind.elementType) for each in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value
