"""Percentiles and the sum of a histogram, which is counts per bucket of values. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(counts: Sequence[int], bounds: Sequence[int], percent: int) -> int | None:
    """The value that `percent` of a hundred do not exceed, as the upper bound of its bucket.

    `bounds` are the buckets' upper bounds in order; what `counts` has beyond them, which has no
    bound, is reported as the last one. None when nothing was counted.
    """
    total = sum(counts)
    if total == 0:
        return None
    # Rounded up, in whole numbers: of two values the first is the median.
    rank, seen = max(1, -(-total * percent // 100)), 0
    for number, count in enumerate(counts):
        seen += count
        if seen >= rank:
            return bounds[min(number, len(bounds) - 1)]
    return bounds[-1]


def smallest(counts: Sequence[int], bounds: Sequence[int]) -> int | None:
    """What the smallest value did not exceed; None when nothing was counted."""
    return _bound(next((at for at, it in enumerate(counts) if it), None), bounds)


def largest(counts: Sequence[int], bounds: Sequence[int]) -> int | None:
    """What the largest did not exceed, beyond all bounds the last one; None as above."""
    return _bound(next((at for at in reversed(range(len(counts))) if counts[at]), None), bounds)


def _bound(bucket: int | None, bounds: Sequence[int]) -> int | None:
    return None if bucket is None else bounds[min(bucket, len(bounds) - 1)]


def most(counts: Sequence[int], bounds: Sequence[int]) -> int:
    """What all values together do not exceed, by the same bounds."""
    return sum(it * bounds[min(number, len(bounds) - 1)] for number, it in enumerate(counts))
