"""The shape of the config tree: which keys exist where, and the valid key nearest a wrong one."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import UnionType
from typing import Any, TypeGuard, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from aggregator.config.kafka_names import READERS
from aggregator.config.node import Node
from aggregator.config.schema import Config
from aggregator.config.topics import TopicOverride, TopicsConfig

ANY = "*"
"""In a path of options, any name that the user chooses: an alias, a hub topic."""


class Shape(Enum):
    """What may stand below an option."""

    VALUE = auto()
    NODE = auto()
    NODES = auto()
    """A map from names without dots to nodes."""
    RULES = auto()
    """A map from hub topics, which may hold dots, to nodes."""
    SETTINGS = auto()
    """A map from any names, which may hold dots, to text."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the tree: its path (`*` for chosen names), its field, what is below it."""

    path: tuple[str, ...]
    field: FieldInfo
    shape: Shape
    node: type[Node] | None = None


def option(path: tuple[str, ...], model: type[Node]) -> Option:
    """The option at the end of `path`, a field of `model`. KeyError if it has no such field."""
    field = model.model_fields[path[-1]]
    if model is TopicsConfig and path[-1] == "overrides":
        return Option(path, field, Shape.RULES, TopicOverride)
    if (node := _node_of(field.annotation)) is not None:
        return Option(path, field, Shape.NODE, node)
    if get_origin(field.annotation) is dict:
        value = get_args(field.annotation)[1]
        if _is_node(value):
            return Option(path, field, Shape.NODES, value)
        return Option(path, field, Shape.SETTINGS)
    return Option(path, field, Shape.VALUE)


def options(model: type[Node] = Config, above: tuple[str, ...] = ()) -> Iterator[Option]:
    """Every option below `model`, parents before children, in the order of the schema."""
    for name in model.model_fields:
        found = option((*above, name), model)
        yield found
        if found.node is not None:
            below = found.path if found.shape is Shape.NODE else (*found.path, ANY)
            yield from options(found.node, below)


def locate(path: Sequence[str | int]) -> tuple[Option | None, int]:
    """The deepest option on a concrete path, and how many parts of the path it accounts for: those
    that lead to it, and the name right below it (an alias, a hub topic, a setting) if there is one.
    (None, 0) if the first part is unknown.
    """
    model: type[Node] | None = Config
    found: Option | None = None
    where: tuple[str, ...] = ()
    used = 0
    while model is not None and used < len(path) and path[used] in model.model_fields:
        found = option((*where, str(path[used])), model)
        where, model, used = found.path, found.node, used + 1
        if found.shape in (Shape.NODES, Shape.RULES, Shape.SETTINGS) and used < len(path):
            where, used = (*where, ANY), used + 1
        elif found.shape is not Shape.NODE:
            break
    return found, used


def node_at(path: Sequence[str]) -> type[Node] | None:
    """The model whose keys stand right below a concrete path, None where keys are free."""
    if not path:
        return Config
    found, used = locate(path)
    if found is None or used < len(path) or found.shape is Shape.SETTINGS:
        return None
    # A map of nodes has free names itself; the node is below one of them.
    return found.node if found.shape is Shape.NODE or used > len(found.path) else None


def suggest(path: Sequence[str]) -> str:
    """A hint for an unknown key: the nearest key there, where it belongs, or what is valid."""
    parent, key = list(path[:-1]), path[-1]
    model = node_at(parent)
    here = list(model.model_fields) if model else []
    if near := nearest(key, here, 0.75):
        return f"did you mean {near}?"
    if key in READERS and "kafka" in here:
        return f"Kafka settings belong under {'.'.join(parent)}.kafka"
    if place := _elsewhere(parent, key):
        return f"did you mean {place}?"
    if near := nearest(key, here, 0.6):
        return f"did you mean {near}?"
    return f"valid here: {', '.join(here)}" if here else ""


def nearest(word: str, known: Sequence[str], cutoff: float) -> str:
    """The known word most like `word`, ignoring case and `-`, `.`, `_`; `` if none is near."""
    plain = {_plain(name): name for name in known}
    found = difflib.get_close_matches(_plain(word), list(plain), 1, cutoff)
    return plain[found[0]] if found else ""


def _plain(word: str) -> str:
    return word.lower().replace("-", "_").replace(".", "_")


def _elsewhere(parent: Sequence[str], key: str) -> str:
    """The path of an option of this name at another place, the nearest such place first."""
    known = [found.path for found in options() if _plain(found.path[-1]) == _plain(key)]
    if not known:
        return ""

    def distance(path: tuple[str, ...]) -> tuple[int, int]:
        shared = 0
        for part, mine in zip(path, parent, strict=False):
            if part not in (ANY, mine):
                break
            shared += 1
        return -shared, len(path)

    best = min(known, key=distance)
    return ".".join(fill(best, parent))


def fill(path: Sequence[str], like: Sequence[str]) -> list[str]:
    """`path` with its chosen names taken from `like` where both run alike, else `<name>`."""
    filled: list[str] = []
    alike = True
    for at, part in enumerate(path):
        alike = alike and at < len(like) and part in (ANY, like[at])
        if part == ANY:
            filled.append(like[at] if alike else "<alias>" if path[0] == "sources" else "<topic>")
        else:
            filled.append(part)
    return filled


def _node_of(annotation: Any) -> type[Node] | None:
    """The model of a group of options, also of one that may be left out; None of all else."""
    is_union = get_origin(annotation) in (Union, UnionType)
    parts = get_args(annotation) if is_union else (annotation,)
    return next((part for part in parts if _is_node(part)), None)


def _is_node(annotation: Any) -> TypeGuard[type[Node]]:
    return isinstance(annotation, type) and issubclass(annotation, Node)
