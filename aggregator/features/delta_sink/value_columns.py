"""Decides the columns of a table of decoded values from the fields of new records. Pure.

A struct is what Spark's `StructType.jsonValue()` makes of it, so nothing here knows Spark.
"""

import re
from dataclasses import dataclass
from typing import Any

Struct = dict[str, Any]
"""{"type": "struct", "fields": [{"name", "type", "nullable", "metadata"}, ...]}."""

MOST_COLUMNS = 2_000
"""Objects whose keys are data, such as ids, would make a column of each."""
MOST_DEEP = 20
"""Readers in Rust take a schema of 128 levels of JSON, three for each level of columns. What is
nested deeper is text."""
TOO_MANY = "there are too many columns"
NO_TYPE = ("void", "null")
INNER = {"array": "elementType", "map": "valueType"}
"""What a list or a map is made of."""
_REFUSED = re.compile(r"[ ,;{}()=\x00-\x1f]")
"""What Delta takes in no name of a column, and control characters: one NUL in a name, and delta-rs
reads nothing of a table."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The struct that the table has from now on; and what stays in the raw value alone, and why."""

    struct: Struct
    left_out: tuple[str, ...] = ()


EMPTY: Struct = {"type": "struct", "fields": []}


def plan_columns(have: Struct, seen: Struct, most: int = MOST_COLUMNS) -> Columns:
    """Add what was `seen` in records behind what a table has. Nothing it has changes its type."""
    left_out: list[str] = []
    room = [most - count_columns(have)]
    merged = _merge_struct(have, _cut(seen, 0), "", room, left_out)
    return Columns(merged, tuple(dict.fromkeys(left_out)))


def count_columns(of: Any) -> int:
    """How many columns a type is made of."""
    if not isinstance(of, dict):
        return 1
    if of.get("type") in INNER:
        return count_columns(of[INNER[of["type"]]])
    return sum(count_columns(field["type"]) for field in of.get("fields", ()))


def _merge_struct(
    have: Struct, seen: Struct, path: str, room: list[int], left_out: list[str]
) -> Struct:
    fields = {field["name"]: field for field in have["fields"]}
    by_lower = {name.lower(): name for name in fields}
    for field in seen["fields"]:
        name = str(field["name"])
        at = f"{path}{name}"
        known = by_lower.get(name.lower())
        if known == name:
            merged = _merge(fields[name]["type"], field["type"], f"{at}.", room, left_out)
            fields[name] = {**fields[name], "type": merged}
            continue
        if known is not None:
            left_out.append(f"{at}: differs from {path}{known} in upper and lower case alone")
            continue
        if not name or _REFUSED.search(name):
            left_out.append(f"{at}: readers of Delta take no such name of a column")
            continue
        if (new := _clean(field["type"], at, left_out)) is None:
            continue
        count = count_columns(new)
        if count > room[0]:
            left_out.append(f"{at}: {TOO_MANY}")
            continue
        room[0] -= count
        by_lower[name.lower()] = name
        fields[name] = {"name": name, "type": new, "nullable": True, "metadata": {}}
    return {"type": "struct", "fields": list(fields.values())}


def _merge(have: Any, seen: Any, path: str, room: list[int], left_out: list[str]) -> Any:
    if have == seen or not isinstance(have, dict) or not isinstance(seen, dict):
        return have
    if have.get("type") == seen.get("type") == "struct":
        return _merge_struct(have, seen, path, room, left_out)
    if have.get("type") == seen.get("type") and have["type"] in INNER:
        of = INNER[have["type"]]
        return {**have, of: _merge(have[of], seen[of], path, room, left_out)}
    return have


def _clean(of: Any, path: str, left_out: list[str]) -> Any:
    """A type of a new column without what has no type yet; None when nothing of it has one."""
    if not isinstance(of, dict):
        return None if of in NO_TYPE else of
    if of.get("type") in INNER:
        inner = _clean(of[INNER[of["type"]]], path, left_out)
        may_be_null = {"array": "containsNull", "map": "valueContainsNull"}[of["type"]]
        return None if inner is None else {**of, INNER[of["type"]]: inner, may_be_null: True}
    endless = [10**9]
    merged = _merge_struct(EMPTY, of, f"{path}.", endless, left_out)
    return merged if merged["fields"] else None


def _cut(of: Any, deep: int) -> Any:
    """A type with text in place of what is nested too deep."""
    if not isinstance(of, dict):
        return of
    if deep > MOST_DEEP:
        return "string"
    if of.get("type") in INNER:
        inner = INNER[of["type"]]
        return {**of, inner: _cut(of[inner], deep + 1)}
    fields = [{**field, "type": _cut(field["type"], deep + 1)} for field in of["fields"]]
    return {**of, "fields": fields}
