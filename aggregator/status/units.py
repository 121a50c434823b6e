"""Formats durations and sizes for people. Pure."""

from __future__ import annotations

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


def size_text(size: int) -> str:
    """Bytes in one unit, by powers of 1000 as in the config: `20 B`, `1.5 kB`, `3.0 GB`."""
    for unit, one in SIZES:
        # What would be rounded to a thousand of the unit below is one of this.
        if size >= one * 0.99995:
            return f"{size / one:.1f} {unit}"
    return f"{size} B"
