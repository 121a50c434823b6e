"""Tables that several commands show."""

from collections.abc import Sequence

from aggregator.cli.render import Columns, Table, named, table
from aggregator.model.values import SourceState
from aggregator.status.from_checkpoint import PositionRow
from aggregator.status.percentiles import short_duration, size_text
from aggregator.status.schema import BackfillStatus, SourceStatus, Status


def sources_table(status: Status) -> Table:
    """The sources of a running or ended instance: what was copied of each since the start, and lag.

    `latency` is the age of records on arrival, p50 / p99 of the last minute.
    """
    columns: Columns = {
        **named("source=alias, state, topics, partitions, records"),
        "bytes": lambda it: size_text(it.bytes),
        "latency": latency_text,
        **named("lag, why=reason"),
    }
    return table("Sources", columns, status.sources, ("bytes", "latency", "lag"))


def latency_text(source: SourceStatus) -> str | None:
    """p50 and p99 of the age of what arrived; None where nothing did, or where age is no latency.

    What a source has held since before it was read is old whatever we do.
    """
    age = source.latency.age_ms
    if age is None or source.state is SourceState.CATCHING_UP:
        return None
    longer_from = age.longer_from or 100
    return " / ".join(
        f"{'> ' if percent >= longer_from else ''}{short_duration(value / 1000)}"
        for percent, value in ((50, age.p50), (99, age.p99))
    )


def positions_table(positions: Sequence[PositionRow]) -> Table:
    """Positions of the checkpoint."""
    columns = named(
        "source=cluster, topic, partition, position, log end then=log_end, lane, commit=seq, clean"
    )
    return table("Positions (the next offset to read)", columns, positions, ("log end then",))


def backfills_table(backfills: Sequence[BackfillStatus]) -> Table:
    """A line for each backfill."""
    columns: Columns = {
        **named("id, source, topic, state"),
        "partitions": lambda it: len(it.parts),
        **named("records, left, lost, ordered (UTC)=ordered_at"),
        "what it does": lambda it: "; ".join(part for part in (it.doing, it.reason) if part),
    }
    return table("Backfills", columns, backfills)
