"""Recovers partitions whose last writer did not end cleanly, before their lanes start again."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from datetime import UTC, datetime

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aggregator.audit.document import RecoveryStatus
from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.discover import ClusterAdmin
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.engine.observer import Observer
from aggregator.engine.settings import lane_settings
from aggregator.errors import ClusterError
from aggregator.model import OffsetRange, SourcePartition, TopicPartition
from aggregator.plan.plan import Plan
from aggregator.plan.recovery import hub_topics_of, plan_tail
from aggregator.recover.recovery import Recovered, RecoverySettings, recover
from aggregator.stream.lane import LaneSettings, innermost

SETTLE_SECONDS = 1.0
"""The hub's ends must have stood still for so long before the tail is read."""
SETTLE_LIMIT_SECONDS = 15.0
"""Somebody else may write into a hub topic all the time: then waiting longer proves nothing."""


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
    ) -> None:
        self._config = config
        self._spark = spark
        self._observer = observer
        self._hub = hub
        self._board = board
        self._emit = emit
        self._stop = stop
        self._runs = 0

    def recover(self, partitions: Collection[SourcePartition], plan: Plan, *, alone: bool) -> None:
        """Scan the hub tail of these partitions, replay what is missing, commit where they are.

        The caller knows that their old writer is gone. `alone`: no lane of ours runs, so the hub
        can be expected to come to rest. Raises ClusterError and CheckpointError; then nothing is
        committed, and the recovery has to be done again.
        """
        topics = hub_topics_of(plan.routes, partitions)
        logs = self._settled(topics) if alone else self._logs(topics)
        positions = self._observer.positions.only(set(partitions))
        tail = plan_tail(positions, self._observer.state.hub_ends_for(partitions), logs)
        self._runs += 1
        try:
            done = recover(self._spark, tail, plan.routes, self._settings(plan), self._progress)
        except PySparkException as error:
            raise ClusterError(f"the recovery failed: {innermost(error)}") from error
        self._observer.recovered(done.positions)
        self._tell(done)

    def _settings(self, plan: Plan) -> RecoverySettings:
        lanes: LaneSettings = lane_settings(self._config, plan, "available-now")
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
                "kafka.client.id": f"aggregator-recovery-{self._runs}",
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
        timeout = self._config.supervision.connect_timeout
        counts = self._hub.partition_counts(timeout)
        wanted = [
            TopicPartition(topic, partition)
            for topic in sorted(topics)
            for partition in range(counts.get(topic, 0))
        ]
        found = self._hub.offsets(wanted, timeout)
        if found.failed or len(counts.keys() & topics) < len(topics):
            # A tail that is not whole would make what it does not show look missing.
            raise ClusterError(f"hub: its end offsets are not all known: {dict(found.failed)}")
        return dict(found.ranges)

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
