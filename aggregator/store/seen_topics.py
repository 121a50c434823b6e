"""The table of topics, beside the checkpoints: which topics each source was seen to have.

So that a topic that appears while nothing runs is known to be new at the next start. Append-only:
a row has what a source was not seen to have before.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from aggregator.plan.snapshot import TopicsSeen
from aggregator.store.state_store import StateStore

TABLE = "topics"

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("cluster", pa.string()),
        ("cluster_id", pa.string()),
        ("topics", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True, slots=True)
class SeenTable:
    """The table under `path` (the setting checkpoint.path); all raise CheckpointError."""

    store: StateStore

    def load(self) -> TopicsSeen:
        """The topics of each source, of the cluster that it was last."""
        topics: dict[str, frozenset[str]] = {}
        ids: dict[str, str] = {}
        for row in self.store.table(TABLE).rows():
            alias, cluster_id = row["cluster"], row["cluster_id"]
            before = topics.get(alias, frozenset()) if ids.get(alias) == cluster_id else frozenset()
            topics[alias] = before | frozenset(row["topics"])
            ids[alias] = cluster_id
        return TopicsSeen(topics, ids)

    def add(self, seen: TopicsSeen) -> None:
        """Append what was not seen before."""
        at = datetime.now(UTC)
        rows = [
            {
                "at": at,
                "cluster": alias,
                "cluster_id": seen.cluster_ids[alias],
                "topics": sorted(names),
            }
            for alias, names in seen.topics.items()
        ]
        self.store.table(TABLE).append_notes(rows, SCHEMA)
