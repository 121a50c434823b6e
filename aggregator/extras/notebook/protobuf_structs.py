"""Protobuf in Spark: a struct for each message, made by Python in batches of Arrow.

Spark has a function for it in a jar of its own, which takes one schema for all values.
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aggregator.features.delta_sink.value_columns import MOST_COLUMNS, count_columns
from aggregator.features.peek.decode_value import as_json
from aggregator.features.peek.protobuf_value import (
    MOST_DEEP,
    TIMESTAMP,
    ProtoFile,
    chosen_by,
    class_of,
    is_map,
    message,
    parsed,
    plain,
)
from aggregator.model.errors import AggregatorError

_PYTHON: dict[str, DataType] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), IntegerType()),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), LongType()),
    **dict.fromkeys(("uint64", "fixed64"), DecimalType(20, 0)),
    "bool": BooleanType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "enum": StringType(),
    "bytes": BinaryType(),
}
_NESTED = {"json": True}
"""Marks a message within itself: a type cannot hold itself, so it is shown as a text of JSON."""
Fit = Callable[[Any], Any]


class ProtoReading(NamedTuple):
    """How values are decoded: `name` is the message, of which each file may have a version.

    `files` by the number beside each value. Without `framed` a value is the message.
    """

    files: tuple[ProtoFile, ...]
    name: str
    shape: str
    framed: bool


def reading_of(files: Sequence[ProtoFile], kind: Any, *, framed: bool) -> ProtoReading:
    """What makes structs like this message; AggregatorError for one without a field."""
    shape = struct_of(kind.DESCRIPTOR)
    if not shape.fields:
        raise AggregatorError(f"the message {kind.DESCRIPTOR.full_name} has no field")
    return ProtoReading(tuple(files), kind.DESCRIPTOR.full_name, shape.json(), framed)


def choosing(payload: Column) -> Column:
    """The bytes of a payload that choose the message; of one of very many they are cut off."""
    first = F.conv(F.hex(F.substring(payload, 1, 1)), 16, 10).cast("int")
    count = F.least(F.shiftright(first, 1), F.lit(MOST_DEEP))
    return F.substr(payload, F.lit(1), count + 1)


def message_of(heads: Sequence[tuple[ProtoFile, bytes]], name: str | None) -> Any:
    """The class of the message with the most fields of those that are chosen; None without any.

    With `name` that one, of the file in which it has the most. AggregatorError when none has it.
    """
    found = []
    for file, head in heads:
        try:
            found.append(class_of(file, name) if name else chosen_by(file, head))
        except ValueError as error:
            why = error
    if not found and heads and name:
        raise AggregatorError(str(why))
    return max(found, key=lambda it: len(it.DESCRIPTOR.fields), default=None)


def why_none(file: ProtoFile, head: bytes) -> str:
    """Why a payload that begins so is no message of the file."""
    try:
        chosen_by(file, head)
    except ValueError as error:
        return str(error)
    return ""


def decoded_by(reading: ProtoReading, number: Column, payload: Column) -> Column:
    """A struct for each payload: `value`, and `problem` where that is null."""

    # What kind of function it is, Spark reads from its types.
    def decode(numbers: pa.Array, payloads: pa.Array) -> pa.Array:
        return batch(reading, numbers.to_pylist(), payloads.to_pylist())

    shape = StructType.fromJson(json.loads(reading.shape))
    both = StructType([StructField("value", shape), StructField("problem", StringType())])
    made: Any = arrow_udf(decode, both)  # type: ignore[call-overload]
    found: Column = made(number, payload)
    return found


def batch(
    reading: ProtoReading, numbers: Sequence[int | None], payloads: Sequence[bytes | None]
) -> Any:
    """The structs of a batch, in its order; what has no number is none, and no problem either."""
    kind, fit = _of_shape(reading.shape)
    values: list[Any] = []
    problems: list[str | None] = []
    for number, payload in zip(numbers, payloads, strict=True):
        value = problem = None
        if number is not None and payload is not None:
            try:
                value = fit(_plain(reading, reading.files[number], payload))
            except ValueError as error:
                problem = str(error)
        values.append(value)
        problems.append(problem)
    try:
        column = pa.array(values, kind)
    except (pa.ArrowException, TypeError, OverflowError):
        column = _one_by_one(values, problems, kind)
    return pa.StructArray.from_arrays(
        [column, pa.array(problems, pa.string())], names=["value", "problem"]
    )


def struct_of(kind: Any) -> StructType:
    """The type of a message. Where messages name each other at many places that it would have
    more than `MOST_COLUMNS`, what is nested deepest is text.
    """
    made = _struct(kind, frozenset(), 1)
    for deep in range(2, MOST_DEEP + 1):
        wider = _struct(kind, frozenset(), deep)
        if wider == made or count_columns(wider.jsonValue()) > MOST_COLUMNS:
            break
        made = wider
    return made


def _struct(kind: Any, above: frozenset[str], deep: int) -> StructType:
    """The type with `deep` levels of messages."""
    inner = above | {kind.full_name}
    return StructType([_field(it, inner, deep) for it in kind.fields])


def _field(field: Any, above: frozenset[str], deep: int) -> StructField:
    if is_map(field):
        parts = field.message_type.fields_by_name
        key, value = _type(parts["key"], above, deep), _type(parts["value"], above, deep)
        made: DataType = MapType(key.dataType, value.dataType)
        return StructField(field.name, made, metadata=value.metadata)
    one = _type(field, above, deep)
    made = ArrayType(one.dataType) if field.is_repeated else one.dataType
    return StructField(field.name, made, metadata=one.metadata)


def _type(field: Any, above: frozenset[str], deep: int) -> StructField:
    kind = field.message_type
    if kind is None:
        names = {getattr(field, f"TYPE_{it.upper()}"): it for it in _PYTHON}
        return StructField(field.name, _PYTHON[names[field.type]])
    if kind.full_name == TIMESTAMP:
        return StructField(field.name, TimestampType())
    is_text = kind.full_name in above or deep == 1
    inner = None if is_text else _struct(kind, above, deep - 1)
    # Nor has Arrow's way into Spark a struct without a field.
    if inner is None or not inner.fields:
        return StructField(field.name, StringType(), metadata=_NESTED)
    return StructField(field.name, inner)


def _plain(reading: ProtoReading, file: ProtoFile, payload: bytes) -> dict[str, Any]:
    if not reading.framed:
        return plain(message(payload, class_of(file, reading.name)))
    found = parsed(payload, file)
    name = type(found).DESCRIPTOR.full_name
    if name != reading.name:
        raise ValueError(f"is a {name}, and here are read {reading.name}; reader='{name}' reads it")
    return plain(found)


def _one_by_one(values: list[Any], problems: list[str | None], kind: Any) -> Any:
    """The same where one of them does not fit: its field has another type in its schema."""
    for at, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            values[at], problems[at] = None, f"cannot be read as the others are ({error})"
    return pa.array(values, kind)


@lru_cache(maxsize=64)
def _of_shape(shape: str) -> tuple[Any, Fit]:
    made = StructType.fromJson(json.loads(shape))
    return to_arrow_type(made, timezone="UTC"), _fit_of(made, {}) or _same


def _fit_of(kind: DataType, metadata: dict[str, Any]) -> Fit | None:
    """What makes Arrow take a value of Python as this type; None where it does so anyway."""
    match kind:
        case StructType():
            fits = [(it.name, _fit_of(it.dataType, it.metadata)) for it in kind.fields]
            needed = [(name, fit) for name, fit in fits if fit is not None]
            if not needed:
                return None
            return lambda value: (
                value
                | {name: fit(value[name]) for name, fit in needed if value.get(name) is not None}
            )
        case ArrayType():
            one = _fit_of(kind.elementType, metadata)
            return None if one is None else lambda value: [one(it) for it in value]
        case MapType():
            of = _fit_of(kind.valueType, metadata) or _same
            return lambda value: [(name, of(it)) for name, it in value.items()]
    return as_json if metadata.get("json") else None


def _same(value: Any) -> Any:
    return value
