"""Tables that several commands show."""

from __future__ import annotations

from collections.abc import Sequence

from aggregator.cli.render import Table
from aggregator.documents.document import BackfillStatus, SourceStatus, Status
from aggregator.documents.stopped import PositionRow
from aggregator.documents.units import short_duration, size_text
from aggregator.model import SourceState


def sources_table(status: Status) -> Table:
    """The sources of a running or ended instance: what was copied of each since the start, and lag.

    `latency` is the age of records on arrival, p50 / p99 of the last minute.
    """
    return Table(
        "Sources",
        (
            "source",
            "state",
            "topics",
            "partitions",
            "records",
            "bytes",
            "latency",
            "lag",
            "why",
        ),
        [
            (
                source.alias,
                source.state,
                source.topics,
                source.partitions,
                source.records,
                size_text(source.bytes),
                latency_text(source),
                source.lag,
                source.reason or None,
            )
            for source in status.sources
        ],
        frozenset({"topics", "partitions", "records", "bytes", "latency", "lag"}),
    )


def latency_text(source: SourceStatus) -> str | None:
    """p50 and p99 of the age of what arrived; None where nothing did, or where age is no latency.

    What a source has held since before it was read is old whatever we do.
    """
    age = source.latency.age_ms
    if age is None or source.state is SourceState.CATCHING_UP:
        return None
    return f"{short_duration(age.p50 / 1000)} / {short_duration(age.p99 / 1000)}"


def positions_table(positions: Sequence[PositionRow]) -> Table:
    """Positions of the checkpoint."""
    return Table(
        "Positions (the next offset to read)",
        ("source", "topic", "partition", "position", "log end then", "lane", "commit", "clean"),
        [
            (
                row.cluster,
                row.topic,
                row.partition,
                row.position,
                row.log_end,
                row.lane,
                row.seq,
                row.clean,
            )
            for row in positions
        ],
        frozenset({"partition", "position", "log end then", "commit"}),
    )


def backfills_table(backfills: tuple[BackfillStatus, ...]) -> Table:
    """A line for each backfill."""
    rows = [
        (
            it.id,
            it.source,
            it.topic,
            it.state,
            len(it.parts),
            it.records,
            it.left,
            it.lost,
            it.ordered_at,
            "; ".join(part for part in (it.doing, it.reason) if part) or None,
        )
        for it in backfills
    ]
    columns = ("id", "source", "topic", "state", "partitions", "records", "left", "lost")
    right = frozenset(columns[4:])
    return Table("Backfills", (*columns, "ordered (UTC)", "what it does"), rows, right)
