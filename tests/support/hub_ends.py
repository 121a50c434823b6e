"""Where a recovery begins to read the hub, by a state of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from aggregator.model.values import SourcePartition, TopicPartition
from aggregator.plan.positions.hub_losses import least_ends
from aggregator.store.checkpoint.start_state import CheckpointState


def hub_ends_for(
    state: CheckpointState, partitions: Iterable[SourcePartition] | None = None
) -> dict[TopicPartition, int]:
    """The lower bound of the hub tail of `partitions`, or of all."""
    wanted = state.entries if partitions is None else partitions
    return least_ends(state.own_hub_ends(wanted).values())
