"""Chooses the hub snapshot that belongs to a lane's checkpoint. Pure: no clock, no client.

A snapshot of the hub's end offsets may stand beside the positions of batch k when its reading was
finished before batch k+1 began to write. A lane that is looked at after the reading and shows no
new batch end has not begun another batch since, so the order of looks decides, and no clock has
to be trusted. An older snapshot is always safe: it only makes the tail longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.model import TopicPartition


@dataclass(frozen=True, slots=True)
class HubSnapshot:
    """End offsets of hub partitions, and when their reading had finished (ms since 1970)."""

    taken_ms: int
    ends: Mapping[TopicPartition, int]


@dataclass(slots=True)
class HubTail:
    """The newest snapshot, and per lane the newest one that may stand in its next checkpoint."""

    newest: HubSnapshot
    _valid: dict[str, HubSnapshot] = field(default_factory=dict)

    def taken(self, snapshot: HubSnapshot) -> HubSnapshot:
        """A snapshot was read. Returns it, with older ends of partitions that did not tell theirs.

        Without any end, a recovery would read such a partition from its beginning.
        """
        ends = {**self.newest.ends, **snapshot.ends}
        self.newest = HubSnapshot(snapshot.taken_ms, ends)
        return self.newest

    def began(self, lane: str, snapshot: HubSnapshot) -> None:
        """A lane is about to start; `snapshot` was read before."""
        self._valid[lane] = snapshot

    def quiet(self, lane: str) -> None:
        """A lane was looked at and had no new batch end."""
        self._valid[lane] = self.newest

    def for_batch(self, lane: str) -> HubSnapshot:
        """The snapshot for the batch of the lane that has just been seen to end."""
        return self._valid[lane]

    def ended(self, lane: str) -> None:
        """A lane is gone."""
        self._valid.pop(lane, None)
