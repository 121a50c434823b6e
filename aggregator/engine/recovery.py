"""Recovers partitions whose last writer did not end cleanly, before their lanes start again."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aggregator.audit.document import RecoveryStatus
from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.discover import ClusterAdmin
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.engine.gaps import Gaps
from aggregator.engine.hub import read_logs
from aggregator.engine.look import Look
from aggregator.engine.observer import Observer
from aggregator.engine.orphans import orphans_of
from aggregator.engine.settings import lane_settings
from aggregator.errors import ClusterError, DataConflictError
from aggregator.failpoint import failpoint
from aggregator.model import OffsetRange, Positions, SourcePartition, TopicPartition
from aggregator.plan.doubt import plan_doubt
from aggregator.plan.pace import Pace
from aggregator.plan.plan import Plan
from aggregator.plan.poison import STOPPED
from aggregator.plan.positions import is_same_log
from aggregator.plan.recovery import hub_topics_of, plan_losses, plan_tail
from aggregator.recover.quick import look_quickly
from aggregator.recover.recovery import Recovered, RecoverySettings, recover
from aggregator.stream.lane import LaneSettings, innermost

SETTLE_SECONDS = 1.0
"""The hub's ends must have stood still for so long before the tail is read."""
RETRY_SECONDS = 5.0
POLL_SECONDS = 0.25
CANCEL_SECONDS = 10.0
JOB_GROUP = "aggregator-recovery"
SETTLE_LIMIT_SECONDS = 15.0
"""Somebody else may write into a hub topic all the time: then waiting longer proves nothing."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a recovery begins: positions, and the hub's ends before anything beyond them came."""

    positions: Positions
    hub_ends: Mapping[TopicPartition, int]


class Recovery:
    """Recovers on demand; used by the engine's thread, while other lanes may run."""

    def __init__(
        self,
        config: Config,
        spark: SparkSession,
        observer: Observer,
        hub: ClusterAdmin,
        board: Board,
        emit: EventSink,
        stop: threading.Event,
        gaps: Gaps,
    ) -> None:
        self._config = config
        self._spark = spark
        self._observer = observer
        self._hub = hub
        self._board = board
        self._emit = emit
        self._stop = stop
        self._gaps = gaps
        self._runs = 0
        self._thread: threading.Thread | None = None

    def recover(
        self,
        partitions: Collection[SourcePartition],
        look: Look,
        *,
        alone: bool,
        bound: Bound | None = None,
    ) -> None:
        """Scan the hub tail of these partitions, replay what is missing, commit where they are.

        The caller knows that their old writer is gone. `alone`: no lane of ours runs, so the hub
        can be expected to come to rest. `bound`: where to begin, if not where the checkpoint says.
        What the sources do not hold any more is recorded as gaps.
        Raises ClusterError, CheckpointError, and DataConflictError where `topics.on_poison` says to
        stop; then nothing is committed, and the recovery has to be done again.
        """
        state = self._observer.state
        if bound is None:
            bound = Bound(
                self._observer.positions.only(set(partitions)), state.hub_ends_for(partitions)
            )
        known = replace(state.remembered(), positions=bound.positions)
        logs = {
            sp: log
            for sp, log in look.observed.offsets.items()
            if sp in partitions and is_same_log(sp, known, look.observed)
        }
        while True:
            try:
                done = self._try(bound, look.plan, logs, alone=alone)
                break
            except (PySparkException, Py4JJavaError) as error:
                failure = innermost(error)
                news = self._board.careful.suspect(partitions, failure)
                if news is not None:
                    self._emit(news)
                if STOPPED in failure:
                    raise DataConflictError(f"the recovery has stopped: {failure}") from error
                # What it wrote before it failed is to be found by the next scan.
                if news is None or not self._producer_is_gone():
                    raise ClusterError(f"the recovery failed: {failure}") from error
        failpoint("after-replay")
        self._gaps.lost(plan_losses(known, done.positions, logs, done.below))
        self._observer.recovered(done.positions)
        failpoint("after-recovered")
        self._tell(done)

    def doubt(self, partitions: Collection[SourcePartition], starts: Positions, look: Look) -> None:
        """Before the first lanes start: recover also what needs no recovery, if that is in doubt.

        `partitions` are those that are to start and are not unclean, `starts` where they would.
        Raises as `recover` does.
        """
        state = self._observer.state
        # A topic that this start has created is empty, and may have no leader yet.
        topics = hub_topics_of(look.plan.routes, partitions) & look.plan.hub.topics.keys()
        hub_logs = self._logs(topics) if topics else {}
        found = plan_doubt(
            look.plan.routes,
            partitions,
            state.furthest_hub_ends(),
            hub_logs,
            fresh=not state.entries,
        )
        if found.partitions:
            self._emit(Event("doubt", found.reason))
            begin = starts.merged(self._observer.positions).only(found.partitions)
            bound = Bound(begin, found.hub_ends)
            self.recover(found.partitions, look, alone=True, bound=bound)

    def _try(
        self,
        bound: Bound,
        plan: Plan,
        logs: Mapping[SourcePartition, OffsetRange],
        *,
        alone: bool,
    ) -> Recovered:
        topics = hub_topics_of(plan.routes, bound.positions)
        failpoint("before-settle")
        hub_logs = self._settled(topics) if alone else self._logs(topics)
        failpoint("after-settle")
        own_ends = self._observer.state.own_hub_ends(bound.positions)
        tail = plan_tail(bound.positions, bound.hub_ends, hub_logs, own_ends)
        if tail.ranges:
            self._progress(f"reading {tail.offsets} offsets of the hub tail")
        if (quick := look_quickly(self._config, tail, logs)) is not None:
            return quick
        self._runs += 1
        routes = self._board.careful.routes(plan.routes)
        return recover(self._spark, tail, logs, routes, self._settings(plan), self._progress)

    def _producer_is_gone(self) -> bool:
        """Wait until the last try's producer can deliver nothing more; False when stopped."""
        orphans = orphans_of(self._config, self._spark)
        someone = frozenset({SourcePartition("", "", 0)})
        orphans.add(self._client_id, someone, time.monotonic())
        while orphans.partitions(time.monotonic()):
            if self._stop.wait(POLL_SECONDS):
                return False
        return True

    @property
    def _client_id(self) -> str:
        return f"aggregator-recovery-{self._runs}"

    def begin(self, partitions: Collection[SourcePartition], look: Look) -> None:
        """Recover in the background, while other lanes run; one recovery at a time.

        What has ended is no longer unclean in the checkpoint; what failed is, and is tried again
        by the caller's next look.
        """
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._in_background, args=(partitions, look), name="recovery", daemon=True
            )
            self._thread.start()

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._config = config

    @property
    def under_way(self) -> bool:
        """Whether one goes on in the background, or has ended and nobody has asked since."""
        return self._thread is not None

    def ended(self) -> bool:
        """Whether a recovery in the background has ended since the last call."""
        if self._thread is None or self._thread.is_alive():
            return False
        self._thread = None
        return True

    def cancel(self) -> None:
        """End a recovery in the background; the next start does it again."""
        if self._thread is not None:
            self._spark.sparkContext.cancelJobGroup(JOB_GROUP)
            self._thread.join(CANCEL_SECONDS)

    def _in_background(self, partitions: Collection[SourcePartition], look: Look) -> None:
        self._spark.sparkContext.setJobGroup(JOB_GROUP, "recovery", interruptOnCancel=True)
        try:
            self.recover(partitions, look, alone=False)
        except Exception as error:  # a thread has no caller to raise to
            self._emit(Event("recovery_failed", str(error)))
            # The next look tries again, and comes soon.
            self._stop.wait(RETRY_SECONDS)

    def _settings(self, plan: Plan) -> RecoverySettings:
        lanes: LaneSettings = lane_settings(self._config, plan, Pace("available-now"))
        hub = jvm_settings(self._config.hub, "consumer")
        return RecoverySettings(
            hub_options={
                **{f"kafka.{name}": value for name, value in hub.items()},
                # Ours are not transactional; somebody's open transaction must not hide them.
                "kafka.isolation.level": "read_uncommitted",
                "groupIdPrefix": f"aggregator-{self._config.name}-recovery",
            },
            sink_options={
                **lanes.sink_options,
                "kafka.client.id": self._client_id,
            },
            source_options=lanes.source_options,
            hub_names=lanes.hub_names,
            compacted=[
                name for name, topic in plan.hub_topics.items() if "compact" in topic.cleanup_policy
            ],
        )

    def _settled(self, topics: Collection[str]) -> dict[TopicPartition, OffsetRange]:
        """The hub's logs, once their ends have stood still; a request may still be under way."""
        deadline = time.monotonic() + SETTLE_LIMIT_SECONDS
        before = self._logs(topics)
        while not self._stop.wait(SETTLE_SECONDS):
            now = self._logs(topics)
            if {tp: log.latest for tp, log in now.items()} == {
                tp: log.latest for tp, log in before.items()
            }:
                return now
            if time.monotonic() > deadline:
                self._emit(
                    Event(
                        "hub_not_settled",
                        f"others keep writing into {', '.join(sorted(topics))}; recovering anyway",
                    )
                )
                return now
            before = now
        return before

    def _logs(self, topics: Collection[str]) -> dict[TopicPartition, OffsetRange]:
        return read_logs(self._hub, topics, self._config.supervision.connect_timeout)

    def _progress(self, line: str) -> None:
        self._emit(Event("recovering", line))

    def _tell(self, done: Recovered) -> None:
        self._board.recovery = RecoveryStatus(
            at=datetime.now(UTC),
            partitions=len(done.positions),
            tail=done.tail,
            found=done.found,
            replayed=done.replayed,
            seconds=round(done.seconds, 3),
        )
        self._emit(
            Event(
                "recovered",
                f"{len(done.positions)} partitions: {done.tail} offsets of the hub tail read, "
                f"{done.found} records found beyond the checkpoint, {done.replayed} replayed, "
                f"{done.seconds:.1f} s",
                {"tail": done.tail, "found": done.found, "replayed": done.replayed},
            )
        )
