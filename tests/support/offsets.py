"""Offsets as the ranges that the connector reports."""

from __future__ import annotations

from collections.abc import Iterable

from aggregator.model.values import Ranges


def ranges_of(offsets: Iterable[int]) -> Ranges:
    """Offsets in any order as sorted ranges [from, to) that do not touch."""
    found: list[tuple[int, int]] = []
    for at in sorted(set(offsets)):
        if found and found[-1][1] == at:
            found[-1] = (found[-1][0], at + 1)
        else:
            found.append((at, at + 1))
    return found


def offsets_in(ranges: Ranges) -> set[int]:
    """The offsets of such ranges."""
    return {at for start, end in ranges for at in range(start, end)}
