"""Records that Spark cannot read, by its error: one of them costs its own hub topic only. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from aggregator.verify.core import Window

_ODD = re.compile(r"Record at topic (\S+) partition (\d+) offset (\d+) has timestamp value (-?\d+)")
"""KAFKA_MALFORMED_RECORD_TIMESTAMP: Spark's times are microseconds, and do not hold such a one."""


@dataclass(frozen=True, slots=True)
class OddRecord:
    """A record whose timestamp is no time that Spark knows, such as nanoseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int

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
        return (
            f"the record at {self.topic}-{self.partition}@{self.offset} has the timestamp "
            f"{self.timestamp}, which are no milliseconds"
        )


def odd_record(error: str) -> OddRecord | None:
    """The record that an error is about; None for any other error."""
    found = _ODD.search(error)
    if found is None:
        return None
    topic, *numbers = found.groups()
    return OddRecord(topic, *map(int, numbers))
