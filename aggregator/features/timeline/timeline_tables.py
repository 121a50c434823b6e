"""The tables `history` and `events` beside the checkpoints, and how a span of them is asked for.

Nothing is decided by their rows: a commit is not forced to the disk.
"""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from aggregator.features.timeline.timeline_report import EventRow, HistoryRow
from aggregator.store.state_store import Log, StateStore

HISTORY = "history"
EVENTS = "events"


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
