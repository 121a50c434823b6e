"""The tables `history` and `events` beside the checkpoints: append, read a span, keep small."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aggregator.features.timeline.timeline_report import EventRow, HistoryRow
from aggregator.store.state_store import StateStore

HISTORY = "history"
EVENTS = "events"
AT = ("at", pa.timestamp("us", "UTC"))
SCHEMAS = {
    HISTORY: pa.schema(
        [
            AT,
            ("seconds", pa.float64()),
            ("source", pa.string()),
            ("topic", pa.string()),
            ("state", pa.string()),
            ("records", pa.int64()),
            ("bytes", pa.int64()),
            ("lag", pa.int64()),
            ("lag_bytes", pa.int64()),
            ("seconds_behind", pa.float64()),
            *(
                (f"{what}_p{percent}_ms", pa.int64())
                for what in ("age", "flight")
                for percent in (50, 95, 99)
            ),
        ]
    ),
    EVENTS: pa.schema(
        [
            AT,
            ("id", pa.int64()),
            ("kind", pa.string()),
            ("level", pa.string()),
            ("message", pa.string()),
            ("source", pa.string()),
            ("fields", pa.string()),
        ]
    ),
}
"""Columns and their types; `fields` is JSON."""


class TimelineTable:
    """One of the two tables. Whatever cannot be read or written is a CheckpointError.

    A commit is not forced to the disk: nothing is decided by these rows, and a power loss may cost
    the last of them.
    """

    def __init__(self, store: StateStore, name: str) -> None:
        self._table = store.table(name)
        self._schema = SCHEMAS[name]

    def append(self, rows: Sequence[HistoryRow | EventRow]) -> None:
        """Append rows in one commit; the table is made if there is none."""
        if not rows:
            return
        plain = [row.model_dump() for row in rows]
        for row in plain:
            if "fields" in row:
                row["fields"] = json.dumps(row["fields"], ensure_ascii=False)
        self._table.append(pa.Table.from_pylist(plain, schema=self._schema))

    def read(
        self,
        since: datetime,
        until: datetime,
        equal: Mapping[str, str | None],
        *,
        most: int | None = None,
    ) -> list[dict[str, Any]]:
        """The rows after `since`, up to `until`, in the order of time; with `most` the last ones.

        `equal` are columns and the value that is asked for; None asks for all.
        """
        delta = self._table.open(may_be_begun=True)
        if delta is None:
            return []
        wanted = (pc.field("at") > pa.scalar(since)) & (pc.field("at") <= pa.scalar(until))
        for column, value in equal.items():
            if value is not None:
                wanted = wanted & (pc.field(column) == value)
        with self._table.translated("read"):
            found = self._table.dataset(delta).to_table(filter=wanted).sort_by("at")
            if most is not None:
                found = found.slice(max(0, found.num_rows - most))
            rows: list[dict[str, Any]] = found.to_pylist()
        for row in rows:
            if "fields" in row:
                row["fields"] = json.loads(row["fields"] or "{}")
        return rows

    def maintain(self, before: datetime) -> int:
        """Drop rows older than `before`, merge small files, cut the log; returns rows dropped."""
        return self._table.trim(before)
