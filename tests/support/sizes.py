"""How large a thing is while it lives, counted in what it holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

LOOKS = 100


def size(value: object) -> int:
    """How many things are in it, in whatever it holds: items, and fields of our classes."""
    seen, kept, left = set[int](), list[object](), [value]
    while left:
        it: Any = left.pop()
        if id(it) in seen:
            continue
        seen.add(id(it))
        # Else another thing could have its id.
        kept.append(it)
        if isinstance(it, Mapping):
            left += [*it.keys(), *it.values()]
        elif isinstance(it, (list, tuple, set, frozenset, deque)):
            left += it
        elif is_dataclass(it) and not isinstance(it, type):
            left += [getattr(it, field.name) for field in fields(it)]
        elif type(it).__module__.startswith("aggregator."):
            left += getattr(it, "__dict__", {}).values()
    return len(seen)


def largest(value: Callable[[], object], tick: Callable[[int], object], ticks: int) -> list[int]:
    """How large it was at most in the first half of its life, and in the second."""
    most = [0, 0]
    for number in range(ticks):
        tick(number)
        if number % max(1, ticks // LOOKS) == 0:
            half = number * 2 // ticks
            most[half] = max(most[half], size(value()))
    return most
