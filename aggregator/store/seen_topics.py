"""The table of topics, beside the checkpoints: which topics each source was seen to have.

So that a topic that appears while nothing runs is known to be new at the next start. Append-only:
a row has what a source was not seen to have before.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from aggregator.plan.snapshot import TopicsSeen
from aggregator.store.state_store import StateStore

TABLE = "topics"


@dataclass(frozen=True, slots=True)
class SeenRow:
    """Topics of a source that it was not seen to have before."""

    at: datetime
    cluster: str
    cluster_id: str
    topics: tuple[str, ...]


class SeenTable:
    """The log of topics; all raise CheckpointError."""

    def __init__(self, store: StateStore) -> None:
        self._log = store.log(TABLE, SeenRow)

    def load(self) -> TopicsSeen:
        """The topics of each source, of the cluster that it was last."""
        topics: dict[str, frozenset[str]] = {}
        ids: dict[str, str] = {}
        for row in self._log.items():
            same = ids.get(row.cluster) == row.cluster_id
            before = topics.get(row.cluster, frozenset()) if same else frozenset()
            topics[row.cluster] = before | frozenset(row.topics)
            ids[row.cluster] = row.cluster_id
        return TopicsSeen(topics, ids)

    def add(self, seen: TopicsSeen) -> None:
        """Append what was not seen before."""
        at = datetime.now(UTC)
        self._log.append(
            SeenRow(at, alias, seen.cluster_ids[alias], tuple(sorted(names)))
            for alias, names in seen.topics.items()
        )
