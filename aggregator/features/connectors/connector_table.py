"""The table of connectors, beside the checkpoints: what was changed over REST, by whom and when.

Append-only: the newest row of a name counts. A config is kept in Connect's words, as it was given,
and holds no secret: a config with one is refused. The effective config is the YAML, these changes,
and the values of the command line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aggregator.config.load import NOTHING, Added, checkpoint_of, load, load_text
from aggregator.config.schema import CheckpointConfig, Config
from aggregator.features.connectors.to_source import translate
from aggregator.model.failpoint import failpoint
from aggregator.store.state_store import StateStore

BRIEFLY: Mapping[str, str] = MappingProxyType({"retry_timeout": "30s"})
"""For the client of an object store: without it delta-rs tries for three minutes."""


def load_effective(
    path: Path | None,
    sets: Sequence[str] = (),
    env: Mapping[str, str] = os.environ,
    added: Added = NOTHING,
    *,
    briefly: bool = False,
) -> Config:
    """As `load`, with the sources that were added, changed and removed over REST; `added` on top.

    Raises CheckpointError as well, when what was changed cannot be read. With `briefly` an object
    store that is away is not waited for long.
    """
    own = _changed(checkpoint_of(path, sets, env), briefly=briefly)
    return load(path, sets, env, {**own, **added})


def effective_text(text: str, sets: Sequence[str], added: Added, *, source: str) -> Config:
    """As `load_effective`, for YAML text; `source` names it."""
    own = _changed(load_text(text, sets, source=source).checkpoint)
    return load_text(text, sets, source=source, added={**own, **added})


def _changed(
    place: CheckpointConfig | None, *, briefly: bool = False
) -> dict[str, Mapping[str, Any] | None]:
    """The sources that were changed over REST beside this checkpoint."""
    if place is None:
        return {}
    options = place.storage_options
    if briefly and not place.is_local:
        options = {**BRIEFLY, **options}
    return added_by(ConnectorTable(StateStore(place.path, options)).changes().values())


def added_by(changes: Iterable[Change]) -> dict[str, Mapping[str, Any] | None]:
    """The sources of these changes in the form of the YAML; None for one removed."""
    return {
        it.name: None if it.config is None else translate(it.name, it.config).source
        for it in changes
    }


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
