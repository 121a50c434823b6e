"""Accepts the named gaps, so that their partitions continue."""

from collections.abc import Sequence
from datetime import UTC, datetime

from aggregator.model.errors import RefusedError
from aggregator.plan.positions.gaps import GapRecord
from aggregator.store.gaps import GapTable


def load_gaps(table: GapTable, source: str | None, topic: str | None) -> list[GapRecord]:
    """The newest record of each gap, of a source and a topic where they are given.

    Raises CheckpointError.
    """
    return [
        record
        for record in table.load().values()
        if source in (None, record.gap.partition.cluster)
        and topic in (None, record.gap.partition.topic)
    ]


def accept_gaps(
    table: GapTable,
    names: Sequence[str],
    source: str | None,
    topic: str | None,
) -> list[GapRecord]:
    """Accept open gaps: those with these ids, or with none all of a source or topic.

    A running instance continues at its next discovery, else the next start does. Raises
    RefusedError for an id that is no open gap, and when nothing is named at all; CheckpointError.
    """
    if not names and source is None and topic is None:
        raise RefusedError(["name gaps by their ids, or all open ones by source or topic"])
    found = {it.id: it for it in load_gaps(table, source, topic) if not it.resolved}
    if unknown := sorted(set(names) - found.keys()):
        raise RefusedError(
            [f"no open gap {', '.join(unknown)}; `aggregator gaps --open` lists them"]
        )
    now = datetime.now(UTC)
    chosen = [found[name] for name in dict.fromkeys(names)] if names else list(found.values())
    accepted = [record.accepted(now) for record in chosen]
    table.append(accepted)
    return accepted
