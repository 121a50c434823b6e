"""The table of connectors, beside the checkpoints: what was changed over REST, by whom and when.

Append-only: the newest row of a name counts. A config is kept in Connect's words, as it was given,
and holds no secret: whoever gives one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from aggregator.model.failpoint import failpoint
from aggregator.store.state_store import StateStore

TABLE = "connectors"

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("name", pa.string()),
        ("config", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Change:
    """A connector as it was last put, or that it was removed: then it has no config."""

    name: str
    config: Mapping[str, str] | None
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ConnectorTable:
    """The table under `path` (the setting checkpoint.path).

    Whatever cannot be read or written is a CheckpointError; `put` returns when the row is in the
    table, on a local disk forced to the disk.
    """

    store: StateStore

    def changes(self) -> dict[str, Change]:
        """The newest change of each connector, by name, in the order in which they first came.

        Those that were taken back are left out.
        """
        notes = self.store.table(TABLE).rows()
        rows = [row for row in {row["name"]: row for row in notes}.values() if row["config"] != ""]
        return {
            row["name"]: Change(
                row["name"],
                None if row["config"] is None else json.loads(row["config"]),
                row["by"],
                row["at"],
            )
            for row in rows
        }

    def put(self, name: str, config: Mapping[str, str] | None, by: str) -> Change:
        """Keep a connector's config, or with None that it is removed."""
        text = None if config is None else json.dumps(dict(config), sort_keys=True)
        return Change(name, config, by, self._append(name, text, by))

    def take_back(self, name: str, by: str) -> None:
        """Keep that a connector is again as the config file has it."""
        self._append(name, "", by)

    def _append(self, name: str, config: str | None, by: str) -> datetime:
        at = datetime.now(UTC)
        row = {"at": at, "by": by, "name": name, "config": config}
        self.store.table(TABLE).append_notes([row], SCHEMA)
        failpoint("after-change")
        return at
