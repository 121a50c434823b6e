"""Reads history and events from their tables, whether an instance runs or not.

Nothing is decided by their rows: a commit is not forced to the disk.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from operator import or_
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from aggregator.config.schema import Config
from aggregator.features.timeline.minutes import WORST, joined
from aggregator.features.timeline.timeline_report import (
    EventRow,
    EventsReport,
    HistoryReport,
    HistoryRow,
)
from aggregator.store.state_store import Log, StateStore

HISTORY = "history"
EVENTS = "events"
ADDED = ("records", "bytes", "lag", "lag_bytes")
"""Of rows that are one these are added up."""


def history_log(store: StateStore) -> Log[HistoryRow]:
    """The rows of the minutes."""
    return store.log(HISTORY, HistoryRow, durable=False)


def events_log(store: StateStore) -> Log[EventRow]:
    """What happened."""
    return store.log(EVENTS, EventRow, durable=False)


def within(since: datetime, until: datetime, **equal: str | None) -> pc.Expression:
    """Of the rows after `since`, up to `until`, those with these values; None asks for all."""
    wanted = (pc.field("at") > pa.scalar(since)) & (pc.field("at") <= pa.scalar(until))
    for column, value in equal.items():
        if value is not None:
            wanted = wanted & (pc.field(column) == value)
    return wanted


class Of(NamedTuple):
    """Whose rows: of a source, or with None of all; of a topic, or with None of all of its topics.

    With `into` those of these (source, topic) alone.
    """

    source: str | None = None
    topic: str | None = None
    into: Sequence[tuple[str, str]] | None = None

    def fits(self) -> pc.Expression:
        """The condition for a row."""
        if self.into is not None:
            any_of = (
                (pc.field("source") == source) & (pc.field("topic") == topic)
                for source, topic in self.into
                if self.source in (None, source)
            )
            return reduce(or_, any_of, pc.scalar(False))
        # Left out by the table: rows of topics are many times those of the sources.
        of = pc.field("topic").is_null() if self.topic is None else pc.field("topic") == self.topic
        return of if self.source is None else of & (pc.field("source") == self.source)


ALL = Of()


class Joining(NamedTuple):
    """How rows are joined: to spans of `step_seconds`, and with `total` all sources to one.

    With `most` only the newest rows are taken, before they are joined to spans.
    """

    step_seconds: float = 0.0
    total: bool = False
    most: int | None = None


AS_THEY_ARE = Joining()


def read_history(
    config: Config,
    since: datetime,
    until: datetime,
    *,
    of: Of = ALL,
    joining: Joining = AS_THEY_ARE,
) -> HistoryReport:
    """The rows that are asked for, after `since` and up to `until`.

    With a total the rows that end together are one, see `together`. Raises CheckpointError.
    """
    wanted = within(since, until) & of.fits()
    step_seconds, total, most = joining
    log = history_log(StateStore.of(config.checkpoint))
    # One more shows whether there are more.
    some = None if most is None else most + 1
    rows = tuple(log.select(wanted, some, join=together if total else None))
    cut = ""
    if most is not None and len(rows) > most:
        rows = rows[-most:]
        cut = f"rows before these are left out: {most:,} are the most"
    if step_seconds > 0:
        rows = joined(rows, step_seconds)
    return HistoryReport(name=config.name, since=since, until=until, rows=rows, cut=cut)


def together(rows: pa.Table) -> pa.Table:
    """Rows of topics, or of none, that end at the same moment as one, of a source without a name.

    Of several topics it has the name of the first.

    What is known of counts and lags is added up. How far behind, and each percentile, is the
    largest: that of the slowest source, as a table has no percentiles of all of them together.
    """
    how = {"seconds": "max", **dict.fromkeys(ADDED, "sum"), **dict.fromkeys(WORST, "max")}
    # A table that an older version has written may lack some.
    known = {name: it for name, it in how.items() if name in rows.column_names}
    found = rows.group_by(["at"], use_threads=False).aggregate([*known.items(), ("topic", "first")])
    blank = pa.repeat("", found.num_rows)
    columns = {name: found[f"{name}_{it}"] for name, it in known.items()}
    named = {"at": found["at"], "topic": found["topic_first"], "source": blank, "state": blank}
    return pa.table({**named, **columns})


def read_events(
    config: Config,
    since: datetime,
    until: datetime,
    *,
    source: str | None = None,
    kind: str | None,
    after: int = 0,
    limit: int = 200,
    unsaved: Iterable[EventRow] = (),
    failing: str = "",
) -> EventsReport:
    """The newest `limit` events after `since` and the id `after`, up to `until`, oldest first.

    `unsaved` are those of the running instance that may not be in the table yet. Raises
    CheckpointError.
    """
    wanted = within(since, until, source=source, kind=kind)
    found = events_log(StateStore.of(config.checkpoint)).select(wanted, most=limit)
    rows = {row.id: row for row in found}
    for row in unsaved:
        fits = source in (None, row.source) and kind in (None, row.kind)
        if fits and since < row.at <= until:
            rows[row.id] = row
    kept = [rows[number] for number in sorted(rows) if number > after]
    return EventsReport(name=config.name, events=tuple(kept[-limit:]), failing=failing)
