"""Brings a decoded value into the shape of its column: fields by their names, none by its place.

Column functions; runs no action. Types are what Spark's `jsonValue()` makes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from aggregator.features.delta_sink.value_columns import INNER


def fitted(value: Column, seen: Any, want: Any) -> Column:
    """A value of type `seen` as one of type `want`: what does not fit is null."""
    if seen == want:
        return value
    kind = _kind(want)
    if kind != _kind(seen) or (kind == "map" and seen["keyType"] != want["keyType"]):
        return F.lit(None).cast(spark_type(want))
    if kind == "struct":
        have = {field["name"]: field["type"] for field in seen["fields"]}
        parts = (
            fitted(value[name], have[name], of)
            if name in have
            else F.lit(None).cast(spark_type(of))
            for name, of in _fields(want)
        )
        named = (part.alias(name) for part, (name, _) in zip(parts, _fields(want), strict=True))
        return F.when(value.isNotNull(), F.struct(*named))
    if kind == "array":
        return F.transform(value, lambda it: fitted(it, seen["elementType"], want["elementType"]))
    if kind == "map":
        of = seen["valueType"], want["valueType"]
        return F.transform_values(value, lambda _, it: fitted(it, *of))
    return _cast(value, seen, want)


def misfits(value: Column, seen: Any, want: Any) -> Iterator[Column]:
    """Conditions: a part of the value is there, and would be null in its column."""
    if seen == want or _widens(seen, want):
        return
    if _kind(seen) == _kind(want) == "struct":
        have = {field["name"]: field["type"] for field in seen["fields"]}
        for name, of in _fields(want):
            if name in have:
                yield from misfits(value[name], have[name], of)
    elif (kind := _kind(want)) in INNER and kind == _kind(seen):
        # Within a list or a map there is no one value to ask: that there is one has to do.
        inner = misfits(F.lit(None), seen[INNER[kind]], want[INNER[kind]])
        if seen.get("keyType") != want.get("keyType") or any(True for _ in inner):
            yield value.isNotNull()
    elif _kind(seen) != _kind(want) or not _kind(seen):
        yield value.isNotNull()


def spark_type(of: Any) -> DataType:
    """The type that `jsonValue()` has made this of."""
    one = {"name": "it", "type": of, "nullable": True, "metadata": {}}
    return struct_type({"type": "struct", "fields": [one]})["it"].dataType


def struct_type(of: Any) -> StructType:
    """The same of a struct."""
    return StructType.fromJson(of)


def widened(of: Any) -> Any:
    """A type as a column of it is made: whole numbers bigint, others double, all may be null."""
    if not isinstance(of, dict):
        return {"byte": "long", "short": "long", "integer": "long", "float": "double"}.get(of, of)
    kind = _kind(of)
    if kind == "struct":
        fields = [
            {"name": name, "type": widened(it), "nullable": True, "metadata": {}}
            for name, it in _fields(of)
        ]
        return {"type": "struct", "fields": fields}
    if kind == "array":
        return {"type": "array", "elementType": widened(of["elementType"]), "containsNull": True}
    if kind == "map":
        key, value = widened(of["keyType"]), widened(of["valueType"])
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    return of


def _cast(value: Column, seen: Any, want: Any) -> Column:
    if _widens(seen, want):
        return value.cast(spark_type(want))
    return F.lit(None).cast(spark_type(want))


def _widens(seen: Any, want: Any) -> bool:
    if isinstance(seen, dict) or isinstance(want, dict):
        return False
    whole = ("byte", "short", "integer", "long")
    if seen in whole and want in whole:
        return whole.index(seen) <= whole.index(want)
    return (seen, want) in {("float", "double"), ("integer", "double"), ("short", "double")}


def _kind(of: Any) -> str:
    return str(of.get("type")) if isinstance(of, dict) else ""


def _fields(of: Any) -> list[tuple[str, Any]]:
    return [(field["name"], field["type"]) for field in of["fields"]]
