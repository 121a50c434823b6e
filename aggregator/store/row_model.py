"""Derives a table's columns from its model, and turns items into rows and back. Pure."""

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import pyarrow as pa
from pydantic import BaseModel, TypeAdapter

T = TypeVar("T")
INT32 = pa.int32()
"""The column of a number annotated with it."""
PLAIN: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    datetime: pa.timestamp("us", "UTC"),
    Mapping: pa.string(),
}
"""The first that a type is a kind of is its column. What is no text is JSON in a text column."""


class RowModel(Generic[T]):
    """The columns of a pydantic model or a dataclass. The column `at` is always the first.

    Each may be null. A column that a row lacks, or that is null, is the default of its field.
    """

    def __init__(self, model: type[T]) -> None:
        hints = _hints(model)
        names = sorted(hints, key=lambda name: name != "at")
        self.schema = pa.schema([(name, _arrow(hints[name])) for name in names])
        self._json = [name for name in names if _is_json(hints[name])]
        self._adapter = TypeAdapter(model)

    def row(self, item: T) -> dict[str, Any]:
        """An item as a row."""
        row: dict[str, Any] = self._adapter.dump_python(item)
        for name in self._json:
            if row[name] is not None:
                row[name] = json.dumps(row[name], ensure_ascii=False)
        return row

    def item(self, row: Mapping[str, Any]) -> T:
        """A row as an item."""
        known = {it: row[it] for it in self.schema.names if row.get(it) is not None}
        return self._adapter.validate_python(
            {name: json.loads(it) if name in self._json else it for name, it in known.items()}
        )


def _hints(model: type) -> dict[str, Any]:
    if issubclass(model, BaseModel):
        return {name: field.annotation for name, field in model.model_fields.items()}
    return get_type_hints(model, include_extras=True)


def _arrow(hint: Any) -> pa.DataType:
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        return next(it for it in hint.__metadata__ if isinstance(it, pa.DataType))
    if NoneType in arguments:
        return _arrow(arguments[0])
    if kind is tuple:
        return pa.list_(_arrow(arguments[0]))
    if is_dataclass(kind):
        return pa.struct([(name, _arrow(it)) for name, it in _hints(hint).items()])
    return next(arrow for python, arrow in PLAIN.items() if issubclass(kind, python))


def _is_json(hint: Any) -> bool:
    """Whether what is no text is in a text column."""
    kind = hint
    while get_origin(kind) is Annotated or NoneType in get_args(kind):
        kind = get_args(kind)[0]
    text = issubclass(get_origin(kind) or kind, str)
    return not text and pa.types.is_string(_arrow(hint))
