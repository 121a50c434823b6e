"""Observes what the lanes report and commits checkpoints; the only user of the checkpoint table.

Off the critical path: it takes the reports that the tasks send, and appends to Delta, while the
queries go on. One lock holds it together, because a lane's end is committed from the engine's
thread and all else from the observer's own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.checkpoint.maintenance import maintain
from aggregator.checkpoint.rows import Checkpoint
from aggregator.checkpoint.state import State
from aggregator.checkpoint.table import CheckpointTable
from aggregator.connector.driver import Connector
from aggregator.connector.reports import LaneReport
from aggregator.engine.board import LaneProgress
from aggregator.engine.events import Event, EventSink
from aggregator.engine.identity import Identity, by_identity, known_ends
from aggregator.engine.tail import Ends, HubSnapshot, HubTail
from aggregator.errors import CheckpointConflictError, CheckpointError, ClusterError
from aggregator.failpoint import failpoint
from aggregator.model import Positions, SourcePartition
from aggregator.stream.lane import LaneQuery

POLL_SECONDS = 0.25
STILL_SECONDS = 60.0
"""So often a lane is committed whose positions stand still: its bound must not age."""
MAINTENANCE_PAUSE_SECONDS = 60.0

SnapshotReader = Callable[[Mapping[str, int]], HubSnapshot]
"""Reads the end offsets of hub topics (topic -> partitions); ClusterError without an answer."""


@dataclass(slots=True)
class _Watched:
    query: LaneQuery
    identity: Identity
    bound: HubSnapshot | None
    """What bounds it while it leaves out what the hub held before it began."""
    points: tuple[int, ...] = ()
    told: Positions = field(default_factory=Positions)
    committed: Positions = field(default_factory=Positions)
    committed_at: float = 0.0
    left: set[SourcePartition] = field(default_factory=set)


class Observer:
    """Commits a checkpoint for each lane's start, its report points, and its end.

    A commit that fails because the storage does (CheckpointError) is tried again with newer
    positions; `error` tells meanwhile. A conflict (another writer) is final: `conflict` is set,
    and the engine must stop without writing anything more. `failure` is set when the thread has
    ended by an error that nobody foresaw.
    """

    def __init__(
        self,
        table: CheckpointTable,
        read_hub: SnapshotReader,
        connector: Connector,
        identity: Identity,
        interval_seconds: float,
        history_seconds: float,
        emit: EventSink,
    ) -> None:
        self._table = table
        self._read_hub = read_hub
        self._connector = connector
        self._identity = identity
        self.interval = interval_seconds
        self._history = history_seconds
        self._emit = emit
        self._lock = threading.RLock()
        self._lanes: dict[str, _Watched] = {}
        self._begun: dict[str, HubSnapshot | None] = {}
        self._tail = HubTail(time.time_ns() // 1_000_000)
        self._log_ends: Mapping[SourcePartition, int] = {}
        self._records: dict[str, int] = {}
        self._maintain_after = 0.0
        self._read_at = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="observer", daemon=True)
        self.state: State = table.load()
        self.positions: Positions = self.state.positions
        self.progress: Mapping[str, LaneProgress] = {}
        self.committed_ms: int | None = None
        self.error = ""
        self.conflict: CheckpointConflictError | None = None
        self.failure: Exception | None = None

    def start(self) -> None:
        """Begin to observe, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Lanes that are still watched are not committed any more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def update(self, identity: Identity) -> None:
        """Take over what a look has found."""
        with self._lock:
            self._identity = identity

    def saw(self, log_ends: Mapping[SourcePartition, int]) -> None:
        """Note log ends as the sources' watches tell them, for the next commits; others stay."""
        self._log_ends = {**self._log_ends, **log_ends}

    def begin(
        self, name: str, generation: int, positions: Positions, bound: Ends | None = None
    ) -> int:
        """Commit the start of a lane before its query runs: from here on its end is not clean.

        `bound` are the hub's ends before anything beyond the positions came, for a lane that leaves
        out what the hub holds already; else those of now. Returns the number of a hub snapshot.
        Raises CheckpointError when it cannot be written (then the lane must not start), and
        ClusterError when the hub does not tell its end offsets.
        """
        with self._lock:
            now = self._snapshot()
            older = None if bound is None else HubSnapshot(now.taken_ms, bound)
            self._commit(
                self._checkpoint(name, generation, -1, positions, older or now, self._identity)
            )
            self._begun[name] = older
            # Known from here on: a lane may fail before its first report.
            self.positions = self.positions.merged(positions)
            return self._tail.number

    def watch(self, query: LaneQuery) -> None:
        """Observe a query that has just been started after `begin`."""
        with self._lock:
            name = query.lane.name
            self._lanes[name] = _Watched(query, self._identity, self._begun.pop(name, None))

    def recovered(self, positions: Positions) -> None:
        """Commit positions that the hub was found to hold exactly.

        Raises as `begin` does; then they have to be recovered again.
        """
        with self._lock:
            groups = by_identity(positions, self.state.entries, self._identity)
            self._commit_clean("recovery", groups)

    def skipping(self, positions: Positions, bound: Ends) -> None:
        """Commit positions beyond which the hub holds something, but nothing before `bound`.

        Raises as `begin` does.
        """
        with self._lock:
            groups = by_identity(positions, self.state.entries, self._identity)
            now = time.time_ns() // 1_000_000
            for number, (found, ids) in enumerate(groups):
                ends = HubSnapshot(now, bound)
                self._commit(self._checkpoint("recovery", number, -2, found, ends, ids))
                self.positions = self.positions.merged(found)

    def moved(self, positions: Positions, why: str = "gaps") -> None:
        """Commit positions that were decided on, under the ids of the last look; lane is `why`.

        The hub's ends of now bound them: what it holds of older records by these names, of a topic
        that is gone, is never taken for them. Raises as `begin` does.
        """
        with self._lock:
            self._log_ends = {sp: at for sp, at in self._log_ends.items() if sp not in positions}
            self._commit_clean(why, [(positions, self._identity)])

    def put(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Commit positions that were set by hand, all at once; raises as `begin` does."""
        with self._lock:
            self._commit(*checkpoints)
            for each in checkpoints:
                self.positions = self.positions.merged(each.positions)

    def _commit_clean(self, name: str, groups: Iterable[tuple[Positions, Identity]]) -> None:
        for number, (positions, ids) in enumerate(groups):
            snapshot = self._snapshot()
            self._commit(self._checkpoint(name, number, -1, positions, snapshot, ids, clean=True))
            self.positions = self.positions.merged(positions)

    def finish(self, query: LaneQuery, *, clean: bool) -> None:
        """Commit where a query got to, and observe it no more.

        `clean` says that all its tasks have told that they send nothing more: then no start ever
        has to look into the hub for it. Raises CheckpointError when it cannot be written.
        """
        with self._lock:
            watched = self._lanes.pop(query.lane.name)
            report = self._see(watched)
            if clean:
                self._commit_end(watched, watched.told)
            elif report is not None and watched.told != watched.committed:
                self._commit(self._point(watched, report))

    def left(self, query: LaneQuery, partitions: Collection[SourcePartition]) -> None:
        """Commit where these partitions of a query that goes on were given up, exactly.

        Raises CheckpointError and ClusterError as `begin` does.
        """
        with self._lock:
            watched = self._lanes[query.lane.name]
            self._see(watched)
            self._commit_end(watched, watched.told.only(set(partitions)))
            watched.left |= set(partitions)

    def _commit_end(self, watched: _Watched, positions: Positions) -> None:
        # Nothing beyond these positions is written, so a snapshot of now is right. Reports of
        # partitions that were held stand still, so what is told is what was last written.
        if not positions:
            return
        query, number = watched.query, max(watched.points, default=0)
        end = (query.lane.name, query.generation, number, positions, self._snapshot())
        self._commit(self._checkpoint(*end, watched.identity, clean=True))
        self.positions = self.positions.merged(positions)

    def tick(self) -> None:
        """Take the reports once; commit, all at once, what is due."""
        with self._lock:
            self._connector.poll()
            reports = {name: self._see(watched) for name, watched in self._lanes.items()}
            tasks = [task for report in reports.values() if report for task in report.tasks]
            self._tail.heard(tasks, time.time_ns() // 1_000_000)
            self._read_now_and_then()
            self._connector.snapshot(self._tail.number)
            due = {
                name: report
                for name, report in reports.items()
                if report is not None and self._is_due(self._lanes[name], report)
            }
            if due:
                failpoint("before-point")
                self._try_commit(due)
            self._tail.forget(task.snapshot for task in tasks)
            self._maintain()

    def _read_now_and_then(self) -> None:
        """Others may write into the hub's topics as well, of which the reports say nothing."""
        if time.monotonic() - self._read_at < STILL_SECONDS:
            return
        try:
            self._snapshot()
        except ClusterError as error:
            # The older snapshot stays valid; a recovery would only have more to read.
            self._note_error(f"hub end offsets: {error}")

    def _see(self, watched: _Watched) -> LaneReport | None:
        """The newest report of a lane, noted; None before each of its tasks has told."""
        query = watched.query
        report = query.report
        failpoint("mid-batch")
        if not report.whole:
            return None
        points = tuple(task.point for task in report.tasks)
        if points != watched.points:
            watched.points = points
            watched.told = Positions(
                {sp: at for sp, at in report.positions.items() if sp not in watched.left}
            )
            self.positions = self.positions.merged(watched.told)
        name = query.lane.name
        before = self.progress.get(name)
        if before is None or before.generation != query.generation:
            self._records[name] = before.records if before else 0
        self.progress = {
            **self.progress,
            name: LaneProgress(
                self._records[name] + report.records,
                min((task.at_ms for task in report.tasks), default=0),
                query.generation,
                report,
            ),
        }
        return report

    def _is_due(self, watched: _Watched, report: LaneReport) -> bool:
        waited = time.monotonic() - watched.committed_at
        if watched.bound is not None and not report.skipping:
            # From here on a recovery has less to read.
            return True
        patience = self.interval if watched.told != watched.committed else STILL_SECONDS
        return waited >= max(self.interval, patience)

    def _try_commit(self, due: Mapping[str, LaneReport]) -> None:
        points = [self._point(self._lanes[name], report) for name, report in due.items()]
        try:
            self._commit(*points)
        except CheckpointConflictError as error:
            self.conflict = error
        except CheckpointError as error:
            # The next look tries it again, with what is told by then.
            self._note_error(str(error))
        else:
            for name, report in due.items():
                watched = self._lanes[name]
                watched.committed = watched.told
                watched.committed_at = time.monotonic()
                if not report.skipping:
                    watched.bound = None

    def _point(self, watched: _Watched, report: LaneReport) -> Checkpoint:
        query = watched.query
        bound = self._tail.bound(report.tasks)
        if watched.bound is not None and report.skipping:
            bound = watched.bound
        number = max(watched.points, default=0)
        end = (query.lane.name, query.generation, number, watched.told, bound)
        return self._checkpoint(*end, watched.identity)

    def _commit(self, *checkpoints: Checkpoint) -> None:
        if self.conflict is not None:
            raise self.conflict
        self._table.append(*checkpoints)
        self.state = self._table.load()
        self.committed_ms = time.time_ns() // 1_000_000
        if self.error:
            self._note_error("")

    def _checkpoint(
        self,
        name: str,
        generation: int,
        batch: int,
        positions: Positions,
        snapshot: HubSnapshot,
        identity: Identity,
        *,
        clean: bool = False,
    ) -> Checkpoint:
        cluster_ids, topic_ids = identity.of(positions)
        return Checkpoint(
            lane=name,
            generation=generation,
            batch=batch,
            positions=positions,
            hub_ends=snapshot.ends,
            snapshot_at_ms=snapshot.taken_ms,
            cluster_ids=cluster_ids,
            topic_ids=topic_ids,
            log_ends=known_ends(positions, identity, self._log_ends, self.state.entries),
            clean=clean,
        )

    def _maintain(self) -> None:
        if not self._table.maintenance_due or time.monotonic() < self._maintain_after:
            return
        try:
            maintain(self._table, self._history, time.time_ns() // 1_000_000)
        except CheckpointConflictError as error:
            self.conflict = error
        except CheckpointError as error:
            self._maintain_after = time.monotonic() + MAINTENANCE_PAUSE_SECONDS
            self._note_error(f"maintenance: {error}")

    def _snapshot(self) -> HubSnapshot:
        self._read_at = time.monotonic()
        return self._tail.read(self._read_hub(self._identity.hub_topics))

    def _note_error(self, error: str) -> None:
        if error != self.error:
            kind = "checkpoint_error" if error else "checkpoint_recovered"
            self._emit(Event(kind, error or "checkpoints are committed again"))
        self.error = error

    def _loop(self) -> None:
        try:
            while not self._stop.wait(POLL_SECONDS):
                self.tick()
        except Exception as error:
            # Without checkpoints nothing may go on: the engine's thread looks at this and stops.
            self.failure = error
