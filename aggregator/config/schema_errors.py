"""Validation errors in plain words: path, reason, and what to write instead."""

from collections.abc import Callable, Iterator, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from aggregator.config.keys import Shape, locate, nearest, node_at, suggest
from aggregator.config.mask import hide_passwords, is_secret
from aggregator.config.node import Bytes, Seconds
from aggregator.config.values import UNITS
from aggregator.model.errors import Problem

_EXAMPLES = {
    "hub": "hub: {bootstrap_servers: host:9092}",
    "sources": 'sources: {eu: {bootstrap_servers: host:9092, topics: {include: ".*"}}}',
    "bootstrap_servers": "bootstrap_servers: host:9092",
    "topics": 'topics: {include: "orders|payments[.].*"}',
    "include": 'include: "orders|payments[.].*"',
}
_SECONDS, _BYTES = get_args(Seconds)[1], get_args(Bytes)[1]
_MANY_TO_SHOW = 60


def translate(error: ValidationError, above: tuple[str, ...] = ()) -> list[Problem]:
    """One problem per path that the error names, in its order; `above` is put before each path.

    Values of secret settings are never part of a problem.
    """
    problems: dict[str, Problem] = {}
    for detail in error.errors():
        keys = _concrete((*above, *detail["loc"]))
        path = dotted(keys)
        if path not in problems:
            problems[path] = _problem(detail, keys, path)
    return list(problems.values())


def dotted(keys: Sequence[str | int]) -> str:
    """A path as people write it: `sources.eu.topics.include[2]`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def _concrete(loc: Sequence[str | int]) -> list[str | int]:
    """The location without what only the types know, such as the branch of a union."""
    found, used = locate(loc)
    keys = list(loc[:used])
    rest = list(loc[used:])
    if found is None or (found.node is not None and rest and rest[0] != "[key]"):
        return [*keys, *rest[:1]]
    return [*keys, *(part for part in rest if isinstance(part, int))]


def _problem(detail: ErrorDetails, keys: list[str | int], path: str) -> Problem:
    kind, value = detail["type"], detail["input"]
    names = [str(key) for key in keys]
    found, used = locate(keys)
    if isinstance(keys[-1], int) and kind in ("extra_forbidden", "missing"):
        # A part of an item of a list.
        key = detail["loc"][-1]
        reason = f"{key} is required" if kind == "missing" else f"unknown key {key}"
        return Problem(path, reason)
    if kind == "extra_forbidden":
        return Problem(path, "unknown key", suggest(names))
    if kind == "missing":
        example = _EXAMPLES.get(names[-1], "")
        return Problem(path, "is required", f"write {example}" if example else "")
    if kind == "value_error":
        return Problem(path, hide_passwords(str(detail["ctx"]["error"])))
    if kind in ("string_too_short", "too_short"):
        example = _EXAMPLES.get(names[-1], "")
        least = detail["ctx"]["min_length"]
        reason = "must not be empty" if least == 1 else f"must have at least {least} characters"
        return Problem(path, reason, f"write {example}" if example else "")
    shown = _shown(value, names[-1])
    if found is None:
        return Problem(path, f"{shown} is not valid")
    if node_at(names) is not None:
        return Problem(path, f"{shown} is not a map of settings")
    if found.shape is Shape.SETTINGS:
        if used == len(found.path):
            return Problem(path, f"{shown} is not a map of settings")
        hint = f"write {names[-1]}.NAME: VALUE in one line" if isinstance(value, dict) else ""
        return Problem(path, f"{shown} is not text", hint)
    words = list(literals(found.field.annotation))
    near = nearest(value, words, 0.6) if isinstance(value, str) else ""
    hint = f"did you mean {near}?" if near else ""
    return Problem(path, f"{shown} is not {expected(found.field)}", hint)


def _shown(value: Any, name: str) -> str:
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    if is_secret(name):
        return "the value"
    text = duration(value) if isinstance(value, float) else hide_passwords(str(value))
    return f"'{text[:_MANY_TO_SHOW]}...'" if len(text) > _MANY_TO_SHOW else f"'{text}'"


def expected(field: FieldInfo) -> str:
    """What an option takes, in words: `a whole number from 1 to 1000`, `one of a, b`, `text`."""
    return _words(field.annotation, list(field.metadata))


def takes_none(field: FieldInfo) -> bool:
    """Whether `null` is a value of the option, rather than the absence of one."""
    return NoneType in get_args(field.annotation)


def literals(annotation: Any) -> Iterator[str]:
    """The fixed words that an annotation allows."""
    if get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from literals(part)


def _words(annotation: Any, limits: list[Any]) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return args[0] if len(args) == 1 else f"one of {', '.join(args)}"
    if origin in (Union, UnionType):
        parts = [part for part in args if part is not NoneType]
        return " or ".join(_words(part, limits if len(parts) == 1 else []) for part in parts)
    if hasattr(annotation, "__metadata__"):
        inner = [
            limit
            for part in annotation.__metadata__
            for limit in (part.metadata if isinstance(part, FieldInfo) else [part])
        ]
        return _words(args[0], [*limits, *inner])
    if origin is list:
        keys = getattr(args[0], "model_fields", ())
        return f"a list of {{{', '.join(keys)}}}" if keys else "a list of text"
    if origin is dict:
        return "a map of settings"
    if _SECONDS in limits:
        return f"a duration{_bounds(limits, duration)}, such as 500ms, 10s or 5m"
    if _BYTES in limits:
        return f"a number of bytes{_bounds(limits, str)}, such as 500kB, 10MB or 8MiB"
    plain = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return f"{plain.get(annotation, 'valid')}{_bounds(limits, str)}"


def duration(seconds: float) -> str:
    """Seconds as people write them: `7d`, `90s`, `0.5s`."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % UNITS[unit] == 0:
            return f"{seconds / UNITS[unit]:g}{unit}"
    return f"{seconds:g}s"


def _bounds(limits: list[Any], render: Callable[[Any], str]) -> str:
    bound: dict[str, Any] = {}
    for limit in limits:
        for name in ("ge", "gt", "le", "lt"):
            value = getattr(limit, name, None)
            if value is not None:
                bound[name] = render(value)
    if "ge" in bound and "le" in bound:
        return f" from {bound['ge']} to {bound['le']}"
    words = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    texts = [f"{words[name]} {value}" for name, value in bound.items()]
    return f" {' and '.join(texts)}" if texts else ""
