"""Recovers partitions whose last writer did not end cleanly, before their lanes start again."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aggregator.audit.document import RecoveryStatus
from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.connector.driver import Connector
from aggregator.discover import ClusterAdmin
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.engine.gaps import Gaps
from aggregator.engine.hub import read_logs
from aggregator.engine.look import Look
from aggregator.engine.observer import Observer
from aggregator.engine.tail import Ends
from aggregator.failpoint import failpoint
from aggregator.model import OffsetRange, Positions, Skip, SourcePartition, TopicPartition
from aggregator.plan.doubt import plan_doubt
from aggregator.plan.plan import Plan
from aggregator.plan.positions import is_same_log
from aggregator.plan.recovery import (
    TailPlan,
    counts_below,
    highest,
    hub_topics_of,
    plan_losses,
    plan_skips,
    plan_tail,
    recovered_positions,
)

UNCOMMITTED = {"isolation.level": "read_uncommitted"}
"""Ours are not transactional; somebody's open transaction must not hide them."""
SETTLE_SECONDS = 1.0
"""The hub's ends must have stood still for so long before the tail is read."""
RETRY_SECONDS = 5.0
CANCEL_SECONDS = 10.0
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
        connector: Connector,
        observer: Observer,
        hub: ClusterAdmin,
        board: Board,
        emit: EventSink,
        stop: threading.Event,
        gaps: Gaps,
    ) -> None:
        self._config = config
        self._connector = connector
        self._observer = observer
        self._hub = hub
        self._board = board
        self._emit = emit
        self._stop = stop
        self._gaps = gaps
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._skips: dict[SourcePartition, tuple[Skip, Ends]] = {}

    @property
    def ready(self) -> set[SourcePartition]:
        """Partitions that are not clean, and may start all the same: with what `take` gives."""
        with self._lock:
            return set(self._skips)

    def take(
        self, partitions: Collection[SourcePartition]
    ) -> tuple[dict[SourcePartition, Skip], Ends | None]:
        """What a lane of these partitions has to leave out, and the hub's bound before it; once.

        When the lane fails before it is through, they have to be recovered again.
        """
        with self._lock:
            found = {sp: self._skips.pop(sp) for sp in partitions if sp in self._skips}
        bounds = [ends for _, ends in found.values()]
        shared = set.intersection(*map(set, bounds)) if bounds else set[TopicPartition]()
        least = {tp: min(ends[tp] for ends in bounds) for tp in shared}
        return {sp: skip for sp, (skip, _) in found.items()}, least if bounds else None

    def recover(
        self,
        partitions: Collection[SourcePartition],
        look: Look,
        *,
        alone: bool,
        bound: Bound | None = None,
    ) -> None:
        """Look what the hub tail holds of these partitions, and commit where they are.

        Where the hub lacks something below what it holds, the lane that starts next writes it: see
        `take`. The caller knows that their old writer is gone. `alone`: no lane of ours runs, so
        the hub can be expected to come to rest. `bound`: where to begin, if not where the
        checkpoint says. What the sources do not hold any more is recorded as gaps.
        Raises ClusterError and CheckpointError; then nothing is committed, and the recovery has to
        be done again.
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
        began = time.monotonic()
        tail = self._tail(bound, look.plan, alone=alone)
        found: Mapping[SourcePartition, Skip] = {}
        records = 0
        if tail.ranges:
            self._progress(f"reading {tail.offsets} offsets of the hub tail")
            compacted = [
                name
                for name, topic in look.plan.hub_topics.items()
                if "compact" in topic.cleanup_policy
            ]
            hub = {**jvm_settings(self._config.hub, "consumer"), **UNCOMMITTED}
            told = self._connector.read_tail(tail, hub, compacted)
            found, records = told.parts, told.found
        failpoint("after-scan")
        ranges = {sp: skip.ranges for sp, skip in found.items()}
        positions = recovered_positions(tail.positions, ranges, logs)
        losses = plan_losses(known, positions, highest(ranges), logs, counts_below(ranges, logs))
        self._gaps.lost(losses)
        skips = plan_skips(positions, found)
        self._commit(positions, skips, tail, bound)
        failpoint("after-recovered")
        self._tell(positions, tail, records, skips, time.monotonic() - began)

    def _commit(
        self,
        positions: Positions,
        skips: Mapping[SourcePartition, Skip],
        tail: TailPlan,
        bound: Bound,
    ) -> None:
        """Commit what is whole as clean; what is not keeps the bound behind which it is."""
        whole = positions.only(set(positions) - set(skips))
        if whole:
            self._observer.recovered(whole)
        if not skips:
            return
        # A hub partition that the bound does not know would be read from its beginning each time.
        ends = {tp: log.earliest for tp, log in tail.ranges.items()} | dict(bound.hub_ends)
        self._observer.skipping(positions.only(set(skips)), ends)
        with self._lock:
            self._skips |= {sp: (skip, ends) for sp, skip in skips.items()}

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

    def _tail(self, bound: Bound, plan: Plan, *, alone: bool) -> TailPlan:
        topics = hub_topics_of(plan.routes, bound.positions)
        failpoint("before-settle")
        hub_logs = self._settled(topics) if alone else self._logs(topics)
        failpoint("after-settle")
        own_ends = self._observer.state.own_hub_ends(bound.positions)
        return plan_tail(bound.positions, bound.hub_ends, hub_logs, own_ends)

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
            self._connector.cancel_tail()
            self._thread.join(CANCEL_SECONDS)

    def _in_background(self, partitions: Collection[SourcePartition], look: Look) -> None:
        try:
            self.recover(partitions, look, alone=False)
        except Exception as error:  # a thread has no caller to raise to
            self._emit(Event("recovery_failed", str(error)))
            # The next look tries again, and comes soon.
            self._stop.wait(RETRY_SECONDS)

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

    def _tell(
        self,
        positions: Positions,
        tail: TailPlan,
        found: int,
        skips: Mapping[SourcePartition, Skip],
        seconds: float,
    ) -> None:
        self._board.recovery = RecoveryStatus(
            at=datetime.now(UTC),
            partitions=len(positions),
            tail=tail.offsets,
            found=found,
            holed=len(skips),
            replayed=0,
            seconds=round(seconds, 3),
        )
        missing = (
            f"{len(skips)} of them have something missing below that, which their lanes write"
            if skips
            else "nothing is missing"
        )
        self._emit(
            Event(
                "recovered",
                f"{len(positions)} partitions: {tail.offsets} offsets of the hub tail read, "
                f"{found} records found beyond the checkpoint, {missing}, {seconds:.1f} s",
                {"tail": tail.offsets, "found": found, "holed": len(skips)},
            )
        )
