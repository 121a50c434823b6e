"""When a lane that failed is tried again: after 2, 4, 8 ... 60 seconds. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from aggregator.model import SourcePartition

DELAYS_SECONDS = (2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
FORGOTTEN_AFTER_SECONDS = 300.0
"""A lane that ran for so long since its last failure begins again with the shortest delay."""


@dataclass(slots=True)
class _Failed:
    partitions: frozenset[SourcePartition]
    count: int
    at: float
    retry_at: float
    waiting: bool = True


@dataclass(slots=True)
class BackOff:
    """Failed lanes by name, and when the partitions of each may be tried again."""

    _failed: dict[str, _Failed] = field(default_factory=dict)

    def failed(self, name: str, partitions: frozenset[SourcePartition], now: float) -> float:
        """A lane failed; returns the seconds until it is tried again."""
        before = self._failed.get(name)
        fresh = before is None or now - before.at > FORGOTTEN_AFTER_SECONDS
        count = 1 if before is None or fresh else before.count + 1
        delay = DELAYS_SECONDS[min(count, len(DELAYS_SECONDS)) - 1]
        self._failed[name] = _Failed(partitions, count, now, now + delay)
        return delay

    def failures(self, name: str) -> int:
        """How often a lane has failed lately."""
        return self._failed[name].count if name in self._failed else 0

    def resting(self, now: float) -> set[SourcePartition]:
        """Partitions whose time has not come."""
        failed = self._failed.values()
        return {sp for lane in failed if now < lane.retry_at for sp in lane.partitions}

    def tried(self, now: float, held: Collection[SourcePartition] = ()) -> None:
        """Those whose time has come are tried now, and wait no longer; but for what is `held`."""
        for lane in self._failed.values():
            if now >= lane.retry_at and lane.partitions.isdisjoint(held):
                lane.waiting = False

    def due(self, now: float) -> bool:
        """Whether a lane waits whose time has come."""
        return any(lane.waiting and now >= lane.retry_at for lane in self._failed.values())

    def waiting(self, limit: int | None = None) -> bool:
        """Whether a lane waits for another try; one that failed `limit` times does not."""
        return any(
            lane.waiting and (limit is None or lane.count < limit) for lane in self._failed.values()
        )
