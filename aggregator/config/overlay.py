"""Applies `--set a.b=c`: single values over the tree that was read from YAML."""

from collections.abc import Sequence
from typing import Any

from aggregator.config.keys import Shape, locate
from aggregator.config.yaml_text import parse_yaml
from aggregator.model.errors import Problem


def overlay(tree: dict[str, Any], sets: Sequence[str]) -> list[Problem]:
    """Write each `path=value` into the tree, in order; return what could not be written.

    Dots part the path until it reaches a map with free names, such as `hub.kafka`: the rest is
    one name then. Below `topics.overrides` the last part is the key and the rest the hub topic,
    unless the value is a map. A value that is a YAML list, map or quoted text is read as such;
    anything else is text as written.
    """
    problems = []
    for item in sets:
        path, equals, text = item.partition("=")
        parts = path.strip().split(".")
        if not equals or not all(parts):
            problems.append(Problem(f"--set {path}", "is not a.b=c"))
            continue
        value = read_value(text)
        keys = split_path(parts, isinstance(value, dict))
        if problem := _write(tree, keys, value):
            problems.append(problem)
    return problems


def split_path(parts: Sequence[str], is_map: bool) -> list[str]:
    """The keys that a dotted path leads through; names with dots in free maps stay in one piece."""
    found, _ = locate(parts)
    if found is None:
        return list(parts)
    depth = len(found.path)
    head, rest = list(parts[:depth]), list(parts[depth:])
    if found.shape is Shape.SETTINGS and rest:
        return [*head, ".".join(rest)]
    topics = ["topics", "overrides"]
    if list(parts[:2]) == topics and len(parts) > 2:
        below = list(parts[2:])
        if is_map or len(below) == 1:
            return [*topics, ".".join(below)]
        return [*topics, ".".join(below[:-1]), below[-1]]
    return [*head, *rest]


def read_value(text: str) -> Any:
    """The value of a `--set`: YAML where it is a list, a map or quoted, else the text itself."""
    stripped = text.strip()
    if stripped in ("null", "~"):
        return None
    if stripped[:1] in ("[", "{", '"', "'"):
        value, problems = parse_yaml(stripped)
        if not problems:
            return value
    return text


def _write(tree: dict[str, Any], keys: Sequence[str], value: Any) -> Problem | None:
    at = tree
    for index, key in enumerate(keys[:-1]):
        if at.get(key) is None:
            at[key] = {}
        below = at[key]
        if not isinstance(below, dict):
            path = ".".join(keys[: index + 1])
            return Problem(f"--set {'.'.join(keys)}", f"{path} is a value and has nothing below it")
        at = below
    at[keys[-1]] = value
    return None
