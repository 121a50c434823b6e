"""The checkpoint in the form that a step takes."""

from __future__ import annotations

from dataclasses import replace

from aggregator.engine.commits.observer import Observer
from aggregator.plan.lifecycle.inputs import Known
from aggregator.store.checkpoint.start_state import CheckpointState


def known_of(state: CheckpointState) -> Known:
    """What a checkpoint knows."""
    return Known(
        state.remembered(),
        state.unclean,
        state.furthest_hub_ends(),
        state.epoch,
        not state.entries,
        state.ends_by_hand(),
        {alias: snapshot.hub_ends for alias, snapshot in state.doubts.items()},
    )


class KnownOf:
    """What an observer's checkpoint knows; rebuilt only after a commit."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._state: CheckpointState | None = None
        self._known = Known()

    def now(self) -> Known:
        """The same, with the newest positions of what runs."""
        state = self._observer.state
        if state is not self._state:
            self._state = state
            self._known = known_of(state)
        positions = self._observer.positions
        return replace(self._known, remembered=replace(self._known.remembered, positions=positions))
