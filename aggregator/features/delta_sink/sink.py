"""One tee: asks the hub what is new, lands it topic by topic, and keeps the tables small.

A topic whose table or records fail rests, and is tried again; the others continue. While the hub
does not answer nothing lands, and it is asked again.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.datapath.spark.session import open_reader
from aggregator.features.delta_sink.hub_topics_now import HubLook, HubNow
from aggregator.features.delta_sink.landing_table import shared_folders
from aggregator.features.delta_sink.next_batch import plan_rest, reached
from aggregator.features.delta_sink.sink_lock import alone, held_in_jvm
from aggregator.features.delta_sink.sink_report import TeeReport
from aggregator.features.delta_sink.topic_progress import Topic
from aggregator.kafka.admin import HUB, open_admin
from aggregator.model.errors import ClusterError
from aggregator.model.events import Event, EventSink

STDOUT, STDERR = 1, 2
TURN_SECONDS = 0.05
REPORT_SECONDS = 30.0
SHOW_SECONDS = 1.0
MOST_FAILURES = 5
"""A run with an end gives up a topic, or the hub, after this many failures in a row."""
STOP_SECONDS = 10.0
"""A clean stop waits this long for commits in flight; what is cut off lands next time."""


def tee(
    config: Config,
    *,
    once: bool = False,
    stop: threading.Event | None = None,
    emit: EventSink | None = None,
    show: Callable[[TeeReport], None] | None = None,
    spark: SparkSession | None = None,
) -> TeeReport:
    """Land hub topics until `stop` is set; with `once` until all is there that was at the start.

    A session of its own is started, unless one is given. `show` is given a report about once a
    second. Raises ConfigError, HeldError when another
    tee has the folder, JarsError; ClusterError when the hub does not answer at the start of `once`;
    AggregatorError when Spark's Java ends.
    """
    stop = stop or threading.Event()
    with open_admin(config, HUB) as admin, on_folder(config, stop, spark) as own:
        look = HubLook(config, admin)
        found = _Tee(config, own, look, emit or (lambda _: None), show or (lambda _: None), stop)
        return found.run(once)


@contextmanager
def on_folder(
    config: Config, stop: threading.Event | None = None, spark: SparkSession | None = None
) -> Iterator[SparkSession]:
    """A session that alone may write in the folder of tee.path, as long as the block runs.

    Raises HeldError when another process has it, and JarsError.
    """
    path = config.tee.path
    with (
        alone(path),
        _session(config, spark) as own,
        held_in_jvm(own, path, stop or threading.Event()),
    ):
        yield own


@dataclass(slots=True)
class _Hub:
    """What is known of the hub, and how often it gave no answer since."""

    now: HubNow | None = None
    failures: int = 0
    due: float = 0.0
    error: str = ""


class _Tee:
    def __init__(
        self,
        config: Config,
        spark: SparkSession,
        look: HubLook,
        emit: EventSink,
        show: Callable[[TeeReport], None],
        stop: threading.Event,
    ) -> None:
        self._config = config
        self._spark = spark
        self._look = look
        self._emit = emit
        self._show = show
        self._stop = stop
        self._began = time.monotonic()
        self._hub = _Hub()
        self._topics: dict[str, Topic] = {}
        self._targets: dict[tuple[str, str], dict[int, int]] | None = None

    def run(self, once: bool) -> TeeReport:
        """Take turns until it must end."""
        report_at, show_at = time.monotonic() + REPORT_SECONDS, 0.0
        self._emit(Event("tee_running", f"landing hub topics in {self._config.tee.path}"))
        with (
            ThreadPoolExecutor(self._config.tee.parallel, thread_name_prefix="tee") as pool,
            ThreadPoolExecutor(1, thread_name_prefix="tee-care") as carers,
        ):
            try:
                while not self._stop.is_set():
                    self._turn(pool, carers, once)
                    if once and self._is_done():
                        break
                    if time.monotonic() >= show_at:
                        show_at = time.monotonic() + SHOW_SECONDS
                        self._show(self.report())
                    if time.monotonic() >= report_at:
                        report_at = time.monotonic() + REPORT_SECONDS
                        self._report_progress()
                    self._stop.wait(TURN_SECONDS)
            finally:
                self._end(pool, carers)
        self._report_progress()
        self._show(self.report())
        return self.report()

    def report(self) -> TeeReport:
        """What was done so far."""
        now = self._hub.now.topics if self._hub.now is not None else {}
        return TeeReport(
            name=self._config.name,
            path=self._config.tee.path,
            at=datetime.now(UTC),
            seconds=round(time.monotonic() - self._began, 3),
            hub=self._hub.error,
            topics=tuple(
                topic.document(now.get(name)) for name, topic in sorted(self._topics.items())
            ),
        )

    def _turn(self, pool: ThreadPoolExecutor, carers: ThreadPoolExecutor, once: bool) -> None:
        if time.monotonic() >= self._hub.due:
            self._ask(once)
        for name, topic in self._topics.items():
            topic.collect()
            if self._hub.now is not None and (now := self._hub.now.topics.get(name)) is not None:
                topic.begin_batch(pool, now)
            if not once:
                topic.care(carers)

    def _ask(self, once: bool) -> None:
        hub = self._hub
        try:
            hub.now = self._look.now()
        except ClusterError as error:
            if once and self._targets is None:
                raise
            hub.failures += 1
            hub.due = time.monotonic() + plan_rest(hub.failures)
            if not hub.error:
                self._emit(Event("tee_hub_unreachable", f"nothing lands meanwhile: {error}"))
            hub.error = str(error)
            return
        if hub.error:
            self._emit(Event("tee_hub_back", "the hub answers again"))
        hub.failures, hub.error = 0, ""
        hub.due = time.monotonic() + self._config.tee.interval
        if once:
            self._targets = self._targets or {}
            for name, it in hub.now.topics.items():
                # Of one that gave no answer at the start, or is another one, what it has by now.
                ends = {partition: log.latest for partition, log in it.logs.items()}
                self._targets.setdefault((name, it.topic_id), ends)
        self._add_new_topics({*hub.now.topics, *hub.now.failed} - self._topics.keys())
        for name, topic in self._topics.items():
            topic.unreported = hub.now.failed.get(name, "")
            if name in hub.now.topics:
                topic.look(hub.now.topics[name])

    def _add_new_topics(self, names: set[str]) -> None:
        if not names:
            return
        shared = shared_folders(self._config.tee.path, {*names, *self._topics})
        for name in names:
            self._topics[name] = topic = Topic(self._config, self._spark, name, self._emit)
            if name in shared:
                topic.leave_to(shared[name])

    def _is_done(self) -> bool:
        """Whether everything is there that was at the start, or will not come."""
        if self._hub.failures >= MOST_FAILURES:
            return True
        if self._targets is None or self._hub.now is None:
            return False
        now, targets = self._hub.now.topics, self._targets
        return all(
            topic.idle
            and (
                topic.failures >= MOST_FAILURES
                or bool(topic.refused)
                or name not in now
                or (
                    topic.known is not None
                    and reached(
                        topic.known.landed,
                        targets.get((name, now[name].topic_id), {}),
                        now[name].logs,
                    )
                )
            )
            for name, topic in self._topics.items()
        )

    def _end(self, pool: ThreadPoolExecutor, carers: ThreadPoolExecutor) -> None:
        pool.shutdown(wait=False, cancel_futures=True)
        carers.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + STOP_SECONDS
        while any(not topic.idle or topic.in_care for topic in self._topics.values()):
            if late := time.monotonic() >= deadline:
                # Again and again: one job may begin while another is cancelled.
                self._spark.sparkContext.cancelAllJobs()
            for topic in self._topics.values():
                topic.collect(cut_off=late)
            time.sleep(TURN_SECONDS)

    def _report_progress(self) -> None:
        report = self.report()
        lag = sum(it.lag or 0 for it in report.topics)
        records = sum(it.records for it in report.topics)
        words = f"{records:,} records of {len(report.topics)} topics have landed, {lag:,} wait"
        self._emit(Event("tee_progress", words, {"records": records, "lag": lag}))


@contextmanager
def _session(config: Config, given: SparkSession | None) -> Iterator[SparkSession]:
    """The given session; else one of its own, ended with the block."""
    if given is not None:
        yield given
        return
    with _own_stdout():
        spark = open_reader(config, config.spark.master)
    try:
        yield spark
    finally:
        # Its Java may have ended meanwhile.
        with suppress(Py4JError, OSError):
            spark.stop()


@contextmanager
def _own_stdout() -> Iterator[None]:
    """Whatever is started in the block writes to stderr: Delta's VACUUM prints, among our JSON."""
    sys.stdout.flush()
    kept = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    try:
        yield
    finally:
        os.dup2(kept, STDOUT)
        os.close(kept)
