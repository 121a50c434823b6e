"""Recovers partitions whose last writer did not end cleanly, before their lanes start again."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aggregator.audit.document import RecoveryStatus
from aggregator.checkpoint.state import Entry
from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.connector.driver import Connector
from aggregator.discover import ClusterAdmin
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.engine.gaps import Gaps
from aggregator.engine.hub import read_logs, settled_logs
from aggregator.engine.look import Look
from aggregator.engine.observer import Observer
from aggregator.engine.tail import Ends
from aggregator.failpoint import failpoint
from aggregator.model import Positions, Ranges, Skip, SourcePartition, TopicPartition
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
RETRY_SECONDS = 5.0
CANCEL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a recovery begins: positions, and the hub's ends before anything beyond them came."""

    positions: Positions
    hub_ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Hole:
    """What a lane is to leave out, the hub's ends before it, and the commit that it belongs to."""

    skip: Skip
    ends: Ends
    commit: tuple[int, int, str]


def _commit(entry: Entry) -> tuple[int, int, str]:
    """What tells one commit of a position from the next, also where a full one repeats it."""
    return (entry.position, entry.snapshot.snapshot_at_ms, entry.topic_id)


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
        read_until: Mapping[SourcePartition, float],
    ) -> None:
        self._config = config
        self._connector = connector
        self._observer = observer
        self._hub = hub
        self._board = board
        self._emit = emit
        self._stop = stop
        self._gaps = gaps
        self._read_until = read_until
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._skips: dict[SourcePartition, _Hole] = {}
        self._read: Mapping[TopicPartition, int] = {}

    @property
    def ready(self) -> set[SourcePartition]:
        """Partitions that are not clean, and may start all the same: with what `take` gives."""
        return set(self.copied)

    @property
    def copied(self) -> dict[SourcePartition, Ranges]:
        """The same, with the offsets beyond their positions that the hub holds."""
        entries = self._observer.state.entries
        with self._lock:
            # Of one that was committed since, by a gap or by hand, it says nothing any more.
            self._skips = {
                sp: it for sp, it in self._skips.items() if it.commit == _commit(entries[sp])
            }
            return {sp: it.skip.ranges for sp, it in self._skips.items()}

    def forget_cut(self, look: Look) -> None:
        """Let those be recovered again whose logs have lost something that was to be written."""
        known = self._observer.state.remembered()
        for sp in self.ready:
            log = look.observed.offsets.get(sp)
            same = log is not None and is_same_log(sp, known, look.observed)
            if same and log is not None and log.earliest > known.positions[sp]:
                with self._lock:
                    self._skips.pop(sp, None)

    def take(
        self, partitions: Collection[SourcePartition]
    ) -> tuple[dict[SourcePartition, Skip], dict[SourcePartition, Ends]]:
        """What a lane of these partitions has to leave out, and the hub's ends before it; once.

        When the lane fails before it is through, they have to be recovered again.
        """
        ready = self.ready
        with self._lock:
            found = {sp: self._skips.pop(sp) for sp in partitions if sp in ready}
        return (
            {sp: hole.skip for sp, hole in found.items()},
            {sp: hole.ends for sp, hole in found.items()},
        )

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
            self._emit(Event("recovering", f"reading {tail.offsets} offsets of the hub tail"))
            compacted = [
                name
                for name, topic in look.plan.hub_topics.items()
                if "compact" in topic.cleanup_policy
            ]
            hub = {**jvm_settings(self._config.hub, "consumer"), **UNCOMMITTED}
            told = self._connector.read_tail(tail, hub, compacted)
            found, records = told.parts, told.found
        failpoint("after-scan")
        self._read = {tp: log.latest for tp, log in tail.ranges.items()}
        ranges = {sp: skip.ranges for sp, skip in found.items()}
        positions = recovered_positions(tail.positions, ranges, logs)
        losses = plan_losses(known, positions, highest(ranges), logs, counts_below(ranges, logs))
        self._gaps.lost(losses)
        # Ends that were looked up while a lane still read say nothing about what it has read.
        sure = {
            sp: log.latest for sp, log in logs.items() if look.began > self._read_until.get(sp, 0.0)
        }
        skips = plan_skips(positions, found, sure)
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
        # Of each by itself: before its own bound there may be records of a topic that is gone.
        older = {sp: {**ends, **tail.above.get(sp, {})} for sp in skips}
        self._observer.skipping(positions.only(set(skips)), older)
        entries = self._observer.state.entries
        with self._lock:
            self._skips |= {
                sp: _Hole(skip, older[sp], _commit(entries[sp])) for sp, skip in skips.items()
            }

    def doubt(self, partitions: Collection[SourcePartition], starts: Positions, look: Look) -> None:
        """Before the first lanes start: recover also what needs no recovery, if that is in doubt.

        `partitions` are those that are to start and are not unclean, `starts` where they would.
        Raises as `recover` does.
        """
        state, partitions = self._observer.state, set(partitions) - self.ready
        # A topic that this start has created is empty, and may have no leader yet.
        topics = hub_topics_of(look.plan.routes, partitions) & look.plan.hub.topics.keys()
        timeout = self._config.supervision.connect_timeout
        hub_logs = read_logs(self._hub, topics, timeout) if topics else {}
        found = plan_doubt(
            look.plan.routes,
            partitions,
            self._looked_at(state.furthest_hub_ends()),
            hub_logs,
            fresh=not state.entries,
        )
        if found.partitions:
            self._emit(Event("doubt", found.reason))
            begin = starts.merged(self._observer.positions).only(found.partitions)
            bound = Bound(begin, found.hub_ends)
            self.recover(found.partitions, look, alone=True, bound=bound)

    def _looked_at(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The ends, or how far the tail was read just now where that is further."""
        read = self._read
        return {tp: max(ends.get(tp, 0), read.get(tp, 0)) for tp in ends.keys() | read.keys()}

    def _tail(self, bound: Bound, plan: Plan, *, alone: bool) -> TailPlan:
        topics = hub_topics_of(plan.routes, bound.positions)
        failpoint("before-settle")
        timeout = self._config.supervision.connect_timeout
        hub_logs = (
            settled_logs(self._hub, topics, timeout, self._stop, self._emit)
            if alone
            else read_logs(self._hub, topics, timeout)
        )
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

    def _tell(
        self,
        positions: Positions,
        tail: TailPlan,
        found: int,
        skips: Mapping[SourcePartition, Skip],
        seconds: float,
    ) -> None:
        self._board.replayed_before = self._board.replayed()
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
