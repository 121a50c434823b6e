"""One verification, from a config and a scope to a report: discover, compare, record.

A batch that cannot be read costs its own hub topic only.
"""

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.datapath.spark.lane import innermost
from aggregator.datapath.spark.lane_settings import hub_names
from aggregator.datapath.spark.ranges import any_origins, known_origins
from aggregator.datapath.spark.session import open_reader
from aggregator.features.verify.audit_inputs import AuditLook, look
from aggregator.features.verify.audit_report import Finding, VerifyReport
from aggregator.features.verify.audit_scope import Scope, Window
from aggregator.features.verify.compact_frames import Others
from aggregator.features.verify.counts import unreadable
from aggregator.features.verify.hub_ranges import Accounted, Job, plan_jobs
from aggregator.features.verify.job import JobResult, JobSettings, run_job, watched
from aggregator.features.verify.schema_meaning import SchemaPairs
from aggregator.model.alike import made_of
from aggregator.model.errors import AggregatorError, ClusterError, RefusedError
from aggregator.model.record_rules import ANY_ORIGIN

_DAMAGED = re.compile(r"(\S+)-(\d+)@(\d+) (cannot be read: .*)")
"""So `RangeReader` says it."""


@dataclass(frozen=True, slots=True)
class DamagedPlace:
    """Where a log cannot be read, in one of the clusters, and why."""

    topic: str
    partition: int
    offset: int
    why: str

    def spoiled(self, windows: Iterable[Window]) -> frozenset[str]:
        """The hub topics that cannot be compared: the error does not say in which cluster it is."""
        place = (self.topic, self.partition)
        return frozenset(
            it.hub_topic
            for it in windows
            if it.hub_topic == self.topic or it.partition.topic_partition == place
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset} {self.why}"


def damaged_place(error: str) -> DamagedPlace | None:
    """The place that an error is about; None for any other error."""
    found = _DAMAGED.search(error)
    if found is None:
        return None
    topic, partition, offset, why = found.groups()
    return DamagedPlace(topic, int(partition), int(offset), why)


JOB_OFFSETS = 50_000_000
"""About how many offsets are compared at once: it bounds what Spark spills to the local disk."""
ATTEMPTS = 3
"""How often one job is begun: a source may have gone, or retention may have taken what was
to be read."""
NAMED = 3

Progress = Callable[[str], None]


class StoppedError(AggregatorError):
    """The verification was stopped before its end."""


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What to verify, and the most examples to report of each kind of finding."""

    scope: Scope = field(default_factory=Scope)
    examples: int = 5
    allow_foreign: bool = False
    accounted: Sequence[Accounted] = ()


def verify(
    config: Config,
    request: VerifyRequest,
    *,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
    spark: SparkSession | None = None,
) -> VerifyReport:
    """Compare the hub with its sources; writes nothing, and disturbs no running instance.

    A session of its own is started, unless one is given. A source that cannot be reached is named
    in the report. Raises RefusedError when nothing is in the scope, ClusterError when the hub does
    not answer or records cannot be read, StoppedError when `stop` was set, CheckpointError,
    JarsError.
    """
    began = time.monotonic()
    stop = stop or threading.Event()
    report: Progress = progress or (lambda _: None)
    with _session(config, spark) as session:
        at = datetime.now(UTC)
        seen = look(config, request.scope)
        if not seen.windows and request.scope != Scope():
            raise RefusedError(["nothing to verify: no routed partition is in the scope"])
        results, seen = _Comparison(config, request, session, stop, report).run(seen)
    return VerifyReport(
        audit=uuid.uuid4().hex,
        name=config.name,
        at=at,
        seconds=round(time.monotonic() - began, 3),
        commit=seen.commit,
        allow_foreign=request.allow_foreign,
        partitions=tuple(
            sorted(
                (it for result in results for it in result.partitions),
                key=lambda it: (it.cluster, it.topic, it.partition),
            )
        ),
        hub_topics=tuple(
            sorted((it for result in results for it in result.hub_topics), key=lambda it: it.topic)
        ),
        findings=_first([it for result in results for it in result.findings], request.examples),
        unreachable=dict(seen.unreachable),
        notes=(*_notes(seen), *_of_batches(results)),
    )


class _Comparison:
    """The jobs of one verification, one after the other."""

    def __init__(
        self,
        config: Config,
        request: VerifyRequest,
        session: Future[SparkSession],
        stop: threading.Event,
        report: Progress,
    ) -> None:
        self._config = config
        self._request = request
        self._session = session
        self._stop = stop
        self._report = report
        self._pairs = SchemaPairs(config)

    def run(self, seen: AuditLook) -> tuple[list[JobResult], AuditLook]:
        """Results for all windows, and the last look: a job that fails is followed by another."""
        results: list[JobResult] = []
        done: dict[str, str] = {}
        failures = 0
        jobs = plan_jobs(seen.windows, seen.hub, JOB_OFFSETS)
        while jobs:
            if self._stop.is_set():
                raise StoppedError("stopped before the end; nothing is recorded")
            try:
                results.append(self._job(jobs[0], seen))
            except (PySparkException, Py4JError) as error:
                if self._stop.is_set():
                    raise StoppedError("stopped before the end; nothing is recorded") from error
                reason, damaged = innermost(error), damaged_place(str(error))
                spoiled = damaged.spoiled(jobs[0].windows) if damaged else frozenset()
                done |= dict.fromkeys(spoiled, str(damaged))
                failures += 0 if spoiled else 1
                if failures >= ATTEMPTS:
                    raise ClusterError(f"records cannot be read: {reason}") from error
                self._report(f"{damaged or reason}; looking again")
                seen = look(self._config, self._request.scope)
                left = [it for it in seen.windows if it.hub_topic not in done]
                jobs = plan_jobs(left, seen.hub, JOB_OFFSETS)
            else:
                done |= dict.fromkeys(jobs.pop(0).topics, "")
                failures = 0
        left = [it for it in seen.windows if done.get(it.hub_topic)]
        return [*results, JobResult(unreadable(left, done), (), ())], seen

    def _job(self, job: Job, seen: AuditLook) -> JobResult:
        names = ", ".join(job.topics[:NAMED]) + (", ..." if len(job.topics) > NAMED else "")
        self._report(f"{names}: {job.offsets:,} offsets to compare")
        spark = self._session.result()
        with watched(spark, names, self._stop, self._report):
            settings = _settings(self._config, self._request, seen, job)
            return run_job(spark, job, replace(settings, same_ids=self._pairs.same))


def _settings(config: Config, request: VerifyRequest, seen: AuditLook, job: Job) -> JobSettings:
    own = {window.partition for window in job.windows}
    elsewhere = {window.partition for window in seen.windows} - own
    names = hub_names(config, seen.plan)
    # Else it would take records for missing that have an origin, and are not copied back.
    origins = any_origins() if ANY_ORIGIN in names else {}
    return made_of(
        JobSettings,
        seen,
        hub_options={
            **{f"kafka.{k}": v for k, v in jvm_settings(config.hub, "consumer").items()},
            # Our records are not transactional; a foreign open transaction must not hide them.
            "kafka.isolation.level": "read_uncommitted",
            # Batches may have been copied as they are while the config said so.
            **known_origins(seen.known),
        },
        source_options={
            alias: {
                **{f"kafka.{k}": v for k, v in jvm_settings(source, "consumer").items()},
                **origins,
            }
            for alias, source in config.sources.items()
        },
        hub_names=names,
        others=Others(seen.known - own - elsewhere, elsewhere, seen.unreachable),
        lost=tuple(seen.lost),
        accounted=(*seen.accounted, *request.accounted),
        examples=request.examples,
    )


@contextmanager
def _session(config: Config, given: SparkSession | None) -> Iterator[Future[SparkSession]]:
    """The given session; else one of its own, built in the background and ended with the block."""
    if given is not None:
        future: Future[SparkSession] = Future()
        future.set_result(given)
        yield future
        return
    with ThreadPoolExecutor(1, thread_name_prefix="session") as pool:
        future = pool.submit(open_reader, config, config.spark.master)
        try:
            yield future
        finally:
            future.result().stop()


def _first(findings: Sequence[Finding], most: int) -> tuple[Finding, ...]:
    """The first few of each kind, of all jobs together."""
    kinds = dict.fromkeys(finding.kind for finding in findings)
    return tuple(
        finding for kind in kinds for finding in [it for it in findings if it.kind == kind][:most]
    )


def _of_batches(results: Iterable[JobResult]) -> tuple[str, ...]:
    count = sum(it.by_batches for it in results)
    if not count:
        return ()
    return (
        f"{count:,} records were compared by the hash of their batch, which was copied as it is",
    )


def _notes(seen: AuditLook) -> tuple[str, ...]:
    notes = []
    if seen.commit is None:
        notes.append(
            "there is no checkpoint: everything that the sources hold is expected at the hub"
        )
    if any(window.loose for window in seen.windows):
        notes.append("records of transformed topics are not looked for, nor compared")
    if seen.stamped:
        notes.append(
            f"{len(seen.stamped)} hub topics give records a time of their own (LogAppendTime): "
            "only what the origin says is compared"
        )
    if seen.set_aside:
        topics = ", ".join(sorted({tp.topic for tp in seen.set_aside}))
        notes.append(
            f"{topics} has deleted records that were kept aside: what may have been there counts "
            "as expired"
        )
    if seen.accounted:
        notes.append(
            f"{len(seen.accounted)} gaps are recorded: what lies in them is not held against the "
            "hub (aggregator gaps)"
        )
    if seen.lost:
        notes.append(
            f"the hub has deleted the beginning of {len(seen.lost)} partitions: what may have been "
            "there counts as expired"
        )
    return tuple(notes)
