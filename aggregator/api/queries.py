"""What the API reads beside the status: gaps, quarantine, audits, commits, live topics."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from aggregator.api.incidents import Incident, incidents
from aggregator.api.permissions import CallerError
from aggregator.config.mask import mask_text
from aggregator.engine.control.command_queue import NotReadyError
from aggregator.engine.control.commands import Control
from aggregator.features.dedup.duplicates import DroppedReport, dropped_report
from aggregator.features.peek.read_topic import AbsentError, ReadFrom, look_at
from aggregator.features.peek.topic_report import TopicLook
from aggregator.features.quarantine.ledger import Filter, Ledger
from aggregator.features.quarantine.quarantined import (
    QuarantinedRecord,
    QuarantineReport,
    RetryReport,
    quarantine_report,
    retry_rows,
)
from aggregator.features.quarantine.reader import (
    QuarantineReader,
    chosen_of,
    opened,
    opened_duplicates,
)
from aggregator.features.quarantine.retry import Retry, RetryOutcome
from aggregator.features.timeline.past_queries import read_events
from aggregator.features.timeline.timeline_report import EventRow
from aggregator.features.verify.past_audits import AuditsReport, AuditSummary, PastAudits
from aggregator.kafka.admin import ClusterAdmin
from aggregator.kafka.admin.parallel import ask_all
from aggregator.model.errors import AggregatorError, ClusterError, RefusedError
from aggregator.plan.topics.quarantine_topics import duplicates_topic, quarantine_topic
from aggregator.status.gaps import GapsReport, gaps_report
from aggregator.status.schema import RecoveryStatus, Status
from aggregator.store.checkpoint.history import Commit, history
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore

INCIDENTS = 200
"""The number of each kind in the timeline."""
RECOVERING = "recovering"
"""The kind of the event about a recovery."""
BUSY_SECONDS = 5.0
READ_SECONDS = 0.7
"""A page is answered within a second: what is read later is there when it is asked for again."""
LOOKS = 8
"""How many may look at topics at once: each holds a thread until its cluster answers."""
MOST_RETRIED = 200
"""Each is fetched and written by itself; commands try any number."""

Found = TypeVar("Found")


class QueryService:
    """Answers from tables and clusters, never from the engine; used by many threads.

    The quarantine topic is read from its beginning once, and then on from where it was left.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._ledger = Ledger()
        self._read_in = control.opened
        self._quarantine = threading.Lock()
        self._looks = threading.BoundedSemaphore(LOOKS)
        self._audits = PastAudits(StateStore.of(control.config.checkpoint))

    def gaps(
        self, source: str | None, topic: str | None, *, only_open: bool, limit: int
    ) -> GapsReport:
        """Gaps, open ones first. Raises CheckpointError."""
        found = self._gaps().select(source, topic)
        return gaps_report(found, only_open=only_open, limit=limit)

    def accept(self, names: list[str], source: str | None, topic: str | None) -> GapsReport:
        """Accept open gaps; what they hold back continues at once. Raises as `GapTable.accept`."""
        accepted = self._gaps().accept(names, source, topic)
        # Where it only starts, or stops, the next look is the first one of a start.
        with suppress(NotReadyError):
            self._control.request_discovery()
        return gaps_report(accepted, only_open=False, limit=len(accepted))

    def quarantine(self, wanted: Filter, *, retried: bool, limit: int) -> QuarantineReport:
        """Records that the hub refused. Raises ClusterError."""
        with self._opened():
            return self._known(wanted, retried=retried, limit=limit)

    def dropped(
        self, wanted: Filter, since: datetime, *, retried: bool, limit: int
    ) -> DroppedReport:
        """Records that dedup has dropped since then.

        Raises ClusterError, and NotReadyError while many others look.
        """
        config = self._control.config
        # Each has a ledger of its own of all of them.
        with self._looking(), opened_duplicates(config, since) as (_, _, ledger):
            found = list(ledger.select(wanted, retried=retried))
        return dropped_report(duplicates_topic(config), found, limit)

    def retry(self, wanted: Filter, *, dry_run: bool, overwrite: bool) -> RetryReport:
        """Try records again; when the hub goes away meanwhile, what became of those before it.

        Raises ClusterError when it does not answer at all.
        """
        config = self._control.config
        outcomes: list[RetryOutcome] = []
        unknown: list[str] = []
        failure = ""
        with self._opened() as (admin, reader, ledger):
            chosen, unknown = chosen_of(ledger, wanted)
            if len(chosen) > MOST_RETRIED:
                raise RefusedError(
                    [f"{len(chosen)} records are too many at once: name {MOST_RETRIED} at most"]
                )
            try:
                attempts = Retry(config, admin, reader, ledger)
                outcomes.extend(attempts.retry(chosen, dry_run=dry_run, overwrite=overwrite))
            except ClusterError as error:
                if not outcomes:
                    raise
                failure = mask_text(str(error), config)
        rows = tuple(
            it.model_copy(update={"detail": mask_text(it.detail, config)})
            for it in retry_rows(outcomes, unknown)
        )
        return RetryReport(dry_run=dry_run, records=rows, error=failure)

    def commits(self, limit: int) -> list[Commit]:
        """The last commits of the checkpoint, the newest first. Raises CheckpointError."""
        place = self._control.config.checkpoint
        return history(place.path, place.storage_options, limit)

    def audits(self, limit: int) -> AuditsReport:
        """The last audits, the newest first. Raises CheckpointError."""
        return AuditsReport(name=self._control.config.name, audits=self._audits.newest(limit))

    def recoveries(self) -> tuple[EventRow, ...]:
        """Events of recoveries in the last month. Raises CheckpointError."""
        now = datetime.now(UTC)
        month = now - timedelta(days=30)
        config = self._control.config
        return read_events(config, month, now, kind=RECOVERING, limit=INCIDENTS).events

    def look(
        self,
        status: Status,
        source: str | None,
        topic: str,
        records: int,
        *,
        partition: int | None = None,
        start: ReadFrom | None = None,
    ) -> TopicLook:
        """A topic as it is now at a source, or with None at the hub; only one that is copied.

        Its records are the newest, or those from `start` on, of one partition or of all.

        A cluster that does not answer is reported as such. Raises CallerError for a topic that is
        not copied, or is not there, NotReadyError while many others look.
        """
        copied = {
            it.hub_topic if source is None else it.topic
            for it in status.partitions
            if source in (None, it.cluster)
        }
        if topic not in copied:
            where = "the hub" if source is None else f"source {source}"
            raise CallerError(404, f"no topic {topic} of {where} is copied")
        try:
            config = self._control.config
            with self._looking():
                return look_at(config, source, topic, records, partition=partition, start=start)
        except AbsentError as error:
            raise CallerError(404, str(error)) from error
        except ClusterError as error:
            return TopicLook(
                source=source,
                topic=topic,
                replication_factor=0,
                partitions=(),
                configs={},
                records=(),
                error=mask_text(str(error), self._control.config),
            )

    def incidents(self, status: Status) -> tuple[list[Incident], tuple[str, ...]]:
        """The timeline, and what of it could not be read."""
        failing: list[str] = []
        recovery: RecoveryStatus | None = status.recovery
        config = self._control.config

        def tried(what: str, read: Callable[[], Found], instead: Found) -> Found:
            try:
                return read()
            except AggregatorError as error:
                failing.append(f"{what}: {mask_text(str(error), config)}")
                return instead

        gaps = tried("gaps", lambda: self.gaps(None, None, only_open=False, limit=INCIDENTS), None)
        records: tuple[QuarantinedRecord, ...] = ()
        if status.quarantine is not None:
            # A hub that hangs is not waited for: what was known last is shown then.
            for error in ask_all({"quarantine": self._read_on}, READ_SECONDS).failed.values():
                failing.append(f"newer quarantined records: {mask_text(str(error), config)}")
            records = self._known(Filter(), retried=True, limit=INCIDENTS).records
        audits: tuple[AuditSummary, ...] = tried("audits", lambda: self.audits(20).audits, ())
        earlier: tuple[EventRow, ...] = tried("recoveries", self.recoveries, ())
        found = incidents(() if gaps is None else gaps.gaps, records, recovery, earlier, audits)
        return found, tuple(failing)

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """A place among the few who read a topic at once. Raises NotReadyError."""
        if not self._looks.acquire(blocking=False):
            raise NotReadyError(f"{LOOKS} look at topics already: try again in a moment")
        try:
            yield
        finally:
            self._looks.release()

    def _gaps(self) -> GapTable:
        return GapTable(StateStore.of(self._control.config.checkpoint))

    def _known(self, wanted: Filter, *, retried: bool, limit: int) -> QuarantineReport:
        found = list(self._ledger.select(wanted, retried=retried))
        return quarantine_report(quarantine_topic(self._control.config), found, limit)

    def _read_on(self) -> None:
        with self._opened():
            pass

    @contextmanager
    def _opened(self) -> Iterator[tuple[ClusterAdmin, QuarantineReader, Ledger]]:
        """The ledger as it is now, exclusively for the block."""
        if not self._quarantine.acquire(timeout=BUSY_SECONDS):
            raise NotReadyError("the quarantine topic is just being read: try again in a moment")
        try:
            if self._control.opened != self._read_in:
                # A take-over uses the config of then, which may name another topic.
                self._ledger, self._read_in = Ledger(), self._control.opened
            with opened(self._control.config, self._ledger) as whole:
                yield whole
        finally:
            self._quarantine.release()
