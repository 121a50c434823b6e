"""Batches that cannot be read, by the error: one costs its own hub topic only. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from aggregator.features.verify.audit_scope import Window

_DAMAGED = re.compile(r"(\S+)-(\d+)@(\d+) (cannot be read: .*)")
"""So `RangeReader` says it."""


@dataclass(frozen=True, slots=True)
class DamagedPlace:
    """Where a log cannot be read, in one of the clusters, and why."""

    topic: str
    partition: int
    offset: int
    why: str

    def spoiled(self, windows: Iterable[Window]) -> frozenset[str]:
        """The hub topics that cannot be compared: the error does not say in which cluster it is."""
        return frozenset(
            it.hub_topic
            for it in windows
            if it.hub_topic == self.topic or it.partition.topic_partition == self._place
        )

    @property
    def _place(self) -> tuple[str, int]:
        return (self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset} {self.why}"


def damaged_place(error: str) -> DamagedPlace | None:
    """The place that an error is about; None for any other error."""
    found = _DAMAGED.search(error)
    if found is None:
        return None
    topic, partition, offset, why = found.groups()
    return DamagedPlace(topic, int(partition), int(offset), why)
