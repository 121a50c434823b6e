"""The effective config: the YAML, what was changed over REST, the values of the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aggregator.config.load import NOTHING, Added, checkpoint_of, load, load_text
from aggregator.config.schema import CheckpointConfig, Config
from aggregator.features.connectors.connector_table import Change, ConnectorTable
from aggregator.features.connectors.to_source import translate
from aggregator.store.state_store import StateStore


def load_effective(
    path: Path | None,
    sets: Sequence[str] = (),
    env: Mapping[str, str] = os.environ,
    added: Added = NOTHING,
) -> Config:
    """As `load`, with the sources that were added, changed and removed over REST; `added` on top.

    Raises CheckpointError as well, when what was changed cannot be read.
    """
    own = _changed(checkpoint_of(path, sets, env))
    return load(path, sets, env, {**own, **added})


def effective_text(text: str, sets: Sequence[str], added: Added, *, source: str) -> Config:
    """As `load_effective`, for YAML text; `source` names it."""
    own = _changed(load_text(text, sets, source=source).checkpoint)
    return load_text(text, sets, source=source, added={**own, **added})


def _changed(place: CheckpointConfig | None) -> dict[str, Mapping[str, Any] | None]:
    """The sources that were changed over REST beside this checkpoint."""
    if place is None:
        return {}
    return added_by(ConnectorTable(StateStore.of(place)).changes().values())


def added_by(changes: Iterable[Change]) -> dict[str, Mapping[str, Any] | None]:
    """The sources of these changes in the form of the YAML; None for one removed."""
    return {
        it.name: None if it.config is None else translate(it.name, it.config).source
        for it in changes
    }
