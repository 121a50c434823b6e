"""The table of connectors, beside the checkpoints: what was changed over REST, by whom and when.

Append-only: the newest row of a name counts. A config is kept in Connect's words, as it was given,
and holds no secret: a config with one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from aggregator.model.failpoint import failpoint
from aggregator.store.state_store import StateStore

TABLE = "connectors"


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """A change; `config` is JSON, null for one that was removed, "" for one that was taken back."""

    at: datetime
    by: str = ""
    name: str = ""
    config: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A connector as it was last put, or that it was removed: then it has no config."""

    name: str
    config: Mapping[str, str] | None
    by: str
    at: datetime


class ConnectorTable:
    """The log of connectors; `put` returns when the row is on the disk."""

    def __init__(self, store: StateStore) -> None:
        self._log = store.log(TABLE, ConnectorRow)

    def changes(self) -> dict[str, Change]:
        """The newest change of each connector, by name, in the order in which they first came.

        Those that were taken back are left out.
        """
        newest = {row.name: row for row in self._log.items()}
        return {
            name: Change(name, None if it.config is None else json.loads(it.config), it.by, it.at)
            for name, it in newest.items()
            if it.config != ""
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
        self._log.append([ConnectorRow(at, by, name, config)])
        failpoint("after-change")
        return at
