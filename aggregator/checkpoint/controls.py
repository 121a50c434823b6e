"""The table of controls, beside the checkpoints: which sources are paused or stopped, for good.

Append-only: the newest row of a source counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import write_deltalake

from aggregator.checkpoint.delta import (
    NO_HOOKS,
    dataset,
    make_durable,
    open_delta,
    table_uri,
    translated,
)

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
class Controls:
    """The table under `path` (the setting checkpoint.path).

    Whatever cannot be read or written is a CheckpointError; `put` returns when the row is in the
    table, on a local disk forced to the disk.
    """

    path: str
    storage_options: Mapping[str, str]

    def paused(self) -> dict[str, datetime]:
        """The sources (alias -> since when) that are paused, or stopped."""
        return {alias: since for alias, (since, _) in self._standing().items()}

    def stopped(self) -> frozenset[str]:
        """The sources that are stopped, as users of Connect's REST say: paused, and more so."""
        return frozenset(alias for alias, (_, stopped) in self._standing().items() if stopped)

    def _standing(self) -> dict[str, tuple[datetime, bool]]:
        delta = open_delta(self.path, self.storage_options, TABLE)
        if delta is None:
            return {}
        with translated(self.path, "read", TABLE):
            rows = dataset(delta, self.path, TABLE).to_table().sort_by("at").to_pylist()
        found: dict[str, tuple[datetime, bool]] = {}
        for row in rows:
            since, _ = found.pop(row["cluster"], (row["at"], False))
            if row["paused"]:
                # A table that is older than the column says nothing of it.
                found[row["cluster"]] = since, bool(row.get("stopped"))
        return found

    def put(self, alias: str, *, paused: bool, stopped: bool = False) -> datetime:
        """Note that a source is paused or stopped, or is no longer; returns when that was."""
        at = datetime.now(UTC)
        row = {"at": at, "cluster": alias, "paused": paused, "stopped": stopped}
        with translated(self.path, "written", TABLE):
            write_deltalake(
                table_uri(self.path, TABLE),
                pa.Table.from_pylist([row], schema=SCHEMA),
                mode="append",
                schema_mode="merge",
                name="aggregator_controls",
                storage_options=dict(self.storage_options),
                post_commithook_properties=NO_HOOKS,
            )
        delta = open_delta(self.path, self.storage_options, TABLE)
        if delta is not None:
            make_durable(self.path, int(delta.version()), TABLE)
        return at
