"""Observes what the lanes report, and commits it.

Off the critical path: it takes the reports that the tasks send, and appends to Delta, while the
queries keep running. One lock holds it together, because a lane's end is committed from the
engine's thread and all else from the observer's own.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from aggregator.config.in_force import InForce
from aggregator.datapath.connector.connector import Connector
from aggregator.datapath.connector.reports import LaneReport, TaskReport
from aggregator.datapath.hub_ledger import Ends, HubSnapshot
from aggregator.datapath.spark.lane import LaneQuery
from aggregator.engine.commits.committer import Commits, EndsReader, HubLostError
from aggregator.engine.commits.points import Bounded, LanePoints, LaneStart, bounded
from aggregator.model.errors import CheckpointConflictError, CheckpointError, ClusterError
from aggregator.model.events import Event, EventSink
from aggregator.model.failpoint import failpoint
from aggregator.model.loop import FOREVER, Loop
from aggregator.model.values import Positions, SourcePartition
from aggregator.plan.lifecycle.inputs import Known
from aggregator.plan.positions.hub_losses import least_cuts
from aggregator.plan.positions.start import Remembered
from aggregator.status.figures import Figures
from aggregator.status.view import LaneProgress
from aggregator.store.checkpoint.checkpoint_table import MOMENTS, CheckpointTable
from aggregator.store.checkpoint.identity import Identity
from aggregator.store.checkpoint.rows import Checkpoint
from aggregator.store.checkpoint.start_state import CheckpointState

POLL_SECONDS = 0.5
IDLE_SECONDS = 2.0
"""The same while no report has come for a while; the engine wakes it when one has."""
READ_SECONDS = 60.0
"""How often the hub is asked for its ends: others may write there, which no report shows."""


class Observer(Commits):
    """Commits a checkpoint for each lane's start, its report points, and its end.

    A commit of report points that fails because the storage does (CheckpointError) is tried again
    with newer positions. When it meets a conflict, `conflict` is set, and the engine must stop
    without writing anything more. `failure` is set when the thread has ended by an error that
    was not foreseen.
    """

    def __init__(
        self,
        table: CheckpointTable,
        read_hub: EndsReader,
        connector: Connector,
        identity: Identity,
        in_force: InForce,
        history_seconds: float,
        emit: EventSink,
    ) -> None:
        super().__init__(table, read_hub, identity, history_seconds, emit)
        self._connector = connector
        self._in_force = in_force
        self._lanes: dict[str, LanePoints] = {}
        self._begun: dict[str, LaneStart] = {}
        self._loop = Loop(
            "observer",
            self.tick,
            every=lambda: POLL_SECONDS if self._is_close else IDLE_SECONDS,
            on_error=self._fail,
            stop_seconds=FOREVER,
        )
        self._is_close = True
        self._is_hub_silent = False
        self._heard: list[TaskReport] = []
        self._followed = Positions()
        """All positions as the newest reports of lanes have changed them, if nothing else has."""
        self.progress: Mapping[str, LaneProgress] = {}
        self.figures = Figures()
        self.failure: Exception | None = None

    def start(self) -> None:
        """Begin to observe, in a thread of its own."""
        self._loop.start(delay=POLL_SECONDS)

    def stop(self) -> None:
        """End the thread. Lanes that still run are not committed any more."""
        self._loop.stop()

    def observe_closely(self, closely: bool) -> None:
        """There are reports, or they are awaited; or there were none for a while. Never waits."""
        if closely and not self._is_close:
            self._loop.wake()
        self._is_close = closely

    def begin(
        self,
        name: str,
        generation: int,
        positions: Positions,
        older: Mapping[SourcePartition, Ends] | None,
        into: Collection[str],
    ) -> int:
        """Commit the start of a lane before its query runs: from here on its end is not clean.

        `older` are partitions of which it skips what the hub already holds, with the hub's
        ends before anything beyond their positions came. All others are bounded by the ends of
        now of the hub topics that it writes `into`, and by the last known ones of other topics.
        Returns the number of a hub snapshot. Raises CheckpointError when it cannot be written
        (then the lane must not start), and ClusterError when the hub does not report its end
        offsets, or has lost something since this was decided.
        """
        with self._lock:
            self._refuse_cuts()
            now = self._snapshot(into)
            own = {sp: ends for sp, ends in (older or {}).items() if sp in positions}
            parts = bounded(-1, positions, now, own)
            self._commit(*self._checkpoints(name, generation, self._identity, parts))
            self._begun[name] = LaneStart(self._tail.number, now, positions, own, frozenset(into))
            # Known from here on: a lane may fail before its first report.
            self.positions = self.positions.merged(positions)
            return self._tail.number

    def watch(self, query: LaneQuery) -> None:
        """Observe a query that has just been started after `begin`."""
        with self._lock:
            name = query.lane.name
            begun, earlier = self._begun.pop(name), self.progress.get(name, LaneProgress())
            self._lanes[name] = LanePoints(query, self._identity, begun, earlier, time.monotonic())

    def finish(self, query: LaneQuery, *, clean: bool) -> None:
        """Commit the last positions of a query, and stop observing it.

        `clean` says that all its tasks have reported that they send nothing more: then no start
        ever has to read the hub for it, except where it is not beyond what it had to skip. Raises
        CheckpointError when it cannot be written.
        """
        with self._lock:
            lane = self._lanes[query.lane.name]
            try:
                report = self._see(lane)
                self._take_cuts()
                if report is not None and clean:
                    self._commit_end(lane, report, lane.reported)
                elif report is not None and lane.has_news:
                    self._commit(*self._of(lane, lane.point(report, self._tail)))
            finally:
                # Only now: what the hub has lost is noted of each lane that is observed.
                del self._lanes[query.lane.name]

    def left(self, query: LaneQuery, partitions: Collection[SourcePartition]) -> None:
        """Commit the exact positions at which a running query has released these partitions.

        Those that are stuck stay as they were committed last: the hub may hold more of them.
        Raises CheckpointError as `begin` does.
        """
        with self._lock:
            lane = self._lanes[query.lane.name]
            report = self._see(lane)
            self._take_cuts()
            if report is not None:
                self._commit_end(lane, report, lane.reported.only(set(partitions)))
            lane.leave(partitions)

    @property
    def hub_ends(self) -> Ends:
        """How far the hub is known to be; what it acknowledges from now on comes behind that."""
        return self._tail.newest.ends

    def cut_off(self, cuts: Ends) -> None:
        """Commit that the hub has lost these partitions from these offsets on, or before.

        Whatever may have been copied into them is read there before it counts. Raises
        CheckpointError when it cannot be written; then it is part of the next commit.
        """
        with self._lock:
            self._note_cuts(cuts)
            self._commit()

    def tick(self) -> None:
        """Take the reports once; commit, all at once, what is due."""
        with self._lock:
            self._connector.poll()
            seen = [(lane, self._see(lane)) for lane in self._lanes.values()]
            self._take_cuts()
            tasks = [task for lane, _ in seen for task in lane.query.report.tasks]
            if tasks != self._heard:
                # The ends of others may be of before the hub was cut off.
                own = [lane for lane, _ in seen if not lane.is_cut_off]
                heard = [task for lane in own for task in lane.query.report.tasks]
                self._tail.heard(heard, MOMENTS.next())
                self._heard = tasks
            self._read_now_and_then()
            self._connector.snapshot(self._tail.number)
            now, interval = time.monotonic(), self._in_force.config.stream.checkpoint_interval
            due = [
                (lane, report)
                for lane, report in seen
                if report is not None and lane.is_due(report, interval, now)
            ]
            if due or self._cuts:
                failpoint("before-point")
                self._try_commit(due)
            self._tail.forget(task.snapshot for task in tasks)
            self._maintain()

    def _take_cuts(self) -> None:
        """What tasks have found to be lost, up to the reports that were just seen."""
        if cuts := self._connector.take_cuts():
            self._note_cuts(cuts)

    def _note_cuts(self, cuts: Ends) -> None:
        super()._note_cuts(cuts)
        for lane in self._lanes.values():
            lane.cut_off(cuts)
        self._begun = {
            name: replace(it, cuts=least_cuts(it.cuts, cuts)) for name, it in self._begun.items()
        }

    def _read_now_and_then(self) -> None:
        if time.monotonic() - self._read_at < READ_SECONDS:
            return
        self._snapshot_if_reported()

    def _snapshot_if_reported(self, into: Collection[str] | None = None) -> HubSnapshot:
        """The hub's ends of now, or the newest that are known while it does not answer."""
        try:
            found = self._snapshot(into)
        except HubLostError:
            # It has reported its ends, and what it has lost is noted already.
            return self._tail.newest
        except ClusterError as error:
            # The older snapshot stays valid; a recovery would only have more to read.
            self._note_hub(str(error))
            return self._tail.newest
        if into is None:
            self._note_hub("")
        return found

    def _note_hub(self, error: str) -> None:
        """Emit once that the hub does not report its ends, and once that it does again."""
        if bool(error) == self._is_hub_silent:
            return
        self._is_hub_silent = bool(error)
        if error:
            words = f"the hub does not report its end offsets, commits name older ones: {error}"
            self._emit(Event("hub_ends_warning", words))
        else:
            self._emit(Event("hub_ends_known", "the hub reports its end offsets again"))

    def _see(self, lane: LanePoints) -> LaneReport | None:
        """The newest report of a lane, noted; None before each of its tasks has reported."""
        report = lane.query.report
        self.figures.take(report)
        failpoint("mid-batch")
        if not report.whole:
            return None
        if self.positions is not self._followed:
            for each in self._lanes.values():
                each.take_all()
        self.positions = self._followed = self.positions.merged(lane.take(report))
        self.progress = {**self.progress, lane.query.lane.name: lane.progress(report)}
        return report

    def _try_commit(self, due: Sequence[tuple[LanePoints, LaneReport]]) -> None:
        checkpoints = [
            checkpoint
            for lane, report in due
            for checkpoint in self._of(lane, lane.point(report, self._tail))
        ]
        try:
            self._commit(*checkpoints)
        except CheckpointConflictError as error:
            self.conflict = error
        except CheckpointError as error:
            # The next round tries it again, with what is reported by then.
            self._note_error(str(error))
        else:
            for lane, report in due:
                lane.has_committed(report, time.monotonic())

    def _commit_end(self, lane: LanePoints, report: LaneReport, positions: Positions) -> None:
        # Nothing beyond these positions is written, so a snapshot of now is right. With an older
        # one they are exact all the same: the next start finds more in the hub, and checks whether
        # it is from this lane. Reports of held partitions do not change, so what is reported is
        # what was last written.
        if positions:
            now = self._snapshot_if_reported(lane.into)
            parts = lane.end(report, positions, now)
            self._commit(*self._of(lane, parts))
            self.positions = self.positions.merged(positions)

    def _of(self, lane: LanePoints, parts: Sequence[Bounded]) -> list[Checkpoint]:
        query = lane.query
        return self._checkpoints(query.lane.name, query.generation, lane.identity, parts)

    def _fail(self, error: Exception) -> None:
        # Without checkpoints nothing may continue: the engine's thread checks this and stops.
        self.failure = error
        self._loop.end()


def known_of(state: CheckpointState) -> Known:
    """What a checkpoint knows."""
    return Known(
        state.remembered(),
        state.unclean,
        state.furthest_hub_ends(),
        state.epoch,
        not state.entries,
        state.ends_by_hand(),
        state.own_hub_ends(state.entries),
        {alias: snapshot.hub_ends for alias, snapshot in state.doubts.items()},
        state.hub_ids,
        state.own_hub_ids(),
        {alias: snapshot.topic_ids for alias, snapshot in state.doubts.items()},
    )


class KnownOf:
    """What an observer's checkpoint knows; rebuilt only after a commit."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._state: CheckpointState | None = None
        self._known = Known()
        self._remembered: tuple[CheckpointState | None, Remembered] = (None, Remembered())

    def now(self) -> Known:
        """The same, with the newest positions of what runs."""
        state = self._observer.state
        if state is not self._state:
            self._state = state
            self._known = known_of(state)
        return replace(self._known, remembered=self.remembered())

    def remembered(self) -> Remembered:
        """Of it what is known of each partition: for each second, as all of it is much more.

        With many lanes it has all ends of the hub for each of them.
        """
        state = self._observer.state
        if self._remembered[0] is not state:
            self._remembered = (state, state.remembered())
        return replace(self._remembered[1], positions=self._observer.positions)
