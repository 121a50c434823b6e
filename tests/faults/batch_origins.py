"""Origins of batches that were copied as they are, from the log files of the hub's brokers.

Knows nothing of the code that it judges: Kafka's consumers do not show the headers of batches, so
the files are read, by the layout that Kafka documents (batch format, magic 2), and docs/batches.md.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

HEAD = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, checksum, attributes, delta of the last offset, first
and largest timestamp, producer id, epoch and sequence, count."""
BEHIND_LENGTH = 12
"""The length of a batch counts what is behind itself."""
MARK, HASH_BITS, RUN_BITS, SEQUENCE_BITS = 1 << 62, 48, 14, 31

Origin = tuple[str, str, int, int]
"""Alias, topic, partition and offset."""


class Passed(NamedTuple):
    """A batch that was copied as it is: its offsets at the hub, and what its header says."""

    first: int
    last: int
    name: int
    offset: int


def name_of(alias: str, topic: str, partition: int) -> int:
    """The producer id of a source partition, without the number of its run."""
    place = f"{alias}/{topic}/{partition}/".encode()
    first = int.from_bytes(hashlib.sha256(place).digest()[:8]) >> (64 - HASH_BITS)
    return MARK | first << RUN_BITS


def passed_in(segment: bytes) -> Iterator[Passed]:
    """The batches of a segment that were copied as they are; a torn one at its end is left out."""
    at = 0
    while at + HEAD.size <= len(segment):
        base, length, _, _, _, _, delta, _, _, producer, epoch, sequence, _ = HEAD.unpack_from(
            segment, at
        )
        at += BEHIND_LENGTH + length
        if producer >= MARK and at <= len(segment):
            name = producer >> RUN_BITS << RUN_BITS
            yield Passed(base, base + delta, name, (epoch << SEQUENCE_BITS) + sequence)


class BatchOrigins:
    """Finds the origin of a hub record by its partition and offset; None where no batch says it.

    `logs`: hub partition -> the folder of its log, at its leader. `places`: the source partitions.
    """

    def __init__(self, logs: Mapping[int, Path], places: Iterable[tuple[str, str, int]]) -> None:
        self._places = {name_of(*place): place for place in places}
        self._batches: dict[int, list[Passed]] = {}
        for partition, folder in logs.items():
            segments = (it.read_bytes() for it in sorted(folder.glob("*.log")))
            self._batches[partition] = [it for each in segments for it in passed_in(each)]

    @property
    def records(self) -> int:
        """How many hub records are of such batches."""
        return sum(it.last - it.first + 1 for each in self._batches.values() for it in each)

    def origin(self, partition: int, offset: int) -> Origin | None:
        """Of which source record the hub's is a copy."""
        batches = self._batches.get(partition, [])
        at = bisect_right(batches, offset, key=lambda it: it.first) - 1
        if at < 0 or offset > batches[at].last:
            return None
        found = batches[at]
        place = self._places.get(found.name)
        return None if place is None else (*place, found.offset + offset - found.first)
