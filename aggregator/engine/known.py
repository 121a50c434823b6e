"""The checkpoint as a step goes by it, and which log ends belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aggregator.checkpoint.state import State
from aggregator.engine.observer import Observer
from aggregator.flow.news import Known
from aggregator.model import SourcePartition
from aggregator.plan.suspects import Reading, Seen, foreign


def known_of(state: State) -> Known:
    """What a checkpoint knows."""
    return Known(
        state.remembered(),
        state.unclean,
        state.furthest_hub_ends(),
        state.epoch,
        not state.entries,
    )


class KnownOf:
    """What an observer's checkpoint knows; made anew only when there was a commit."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._state: State | None = None
        self._known = Known()

    def now(self) -> Known:
        """The same, with the newest positions of what runs."""
        state = self._observer.state
        if state is not self._state:
            self._state = state
            self._known = known_of(state)
        positions = self._observer.positions
        return replace(self._known, remembered=replace(self._known.remembered, positions=positions))


def own_ends(
    state: State, log_ends: Mapping[SourcePartition, int], seen: Mapping[str, Seen]
) -> dict[SourcePartition, int]:
    """The log ends without those of logs that are not what the checkpoint's positions are of.

    By the ids in `seen`. Ids never come back, so what was told before they were asked for is
    certain.
    """
    known = {
        sp: Reading(entry.position, entry.cluster_id, entry.topic_id)
        for sp, entry in state.entries.items()
        if sp in log_ends
    }
    others = foreign(known, seen)
    return {sp: end for sp, end in log_ends.items() if sp not in others}
