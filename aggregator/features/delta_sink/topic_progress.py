"""One hub topic of a tee: its next batch, its delays after failures, its table maintenance.

Its methods are called by one thread. The work itself is done in pools. A poll shows where the log
ended, and when: the oldest one that has not been reached says since when something waits, at least.
"""

import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import NamedTuple

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.datapath.spark.lane import innermost
from aggregator.features.delta_sink.decode_by_schema import decoder_of
from aggregator.features.delta_sink.hub_topics_now import TopicNow
from aggregator.features.delta_sink.land_batch import Attempt, HubReader, TableKnown, land
from aggregator.features.delta_sink.landing_table import LandingTable
from aggregator.features.delta_sink.next_batch import (
    FIRST_LIMIT,
    Landed,
    Receded,
    lag_of,
    plan_batch,
    plan_limit,
    plan_rest,
    reached,
)
from aggregator.features.delta_sink.sink_report import LandedTopic
from aggregator.features.delta_sink.table_maintenance import Cared, care
from aggregator.features.delta_sink.value_columns import EMPTY, count_columns
from aggregator.model.errors import AggregatorError
from aggregator.model.events import Event, EventSink
from aggregator.model.values import OffsetRange
from aggregator.store.delta import table_at

MOST_LOOKS = 64
"""While a topic is far behind, some are dropped: the oldest stays, so nothing seems fresher."""

Logs = Mapping[int, OffsetRange]


class LogSeen(NamedTuple):
    """Where the logs of a topic ended at a moment."""

    at: float
    ends: Mapping[int, int]


def plan_seen(
    seen: tuple[LogSeen, ...], landed: Landed, logs: Logs, now: float
) -> tuple[LogSeen, ...]:
    """The looks that have not been reached, with one of `now`, oldest first."""
    ends = {partition: log.latest for partition, log in logs.items()}
    waiting = [it for it in seen if not reached(landed, it.ends, logs)]
    if not reached(landed, ends, logs) and (not waiting or waiting[-1].ends != ends):
        waiting.append(LogSeen(now, ends))
    if len(waiting) > MOST_LOOKS:
        waiting = [*waiting[:-1:2], waiting[-1]]
    return tuple(waiting)


def seconds_behind(seen: tuple[LogSeen, ...], now: float) -> float:
    """How long the oldest of what has not landed has waited."""
    return max(0.0, now - seen[0].at) if seen else 0.0


MOST_NAMED = 20
"""Where keys are data, such as ids, a batch may have a field in each record."""
MOST_OVERTAKEN = 2
"""A batch may be overtaken by another writer once; the table is read again after that."""


class Topic:
    """What is done with a hub topic; what fails with it alone is not raised."""

    def __init__(self, config: Config, spark: SparkSession, name: str, emit: EventSink) -> None:
        self._config = config
        self._spark = spark
        self._name = name
        self._emit = emit
        self._table = LandingTable(spark, config.tee.path, name)
        self._read = HubReader(config)
        self._decoder = decoder_of(config, name)
        self._work: Future[Attempt] | None = None
        self._care: Future[Cared | None] | None = None
        self._care_due = time.monotonic() + config.tee.maintain_interval
        self._limit = FIRST_LIMIT
        self._due = 0.0
        self._shares = ""
        self._left_out: set[str] = set()
        self._commits = self._records = self._undecoded = self._lost = 0
        self._cared_at = self._overtaken = 0
        self._landed_last: Landed | None = None
        self._begun_with: TopicNow | None = None
        self._seen: tuple[LogSeen, ...] = ()
        self.known: TableKnown | None = None
        self.failures = 0
        self.error = ""
        self.refused = ""
        self.unreported = ""

    @property
    def idle(self) -> bool:
        """Whether no batch of it is under way."""
        return self._work is None

    @property
    def in_care(self) -> bool:
        """Whether its table is just maintained."""
        return self._care is not None and not self._care.done()

    def leave_to(self, other: str) -> None:
        """Land nothing, since its table would be that of another topic."""
        self._shares = other
        self.refused = (
            f"its folder is that of topic {other}: this disk takes names that differ in upper and "
            "lower case alone for the same (leave one out with tee.topics.exclude, or choose a "
            "tee.path on another disk)"
        )
        self._emit(Event("tee_topic_refused", f"{self._name}: {self.refused}"))

    def look(self, now: TopicNow) -> None:
        """Take where the topic's logs end just now."""
        # Unknown before the table was read; after a failure it is about what it was.
        if self._landed_last is not None:
            self._seen = plan_seen(self._seen, self._landed_last, now.logs, time.monotonic())

    def begin_batch(self, pool: ThreadPoolExecutor, now: TopicNow) -> None:
        """Begin the next batch, if there is one and it is not resting."""
        if self._work is not None or self._shares or time.monotonic() < self._due:
            return
        if self.known is not None and not self.refused:
            planned = plan_batch(self.known.landed, now.topic_id, now.logs, self._limit)
            if planned is None or (isinstance(planned, Receded) and now is self._begun_with):
                return
        if self.known is None:
            self._begun_with = now
        self._work = pool.submit(
            land, self._read, self._table, self._decoder, self.known, now, self._limit
        )

    def collect(self, *, cut_off: bool = False) -> None:
        """Take the outcome of a batch, and of the table's maintenance.

        With `cut_off` a failure is no news: it was ended on purpose.
        """
        if self._work is not None and self._work.done():
            work, self._work = self._work, None
            try:
                self._landed(work.result())
            except CancelledError:
                return
            except (Py4JNetworkError, ConnectionError) as error:
                raise AggregatorError("Spark's Java has ended; start the tee again") from error
            except Exception as error:  # of one topic: it rests, and is reported
                if not cut_off:
                    self._failed(innermost(error))
        if self._care is not None and self._care.done():
            work_of_care, self._care = self._care, None
            try:
                work_of_care.result()
            except CancelledError:
                return
            except Exception as error:  # the table stays as it was, and it is tried again
                words = f"{self._name}: its table was not maintained: {innermost(error)}"
                if not cut_off:
                    self._emit(Event("tee_care_failed", words))

    def care(self, pool: ThreadPoolExecutor) -> None:
        """Have the table maintained when it is time and something has landed since."""
        if self._care is not None or time.monotonic() < self._care_due:
            return
        self._care_due = time.monotonic() + self._config.tee.maintain_interval
        if self._commits > self._cared_at:
            self._cared_at = self._commits
            self._care = pool.submit(care, self._spark, self._config.tee, self._name)

    def document(self, now: TopicNow | None) -> LandedTopic:
        """What was done with it so far."""
        known = self.known
        # The hub has it no longer: nothing of it waits, or fails.
        gone = now is None and not self.unreported
        lag = 0 if gone else None
        if known is not None and now is not None:
            lag = lag_of(known.landed, now.logs)
        return LandedTopic(
            topic=self._name,
            table=table_at(self._config.tee.path, self._name),
            positions=dict(sorted(known.landed.positions.items())) if known is not None else {},
            lag=lag,
            seconds_behind=self._behind(now),
            commits=self._commits,
            records=self._records,
            undecoded=self._undecoded,
            columns=count_columns(known.columns if known is not None else EMPTY),
            lost=self._lost,
            failing="" if gone else self.error or self.refused or self.unreported,
        )

    def _behind(self, now: TopicNow | None) -> float | None:
        if self._landed_last is None or now is None:
            return None
        at = time.monotonic()
        return round(seconds_behind(plan_seen(self._seen, self._landed_last, now.logs, at), at), 3)

    def _landed(self, outcome: Attempt) -> None:
        self._overtaken = self._overtaken + 1 if outcome.is_overtaken else 0
        if self._overtaken >= MOST_OVERTAKEN:
            self._failed(
                "its table takes no batch, since it does not end where its history says that it "
                "does (does another tee write it?)"
            )
            return
        if self.error and not (outcome.is_overtaken or outcome.refused):
            self._emit(Event("tee_topic_back", f"{self._name} lands again"))
        if not outcome.is_overtaken:
            self.error, self.failures, self._due = "", 0, 0.0
        self.known = outcome.known
        if outcome.known is not None:
            self._landed_last = outcome.known.landed
        if outcome.refused:
            if not self.refused:
                self._emit(Event("tee_topic_refused", f"{self._name}: {outcome.refused}"))
            self._due = time.monotonic() + plan_rest(10)
        self.refused = outcome.refused
        if not outcome.committed:
            return
        self._commits += 1
        self._records += outcome.records
        self._undecoded += outcome.undecoded
        self._limit = plan_limit(self._limit, outcome.offsets, outcome.seconds)
        self._emit_gaps(outcome)
        self._emit_fields(outcome)

    def _emit_gaps(self, outcome: Attempt) -> None:
        if outcome.replaced is not None:
            ends = (f"{at}: {it}" for at, it in sorted(outcome.replaced.positions.items()))
            words = (
                f"{self._name} was created again at the hub, and what it held before from these "
                f"offsets on is gone: {', '.join(ends)}; the new one lands from its beginning"
            )
            self._emit(Event("tee_gap", words))
        for lost in outcome.lost:
            self._lost += lost.end - lost.first
            words = (
                f"{self._name} partition {lost.partition}: the hub deleted offsets {lost.first} to "
                f"{lost.end - 1} before they landed; it continues after them"
            )
            self._emit(Event("tee_gap", words))

    def _emit_fields(self, outcome: Attempt) -> None:
        new = [it for it in outcome.left_out if it not in self._left_out]
        self._left_out.update(new)
        stays = "stays in column value alone"
        words = [f"a field {stays}: {reason}" for reason in new[:MOST_NAMED]]
        if len(new) > MOST_NAMED:
            words.append(f"each of {len(new) - MOST_NAMED:,} more fields {stays}")
        for each in words:
            self._emit(Event("tee_field_warning", f"{self._name}: {each}"))

    def _failed(self, reason: str) -> None:
        self.failures += 1
        # What was committed is for the table to say.
        self.known = None
        self._due = time.monotonic() + plan_rest(self.failures)
        if not self.error:
            self._emit(Event("tee_topic_failed", f"{self._name} does not land: {reason}"))
        self.error = reason
