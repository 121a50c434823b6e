"""Sends what flows where to a data catalog, as OpenLineage events.

A thread of its own with a client of its own: a catalog that hangs or refuses is a state and an
event, and delays nothing else. What was not sent is sent later: the events follow from the plan,
so none has to be kept.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import Field

from aggregator.config.lineage import LineageConfig
from aggregator.config.schema import Config
from aggregator.features.delta_sink.hub_topics_now import takes
from aggregator.features.delta_sink.supervisor import wants_tee
from aggregator.features.lineage.catalog import Catalog
from aggregator.features.lineage.lineage_jobs import LineageJob, plan_lineage
from aggregator.features.service import LoopService, Now
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import Loop
from aggregator.plan.plan import Plan
from aggregator.plan.topics.selection import Selection
from aggregator.status.service_status import Figure, ServiceStatus
from aggregator.store.delta import table_at

RETRY_SECONDS = 30.0
LAST_SECONDS = 5.0
"""A stop waits this long for the last events of the jobs."""
START, RUNNING, COMPLETE = "START", "RUNNING", "COMPLETE"
"""States of a run, as OpenLineage names them."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A job as the catalog knows it, and the monotonic second of its last event."""

    job: LineageJob
    at: float


@dataclass(frozen=True, slots=True)
class Emission:
    """An event that is due: the new state of a job."""

    state: str
    job: LineageJob


def plan_emissions(
    jobs: tuple[LineageJob, ...], reported: Mapping[str, Reported], now: float, interval: float
) -> tuple[Emission, ...]:
    """The events that are due: of jobs that begin, change or have ended, and regular ones.

    `reported` has jobs by name, `now` are monotonic seconds.
    """
    wanted = {it.name: it for it in jobs}
    ended = [Emission(COMPLETE, it.job) for name, it in reported.items() if name not in wanted]
    new = [Emission(START, it) for it in jobs if it.name not in reported]
    due = [
        Emission(RUNNING, it)
        for it in jobs
        if (known := reported.get(it.name)) is not None
        and (known.job != it or now - known.at >= interval)
    ]
    return (*ended, *new, *due)


def tables_of(config: Config, plan: Plan) -> dict[str, str]:
    """The hub topics that land in a table beside this instance -> where it is."""
    if not wants_tee(config):
        return {}
    selection = Selection.of(config.tee.topics)
    landing = [it for it in plan.hub_topics if takes(config, selection, it)]
    return {it: table_at(config.tee.path, it) for it in landing}


class LineageStatus(ServiceStatus):
    """What a data catalog was sent in this run."""

    jobs: int = Field(default=0, description="jobs that the catalog knows as running")
    events: int = Field(default=0, description="events that were sent in this run")
    error: str = Field(default="", description="why the last event could not be sent, or empty")
    schema_error: str = Field(
        default="", description="why fields of topics are not reported, or empty"
    )

    def lines(self) -> Iterable[str]:
        """One line."""
        failed = f"; failing: {self.error}" if self.error else ""
        schemas = f"; no fields of topics: {self.schema_error}" if self.schema_error else ""
        yield f"Lineage: {self.jobs} jobs reported, {self.events} events sent{failed}{schemas}"

    def figures(self) -> Iterable[Figure]:
        """The events, and whether they fail."""
        words = "OpenLineage events that were sent in this run."
        yield Figure.of("lineage_events_total", words, self.events, count=True)
        words = "1 while OpenLineage events cannot be sent."
        yield Figure.of("lineage_failing", words, float(bool(self.error)))

    def attention(self) -> str:
        """A catalog that cannot be reached."""
        return f"no lineage is reported: {self.error}" if self.error else ""


class Lineage(LoopService):
    """Keeps a catalog up to date with the plan, while the config has a transport."""

    name = "lineage"
    part = LineageStatus

    def __init__(self, emit: EventSink) -> None:
        self._emit = emit
        self._now: Now | None = None
        self._settings = LineageConfig()
        self._catalog: Catalog | None = None
        self._reported: dict[str, Reported] = {}
        self._status = LineageStatus()
        self._loop = Loop(
            "lineage",
            self._turn,
            every=self._every,
            on_error=self._fail,
            finish=self._finish,
            stop_seconds=LAST_SECONDS,
        )

    def follow(self, now: Now) -> None:
        """Report what this plan lets flow."""
        if now.plan is None:
            return
        before, self._now = self._now, now
        if now.config.lineage.transport:
            self._loop.start()
        if before is None or before.plan is not now.plan or before.config is not now.config:
            self._loop.wake()

    def status(self) -> LineageStatus | None:
        """Its status; None without a catalog."""
        now = self._now
        return self._status if now is not None and now.config.lineage.transport else None

    def _every(self) -> float:
        """Seconds until an event may be due without another plan or config."""
        if self._status.error:
            return RETRY_SECONDS
        oldest = min((it.at for it in self._reported.values()), default=time.monotonic())
        return max(0.0, oldest + self._settings.interval - time.monotonic())

    def _turn(self) -> None:
        now = self._now
        if now is None or now.plan is None:
            return
        catalog = self._catalog_of(now)
        if catalog is None:
            return
        jobs = plan_lineage(now.config, now.plan, tables_of(now.config, now.plan))
        interval = now.config.lineage.interval
        for it in plan_emissions(jobs, self._reported, time.monotonic(), interval):
            if self._loop.over.is_set():
                return
            self._send(catalog, it)
        # Only what was sent shows that it can be.
        self._status = self._status.model_copy(update={"error": ""})

    def _catalog_of(self, now: Now) -> Catalog | None:
        """The catalog of the config in force: another one knows nothing yet."""
        settings = now.config.lineage
        if settings != self._settings:
            self._close()
            self._settings = settings
        if self._catalog is None and settings.transport:
            self._catalog = Catalog(now.config)
        return self._catalog

    def _send(self, catalog: Catalog, it: Emission) -> None:
        catalog.send(it.state, it.job)
        if it.state == COMPLETE:
            del self._reported[it.job.name]
        else:
            self._reported[it.job.name] = Reported(it.job, time.monotonic())
        sent = {
            "jobs": len(self._reported),
            "events": self._status.events + 1,
            "schema_error": catalog.schema_error,
        }
        self._status = self._status.model_copy(update=sent)

    def _fail(self, error: Exception) -> None:
        words = str(error) or type(error).__name__
        if not self._status.error:
            self._emit(Event("lineage_failed", f"no lineage is reported: {words}"))
        self._status = self._status.model_copy(update={"error": words})

    def _finish(self) -> None:
        """The end of each job, as far as there is time: a catalog that fails now gets no more."""
        limit = time.monotonic() + LAST_SECONDS
        if self._catalog is not None and not self._status.error:
            for it in plan_emissions((), self._reported, time.monotonic(), 0.0):
                if time.monotonic() > limit:
                    break
                self._send(self._catalog, it)
        self._close()

    def _close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None
            # Another one knows none of them; without one nothing is due.
            self._reported.clear()
