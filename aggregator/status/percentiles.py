"""Figures for people: percentiles of a histogram, and durations and sizes as text. Pure."""

from collections.abc import Sequence

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
SIZES = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def duration(seconds: float) -> str:
    """A duration in one unit: `20 s`, `3 min`, `2 h`, `5 d`; never less than `1 s`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, round(seconds))} s"


def short_duration(seconds: float) -> str:
    """The same where less than a second matters: `0 s`, `85 ms`, `1.2 s`, `12 s`, `3 min`."""
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{max(1, round(seconds * 1000))} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else duration(seconds)


def exact_duration(seconds: float) -> str:
    """The same by its two largest units: `85 ms`, `1.2 s`, `3 min 20 s`, `4 h 19 min`, `12 d`."""
    if seconds < 9.95:
        return short_duration(seconds)
    whole = round(seconds)
    at, large = next((at, whole // size) for at, (_, size) in enumerate(UNITS) if whole >= size)
    text = f"{large} {UNITS[at][0]}"
    if at + 1 == len(UNITS) or (at == 0 and large >= 10):
        return text
    unit, size = UNITS[at + 1]
    small = whole % UNITS[at][1] // size
    return f"{text} {small} {unit}" if small else text


def size_text(size: int) -> str:
    """Bytes in one unit, by powers of 1000 as in the config: `20 B`, `1.5 kB`, `3.0 GB`."""
    for unit, one in SIZES:
        # What would be rounded to a thousand of the unit below is one of this.
        if size >= one * 0.99995:
            return f"{size / one:.1f} {unit}"
    return f"{size} B"


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


def longer_from(
    counts: Sequence[int], bounds: Sequence[int], percents: Sequence[int]
) -> int | None:
    """The first of `percents`, in order, whose value is beyond all bounds; None when none is.

    `percentile` reports the last bound for it, and the truth is longer.
    """
    total = sum(counts)
    bounded = sum(counts[: len(bounds)])
    return next((it for it in percents if bounded < max(1, -(-total * it // 100)) <= total), None)


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
