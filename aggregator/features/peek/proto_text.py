"""Parses the text of a .proto file into a descriptor. Pure.

A registry gives Protobuf schemas as text, and the runtime of Protobuf reads descriptors alone:
their compiler is a program of its own. What decodes values is read: messages, enums, fields, maps,
oneofs. What does not is passed over: options, services, extensions.
"""

import re
from typing import Any

from google.protobuf import descriptor_pb2

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<word>[.\w+-]+)|(?P<sign>.)",
    re.DOTALL,
)
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _FIELD.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
_LABELS = {name.removeprefix("LABEL_").lower(): number for name, number in _FIELD.Label.items()}
GROUPS = "groups of Protobuf are not decoded"
_CLOSING = {"{": "}", "[": "]"}


def descriptor_of(name: str, text: str) -> Any:
    """The FileDescriptorProto of a file of this name; ValueError with what was not understood.

    Types that fields name are left as they are: the pool finds them.
    """
    return _Parser(name, text).file()


class _Parser:
    def __init__(self, name: str, text: str) -> None:
        found = (it for it in _TOKEN.finditer(text) if it.lastgroup != "space")
        self._tokens = [it.group() for it in found]
        for option, _, value in zip(self._tokens, self._tokens[1:], self._tokens[2:], strict=False):
            if option.endswith("message_encoding") and value == "DELIMITED":
                raise ValueError(GROUPS)
        self._at = 0
        self._file = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto2")

    def file(self) -> Any:
        while self._at < len(self._tokens):
            match self._next():
                case "syntax":
                    self._file.syntax = _plain(self._assigned())
                case "edition":
                    self._file.syntax = "editions"
                    edition = f"EDITION_{_plain(self._assigned())}"
                    self._file.edition = descriptor_pb2.Edition.Value(edition)
                case "package":
                    self._file.package = self._next()
                    self._take(";")
                case "import":
                    self._import()
                case "message":
                    self._message(self._file.message_type.add())
                case "enum":
                    self._enum(self._file.enum_type.add())
                case ";":
                    pass
                case "option" | "service" | "extend":
                    self._pass_over()
                case other:
                    raise ValueError(f"'{other}' is not understood in the text of the schema")
        return self._file

    def _import(self) -> None:
        name = self._next()
        if name in ("public", "weak"):
            if name == "public":
                self._file.public_dependency.append(len(self._file.dependency))
            name = self._next()
        self._file.dependency.append(_plain(name))
        self._take(";")

    def _message(self, message: Any) -> None:
        message.name = self._next()
        self._take("{")
        while (word := self._next()) != "}":
            match word:
                case "message":
                    self._message(message.nested_type.add())
                case "enum" if self._peek(1) == "{":
                    self._enum(message.enum_type.add())
                case "oneof":
                    self._oneof(message)
                case "option" | "extend" | "reserved" | "extensions":
                    self._pass_over()
                case ";":
                    pass
                case _:
                    self._field(message, word)
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, message: Any) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._next())
        self._take("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._pass_over()
            elif word != ";":
                self._field(message, word).oneof_index = index

    def _field(self, message: Any, word: str) -> Any:
        field = message.field.add(label=_FIELD.LABEL_OPTIONAL)
        if word in _LABELS and self._peek(1) != "=":
            field.label = _LABELS[word]
            field.proto3_optional = word == "optional" and self._file.syntax == "proto3"
            word = self._next()
        if word == "group":
            raise ValueError(GROUPS)
        if word == "map" and self._peek() == "<":
            entry = self._map()
            field.label = _FIELD.LABEL_REPEATED
            field.name = self._next()
            words = re.split(r"_", field.name)
            entry.name = "".join(it[:1].upper() + it[1:] for it in words) + "Entry"
            field.type_name = entry.name
            # In front of messages that follow: some count it to choose one.
            message.nested_type.append(entry)
        else:
            _typed(field, word)
            field.name = self._next()
        field.number = int(self._assigned(behind=False), 0)
        self._end()
        return field

    def _map(self) -> Any:
        entry = descriptor_pb2.DescriptorProto()
        entry.options.map_entry = True
        self._take("<")
        for number, name in enumerate(("key", "value"), 1):
            part = entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
            _typed(part, self._next())
            self._take("," if number == 1 else ">")
        return entry

    def _enum(self, enum: Any) -> None:
        enum.name = self._next()
        self._take("{")
        while (word := self._next()) != "}":
            if word == "option" and self._peek() == "allow_alias":
                enum.options.allow_alias = True
            if word in ("option", "reserved") and self._peek() != "=":
                self._pass_over()
            elif word != ";":
                enum.value.add(name=word, number=int(self._assigned(behind=False), 0))
                self._end()

    def _assigned(self, *, behind: bool = True) -> str:
        self._take("=")
        value = self._next()
        # A sign may stand by itself.
        if value in ("-", "+"):
            value += self._next()
        if behind:
            self._take(";")
        return value

    def _end(self) -> None:
        """The options of a field or of a value of an enum, and the end of it."""
        if self._peek() == "[":
            self._next()
            self._balanced("[")
        self._take(";")

    def _pass_over(self) -> None:
        """To the end of a statement: a semicolon, or a block that is not a value."""
        is_value = False
        while (word := self._next()) != ";":
            is_value = is_value or word == "="
            if word in _CLOSING:
                self._balanced(word)
                if not is_value:
                    return

    def _balanced(self, opened: str) -> None:
        while (word := self._next()) != _CLOSING[opened]:
            if word in _CLOSING:
                self._balanced(word)

    def _peek(self, further: int = 0) -> str:
        at = self._at + further
        return self._tokens[at] if at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise ValueError("the text of the schema ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, expected: str) -> None:
        if (found := self._next()) != expected:
            raise ValueError(f"'{found}' is in the text of the schema where '{expected}' has to be")


def _typed(field: Any, word: str) -> None:
    if word in _SCALARS:
        field.type = _SCALARS[word]
    else:
        field.type_name = word


def _plain(text: str) -> str:
    return text[1:-1]
