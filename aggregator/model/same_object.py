"""Caches the result of a function for objects that never change and have no hash. Pure."""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Given = TypeVar("Given")
Rest = ParamSpec("Rest")
Made = TypeVar("Made")
KEPT = 4
"""Of how many objects it is remembered: a run has one config, for a moment that of a reload too."""


class _Same:
    """An object as a key: equal to itself alone. It is held, so that no other one gets its id."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


def once_for_each(
    make: Callable[Concatenate[Given, Rest], Made],
) -> Callable[Concatenate[Given, Rest], Made]:
    """Call the function once for each object, such as a config, and each further argument.

    The further arguments are few, hashable and positional. An error is not remembered.
    """

    @lru_cache(maxsize=KEPT)
    def known(_: _Same) -> dict[tuple[Hashable, ...], Any]:
        return {}

    @wraps(make)
    def remembered(value: Given, /, *rest: Rest.args, **named: Rest.kwargs) -> Made:
        assert not named, "of these nothing is remembered"
        found = known(_Same(value))
        if rest not in found:
            found[rest] = make(value, *rest, **named)
        made: Made = found[rest]
        return made

    return remembered
