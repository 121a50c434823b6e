"""The table of groups that were taken over to the hub, beside the checkpoints.

Append-only. A group is at the hub for as long as it has committed nothing more at its sources, so a
row has what it had committed there; when it commits more at a source, no row says so any more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from aggregator.model.values import TopicPartition
from aggregator.store.state_store import StateStore

TABLE = "moved_groups"

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("cluster", pa.string()),
        ("group", pa.string()),
        ("commits", pa.string()),
    ]
)

Commits = Mapping[str, Mapping[TopicPartition, int]]
"""Source (alias) -> what a group has committed there."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Groups that were taken over, each with a source and what it had committed there."""

    rows: frozenset[tuple[str, str, str]] = frozenset()

    def has(self, group: str, commits: Commits) -> bool:
        """Whether it was taken over, and has committed nothing at these sources since."""
        rows = [(alias, group, _text(own)) for alias, own in commits.items() if own]
        return bool(rows) and self.rows.issuperset(rows)


@dataclass(frozen=True, slots=True)
class MovedGroups:
    """The table under `path` (the setting checkpoint.path); what fails is a CheckpointError."""

    store: StateStore

    def read(self) -> Moved:
        """All groups that were ever taken over."""
        rows = self.store.table(TABLE).rows()
        return Moved(frozenset((it["cluster"], it["group"], it["commits"]) for it in rows))

    def put(self, groups: Mapping[str, Commits]) -> None:
        """Note that the hub has the places of these; returns when it is in the table."""
        at = datetime.now(UTC)
        rows = [
            {"at": at, "cluster": alias, "group": group, "commits": _text(own)}
            for group, commits in groups.items()
            for alias, own in commits.items()
            if own
        ]
        if rows:
            self.store.table(TABLE).append_notes(rows, SCHEMA)


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps([[*tp, at] for tp, at in sorted(offsets.items())])
