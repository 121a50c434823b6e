"""Protobuf schemas of every shape with values, and what a reader says of each.

Bytes are put together here, by the rules of the wire format, so a mistake in how a schema's text is
read cannot hide in the values that are written by it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple

from hypothesis import strategies as st

from aggregator.features.peek.decode_value import as_json

MOST_U, MOST = 2**64 - 1, 2**63 - 1
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
AT = 1_795_000_000
NAMES = ["HasField", "DESCRIPTOR", "ListFields", "message", "optional", "value", "map", "None"]
"""What fields may be called, and classes of Python or the language itself have, too."""
IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto"; '
    for name in ("timestamp", "wrappers", "duration", "struct")
)


class Part(NamedTuple):
    """A type, declared in front; its wire type, one value as bytes, what it says, and the rest.

    `zero` is what a field says that was not written and has no presence, `absent` when it has.
    """

    declared: str
    of: str
    wire: int
    content: bytes
    said: Any
    zero: Any = None
    is_message: bool = False


class Message(NamedTuple):
    """A message's declaration and name, bytes of one, what they say, and what no bytes say."""

    declared: str
    name: str
    content: bytes
    said: dict[str, Any]
    empty: dict[str, Any]


def varint(number: int) -> bytes:
    left, found = number % 2**64, bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


def field(number: int, wire: int, content: bytes) -> bytes:
    """One field; what is of any length has that in front."""
    size = varint(len(content)) if wire == LENGTH else b""
    return varint(number << 3 | wire) + size + content


def zigzag(number: int) -> bytes:
    return varint(number << 1 ^ number >> 63)


SINGLES: dict[str, tuple[int, list[tuple[bytes, Any]], Any]] = {
    "int32": (VARINT, [(varint(-1), -1), (varint(2**31 - 1), 2**31 - 1)], 0),
    "int64": (VARINT, [(varint(MOST), MOST), (varint(-MOST - 1), -MOST - 1)], 0),
    "uint32": (VARINT, [(varint(2**32 - 1), 2**32 - 1)], 0),
    "uint64": (VARINT, [(varint(MOST_U), MOST_U)], 0),
    "sint32": (VARINT, [(zigzag(-(2**31)), -(2**31))], 0),
    "sint64": (VARINT, [(zigzag(-3), -3)], 0),
    "fixed32": (FIXED32, [(b"\xff" * 4, 2**32 - 1)], 0),
    "fixed64": (FIXED64, [(b"\xff" * 8, MOST_U)], 0),
    "sfixed32": (FIXED32, [(b"\xff" * 4, -1)], 0),
    "sfixed64": (FIXED64, [(b"\xfe" + b"\xff" * 7, -2)], 0),
    "bool": (VARINT, [(b"\1", True)], False),
    "float": (FIXED32, [(struct.pack("<f", it), it) for it in (1.5, float("inf"))], 0.0),
    "double": (FIXED64, [(struct.pack("<d", it), it) for it in (-0.25, float("nan"))], 0.0),
    "string": (LENGTH, [(it.encode(), it) for it in ("é😀", "\0", "x" * 3000)], ""),
    "bytes": (LENGTH, [(b"\0\xff", b"\0\xff")], b""),
}
"""Of each type its wire type, values as bytes and as Python, and what an unset field says."""
KNOWN: dict[str, tuple[bytes, Any]] = {
    "Timestamp": (field(1, VARINT, varint(AT)), datetime.fromtimestamp(AT, UTC)),
    "Int64Value": (field(1, VARINT, varint(-5)), {"value": -5}),
    "StringValue": (field(1, LENGTH, b"a"), {"value": "a"}),
    "Duration": (field(2, VARINT, varint(7)), {"seconds": 0, "nanos": 7}),
}
"""Messages that come with the language."""


@st.composite
def parts(draw: st.DrawFn, names: Iterator[int], deep: int) -> Part:
    """A type with a value."""
    kinds = ["single", "single", "enum", "known", "message"]
    kind = draw(st.sampled_from(kinds if deep < 4 else kinds[:4]))
    if kind == "single":
        of = draw(st.sampled_from(sorted(SINGLES)))
        wire, values, zero = SINGLES[of]
        content, said = draw(st.sampled_from(values))
        return Part("", of, wire, content, said, zero)
    if kind == "known":
        of = draw(st.sampled_from(sorted(KNOWN)))
        return Part("", f"google.protobuf.{of}", LENGTH, *KNOWN[of], is_message=True)
    at = next(names)
    if kind == "enum":
        # One of no name says its number.
        number, said = draw(st.sampled_from([(1, f"B{at}"), (77, "77"), (-2, f"C{at}")]))
        declared = f"enum E{at} {{ A{at} = 0; B{at} = 1; C{at} = -2; }}"
        return Part(declared, f"E{at}", VARINT, varint(number), said, f"A{at}")
    made = draw(messages(names, deep + 1))
    return Part(made.declared, made.name, LENGTH, made.content, made.said, is_message=True)


@st.composite
def messages(draw: st.DrawFn, names: Iterator[int], deep: int = 0) -> Message:
    """A message: fields of all kinds, of which some are not written, and perhaps one of itself."""
    own = f"M{next(names)}"
    declared: list[str] = []
    content, said, empty = b"", dict[str, Any](), dict[str, Any]()
    odd = iter(draw(st.permutations(NAMES)))
    for number in range(1, draw(st.integers(1, 4)) + 1):
        one = draw(parts(names, deep + 1))
        how = draw(st.sampled_from(["plain", "plain", "optional", "list", "map", "oneof"]))
        name = next(odd) if draw(st.booleans()) else f"f{next(names)}"
        is_there = draw(st.booleans()) or number == 1
        text, bytes_, value, nothing = _placed(how, one, name, number)
        declared += [one.declared, text]
        content += bytes_ if is_there else b""
        empty |= nothing
        said |= nothing | ({name: value} if is_there else {})
    if draw(st.booleans()):
        # A message within itself, which has nothing of its own.
        declared.append(f"optional {own} self = 100;")
        empty["self"] = None
        content += field(100, LENGTH, b"")
        said["self"] = dict(empty)
    if draw(st.booleans()):
        declared.append("int32 twin = 101; int32 Twin = 102;")
        empty |= {"twin": 0, "Twin": 0}
        for inner in (said, said.get("self")):
            if isinstance(inner, dict):
                inner |= {"twin": 0, "Twin": 0}
        content += field(102, VARINT, b"\5")
        said["Twin"] = 5
    # Of a later version, and not known here.
    content += field(200, LENGTH, b"later")
    text = f"message {own} {{ {' '.join(filter(None, declared))} }}"
    return Message(text, own, content, said, empty)


def _placed(how: str, one: Part, name: str, number: int) -> tuple[str, bytes, Any, dict[str, Any]]:
    """A field: its declaration, its bytes, what they say, and what it says without them."""
    written = field(number, one.wire, one.content)
    if how == "list":
        # Both ways of numbers, one behind the other as some do, and together.
        if one.wire != LENGTH:
            written += field(number, LENGTH, one.content)
        else:
            written *= 2
        return f"repeated {one.of} {name} = {number};", written, [one.said] * 2, {name: []}
    if how == "map":
        pair = field(1, LENGTH, b"k") + field(2, one.wire, one.content)
        text = f"map<string, {one.of}> {name} = {number};"
        return text, field(number, LENGTH, pair), {"k": one.said}, {name: {}}
    if how == "oneof":
        spare = f"bool spare{number} = {number + 50};"
        text = f"oneof o{number} {{ {one.of} {name} = {number}; {spare} }}"
        return text, written, one.said, {name: None, f"spare{number}": None}
    if how == "optional":
        return f"optional {one.of} {name} = {number};", written, one.said, {name: None}
    absent = None if one.is_message else one.zero
    return f"{one.of} {name} = {number};", written, one.said, {name: absent}


def file_of(made: Message) -> str:
    """The text of a file with this message."""
    return f'syntax = "proto3"; {IMPORTS}{made.declared}'


@st.composite
def schemas(draw: st.DrawFn, most: int) -> list[Message]:
    """Messages of different names, each for a file of its own."""
    names = count()
    return [draw(messages(names)) for _ in range(most)]


def same_message(found: Any, said: Any) -> bool:
    """Whether a reader says this of a message; Spark has some messages as text of JSON."""
    if isinstance(said, dict) and isinstance(found, str):
        return bool(json.loads(found) == json.loads(as_json(said)))
    if isinstance(said, dict):
        pairs = dict(found) if isinstance(found, list) else found
        return (
            isinstance(pairs, dict)
            and pairs.keys() == said.keys()
            and all(same_message(pairs[it], said[it]) for it in said)
        )
    if isinstance(said, list):
        return len(found) == len(said) and all(map(same_message, found, said))
    if isinstance(said, float):
        return repr(float(found)) == repr(said)
    if isinstance(said, datetime) and found is not None:
        return bool(found.astimezone(UTC) == said)
    return bool(found == (Decimal(said) if isinstance(found, Decimal) else said))
