"""What differs between two schemas, field by field. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from aggregator.kafka.registry.wire_format import NAMED, full_name

NOT_THERE = "not there"
WHOLE = "(as a whole)"
MOST_SHOWN = 8


class Facts(NamedTuple):
    """What a schema says of one field: its type, and the default for a missing value."""

    type: str
    default: str | None = None
    is_optional: bool = False

    def __str__(self) -> str:
        return self.type if self.default is None else f"{self.type} = {self.default}"


class Difference(NamedTuple):
    """One field of which two schemas say different things; None where it is not there."""

    path: str
    one: Facts | None
    other: Facts | None

    @property
    def is_growth(self) -> bool:
        """Whether one of both only has it more, with something for records that lack it."""
        found = self.one or self.other
        return (self.one is None or self.other is None) and bool(found and found.is_optional)

    def words(self, one: str, other: str) -> str:
        """The same as text, with names for the two sides."""
        return f"{self.path}: {self.one or NOT_THERE} {one}, {self.other or NOT_THERE} {other}"


def differences(kinds: tuple[str, str], texts: tuple[str, str]) -> tuple[Difference, ...]:
    """Where two schemas differ, by fields, in the order of the first; `texts` are whole.

    What is not part of a field, such as documentation, does not count as a difference. A text that
    cannot be read differs as a whole.
    """
    if kinds[0] != kinds[1]:
        return (Difference(WHOLE, Facts(kinds[0]), Facts(kinds[1])),)
    if texts[0] == texts[1]:
        return ()
    mine, theirs = (facts_of(kinds[0], it) for it in texts)
    if mine is None or theirs is None:
        return (Difference(WHOLE, Facts("one text"), Facts("another one")),)
    found = [
        Difference(path, mine.get(path), theirs.get(path))
        for path in dict.fromkeys((*mine, *theirs))
        if mine.get(path) != theirs.get(path)
    ]
    return tuple(it for it in found if not _is_below_another(it.path, found))


def facts_of(kind: str, text: str) -> dict[str, Facts] | None:
    """What a whole schema says of each of its fields, by path; None when it cannot be read.

    A path is such as `address.city`, `items[].price`, or `Message.field` of Protobuf; WHOLE has the
    type of all, except of Protobuf.
    """
    try:
        return {"AVRO": _avro, "JSON": _json_schema, "PROTOBUF": _protobuf}[kind](text)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def in_words(found: tuple[Difference, ...], one: str, other: str) -> str:
    """The first of them as one line."""
    shown = [it.words(one, other) for it in found[:MOST_SHOWN]]
    more = len(found) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def _is_below_another(path: str, found: list[Difference]) -> bool:
    """Whether a field above it says the same already."""
    return any(path.startswith((f"{it.path}.", f"{it.path}[")) for it in found)


def _avro(text: str) -> dict[str, Facts]:
    reader = _Avro()
    root = json.loads(text)
    found = {WHOLE: Facts(reader.type(root, ""))}
    found |= reader.fields(root, "", "", ())
    return found


class _Avro:
    """The fields of an Avro schema by their paths, and types in words."""

    def __init__(self) -> None:
        self._defined: dict[str, tuple[Any, str]] = {}

    def type(self, node: Any, space: str) -> str:
        if isinstance(node, str):
            full = full_name(node, space)
            if full in self._defined:
                return self.type(*self._defined[full])
            return node
        if isinstance(node, list):
            return " | ".join(self.type(it, space) for it in node)
        kind = node["type"]
        if not isinstance(kind, str):
            return self.type(kind, space)
        if kind in NAMED:
            name = full_name(str(node["name"]), str(node.get("namespace") or space))
            self._defined[name] = (node, name.rpartition(".")[0])
            inner = [str(it) for it in node.get("symbols", ())]
            inner += [str(node["size"])] if "size" in node else []
            return f"{kind} {name}" + (f"({', '.join(inner)})" if inner else "")
        if kind in ("array", "map"):
            return f"{kind} of {self.type(node['items' if kind == 'array' else 'values'], space)}"
        logical = node.get("logicalType")
        more = [str(node[it]) for it in ("precision", "scale") if it in node]
        inside = f" ({' '.join([str(logical), *more])})" if logical else ""
        return self.type(kind, space) + inside

    def fields(self, node: Any, space: str, path: str, above: tuple[str, ...]) -> dict[str, Facts]:
        """Those of a type, whatever it is made of; `above` are the records around it."""
        if isinstance(node, str):
            full = full_name(node, space)
            if full not in self._defined:
                return {}
            node, space = self._defined[full]
        if isinstance(node, list):
            found: dict[str, Facts] = {}
            records = [it for it in node if it != "null"]
            for it in records:
                mark = f"({self.type(it, space)})" if len(records) > 1 else ""
                found |= self.fields(it, space, path + mark, above)
            return found
        kind = node["type"]
        if kind in ("array", "map"):
            return self.fields(
                node["items" if kind == "array" else "values"], space, f"{path}[]", above
            )
        if kind not in ("record", "error"):
            return {} if isinstance(kind, str) else self.fields(kind, space, path, above)
        self.type(node, space)
        name = full_name(str(node["name"]), str(node.get("namespace") or space))
        if name in above:
            return {}
        space, above, found = name.rpartition(".")[0], (*above, name), {}
        for each in node["fields"]:
            at = f"{path}.{each['name']}" if path else str(each["name"])
            default = json.dumps(each["default"]) if "default" in each else None
            found[at] = Facts(self.type(each["type"], space), default, default is not None)
            found |= self.fields(each["type"], space, at, above)
        return found


def _json_schema(text: str) -> dict[str, Facts]:
    root = json.loads(text)
    return {WHOLE: Facts(_json_type(root)), **dict(_properties(root, root, "", ()))}


def _properties(
    root: Any, node: Any, path: str, above: tuple[str, ...]
) -> Iterator[tuple[str, Facts]]:
    """The properties of an object and of what is in it, local references followed."""
    if not isinstance(node, Mapping):
        return
    pointer = str(node.get("$ref", ""))
    if pointer.startswith("#") and pointer not in above:
        yield from _properties(root, _pointed(root, pointer), path, (*above, pointer))
    for part in node.get("allOf", ()):
        yield from _properties(root, part, path, above)
    required = node.get("required", ())
    for name, each in node.get("properties", {}).items():
        at = f"{path}.{name}" if path else str(name)
        default = None
        if isinstance(each, Mapping) and "default" in each:
            default = json.dumps(each["default"])
        word = "required" if name in required else "optional"
        yield at, Facts(f"{_json_type(each)}, {word}", default, name not in required)
        yield from _properties(root, each, at, above)
    if "items" in node:
        yield from _properties(root, node["items"], f"{path}[]", above)


def _pointed(root: Any, pointer: str) -> Any:
    for part in pointer.removeprefix("#").split("/")[1:]:
        root = root[part.replace("~1", "/").replace("~0", "~")]
    return root


def _json_type(node: Any) -> str:
    if not isinstance(node, Mapping):
        return "anything" if node is True else "nothing"
    kind = node.get("type")
    said = " | ".join(kind) if isinstance(kind, list) else str(kind or "")
    for name in ("$ref", "format", "const", "pattern"):
        if name in node:
            said += f" {name} {node[name]}"
    for name in ("enum", "oneOf", "anyOf"):
        if name in node:
            said += f" {name} {json.dumps(node[name], sort_keys=True)}"
    if isinstance(node.get("items"), Mapping):
        said += f" of {_json_type(node['items'])}"
    return said.strip() or "anything"


PROTOBUF_WORDS = re.compile(
    r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|[A-Za-z_][\w.]*|[-\d.]+|[{}=;<>,\[\]()]', re.DOTALL
)
LABELS = ("repeated", "optional", "required")


def _protobuf(text: str) -> dict[str, Facts]:
    """Fields as `Message.name`, values of enums as `Enum.NAME`; a oneof is no level of its own."""
    words = [it for it in PROTOBUF_WORDS.findall(text) if not it.startswith(("//", "/*"))]
    found: dict[str, Facts] = {}
    levels: list[str] = []
    statement: list[str] = []
    for word in words:
        if word == "{":
            is_named = statement[:1] in (["message"], ["enum"]) and len(statement) > 1
            levels.append(statement[1] if is_named else "")
            statement = []
        elif word == "}":
            levels.pop()
            statement = []
        elif word == ";":
            if levels and (field := _protobuf_field(statement)) is not None:
                found[".".join([*filter(None, levels), field[0]])] = field[1]
            statement = []
        else:
            statement.append(word)
    if levels or not found:
        raise ValueError("no Protobuf that is understood")
    return found


def _protobuf_field(statement: list[str]) -> tuple[str, Facts] | None:
    if "=" not in statement[1:] or statement[0] in ("option", "reserved", "extensions"):
        return None
    at = statement.index("=")
    label = statement[0] if statement[0] in LABELS else ""
    kind = "".join(statement[1 if label else 0 : at - 1])
    number = statement[at + 1] if len(statement) > at + 1 else ""
    said = " ".join(it for it in (label, kind, f"number {number}") if it)
    return statement[at - 1], Facts(said, None, label != "required")
