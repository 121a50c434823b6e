"""Reads history and events, whether an instance runs or not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from aggregator.config.schema import Config
from aggregator.features.timeline.minutes import joined
from aggregator.features.timeline.timeline_report import (
    EventRow,
    EventsReport,
    HistoryReport,
)
from aggregator.features.timeline.timeline_tables import events_log, history_log, within
from aggregator.store.state_store import StateStore


def read_history(
    config: Config,
    since: datetime,
    until: datetime,
    *,
    source: str | None = None,
    topic: str | None,
    step_seconds: float = 0.0,
) -> HistoryReport:
    """Rows of the sources, or with `topic` those of a topic, after `since` and up to `until`.

    With `step_seconds` they are joined to spans of that length. Raises CheckpointError.
    """
    wanted = within(since, until, source=source, topic=topic)
    found = history_log(StateStore.of(config.checkpoint)).select(wanted)
    rows = tuple(row for row in found if topic is not None or row.topic is None)
    if step_seconds > 0:
        rows = joined(rows, step_seconds)
    return HistoryReport(name=config.name, since=since, until=until, rows=rows)


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
