"""Polls for the newest audit while an aggregation runs, so that the status shows it.

Off the critical path: a thread of its own, which reads a table that nothing waits for.
"""

from typing import Self

from aggregator.config.schema import CheckpointConfig
from aggregator.features.service import Resources, Service
from aggregator.features.verify.past_audits import AuditSummary, PastAudits
from aggregator.model.errors import EXIT_DATA
from aggregator.model.loop import Loop
from aggregator.status.schema import AuditCounts, AuditStatus
from aggregator.store.state_store import StateStore

LOOK_SECONDS = 15.0
STOP_SECONDS = 3.0


class AuditWatch(Service):
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

    @classmethod
    def of(cls, given: Resources) -> Self:
        """That of a run."""
        return cls(given.in_force.config.checkpoint)

    def start(self) -> None:
        """Begin to look, in a thread of its own."""
        self._loop.start()

    def status(self) -> AuditStatus | None:
        """The newest audit that is known."""
        return self.latest

    def end(self) -> None:
        """Look no more; returns at once."""
        self._loop.end()

    def stop(self) -> None:
        """End it, and wait a moment for that."""
        self._loop.stop()

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
