"""Which sources share no lane for now, because a lane that they shared has failed."""

from __future__ import annotations

from aggregator.model import Lane


class Supervision:
    """Alone, only the culprit fails again. Used by the engine's thread.

    A source that is only away, hung or refuses us costs the others nothing: its tasks are its own,
    and what they meet is told, not thrown. What is left is what ends a whole query, such as a
    transform that fails.
    """

    def __init__(self) -> None:
        self.apart: frozenset[str] = frozenset()
        """Aliases of sources that share no lane, until this run ends."""

    def failed(self, lane: Lane, *, explained: bool) -> None:
        """A lane has failed: if several sources share it, each gets a lane of its own.

        Not when it is `explained` by what the next try will do otherwise.
        """
        if len(lane.clusters) > 1 and not explained:
            self.apart = self.apart | set(lane.clusters)
