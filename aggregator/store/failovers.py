"""The table of failovers, beside the checkpoints: where the way back of each begins at the hub.

Append-only, and no clock orders its rows: a failover names the pause that it made, and a way back
the failovers that it brings back. `at` is for people.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from aggregator.model.values import TopicPartition
from aggregator.plan.failover import Failover
from aggregator.store.state_store import StateStore

TABLE = "failovers"

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("cluster", pa.string()),
        ("hub_cluster_id", pa.string()),
        ("hub_ends", pa.string()),
        ("id", pa.string()),
        ("pause", pa.timestamp("us", "UTC")),
        ("returned", pa.string()),
        ("alive", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Failovers:
    """The table under `path` (the setting checkpoint.path); what fails is a CheckpointError."""

    store: StateStore

    def read(self) -> dict[str, tuple[Failover, ...]]:
        """All failovers of each source (alias), the oldest first."""
        rows = self.store.table(TABLE).rows()
        returned = {
            id: _id(row)
            for row in rows
            if row.get("returned")
            for id in json.loads(row["returned"])
        }
        found: dict[str, tuple[Failover, ...]] = {}
        for row in rows:
            if not row.get("returned"):
                failover = _failover(row, returned.get(_id(row), ""))
                found[row["cluster"]] = (*found.get(row["cluster"], ()), failover)
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
        told: dict[str, dict[str, int]] = {}
        for tp, end in sorted(ends.items()):
            told.setdefault(tp.topic, {})[str(tp.partition)] = end
        failover = Failover(
            at=datetime.now(UTC),
            hub_cluster_id=hub_cluster_id,
            hub_ends=dict(ends),
            id=uuid.uuid4().hex,
            pause=pause,
            alive=alive,
        )
        row = {
            "at": failover.at,
            "cluster": alias,
            "hub_cluster_id": hub_cluster_id,
            "hub_ends": json.dumps(told),
            "id": failover.id,
            "pause": pause,
            "alive": alive,
        }
        self.store.table(TABLE).append_notes([row], SCHEMA)
        return failover

    def put_returned(self, alias: str, failovers: Collection[Failover]) -> None:
        """Note that a way back has the positions of these; returns when it is in the table."""
        if not failovers:
            return
        row = {
            "at": datetime.now(UTC),
            "cluster": alias,
            "id": uuid.uuid4().hex,
            "returned": json.dumps(sorted(it.id for it in failovers)),
        }
        self.store.table(TABLE).append_notes([row], SCHEMA)


def _failover(row: Mapping[str, Any], returned: str) -> Failover:
    told = json.loads(row["hub_ends"])
    ends = {
        TopicPartition(topic, int(number)): end
        for topic, partitions in told.items()
        for number, end in partitions.items()
    }
    return Failover(
        at=row["at"],
        hub_cluster_id=row["hub_cluster_id"],
        hub_ends=ends,
        id=_id(row),
        pause=row.get("pause"),
        returned=returned,
        alive=bool(row.get("alive")),
    )


def _id(row: Mapping[str, Any]) -> str:
    """A row of an older table has none: its moment takes that place."""
    return str(row.get("id") or row["at"].isoformat())
