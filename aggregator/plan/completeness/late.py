"""A lower bound of the records that came later than a claim already made. Pure.

The tasks count records by their age when the hub acknowledged them, in buckets, for each source. A
record counts here when even the youngest of its bucket was below all that was claimed of its source
a moment before. So there is no cost for each record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

REPORTED_MS = 5_000
"""What was acknowledged is reported sooner than that: only claims that are older count."""


class LateCounts:
    """`bounds` are the upper bounds of the buckets, in ms. Used by one thread."""

    def __init__(self, bounds: Sequence[int]) -> None:
        self._least = (0, *bounds)
        self._sources: dict[str, _Counted] = {}

    def follow(
        self,
        ages: Mapping[str, Sequence[int]],
        claimed: Mapping[str, int | None],
        now_ms: int,
    ) -> dict[str, int]:
        """The late records of each source (alias) since the start, after one more report.

        `ages` are its counts since the start, `claimed` is the least that is claimed of it.
        """
        for alias, counts in ages.items():
            known = self._sources.setdefault(alias, _Counted())
            known.claims.append((now_ms, claimed.get(alias)))
            while len(known.claims) > 1 and known.claims[1][0] <= now_ms - REPORTED_MS:
                known.claims.popleft()
            at_ms, claim = known.claims[0]
            if claim is not None and at_ms <= now_ms - REPORTED_MS:
                known.late += sum(
                    max(0, new - old)
                    for least, new, old in zip_longest(self._least, counts, known.ages, fillvalue=0)
                    if least >= now_ms - claim
                )
            known.ages = tuple(counts)
        return {alias: known.late for alias, known in self._sources.items()}


@dataclass(slots=True)
class _Counted:
    late: int = 0
    ages: tuple[int, ...] = ()
    claims: deque[tuple[int, int | None]] = field(default_factory=deque)
