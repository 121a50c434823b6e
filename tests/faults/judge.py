"""Compares what the sources hold and acknowledged with what the hub holds, record by record.

Bounded in memory: eight bytes per source record for its digest, one for how often the hub has it.
Knows nothing of the code that it judges: origin headers are read as any stranger would.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Place = tuple[str, int]
"""(alias, partition) of a source."""
Headers = Sequence[tuple[str, bytes | None]]

ORIGIN = ("cluster", "topic", "partition", "offset", "timestamp")
EXAMPLES = 10


@dataclass
class Verdict:
    """How many records of each kind; `examples` names the first of each kind of problem."""

    acknowledged: int = 0
    in_sources: int = 0
    in_hub: int = 0
    lost: int = 0
    twice: int = 0
    altered: int = 0
    out_of_order: int = 0
    foreign: int = 0
    lost_at_source: int = 0
    examples: dict[str, list[str]] = field(default_factory=dict)

    PROBLEMS = ("lost", "twice", "altered", "out_of_order", "foreign", "lost_at_source")

    @property
    def problems(self) -> dict[str, int]:
        """Kind -> count, of those that are not zero."""
        return {kind: getattr(self, kind) for kind in self.PROBLEMS if getattr(self, kind)}

    COUNTS = ("acknowledged", "in_sources", "in_hub", *PROBLEMS)

    def join(self, other: Verdict) -> None:
        """Take in what was found of another topic."""
        for kind in self.COUNTS:
            setattr(self, kind, getattr(self, kind) + getattr(other, kind))
        for kind, examples in other.examples.items():
            some = self.examples.setdefault(kind, [])
            some.extend(examples[: EXAMPLES - len(some)])

    def add(self, kind: str, example: str) -> None:
        """Count one more of a kind."""
        setattr(self, kind, getattr(self, kind) + 1)
        some = self.examples.setdefault(kind, [])
        if len(some) < EXAMPLES:
            some.append(example)


class Judge:
    """Takes the sources' records first, then the hub's in the order of its partitions.

    All are of `topic` at the sources. `timestamps`: whether the hub keeps them; with LogAppendTime
    it cannot.
    """

    def __init__(self, topic: str, *, timestamps: bool = True) -> None:
        self._topic = topic
        self._timestamps = timestamps
        self._digests: dict[Place, array[int]] = {}
        self._seen: dict[Place, bytearray] = {}
        self._newest: dict[tuple[Place, int], int] = {}
        self._verdict = Verdict()

    def source(
        self,
        alias: str,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
    ) -> None:
        """One record of a source."""
        digests = self._digests.setdefault((alias, partition), array("Q"))
        while len(digests) <= offset:
            # An offset without a record keeps 0, which no digest is.
            digests.append(0)
        digests[offset] = self._digest(key, value, headers, timestamp)
        self._verdict.in_sources += 1

    def hub(
        self,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
        passed: tuple[str, str, int, int] | None = None,
    ) -> str | None:
        """One record of the hub; returns the alias it came from, None for a stranger's.

        `passed`: its origin if its batch was copied as it is, which adds no header.
        """
        self._verdict.in_hub += 1
        origin, own = origin_of(headers), headers[: -len(ORIGIN)]
        if passed is not None:
            origin, own = (*passed, timestamp), headers
        if origin is None:
            self._verdict.add("foreign", f"hub partition {partition}: no origin")
            return None
        alias, topic, number, offset, created = origin
        place = (alias, number)
        digests = self._digests.get(place, array("Q"))
        words = f"{alias}-{number}@{offset} in hub partition {partition}"
        if topic != self._topic or offset >= len(digests) or not digests[offset]:
            self._verdict.add("foreign", words)
            return alias
        seen = self._seen.setdefault(place, bytearray(len(digests)))
        if seen[offset]:
            self._verdict.add("twice", words)
            return alias
        seen[offset] = 1
        same = digests[offset] == self._digest(key, value, own, created)
        if not same or (self._timestamps and timestamp != created):
            self._verdict.add("altered", words)
        # With a key or without: where a record goes is a function of the record.
        flow = (place, partition)
        if offset < self._newest.get(flow, -1):
            self._verdict.add("out_of_order", f"{words}, behind {self._newest[flow]}")
        self._newest[flow] = max(offset, self._newest.get(flow, -1))
        return alias

    def verdict(self, acknowledged: Mapping[Place, bytearray]) -> Verdict:
        """The end of it. `acknowledged`: a byte per offset, 1 where a source acknowledged.

        What a source holds must be in the hub, acknowledged or not.
        """
        for place, digests in self._digests.items():
            seen = self._seen.get(place, bytearray())
            for offset, digest in enumerate(digests):
                if digest and not (offset < len(seen) and seen[offset]):
                    self._verdict.add("lost", f"{place[0]}-{place[1]}@{offset}")
        for place, acks in acknowledged.items():
            self._verdict.acknowledged += acks.count(1)
            held = self._digests.get(place, array("Q"))
            for offset, acked in enumerate(acks):
                if acked and not (offset < len(held) and held[offset]):
                    self._verdict.add("lost_at_source", f"{place[0]}-{place[1]}@{offset}")
        return self._verdict

    @staticmethod
    def _digest(key: bytes | None, value: bytes | None, headers: Headers, timestamp: int) -> int:
        text = hashlib.blake2b(repr((key, value, list(headers), timestamp)).encode(), digest_size=8)
        return int.from_bytes(text.digest()) or 1


def origin_of(headers: Headers) -> tuple[str, str, int, int, int] | None:
    """Alias, topic, partition, offset and timestamp of an origin; None when there is none."""
    last = headers[-len(ORIGIN) :]
    if [name for name, _ in last] != [f"origin.{name}" for name in ORIGIN]:
        return None
    try:
        alias, topic, *numbers = ((value or b"").decode() for _, value in last)
        partition, offset, timestamp = (int(number) for number in numbers)
    except ValueError:
        return None
    return alias, topic, partition, offset, timestamp


def longest_silence(arrivals: Sequence[int], begin: int, end: int) -> tuple[int, int]:
    """The longest time without an arrival between two moments, and how long after begin it was.

    All in ms, moments since 1970.
    """
    inside = [begin, *sorted(at for at in arrivals if begin <= at <= end), end]
    return max((after - before, before - begin) for before, after in pairwise(inside))
