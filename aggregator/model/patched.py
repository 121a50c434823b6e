"""A map that differs from another in a few keys, and the keys in which two maps may differ. Pure.

With ten thousand keys, to look at each of them again and again would cost more than the changes.
"""

from collections.abc import Collection, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Patched(dict[K, V]):
    """The `base` with the values of `patch`; none of the three is changed any more."""

    __slots__ = ("base", "patch")

    def __init__(self, base: Mapping[K, V], patch: Mapping[K, V]) -> None:
        super().__init__(base)
        self.update(patch)
        self.base = base
        self.patch = patch


def may_differ(now: Mapping[K, V], before: Mapping[K, V]) -> Collection[K]:
    """Each key whose value is not the same in both, or that only one of them has; perhaps more."""
    if now is before:
        return ()
    base, patch = _parts(now)
    base_before, patch_before = _parts(before)
    if base is base_before:
        return patch.keys() | patch_before.keys()
    return now.keys() if now.keys() == before.keys() else now.keys() | before.keys()


def _parts(known: Mapping[K, V]) -> tuple[Mapping[K, V], Mapping[K, V]]:
    return (known.base, known.patch) if isinstance(known, Patched) else (known, {})
