"""The table of backfills, beside the checkpoints: a row with each change of one, the newest counts.

A row holds the whole backfill, its positions and the hub's ends that belong to them among it. So
each commit is one, and all of it is right or none.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from aggregator.features.backfill.ranges import Backfill, BackfillPart, BackfillState
from aggregator.model.alike import made_of
from aggregator.model.values import LogId, SourcePartition, TopicPartition
from aggregator.store.row_model import INT32
from aggregator.store.state_store import StateStore

TABLE, KEY = "backfills", "id"


@dataclass(frozen=True, slots=True)
class _Part:
    partition: Annotated[int, INT32]
    start: int
    end: int
    position: int
    lost: int


@dataclass(frozen=True, slots=True)
class _End:
    topic: str
    partition: Annotated[int, INT32]
    offset: int


@dataclass(frozen=True, slots=True)
class BackfillRow:
    """A backfill; `hub_ends` is its `bound`."""

    at: datetime
    id: str
    cluster: str
    topic: str
    cluster_id: str
    topic_id: str
    ordered_at: datetime
    by: str
    state: BackfillState
    reason: str
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    records: int = 0
    parts: tuple[_Part, ...] = ()
    hub_ends: tuple[_End, ...] = ()


class BackfillTable:
    """The log of backfills; `put` returns when the row is on the disk. Raises CheckpointError."""

    def __init__(self, store: StateStore) -> None:
        self._log = store.log(TABLE, BackfillRow, key=KEY)

    def load(self) -> dict[str, Backfill]:
        """Every backfill as it was last known, in the order in which they were ordered."""
        newest = {row.id: row for row in self._log.items()}
        found = sorted(map(_backfill, newest.values()), key=lambda it: it.ordered_at)
        return {it.id: it for it in found}

    def partitions(self) -> frozenset[SourcePartition]:
        """Those of which a backfill has read anything: old records may follow newer ones."""
        return frozenset(
            part.partition
            for backfill in self.load().values()
            for part in backfill.parts
            if part.position > part.start
        )

    def put(self, backfill: Backfill) -> None:
        """Note how a backfill is now."""
        row = made_of(
            BackfillRow,
            backfill,
            at=datetime.now(UTC),
            cluster_id=backfill.log.cluster,
            topic_id=backfill.log.topic,
            parts=tuple(
                _Part(it.partition.partition, it.start, it.end, it.position, it.lost)
                for it in backfill.parts
            ),
            hub_ends=tuple(_End(*tp, end) for tp, end in backfill.bound.items()),
        )
        self._log.append([row])


def _backfill(row: BackfillRow) -> Backfill:
    return made_of(
        Backfill,
        row,
        parts=tuple(
            BackfillPart(
                SourcePartition(row.cluster, row.topic, it.partition),
                it.start,
                it.end,
                it.position,
                it.lost,
            )
            for it in row.parts
        ),
        log=LogId(row.cluster_id, row.topic_id),
        bound={TopicPartition(it.topic, it.partition): it.offset for it in row.hub_ends},
    )
