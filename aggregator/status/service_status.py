"""The part of the status document that a service fills, and how it is shown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric: `name` without the prefix, and for each row the values of its labels and its own.

    A value that is None is left out. A `count` only grows; others go up and down.
    """

    name: str
    words: str
    rows: Sequence[tuple[Sequence[str], float | None]]
    labels: Sequence[str] = ()
    count: bool = False

    @classmethod
    def of(cls, name: str, words: str, value: float | None, *, count: bool = False) -> Figure:
        """One without labels."""
        return cls(name, words, [((), value)], count=count)


class ServiceStatus(BaseModel):
    """Fields for the JSON; the methods are what people and Prometheus are shown of them."""

    model_config = ConfigDict(frozen=True)

    def lines(self) -> Iterable[str]:
        """Lines of `aggregator status`."""
        return ()

    def figures(self) -> Iterable[Figure]:
        """What `/metrics` has of it."""
        return ()

    def attention(self) -> str:
        """What needs a person when there is time, or ""."""
        return ""


ServicePart = BaseModel | tuple[BaseModel, ...] | Callable[[], BaseModel]
"""What a service adds to the status document; a large part as a function that makes it, which is
called only when the document is asked for."""
