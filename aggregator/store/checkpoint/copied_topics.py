"""Which topics have been copied before, from the checkpoint."""

from __future__ import annotations

from aggregator.config.schema import CheckpointConfig
from aggregator.model.errors import CheckpointError
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable


def copied_topics(place: CheckpointConfig) -> frozenset[tuple[str, str]]:
    """(alias, topic) of which there are positions; nothing where they cannot be read.

    What needs them next says why.
    """
    try:
        table = CheckpointTable.open(place.path, place.storage_options)
        known = table.load().entries if table is not None else {}
    except CheckpointError:
        return frozenset()
    return frozenset((sp.cluster, sp.topic) for sp in known)
