"""Decodes a key or a value: null, text, JSON, Avro or Protobuf by a registry, else bytes. Pure.

Nothing is lost: bytes that cannot be decoded are shown as they are, with the reason.
"""

import io
import json
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any, Literal

import fastavro

from aggregator.kafka.registry.wire_format import Framed, Schema, SchemaId, SchemaKind, framed
from aggregator.model.errors import RegistryError

MOST_BYTES = 2_000
"""How much of a key, value or header is shown at a glance."""

Format = Literal["null", "text", "json", "avro", "protobuf", "bytes"]
FORMATS: dict[SchemaKind, Format] = {"AVRO": "avro", "JSON": "json", "PROTOBUF": "protobuf"}
SchemaOf = Callable[[SchemaId], Schema]
"""The schema of an id or a GUID; RegistryError when it cannot be had."""


@dataclass(frozen=True, slots=True)
class Said:
    """A key or a value in words. `schema` is what it names, `problem` why it is in bytes."""

    text: str | None
    format: Format
    schema: SchemaId | None = None
    problem: str = ""


def decode(
    content: bytes | None,
    schema_of: SchemaOf,
    most: int | None = None,
    header: bytes | None = None,
) -> Said:
    """What these bytes say; cut off after `most` bytes, or characters of what was decoded.

    The mark that some editors write in front of text is no part of it.
    `header` is that which names their schema, of a record that has one.
    """
    if content is None:
        return Said(None, "null")
    if (frame := framed(content, header)) is not None:
        return _of_frame(content, frame, schema_of, most)
    content = content.removeprefix(BOM_UTF8)
    text = shown(content, most)
    if text.startswith("0x") and not content.startswith(b"0x"):
        return Said(text, "bytes")
    return Said(text, "json" if _is_json(content) else "text")


def shown(content: bytes, most: int | None) -> str:
    """Bytes as text where they are text, else in hexadecimal; cut off after `most`."""
    cut = content if most is None else content[:most]
    more = "…" if len(cut) < len(content) else ""
    try:
        # Cut in the midst of a character it still is text.
        text = cut.decode() if not more else cut.decode(errors="ignore")
    except UnicodeDecodeError:
        return f"0x{cut.hex()}{more}"
    printable = all(it.isprintable() or it in "\n\r\t" for it in text)
    return f"{text}{more}" if printable else f"0x{cut.hex()}{more}"


def decoded(payload: bytes, schema: Schema) -> Any:
    """What a schema's payload says, as plain Python; ValueError with the reason when it does not.

    Avro, Protobuf, and JSON that is checked by no schema.
    """
    if schema.kind == "PROTOBUF":
        # Its runtime is loaded for those who have such records.
        from aggregator.features.peek.protobuf_value import ProtoFile, parsed, plain

        return plain(parsed(payload, ProtoFile(schema.text, schema.imported)))
    try:
        if schema.kind == "JSON":
            return json.loads(payload)
        stream = io.BytesIO(payload)
        found = fastavro.schemaless_reader(stream, _parsed(schema.text), None)
    except Exception as error:  # bytes of others can make the decoder raise nearly anything
        reason = str(error) or type(error).__name__
        raise ValueError(f"is not what its schema says: {reason}") from error
    if left := len(stream.read()):
        raise ValueError(f"is not what its schema says: {left} bytes are left over")
    return found


def as_json(value: Any) -> str:
    """What was decoded as a line of JSON; what JSON does not know is shown as text."""
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    # Half a character, as JSON may name one, is no text: it stays as JSON writes it.
    return text.encode(errors="backslashreplace").decode()


@lru_cache(maxsize=512)
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


def _of_frame(content: bytes, frame: Framed, schema_of: SchemaOf, most: int | None) -> Said:
    try:
        schema = schema_of(frame.schema)
        value = decoded(frame.payload, schema)
    except (RegistryError, ValueError) as error:
        cut = content if most is None else content[:most]
        more = "…" if len(cut) < len(content) else ""
        return Said(f"0x{cut.hex()}{more}", "bytes", frame.schema, str(error))
    text = as_json(value)
    if most is not None and len(text) > most:
        text = f"{text[:most]}…"
    return Said(text, FORMATS[schema.kind], frame.schema)


def _is_json(content: bytes) -> bool:
    """Whether it is an object or a list; a number or a word by itself is called text."""
    if not content.lstrip().startswith((b"{", b"[")):
        return False
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return f"0x{value.hex()}"
        case datetime() | date() | time():
            return value.isoformat()
    return str(value)
