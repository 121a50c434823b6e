"""The table of failovers, beside the checkpoints: where the hub ended when a source failed over.

Append-only: the newest row of each source counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from aggregator.checkpoint.notes import append_note, read_notes
from aggregator.model import TopicPartition

TABLE = "failovers"

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("cluster", pa.string()),
        ("hub_cluster_id", pa.string()),
        ("hub_ends", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Failover:
    """When a source failed over, and the ends of the hub topics that it is copied into, then."""

    at: datetime
    hub_cluster_id: str
    hub_ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Failovers:
    """The table under `path` (the setting checkpoint.path); what fails is a CheckpointError."""

    path: str
    storage_options: Mapping[str, str]

    def newest(self, alias: str) -> Failover | None:
        """The last failover of a source; None when there was none."""
        rows = read_notes(self.path, self.storage_options, TABLE)
        row = next((it for it in reversed(rows) if it["cluster"] == alias), None)
        if row is None:
            return None
        told = json.loads(row["hub_ends"])
        ends = {
            TopicPartition(topic, int(number)): end
            for topic, partitions in told.items()
            for number, end in partitions.items()
        }
        return Failover(row["at"], row["hub_cluster_id"], ends)

    def put(self, alias: str, hub_cluster_id: str, ends: Mapping[TopicPartition, int]) -> Failover:
        """Note a failover of now; returns when it is in the table."""
        told: dict[str, dict[str, int]] = {}
        for tp, end in sorted(ends.items()):
            told.setdefault(tp.topic, {})[str(tp.partition)] = end
        at = datetime.now(UTC)
        row = {
            "at": at,
            "cluster": alias,
            "hub_cluster_id": hub_cluster_id,
            "hub_ends": json.dumps(told),
        }
        append_note(self.path, self.storage_options, TABLE, row, SCHEMA)
        return Failover(at, hub_cluster_id, dict(ends))
