"""Observes the lanes' progress and commits checkpoints; the only user of the checkpoint table.

Off the critical path: it reads what a query reports about itself, asks the hub for its end
offsets, and appends to Delta, while the queries go on. One lock holds it together, because a
lane's end is committed from the engine's thread and all else from the observer's own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from aggregator.checkpoint.maintenance import maintain
from aggregator.checkpoint.rows import Checkpoint
from aggregator.checkpoint.state import State
from aggregator.checkpoint.table import CheckpointTable
from aggregator.engine.board import LaneProgress
from aggregator.engine.events import Event, EventSink
from aggregator.engine.identity import Identity, by_identity, known_ends
from aggregator.engine.tail import HubSnapshot, HubTail
from aggregator.errors import CheckpointConflictError, CheckpointError, ClusterError
from aggregator.failpoint import failpoint
from aggregator.model import Positions, SourcePartition
from aggregator.stream.lane import BatchEnd, LaneQuery

POLL_SECONDS = 0.25
SNAPSHOTS_PER_BATCH = 5
MAINTENANCE_PAUSE_SECONDS = 60.0

SnapshotReader = Callable[[Mapping[str, int]], HubSnapshot]
"""Reads the end offsets of hub topics (topic -> partitions); ClusterError without an answer."""


@dataclass(slots=True)
class _Watched:
    query: LaneQuery
    identity: Identity
    batch: int = -1
    committed: float = 0.0
    pending: Checkpoint | None = None


class Observer:
    """Commits a checkpoint for each lane's start, batches and end.

    A commit that fails because the storage does (CheckpointError) is tried again with newer
    positions; `error` tells meanwhile. A conflict (another writer) is final: `conflict` is set,
    and the engine must stop without writing anything more. `failure` is set when the thread has
    ended by an error that nobody foresaw.
    """

    def __init__(
        self,
        table: CheckpointTable,
        read_hub: SnapshotReader,
        identity: Identity,
        interval_seconds: float,
        history_seconds: float,
        emit: EventSink,
    ) -> None:
        self._table = table
        self._read_hub = read_hub
        self._identity = identity
        self.interval = interval_seconds
        self._history = history_seconds
        self._emit = emit
        self._lock = threading.RLock()
        self._lanes: dict[str, _Watched] = {}
        self._tail = HubTail(HubSnapshot(0, {}))
        self._log_ends: Mapping[SourcePartition, int] = {}
        self._maintain_after = 0.0
        self._next_snapshot = 0.0
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

    def begin(self, name: str, generation: int, positions: Positions) -> None:
        """Commit the start of a lane before its query runs: from here on its end is not clean.

        Raises CheckpointError when it cannot be written (then the lane must not start), and
        ClusterError when the hub does not tell its end offsets.
        """
        with self._lock:
            snapshot = self._snapshot()
            self._tail.began(name, snapshot)
            self._commit(
                self._checkpoint(name, generation, -1, positions, snapshot, self._identity)
            )
            # Known from here on: a lane may fail before its first batch ends.
            self.positions = self.positions.merged(positions)

    def watch(self, query: LaneQuery) -> None:
        """Observe a query that has just been started after `begin`."""
        with self._lock:
            self._lanes[query.lane.name] = _Watched(query, self._identity)

    def recovered(self, positions: Positions) -> None:
        """Commit positions that the hub was found, or made, to hold exactly.

        Raises as `begin` does; then they have to be recovered again.
        """
        with self._lock:
            groups = by_identity(positions, self.state.entries, self._identity)
            self._commit_clean("recovery", groups)

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

        `clean` says that nothing was written beyond the last batch that it reported: then no
        start ever has to look into the hub for it. Raises CheckpointError when it cannot be
        written.
        """
        name = query.lane.name
        with self._lock:
            watched = self._lanes.pop(name)
            self._see(watched)
            self._tail.ended(name)
            if clean:
                # Nothing beyond its positions is written, so a snapshot of now is right.
                positions = self.positions.only(set(query.lane.partitions))
                end = (name, query.generation, watched.batch, positions, self._snapshot())
                self._commit(self._checkpoint(*end, watched.identity, clean=True))
            elif watched.pending is not None:
                # A batch that ended, with the snapshot that belongs to it. One that was cut off
                # is not covered by anything newer: for it the last commit stays the bound.
                self._commit(watched.pending)

    def tick(self) -> None:
        """Look at every lane once; commit those whose batch has ended."""
        with self._lock:
            ended = [watched for watched in self._lanes.values() if self._see(watched)]
            for watched in self._lanes.values():
                if watched.pending is not None and self._is_due(watched):
                    self._try_commit(watched)
            if ended or time.monotonic() >= self._next_snapshot:
                self._take_snapshot()
            self._maintain()

    def _see(self, watched: _Watched) -> BatchEnd | None:
        name = watched.query.lane.name
        ended = watched.query.new_batch()
        if ended is None:
            self._tail.quiet(name)
            failpoint("mid-batch")
            return None
        failpoint("batch-seen")
        watched.batch = ended.batch
        records = ended.rows
        if (before := self.progress.get(name)) is not None:
            records += before.records
        self.progress = {
            **self.progress,
            name: LaneProgress(ended.batch, records, ended.ended_ms, watched.query.generation),
        }
        self.positions = self.positions.merged(ended.positions)
        snapshot = self._tail.for_batch(name)
        end = (name, watched.query.generation, ended.batch, ended.positions, snapshot)
        watched.pending = self._checkpoint(*end, watched.identity)
        return ended

    def _is_due(self, watched: _Watched) -> bool:
        # Micro-batches may end many times a second; a real-time batch is as long as the interval.
        return time.monotonic() - watched.committed >= 0.5 * self.interval

    def _try_commit(self, watched: _Watched) -> None:
        assert watched.pending is not None
        try:
            self._commit(watched.pending)
        except CheckpointConflictError as error:
            self.conflict = error
            watched.pending = None
        except CheckpointError as error:
            # It stays pending, to be tried again with the next look.
            self._note_error(str(error))
        else:
            watched.committed = time.monotonic()
            watched.pending = None

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

    def _take_snapshot(self) -> None:
        try:
            self._snapshot()
        except ClusterError as error:
            # The older snapshot stays valid; recovery would only have more to read.
            self._note_error(f"hub end offsets: {error}")

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
        snapshot = self._tail.taken(self._read_hub(self._identity.hub_topics))
        # The fresher the snapshot, the shorter the tail that a recovery has to read.
        self._next_snapshot = time.monotonic() + max(1.0, self.interval / SNAPSHOTS_PER_BATCH)
        return snapshot

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
