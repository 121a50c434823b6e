"""The effective config: the YAML, what was changed over REST, the values of the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aggregator.config.load import NOTHING, Added, checkpoint_of, load
from aggregator.config.schema import Config
from aggregator.connect.core import translate
from aggregator.connect.table import Change, ConnectorTable


def load_effective(
    path: Path | None,
    sets: Sequence[str] = (),
    env: Mapping[str, str] = os.environ,
    added: Added = NOTHING,
) -> Config:
    """As `load`, with the sources that were added, changed and removed over REST; `added` on top.

    Raises CheckpointError as well, when what was changed cannot be read.
    """
    place = checkpoint_of(path, sets, env)
    changes: dict[str, Change] = {}
    if place is not None:
        changes = ConnectorTable(place.path, place.storage_options).changes()
    return load(path, sets, env, {**added_by(changes.values()), **added})


def added_by(changes: Iterable[Change]) -> dict[str, Mapping[str, Any] | None]:
    """The sources of these changes as they would stand in the YAML; None for one removed."""
    return {
        it.name: None if it.config is None else translate(it.name, it.config).source
        for it in changes
    }
