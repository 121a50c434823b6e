"""Confluent's wire format, and Avro schemas made whole from those that they refer to. Pure.

A value is framed: a zero byte, the schema's id in four bytes, then what the schema describes. Or a
header names the schema, by such an id or by a one and a GUID; then that is all of the value.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

MAGIC = 0
GUID_MAGIC = 1
HEAD = struct.Struct(">bI")
GUID_HEAD = struct.Struct(">b16s")
ID_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""The headers in which newer serializers name the schema of a key and of a value."""
SchemaId = int | UUID
"""An id of one registry; or a GUID, under which each registry has the same schema."""
SchemaKind = Literal["AVRO", "JSON", "PROTOBUF"]

_PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "array", "map")
)
NAMED = frozenset(("record", "error", "enum", "fixed"))
"""The types of Avro that have names of their own."""


class Framed(NamedTuple):
    """A value that names its schema, and what that describes."""

    schema: SchemaId
    payload: bytes


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it was registered; of an Avro schema, with all that it refers to in the text.

    `id`: what it was asked for by.
    `imported`: of Protobuf, the files that it imports, by name, and those that these do.
    """

    id: SchemaId
    kind: SchemaKind
    text: str
    imported: tuple[tuple[str, str], ...] = ()


def id_header(headers: Iterable[tuple[str, bytes | None]], what: str) -> bytes | None:
    """The header that names the schema of a "key" or a "value": of several, the last one."""
    return dict(headers).get(ID_HEADERS[what])


def framed(content: bytes, header: bytes | None = None) -> Framed | None:
    """The parts of a value whose `header` names a schema, or without such a header of one that
    begins as the wire format does; None for any other one.

    Other bytes may begin so by chance: only a registry knows whether there is such a schema.
    """
    if header is None:
        return _headed(content)
    named = _headed(header)
    if named is None and len(header) >= GUID_HEAD.size and header[0] == GUID_MAGIC:
        _, guid = GUID_HEAD.unpack_from(header)
        named = Framed(UUID(bytes=guid), header[GUID_HEAD.size :])
    # What is left of it is how a payload begins elsewhere: which message of Protobuf it is.
    return named and Framed(named.schema, named.payload + content)


def _headed(content: bytes) -> Framed | None:
    if len(content) < HEAD.size or content[0] != MAGIC:
        return None
    _, number = HEAD.unpack_from(content)
    return Framed(number, content[HEAD.size :])


def whole(text: str, referred: Mapping[str, str]) -> str:
    """An Avro schema with the definition of each name that it refers to, where it is first used.

    `referred` are the texts of the schemas by the full names that they define. A name that is not
    among them stays. ValueError for text that is no JSON.
    """
    definitions = {name: json.loads(schema) for name, schema in referred.items()}
    if not definitions:
        json.loads(text)
        return text
    return json.dumps(_Inliner(definitions).of(json.loads(text), ""))


class _Inliner:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._defined: set[str] = set()

    def of(self, node: Any, space: str) -> Any:
        """`node`, in the namespace `space`, with what it refers to."""
        if isinstance(node, str):
            return self._of_name(node, space)
        if isinstance(node, list):
            return [self.of(branch, space) for branch in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("type")
        if not isinstance(kind, str):
            return {**node, "type": self.of(kind, space)}
        if kind in NAMED:
            name = str(node.get("name", ""))
            space = name.rpartition(".")[0] or str(node.get("namespace", "") or space)
            self._defined.add(full_name(name, space))
            if "fields" in node:
                fields = [{**it, "type": self.of(it.get("type"), space)} for it in node["fields"]]
                return {**node, "fields": fields}
            return node
        below = {name: self.of(node[name], space) for name in ("items", "values") if name in node}
        if kind in _PRIMITIVES:
            return {**node, **below}
        found = self._of_name(kind, space)
        return found if isinstance(found, dict) else {**node, "type": found}

    def _of_name(self, name: str, space: str) -> Any:
        for full in (full_name(name, space), name):
            if full in self._defined or full not in self._definitions:
                continue
            # What is written by its full name needs no namespace from around it.
            return self.of(_with_space(self._definitions[full], full), "")
        return name


def full_name(name: str, space: str) -> str:
    """The name of a type of Avro, with its namespace."""
    return name if "." in name or not space else f"{space}.{name}"


def _with_space(definition: Any, full: str) -> Any:
    """A definition that says its namespace itself: around it another one may be in force."""
    if not isinstance(definition, dict) or definition.get("namespace"):
        return definition
    if "." in str(definition.get("name", "")):
        return definition
    return {**definition, "namespace": full.rpartition(".")[0]}
