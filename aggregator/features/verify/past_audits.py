"""Past audits, each in a line, from the table beside the checkpoint; the status shows the newest.

A run polls for it in a thread of its own, as it reads a table that nothing waits for.
"""

import threading
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pydantic import Field

from aggregator.config.schema import CheckpointConfig
from aggregator.features.service import LoopService
from aggregator.features.verify.audit_report import NOT_JUDGED, SILENT, SUMS
from aggregator.features.verify.audit_scope import Standing
from aggregator.features.verify.audit_table import HUB_TOPIC, TABLE
from aggregator.model.errors import EXIT_DATA
from aggregator.model.loop import Loop
from aggregator.status.schema import AuditCounts, AuditStatus, Document
from aggregator.store.state_store import StateStore

NOT_COMPARED = (*SILENT, Standing.CONFLICT)


class AuditSummary(AuditCounts):
    """One audit, over all its source partitions and hub topics."""

    audit: str
    at: datetime
    seconds: float
    commit: int | None = Field(description="the checkpoint's whose positions were judged")
    exit_code: int = Field(description="0 all is well, 3 not all could be looked at, 4 wrong")


class AuditsReport(Document):
    """The newest audits, the newest first."""

    name: str
    audits: tuple[AuditSummary, ...]


class PastAudits:
    """The audits in a table, read again only after a new version of it. Thread-safe."""

    def __init__(self, store: StateStore) -> None:
        self._table = store.table(TABLE)
        self._lock = threading.Lock()
        self._version: int | None = None
        self._found: tuple[AuditSummary, ...] = ()

    def newest(self, limit: int) -> tuple[AuditSummary, ...]:
        """The newest `limit` audits, the newest first; none without a table.

        Raises CheckpointError when it cannot be read.
        """
        with self._lock:
            delta = self._table.open(may_be_begun=True)
            if delta is None:
                self._version, self._found = None, ()
            elif delta.version() != self._version:
                self._found = self._read(delta)
                self._version = int(delta.version())
            return self._found[:limit]

    def _read(self, delta: DeltaTable) -> tuple[AuditSummary, ...]:
        own = ["audit", "at", "seconds", "commit", "exit_code"]
        keys = [*own, "kind", "standing"]
        with self._table.translated("read"):
            data = self._table.dataset(delta)
            # An older version has written fewer columns.
            reasons = [name for name in NOT_JUDGED if name in data.schema.names]
            rows = data.to_table(columns=[*keys, *SUMS, *reasons])
        wanted = [*((name, "sum") for name in (*SUMS, *reasons)), ("kind", "count")]
        found: dict[str, dict[str, Any]] = {}
        for row in pa.TableGroupBy(rows, keys).aggregate(wanted).to_pylist():
            blank = dict.fromkeys(("partitions", "not_compared", "not_judged", *SUMS), 0)
            one = found.setdefault(row["audit"], {**{it: row[it] for it in own}, **blank})
            # Foreign records are counted where they lie, at the hub; all else per source partition.
            at_hub = row["kind"] == HUB_TOPIC
            for name in SUMS:
                if (name == "foreign") == at_hub:
                    one[name] += row[f"{name}_sum"] or 0
            if not at_hub:
                one["partitions"] += row["kind_count"]
                one["not_judged"] += sum(row[f"{name}_sum"] or 0 for name in reasons)
                one["not_compared"] += row["kind_count"] if row["standing"] in NOT_COMPARED else 0
        audits = [AuditSummary.model_validate(one) for one in found.values()]
        return tuple(sorted(audits, key=lambda it: it.at, reverse=True))


LOOK_SECONDS = 15.0
STOP_SECONDS = 3.0


class AuditWatch(LoopService):
    """Knows the newest audit. Nothing here stops a run, or keeps it waiting.

    `latest` is replaced as a whole, so that it can be read from any thread; it is None while no
    audit is recorded.
    """

    name = "audit"

    def __init__(self, place: CheckpointConfig) -> None:
        self._past = PastAudits(StateStore.of(place))
        self._loop = Loop(
            "audits",
            self.look,
            every=lambda: LOOK_SECONDS,
            on_error=self._fail,
            stop_seconds=STOP_SECONDS,
        )
        self.latest: AuditStatus | None = None

    def start(self) -> None:
        """Begin to look, in a thread of its own."""
        self._loop.start()

    def status(self) -> AuditStatus | None:
        """The newest audit that is known."""
        return self.latest

    def look(self) -> None:
        """Look once."""
        newest = self._past.newest(1)
        self.latest = audit_status(newest[0]) if newest else None

    def _fail(self, error: Exception) -> None:
        """What cannot be read becomes `error`, beside what is known."""
        known = self.latest or AuditStatus()
        self.latest = known.model_copy(update={"error": str(error)})


def audit_status(audit: AuditSummary) -> AuditStatus:
    """An audit as the status shows it."""
    counts = audit.model_dump(include=set(AuditCounts.model_fields))
    return AuditStatus(**counts, at=audit.at, wrong=audit.exit_code == EXIT_DATA)
