"""Times beyond Python's range: whether a column holds one, and the column without them.

`collect` fails for a frame that has one of a year beyond 9999 anywhere.
"""

from collections.abc import Callable
from functools import partial, reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

ENDS = {
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp_ntz": ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"),
    "timestamp": ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
}
"""The first and the last that is of the years 1 to 9999."""


IsOdd = Callable[[Column], Column]


def has_odd_time(of: DataType) -> IsOdd | None:
    """Whether a column of this type holds a time outside of those years; None where it cannot."""
    match of:
        case DateType() | TimestampType() | TimestampNTZType():
            kind = of.simpleString()
            first, last = (F.lit(it).cast(kind) for it in ENDS[kind])
            return lambda it: F.coalesce(~it.between(first, last), F.lit(False))
        case ArrayType() | MapType():
            is_map = isinstance(of, MapType)
            inner = has_odd_time(of.valueType if isinstance(of, MapType) else of.elementType)
            if inner is not None:
                return partial(_any, inner, is_map)
        case StructType() if not _has_twins(of):
            found = [(each.name, has_odd_time(each.dataType)) for each in of.fields]
            some = [(name, is_odd) for name, is_odd in found if is_odd is not None]
            if some:
                return lambda it: reduce(Column.__or__, (odd(it[name]) for name, odd in some))
    return None


def _any(is_odd: IsOdd, is_map: bool, column: Column) -> Column:
    found = F.exists(F.map_values(column) if is_map else column, is_odd)
    return F.coalesce(found, F.lit(False))


def without_odd_times(of: DataType, column: Column) -> Column:
    """The column with null in place of each such time."""
    is_odd = has_odd_time(of)
    if is_odd is None:
        return column
    match of:
        case ArrayType():
            return F.transform(column, lambda it: without_odd_times(of.elementType, it))
        case MapType():
            return F.transform_values(column, lambda _, it: without_odd_times(of.valueType, it))
        case StructType():
            fields = (
                without_odd_times(it.dataType, column[it.name]).alias(it.name) for it in of.fields
            )
            return F.when(column.isNotNull(), F.struct(*fields))
    return F.when(~is_odd(column), column)


def _has_twins(of: StructType) -> bool:
    """Whether names differ in case alone: Spark takes neither field of such a struct."""
    return len({it.lower() for it in of.names}) < len(of.names)
