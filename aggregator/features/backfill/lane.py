"""One try of a backfill: read what the hub holds of the range, then copy the rest in a lane.

The lane is a query of its own, with one task, by the same connector as the lanes of the live flow.
Used by the engine's thread, but for the scan, which has one of its own.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from aggregator.config.kafka_settings import hub_reader_settings
from aggregator.config.schema import Config
from aggregator.datapath.connector.connector import Connector, TailFound
from aggregator.datapath.connector.origins import compare_origins
from aggregator.datapath.connector.reports import LaneReport
from aggregator.datapath.spark.frames import plan_readings
from aggregator.datapath.spark.lane import LaneQuery
from aggregator.datapath.spark.lane_settings import lane_settings
from aggregator.features.backfill.progress import Scanned, after_report, after_scan
from aggregator.features.backfill.ranges import Backfill, BackfillState
from aggregator.features.schemas.translator import Translator
from aggregator.kafka.admin import ClusterAdmin
from aggregator.kafka.discovery.hub_logs import later_logs, read_topics, whole_logs
from aggregator.model.errors import ClusterError
from aggregator.model.events import EventSink
from aggregator.model.values import Lane, LogId, Positions, Route, SourcePartition
from aggregator.plan.health.suspects import Seen
from aggregator.plan.lanes.rate_limits import Limit, Pace, plan_pace
from aggregator.plan.positions.origins import plan_foreign
from aggregator.plan.positions.recovery import hub_topics_of, plan_tail
from aggregator.plan.snapshot import ClusterSnapshot
from aggregator.plan.topics.refused_records import after_refusal
from aggregator.store.checkpoint.past_commits import ProvenBound, fitting

CANCEL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class BackfillSight:
    """The inputs of a backfill: the newest snapshot, the live flow, and why parts must rest.

    `refused` are the topics of which the hub has refused a record that the known size did not show.
    """

    config: Config
    snapshot: ClusterSnapshot
    live: Positions
    seen: Mapping[str, Seen]
    refused: frozenset[tuple[str, str]]
    rests: Callable[[SourcePartition], str]

    def routes(self, backfill: Backfill) -> tuple[Route, ...]:
        """The route of its topic, as a lane is built from it now; none when it is not selected."""
        key = (backfill.cluster, backfill.topic)
        own = [it for it in self.snapshot.plan.routes if (it.cluster, it.topic) == key]
        return after_refusal(own, self.refused)

    def log(self, backfill: Backfill) -> LogId:
        """What is there by the name of its topic now: as probed last, else as in the snapshot."""
        alias, topic = backfill.cluster, backfill.topic
        observed, probe = self.snapshot.observed, self.seen.get(alias, Seen())
        return LogId(
            probe.cluster_id or observed.cluster_ids.get(alias, ""),
            probe.topic_ids.get(topic) or observed.topic_ids.get((alias, topic), ""),
        )


@dataclass(frozen=True, slots=True)
class Tools:
    """What a try works with; the caller starts and ends them."""

    spark: SparkSession
    connector: Connector
    hub: ClusterAdmin
    translator: Translator
    emit: EventSink


class BackfillTry:
    """From the scan to the end of the lane. `backfill` is its progress so far.

    `after` is the backfill's state once its lane has ended; None while it should keep running.
    """

    def __init__(
        self, tools: Tools, backfill: Backfill, sight: BackfillSight, generation: int
    ) -> None:
        self.backfill = backfill
        self.query: LaneQuery | None = None
        self.after: BackfillState | None = None
        self.reason = ""
        self.ends_by = 0.0
        self.key = ""
        self.routes = sight.routes(backfill)
        self.started = 0.0
        self.committed = 0.0
        self._tools = tools
        self._generation = generation
        self._records = backfill.records
        self._scanned: Scanned | None = None
        self._error: Exception | None = None
        self._cancelled = threading.Event()
        self._cancellation = tools.connector.cancellation()
        self._thread = threading.Thread(
            target=self._scan, args=(sight,), name=f"backfill-{backfill.id}", daemon=True
        )
        self._thread.start()

    def scanned(self) -> Scanned | None:
        """What the scan found, None while it runs; raises what ended it."""
        if self._thread.is_alive():
            return None
        if self._error is not None:
            raise self._error
        return self._scanned

    def wait_for_scan(self) -> None:
        """Wait until a released scan has ended."""
        self._thread.join(CANCEL_SECONDS)

    def start(self, scanned: Scanned, sight: BackfillSight) -> None:
        """Start the lane where the scan left off; raises what Spark says against it."""
        backfill = self.backfill
        lane = Lane(f"backfill-{backfill.id}", tuple(backfill.positions))
        pace = Pace({backfill.cluster: limit_of(sight.config, backfill)})
        settings = replace(
            lane_settings(sight.config, sight.snapshot.plan, pace, backfill.ends),
            tasks=1,
            own_tasks={},
            partitions={backfill.cluster: len(lane.partitions)},
        )
        readings = plan_readings(self.routes, backfill.positions)
        self.query = LaneQuery.start(
            spark=self._tools.spark,
            connector=self._tools.connector,
            lane=lane,
            generation=self._generation,
            readings=readings,
            settings=settings,
            skips=scanned.skips,
            snapshot=0,
        )
        self._tools.translator.follow(self.routes)
        self.key = self.query.key
        self.started = self.committed = time.monotonic()

    def take(self, report: LaneReport) -> None:
        """Note the progress that its task reports, and answer its questions."""
        if self.query is not None:
            self._tools.translator.serve(self.query)
        if not report.whole or self._scanned is None:
            return
        (task,) = report.tasks
        moved = after_report(
            self.backfill,
            task.positions,
            task.ends,
            self._scanned.behind,
            skipping=report.skipping,
        )
        self.backfill = replace(moved, records=self._records + report.records)

    def release(self, after: BackfillState, reason: str, ends_by: float) -> None:
        """Let the scan or the lane end; what becomes of the backfill is said the first time."""
        if self.after is None:
            self.after, self.reason, self.ends_by = after, reason, ends_by
            if self.query is not None:
                self.query.end()
            else:
                self._cancelled.set()
                self._cancellation.cancel()

    def close(self) -> None:
        """Stop the query; AggregatorError when it keeps running."""
        if self.query is not None:
            self.query.stop()
            self.query.close()
            self.query = None

    def is_open(self, lost_seconds: float) -> bool:
        """Whether its task may still send."""
        return bool(self.key) and self._tools.connector.is_open(self.key, lost_seconds)

    def _scan(self, sight: BackfillSight) -> None:
        try:
            self._scanned = self._read(sight)
            self.backfill = self._scanned.backfill
        except Exception as error:  # a thread has no caller to raise to
            self._error = error

    def _read(self, sight: BackfillSight) -> Scanned:
        backfill, config = self.backfill, sight.config
        topics = hub_topics_of(self.routes, backfill.positions)
        timeout = config.supervision.connect_timeout
        hub = hub_reader_settings(config.hub)
        # Of one that has never begun nothing can be under way.
        logs = (
            later_logs(self._tools.hub, topics, timeout, self._cancelled)
            if backfill.bound
            else read_topics(self._tools.hub, topics, timeout)
        )
        whole = whole_logs(
            self._tools.hub,
            lambda partitions, seconds: self._tools.connector.log_ends(partitions, hub, seconds),
            logs,
            timeout=timeout,
            stop=self._cancelled,
        )
        for topic, why in sorted(whole.waits.items()):
            raise ClusterError(f"hub: {topic}: {why}")
        hub_logs = whole.logs
        bound = fitting(ProvenBound(backfill.bound), "", hub_logs).hub_ends
        tail = plan_tail(backfill.positions, bound, hub_logs)
        found = {}
        if tail.ranges:
            tail_found = self._tools.connector.read_tail(tail, hub, (), self._cancellation)
            for topic, why in tail_found.unread.items():
                raise ClusterError(f"hub: {topic}: {why}")
            if foreign := self._why_foreign(tail_found, sight):
                return Scanned(backfill, {}, {}, foreign)
            found = {sp: skip.ranges for sp, skip in tail_found.parts.items()}
        sources = sight.snapshot.observed.offsets
        return after_scan(replace(backfill, bound=bound), found, sources, hub_logs)

    def _why_foreign(self, tail_found: TailFound, sight: BackfillSight) -> str:
        """What was found that is of another log, in words; ClusterError when that is unknown."""
        starts, logs = self.backfill.positions, sight.snapshot.observed.offsets.keys()
        judged = compare_origins(
            connector=self._tools.connector,
            config=sight.config,
            found=tail_found,
            starts=starts,
            routes=self.routes,
            partitions=logs,
            cancellation=self._cancellation,
        )
        for sp, why in judged.silent.items():
            raise ClusterError(f"whether the hub holds records of {sp} is not known: {why}")
        gaps = plan_foreign(judged, tail_found.parts, starts, self.routes, {})
        return "; ".join(gap.reason for gap in gaps[:1])


def limit_of(config: Config, backfill: Backfill) -> Limit:
    """The rate of a backfill: its own, and never more than its source may be read at."""
    own = Limit(backfill.records_per_second, backfill.bytes_per_second)
    source = plan_pace(config).limits.get(backfill.cluster, Limit())

    def least(one: float | None, other: float | None) -> float | None:
        return min((it for it in (one, other) if it is not None), default=None)

    return Limit(least(own.records, source.records), least(own.bytes_, source.bytes_))
