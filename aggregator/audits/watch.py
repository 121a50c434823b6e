"""Looks now and then which audit is the newest, while an aggregation runs, so that it is shown.

Off the critical path: a thread of its own, which reads a table that nobody waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aggregator.audits.table import HUB_TOPIC, PARTITION, newest_audit
from aggregator.config.schema import CheckpointConfig
from aggregator.documents.document import AuditStatus
from aggregator.errors import EXIT_DATA
from aggregator.verify.core import Standing

LOOK_SECONDS = 15.0
STOP_SECONDS = 3.0
SILENT = (Standing.UNREACHABLE, Standing.CONFLICT)


class AuditWatch:
    """Knows the newest audit. Nothing here stops a run, or keeps it waiting.

    `latest` is replaced as a whole, so that it can be read from any thread; it is None while no
    audit is recorded.
    """

    def __init__(self, place: CheckpointConfig) -> None:
        self._place = place
        self._version: int | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="audits", daemon=True)
        self.latest: AuditStatus | None = None

    def start(self) -> None:
        """Begin to look, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def look(self) -> None:
        """Look once; what cannot be read becomes `error`, beside what is known."""
        try:
            found = newest_audit(self._place.path, self._place.storage_options, self._version)
            newest = audit_status(found[1]) if found is not None and found[1] else None
        except Exception as error:  # a thread has no caller to raise to: it becomes the status
            self._note(str(error))
            return
        if found is None:
            self._version, self.latest = None, None
            return
        version, _ = found
        if newest is not None:
            self.latest = newest
        elif self.latest is not None and self.latest.error:
            self._note("")
        self._version = version

    def _note(self, error: str) -> None:
        known = self.latest or AuditStatus()
        self.latest = known.model_copy(update={"error": error})

    def _loop(self) -> None:
        self.look()
        while not self._over.wait(LOOK_SECONDS):
            self.look()


def audit_status(rows: Sequence[Mapping[str, Any]]) -> AuditStatus:
    """What the rows of one audit come to."""
    partitions = [row for row in rows if row["kind"] == PARTITION]
    topics = [row for row in rows if row["kind"] == HUB_TOPIC]
    return AuditStatus(
        at=rows[0]["at"],
        wrong=rows[0]["exit_code"] == EXIT_DATA,
        partitions=len(partitions),
        not_compared=sum(row["standing"] in SILENT for row in partitions),
        expected=_sum(partitions, "expected"),
        present=_sum(partitions, "present"),
        missing=_sum(partitions, "missing"),
        twice=_sum(partitions, "twice"),
        altered=_sum(partitions, "altered"),
        out_of_order=_sum(partitions, "out_of_order"),
        # These are counted where they lie: at the hub.
        foreign=_sum(topics, "foreign"),
    )


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] or 0 for row in rows)
