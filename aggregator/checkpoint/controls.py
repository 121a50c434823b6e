"""The table of controls, beside the checkpoints: which sources are paused or stopped, for good.

Append-only: the newest row of a source counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from aggregator.checkpoint.notes import append_note, read_notes

TABLE = "controls"

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("cluster", pa.string()),
        ("paused", pa.bool_()),
        ("stopped", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Pause:
    """Since when a source is paused; `stopped` is what users of Connect's REST call it."""

    since: datetime
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Controls:
    """The table under `path` (the setting checkpoint.path).

    Whatever cannot be read or written is a CheckpointError; `put` returns when the row is in the
    table, on a local disk forced to the disk.
    """

    path: str
    storage_options: Mapping[str, str]

    def pauses(self) -> dict[str, Pause]:
        """The sources that are paused or stopped, by alias."""
        found: dict[str, Pause] = {}
        for row in read_notes(self.path, self.storage_options, TABLE):
            before = found.pop(row["cluster"], None)
            if row["paused"]:
                since = row["at"] if before is None else before.since
                # A table that is older than the column says nothing of it.
                found[row["cluster"]] = Pause(since, bool(row.get("stopped")))
        return found

    def paused(self) -> dict[str, datetime]:
        """The sources (alias -> since when) that are paused or stopped."""
        return {alias: it.since for alias, it in self.pauses().items()}

    def put(self, alias: str, *, paused: bool, stopped: bool = False) -> datetime:
        """Note that a source is paused or stopped, or is no longer; returns when that was."""
        at = datetime.now(UTC)
        row = {"at": at, "cluster": alias, "paused": paused, "stopped": stopped}
        append_note(self.path, self.storage_options, TABLE, row, SCHEMA)
        return at
