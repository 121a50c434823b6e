"""The table of failovers, beside the checkpoints: where each failback begins at the hub.

Append-only, and no clock orders its rows: a failover names the pause that it made, and a way back
the failovers that it brings back. `at` is for people.
"""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import pyarrow as pa

from aggregator.model.alike import made_of
from aggregator.model.values import TopicPartition
from aggregator.plan.failover import Failover
from aggregator.store.state_store import StateStore

TABLE = "failovers"


@dataclass(frozen=True, slots=True)
class FailoverRow:
    """A failover, or with `returned` a way back that has the positions of these failovers.

    `hub_ends` is topic -> partition -> end, `returned` a JSON list of ids. A row of an older table
    has no id: its moment takes that place.
    """

    at: datetime
    cluster: str
    hub_cluster_id: str | None = None
    hub_ends: Mapping[str, Mapping[str, int]] | None = None
    id: str = ""
    pause: datetime | None = None
    returned: Annotated[tuple[str, ...] | None, pa.string()] = None
    alive: bool | None = None

    @property
    def name(self) -> str:
        """What others call it by."""
        return self.id or self.at.isoformat()


class Failovers:
    """The log of failovers; what fails is a CheckpointError."""

    def __init__(self, store: StateStore) -> None:
        self._log = store.log(TABLE, FailoverRow)

    def read(self) -> dict[str, tuple[Failover, ...]]:
        """All failovers of each source (alias), the oldest first."""
        rows = self._log.items()
        returned = {id: row.name for row in rows for id in row.returned or ()}
        found: dict[str, tuple[Failover, ...]] = {}
        for row in rows:
            if row.returned is None:
                failover = _failover(row, returned.get(row.name, ""))
                found[row.cluster] = (*found.get(row.cluster, ()), failover)
        return found

    def put(
        self,
        alias: str,
        hub_cluster_id: str,
        ends: Mapping[TopicPartition, int],
        pause: datetime | None,
        *,
        alive: bool = False,
    ) -> Failover:
        """Note a failover of now; returns when it is in the table."""
        hub_ends: dict[str, dict[str, int]] = {}
        for tp, end in sorted(ends.items()):
            hub_ends.setdefault(tp.topic, {})[str(tp.partition)] = end
        failover = Failover(
            at=datetime.now(UTC),
            hub_cluster_id=hub_cluster_id,
            hub_ends=dict(ends),
            id=uuid.uuid4().hex,
            pause=pause,
            alive=alive,
        )
        row = made_of(FailoverRow, failover, cluster=alias, hub_ends=hub_ends, returned=None)
        self._log.append([row])
        return failover

    def put_returned(self, alias: str, failovers: Collection[Failover]) -> None:
        """Note that a way back has the positions of these; returns when it is in the table."""
        if not failovers:
            return
        returned = tuple(sorted(it.id for it in failovers))
        row = FailoverRow(datetime.now(UTC), alias, id=uuid.uuid4().hex, returned=returned)
        self._log.append([row])


def _failover(row: FailoverRow, returned: str) -> Failover:
    return made_of(
        Failover,
        row,
        hub_cluster_id=row.hub_cluster_id or "",
        hub_ends={
            TopicPartition(topic, int(number)): end
            for topic, partitions in (row.hub_ends or {}).items()
            for number, end in partitions.items()
        },
        id=row.name,
        returned=returned,
        alive=bool(row.alive),
    )
