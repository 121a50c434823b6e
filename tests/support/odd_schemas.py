"""Avro schemas of every shape with values, and what a landing table says of each.

What a column says is worked out here from the plain numbers, not by the code that is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import strategies as st

MOST = 2**63 - 1
EPOCH = date(1970, 1, 1).toordinal()
MICROS = {"millis": 1_000, "micros": 1}
ODD_TEXT = st.sampled_from(["", "a", "é😀", "\0", '"{}\\\n', "x" * 3000])
WHOLE = st.sampled_from([0, -1, 1, 2**31 - 1, -(2**31)])
LONG = st.one_of(
    WHOLE, st.sampled_from([MOST, -MOST - 1, 1_795_000_000_000, 1_795_000_000_000_000])
)
REAL = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 3.0e38])


class Made(NamedTuple):
    """A schema; its values as they are written; and what a column says of each of them."""

    schema: Any
    write: Any
    said: Any
    is_whole: bool = True


def moment(number: int, micros: int) -> datetime | None:
    """A time, or nothing outside of the years 1 to 9999."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=number * micros)
    except OverflowError:
        return None


def day(number: int) -> date | None:
    """The same of a date."""
    try:
        return date.fromordinal(EPOCH + number)
    except (ValueError, OverflowError):
        return None


def local(number: int, unit: str) -> str | None:
    """A time without a zone, as ISO 8601 has it and Java writes it."""
    at = moment(number, MICROS[unit])
    if at is None:
        return None
    plain = at.replace(tzinfo=None)
    if plain.microsecond % 1000:
        return plain.isoformat(timespec="microseconds")
    if plain.microsecond:
        return plain.isoformat(timespec="milliseconds")
    return plain.isoformat(timespec="seconds" if plain.second else "minutes")


def digits(number: int, scale: int) -> Decimal:
    """A decimal of this scale."""
    return Decimal(number).scaleb(-scale, Context(prec=200))


def logical(of: Any, name: str, **more: int) -> dict[str, Any]:
    """A schema with a logical type."""
    return {**(of if isinstance(of, dict) else {"type": of}), "logicalType": name, **more}


@st.composite
def singles(draw: st.DrawFn, names: Iterator[int]) -> Made:
    """Values of one part."""
    kind = draw(st.sampled_from(SINGLE))
    if kind in ("int", "long"):
        number = draw(WHOLE if kind == "int" else LONG)
        return Made(kind, number, number)
    if kind in ("float", "double"):
        real = draw(REAL.filter(lambda it: kind == "double" or it != 3.0e38))
        return Made(kind, real, real)
    if kind == "string":
        text = draw(ODD_TEXT)
        return Made(kind, text, text)
    if kind == "bytes":
        return Made(kind, b"\0\xff", b"\0\xff")
    if kind == "fixed":
        return Made(_fixed(names, 12), b"0123456789ab", b"0123456789ab")
    if kind == "enum":
        return Made({"type": "enum", "name": f"E{next(names)}", "symbols": ["A", "B"]}, "B", "B")
    if kind == "boolean":
        return Made(kind, True, True)
    return draw(_logicals(kind, names))


@st.composite
def _logicals(draw: st.DrawFn, kind: str, names: Iterator[int]) -> Made:
    number = draw(WHOLE if kind in ("date", "time-millis") else LONG)
    unit = kind.rpartition("-")[2]
    if kind == "date":
        return Made(logical("int", kind), number, day(number), day(number) is not None)
    if kind.startswith("timestamp"):
        at = moment(number, MICROS[unit])
        return Made(logical("long", kind), number, at, at is not None)
    if kind.startswith("local"):
        said = local(number, unit)
        return Made(logical("long", kind), number, said, said is not None)
    if kind == "nanos":
        return Made(logical("long", "timestamp-nanos"), number, number)
    if kind == "time-millis":
        return Made(logical("int", kind), 3_723_004, "01:02:03.004")
    if kind == "uuid":
        one = UUID(int=number & MOST)
        return Made(logical(_fixed(names, 16), kind), one.bytes, str(one))
    if kind == "decimal":
        raw = draw(st.sampled_from([0, -1, 10**37, 1 - 10**38]))
        schema = logical("bytes", kind, precision=38, scale=5)
        return Made(schema, raw.to_bytes(17, "big", signed=True), digits(raw, 5))
    raw = draw(st.sampled_from([5, -(10**50)]))
    schema = logical("bytes", "decimal", precision=60, scale=2)
    return Made(schema, raw.to_bytes(30, "big", signed=True), str(digits(raw, 2)))


def _fixed(names: Iterator[int], size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": f"F{next(names)}", "size": size}


SINGLE = [
    *("boolean", "int", "long", "float", "double", "string", "bytes", "fixed", "enum", "date"),
    *("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"),
    *("nanos", "time-millis", "uuid", "decimal", "large"),
]


@st.composite
def parts(draw: st.DrawFn, names: Iterator[int], deep: int) -> Made:
    """Values of any part."""
    how = draw(st.sampled_from(["one", "one", "list", "map", "maybe", "either", "record"]))
    if deep > 3 or how == "one":
        return draw(singles(names))
    if how == "record":
        return draw(records(names, deep + 1))
    of = draw(parts(names, deep + 1))
    if how == "list":
        return Made(
            {"type": "array", "items": of.schema}, [of.write] * 2, [of.said] * 2, of.is_whole
        )
    if how == "map":
        key = draw(ODD_TEXT)
        write, said = {key: of.write}, {key: of.said}
        return Made({"type": "map", "values": of.schema}, write, said, of.is_whole)
    if isinstance(of.schema, list):
        return of
    if how == "maybe":
        if draw(st.booleans()):
            return Made(["null", of.schema], None, None)
        return Made(["null", of.schema], (_name(of.schema), of.write), of.said, of.is_whole)
    # Of several named types, and one of the others.
    other = draw(records(names, deep + 1))
    if isinstance(of.schema, dict) and of.schema["type"] == "record":
        union = [of.schema, "null", other.schema]
    else:
        union = ["null", other.schema, of.schema]
    member = f"member_{_name(of.schema).lower()}"
    spare = f"member_{other.schema['name'].lower()}"
    said = {member: of.said, spare: None}
    return Made(union, (_name(of.schema), of.write), said, of.is_whole)


def _name(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


@st.composite
def records(draw: st.DrawFn, names: Iterator[int], deep: int = 0) -> Made:
    """Values of a record; its fields have names that no other record has."""
    fields, write, said, is_whole = [], {}, {}, True
    for _ in range(draw(st.integers(1, 4))):
        of = draw(parts(names, deep + 1))
        name = f"f{next(names)}"
        fields.append({"name": name, "type": of.schema})
        write[name], said[name] = of.write, of.said
        is_whole &= of.is_whole
    schema = {"type": "record", "name": f"R{next(names)}", "fields": fields}
    return Made(schema, write, said, is_whole)


@st.composite
def topics(draw: st.DrawFn, most: int) -> list[Made]:
    """The records of a topic, each of a schema of its own."""
    names = count()
    return [draw(records(names)) for _ in range(most)]


def same(found: Any, said: Any) -> bool:
    """Whether a reader says what a column should; readers have maps as pairs."""
    if isinstance(said, dict):
        if isinstance(found, list):
            pairs = [tuple(it.values()) if isinstance(it, dict) else it for it in found]
            found = dict(pairs)
        # A struct of several has fields of other records, which are null.
        return isinstance(found, dict) and all(same(found.get(it), said[it]) for it in said)
    if isinstance(said, list):
        return len(found) == len(said) and all(map(same, found, said))
    if isinstance(said, float):
        return repr(float(found)) == repr(said)
    if isinstance(said, datetime) and found is not None:
        return bool(found.astimezone(UTC) == said)
    if said is None and isinstance(found, dict):
        return all(it is None for it in found.values())
    return bool(found == said)


def unlogical(schema: Any) -> Any:
    """A schema by which the plain numbers are written."""
    if isinstance(schema, list):
        return [unlogical(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: unlogical(it) if name in ("type", "items", "values") else it
        for name, it in {
            **schema,
            "fields": [unlogical(it) for it in schema.get("fields", ())],
        }.items()
        if name != "logicalType" and (it or name != "fields" or "fields" in schema)
    }
