"""Audits of the past, each in a line: out of the table beside the checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pydantic import Field

from aggregator.audits.table import HUB_TOPIC, TABLE
from aggregator.checkpoint.delta import dataset, open_delta, translated
from aggregator.documents.document import Document

WRONG = ("missing", "twice", "altered", "out_of_order", "foreign")


class AuditSummary(Document):
    """One audit. Counts are of records, over all its source partitions and hub topics."""

    audit: str
    at: datetime
    seconds: float
    commit: int | None = Field(description="the checkpoint's whose positions were judged")
    exit_code: int = Field(description="0 all is well, 3 not all could be looked at, 4 wrong")
    partitions: int
    expected: int
    missing: int
    twice: int
    altered: int
    out_of_order: int
    foreign: int

    @property
    def wrong(self) -> dict[str, int]:
        """What is wrong, by its kind."""
        counts = {name: int(getattr(self, name)) for name in WRONG}
        return {name: count for name, count in counts.items() if count}


class AuditsReport(Document):
    """The newest audits, the newest first."""

    name: str
    audits: tuple[AuditSummary, ...]


class PastAudits:
    """The audits in a table; read anew only when there is a new version of it. For many threads."""

    def __init__(self, path: str, storage_options: Mapping[str, str]) -> None:
        self._path = path
        self._options = storage_options
        self._lock = threading.Lock()
        self._version: int | None = None
        self._found: tuple[AuditSummary, ...] = ()

    def newest(self, limit: int) -> tuple[AuditSummary, ...]:
        """The newest `limit` audits, the newest first; none without a table.

        Raises CheckpointError when it cannot be read.
        """
        with self._lock:
            delta = open_delta(self._path, self._options, TABLE, may_be_begun=True)
            if delta is None:
                return ()
            if delta.version() != self._version:
                self._found = self._read(delta)
                self._version = int(delta.version())
            return self._found[:limit]

    def _read(self, delta: DeltaTable) -> tuple[AuditSummary, ...]:
        keys = ["audit", "at", "seconds", "commit", "exit_code", "kind"]
        sums = ("expected", *WRONG)
        with translated(self._path, "read", TABLE):
            rows = dataset(delta, self._path, TABLE).to_table(columns=[*keys, *sums])
        wanted = [*((name, "sum") for name in sums), ("kind", "count")]
        found: dict[str, dict[str, Any]] = {}
        for row in pa.TableGroupBy(rows, keys).aggregate(wanted).to_pylist():
            blank = {**{it: row[it] for it in keys[:-1]}, **dict.fromkeys(("partitions", *sums), 0)}
            one = found.setdefault(row["audit"], blank)
            # Foreign records are counted where they lie, at the hub; all else per source partition.
            at_hub = row["kind"] == HUB_TOPIC
            one |= {it: row[f"{it}_sum"] or 0 for it in sums if (it == "foreign") == at_hub}
            if not at_hub:
                one["partitions"] = row["kind_count"]
        audits = [AuditSummary.model_validate(one) for one in found.values()]
        return tuple(sorted(audits, key=lambda it: it.at, reverse=True))
