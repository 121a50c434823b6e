"""The table of groups that were cut over to the hub, beside the checkpoints.

Append-only. A group is at the hub for as long as it has committed nothing more at its sources, so a
row has what it had committed there; when it commits more at a source, no row says so any more.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from aggregator.model.values import TopicPartition
from aggregator.store.state_store import StateStore

TABLE = "moved_groups"

Commits = Mapping[str, Mapping[TopicPartition, int]]
"""Source (alias) -> what a group has committed there."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Groups that were taken over, each with a source and what it had committed there."""

    rows: frozenset[tuple[str, str, str]] = frozenset()

    def has(self, group: str, commits: Commits) -> bool:
        """Whether it was taken over, and has committed nothing at these sources since."""
        rows = [(alias, group, _text(own)) for alias, own in commits.items() if own]
        return bool(rows) and self.rows.issuperset(rows)


@dataclass(frozen=True, slots=True)
class MovedRow:
    """A group that was taken over, and what it had committed at one source, as text."""

    at: datetime
    cluster: str
    group: str
    commits: str


class MovedGroups:
    """The log of moved groups; what fails is a CheckpointError."""

    def __init__(self, store: StateStore) -> None:
        self._log = store.log(TABLE, MovedRow)

    def read(self) -> Moved:
        """All groups that were ever taken over."""
        return Moved(frozenset((it.cluster, it.group, it.commits) for it in self._log.items()))

    def put(self, groups: Mapping[str, Commits]) -> None:
        """Note that the hub has the places of these; returns when it is in the table."""
        at = datetime.now(UTC)
        self._log.append(
            MovedRow(at, alias, group, _text(own))
            for group, commits in groups.items()
            for alias, own in commits.items()
            if own
        )


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps([[*tp, at] for tp, at in sorted(offsets.items())])
