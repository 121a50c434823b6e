"""Tables that several commands show."""

from __future__ import annotations

from collections.abc import Sequence

from aggregator.audit.document import Status
from aggregator.audit.stopped import PositionRow
from aggregator.cli.render import Table


def sources_table(status: Status) -> Table:
    """The sources of a running or ended instance: topics, partitions, records copied, lag."""
    return Table(
        "Sources",
        ("source", "state", "topics", "partitions", "records", "lag", "why"),
        [
            (
                source.alias,
                source.state,
                source.topics,
                source.partitions,
                records_of(status, source.alias),
                source.lag,
                source.reason or None,
            )
            for source in status.sources
        ],
        frozenset({"topics", "partitions", "records", "lag"}),
    )


def records_of(status: Status, alias: str) -> int | None:
    """Records copied of a source since the start; None when it shares a lane, which counts all."""
    lanes = [lane for lane in status.lanes if alias in lane.clusters]
    if any(lane.clusters != (alias,) for lane in lanes):
        return None
    return sum(lane.records for lane in lanes)


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
