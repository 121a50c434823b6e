"""The checkpoint table: load the state, claim an epoch, append checkpoints by compare-and-set.

A `CheckpointTable` belongs to ONE writer, whose threads take turns by its lock: one that observes
progress, one that keeps the lease. A reader opens a table of its own.
"""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema, write_deltalake

from aggregator.config.schema import CheckpointConfig
from aggregator.model.errors import CheckpointConflictError, CheckpointError
from aggregator.model.failpoint import failpoint
from aggregator.plan.lease import Moment
from aggregator.store.checkpoint.rows import SCHEMA, Checkpoint, epoch_row, to_table
from aggregator.store.checkpoint.start_state import CheckpointState, state_from
from aggregator.store.delta import (
    NO_HOOKS,
    at_known_version,
    check_format,
    dataset,
    highest,
    last_commit,
    make_durable,
    open_delta,
    table_uri,
    translated,
)
from aggregator.store.lease.conflict import LastCommit, conflict_error, now

FULL_EVERY = 500
"""After this many commits one repeats all partitions, so a load reads no more than this."""

MAINTAIN_EVERY = 100
"""After this many commits `maintenance_due` asks for a call of `maintain`."""

UNTOLD = 20
"""The number of failed commits that are recognised should one have landed: while a disk is full
there are more and more of them."""

HOLDER_COMMITS = 20
"""The number of commits searched for the writer's record: manual commits carry none."""

MAINTENANCE = "maintenance"
"""The lane of commits that change files, and no state."""

CONFIGURATION: dict[str, str | None] = {
    # On a local disk every commit lists the log folder, so the log is kept short. Older
    # positions are read from the rows (history), not from older versions of the table.
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.checkpointInterval": str(MAINTAIN_EVERY),
}


class Moments:
    """The clock of the day in ms, of which no moment is before one that it has given.

    `Past` compares when the hub was asked with when positions were committed, and people and NTP
    set a clock back.
    """

    def __init__(self, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        """Now, or the moment after the last one."""
        with self._lock:
            self._last = max(self._last + 1, self._clock_ms())
            return self._last


MOMENTS = Moments()
"""Of this process, for all that it commits."""


class CheckpointTable:
    """Append-only rows, one commit per checkpoint; never two writers at the same version.

    Guarantee: `append` returns only when the commit is in the table, on a local disk forced to
    the disk; and it fails when another writer committed since this writer's last commit.
    """

    def __init__(
        self,
        path: str,
        delta: DeltaTable,
        storage_options: Mapping[str, str] | None = None,
        clock_ms: Callable[[], int] = MOMENTS.next,
    ) -> None:
        self.path = path
        self.delta = delta
        self._storage_options = dict(storage_options or {})
        self._clock_ms = clock_ms
        self.writer = uuid.uuid4().hex
        self.record = ""
        self.lock = threading.RLock()
        self.renewed: Moment | None = None
        self.refused: CheckpointConflictError | None = None
        self._state: CheckpointState | None = None
        self._untold: dict[str, CheckpointState] = {}
        """Commits of the next version that failed without a word whether they landed, by their ids,
        and the state behind each."""
        self._epoch = 0
        self._since_maintenance = 0

    @classmethod
    def open(cls, path: str, storage_options: Mapping[str, str] | None = None) -> Self | None:
        """The table under `path` (the setting checkpoint.path); none when there is none yet.

        CheckpointError when it cannot be read or is damaged.
        """
        delta = open_delta(path, storage_options)
        return cls(path, delta, storage_options) if delta is not None else None

    @classmethod
    def create(cls, path: str, storage_options: Mapping[str, str] | None = None) -> Self:
        """The table under `path`, made if there is none; CheckpointError when it cannot be had."""
        found = cls.open(path, storage_options)
        if found is not None:
            return found
        with translated(path, "created"):
            # "ignore": two that create at once get the same table, and the epoch decides.
            delta = DeltaTable.create(
                table_uri(path),
                Schema.from_arrow(SCHEMA),
                mode="ignore",
                name="aggregator_checkpoints",
                configuration=CONFIGURATION,
                storage_options=dict(storage_options or {}),
            )
        make_durable(path, 0)
        return cls(path, delta, storage_options)

    @property
    def version(self) -> int:
        """The Delta version this table knows."""
        return int(self.delta.version())

    @property
    def epoch(self) -> int:
        """The epoch that this writer claimed; 0 before."""
        return self._epoch

    @property
    def maintenance_due(self) -> bool:
        """True when `maintain` should be called, by the thread that appends."""
        return self._since_maintenance >= MAINTAIN_EVERY

    def load(self) -> CheckpointState:
        """The newest state; for a writer the one after its own last commit.

        Reads only rows from the last full commit on.
        """
        if self._state is None or not self._epoch:
            with translated(self.path, "read"):
                self.delta.update_incremental()
                check_format(self.delta, self.path)
                self._state = state_from(self._rows_since_full())
        return self._state

    def claim_epoch(self, owner: str, record: str = "") -> int:
        """Begin to write: commit the epoch after the last one, with all positions repeated.

        From then on an append of an older epoch is refused. CheckpointConflictError when another
        writer commits at the same time. `record` goes with each commit, and names this writer to
        anyone who reads `holder`. Returns the epoch.
        """
        self._epoch = 0
        self.record, self.refused = record, None
        self._untold.clear()
        state = self.load()
        seq, epoch = state.seq + 1, state.epoch + 1
        now = self._clock_ms()
        carried = state.carried(seq, epoch, without=())
        rows = pa.concat_tables([epoch_row(seq, epoch, owner, now), to_table(carried, now)])
        after = replace(state.apply(*carried), seq=seq, epoch=epoch, full_seq=seq)
        self._commit(rows, after, lane=owner)
        self._epoch = epoch
        return epoch

    def append(self, checkpoint: Checkpoint, *more: Checkpoint) -> Checkpoint:
        """Commit `checkpoint` atomically and return it with its seq and epoch.

        `more` go into the same commit: they are about other partitions, and of another lane or
        snapshot. The commit is made full when the checkpoint asks for it, or when one is due.
        CheckpointConflictError: another writer committed since, nothing was written, and this
        writer must stop. CheckpointError: it cannot be written, or no epoch is claimed.
        """
        if not self._epoch:
            raise CheckpointError(f"checkpoint.path {self.path}: no epoch is claimed yet")
        if not all(each.positions or each.doubted for each in (checkpoint, *more)):
            raise CheckpointError(f"lane {checkpoint.lane}: a checkpoint without any position")
        with self.lock:
            while (done := self._append(checkpoint, *more)) is None:
                pass
        return done

    def _append(self, checkpoint: Checkpoint, *more: Checkpoint) -> Checkpoint | None:
        """None when another commit of this writer is there before it: this one goes behind it."""
        state = self.load()
        seq = state.seq + 1
        full = checkpoint.full or seq - state.full_seq >= FULL_EVERY
        own = [replace(each, seq=seq, epoch=self._epoch, full=full) for each in (checkpoint, *more)]
        positions = {sp for each in own for sp in each.positions}
        doubted = {alias for each in own for alias in each.doubted}
        carried = state.carried(seq, self._epoch, positions, doubted) if full else []
        rows = to_table([*carried, *own], self._clock_ms())
        after = state.apply(*carried, *own)
        return own[0] if self._commit(rows, after, checkpoint.lane) else None

    def renew(self, lane: str = "lease") -> None:
        """Commit only that this writer is still alive; raises as `append` does."""
        if not self._epoch:
            raise CheckpointError(f"checkpoint.path {self.path}: no epoch is claimed yet")
        with self.lock:
            while not self._commit(to_table([], 0), self.load(), lane):
                pass

    def release(self) -> None:
        """Commit that this writer has ended and nothing of it is on its way; raises as `append`."""
        self.record = ""
        self.renew("released")

    def holder(self) -> str:
        """The record of the newest commit's writer; empty when it has ended, or left none."""
        with translated(self.path, "read"):
            self.delta.update_incremental()
            infos = self.delta.history(HOLDER_COMMITS)
        return str(next((info["owner"] for info in infos if "owner" in info), ""))

    def handle_for_maintenance(self) -> DeltaTable:
        """A second handle at the known version; CheckpointConflictError when that is not the last.

        delta-rs rebases a compaction or a vacuum onto foreign commits, whatever the number of
        retries: on our own handle that would make us believe we had seen them.
        """
        fresh = open_delta(self.path, self._storage_options)
        if fresh is None or not (fresh.version() == self.version or self._is_followed(fresh)):
            raise self.conflict()
        return fresh

    def adopt(self, maintained: DeltaTable) -> None:
        """Continue from the version that maintenance left, if all commits up to it are our own.

        Otherwise CheckpointConflictError, and this writer stays refused.
        """
        steps = maintained.version() - self.version
        with translated(self.path, "read"):
            commits = maintained.history(steps) if steps else []
        if len(commits) != steps or any(info.get("writer") != self.writer for info in commits):
            raise self.conflict()
        self.delta = maintained
        self._since_maintenance = 0

    def conflict(self) -> CheckpointConflictError:
        """The error that names what this writer expected and what the table holds."""
        known = self._state or CheckpointState()
        expected = LastCommit(self.version, known.seq, known.epoch)
        fresh = open_delta(self.path, self._storage_options)
        self.refused = conflict_error(self.path, expected, fresh)
        return self.refused

    def _commit(self, rows: pa.Table, after: CheckpointState, lane: str) -> bool:
        """Commit rows, behind which the state is `after`.

        False when another commit of this writer turned out to be there: it is followed.
        """
        with self.lock:
            # Before the commit: anyone who sees it counts from a later moment than this one.
            began = now()
            committed = self._commit_now(rows, after, lane)
            if committed:
                self.renewed = began
        return committed

    def _commit_now(self, rows: pa.Table, after: CheckpointState, lane: str) -> bool:
        # A number of its own: seq and writer are those of another try as well.
        commit = uuid.uuid4().hex
        self._untold[commit] = after
        if len(self._untold) > UNTOLD:
            del self._untold[next(iter(self._untold))]
        failpoint("before-write")
        try:
            with translated(self.path, "written"):
                write_deltalake(
                    self.delta,
                    rows,
                    mode="append",
                    # For columns that another version has, which this one leaves empty.
                    schema_mode="merge",
                    commit_properties=at_known_version(
                        seq=str(after.seq),
                        epoch=str(after.epoch),
                        lane=lane,
                        writer=self.writer,
                        owner=self.record,
                        commit=commit,
                    ),
                    post_commithook_properties=NO_HOOKS,
                )
        except CheckpointConflictError as error:
            fresh = open_delta(self.path, self._storage_options)
            landed = self._landed(fresh) if fresh is not None else ""
            if fresh is None or not (landed or self._is_maintained(fresh)):
                raise self.conflict() from error
        else:
            landed = self._adopt_commit(self.delta, commit)
        failpoint("after-write")
        make_durable(self.path, self.version)
        failpoint("after-commit")
        self._since_maintenance += 1
        return landed == commit

    def _is_followed(self, fresh: DeltaTable) -> bool:
        """Whether all that was committed since the known version is our own; then it is known."""
        return bool(self._landed(fresh)) or self._is_maintained(fresh)

    def _landed(self, fresh: DeltaTable) -> str:
        """The id of our own commit, if it is the table's next version; else empty.

        An object store may take a commit and not say so, or repeat the request by itself.
        """
        if fresh.version() != self.version + 1:
            return ""
        commit = str(last_commit(fresh).get("commit", ""))
        return self._adopt_commit(fresh, commit) if commit in self._untold else ""

    def _is_maintained(self, fresh: DeltaTable) -> bool:
        """Whether only our own maintenance has committed since the known version; then it is known.

        It has failed behind that, as when the disk was full by then.
        """
        steps = fresh.version() - self.version
        with translated(self.path, "read"):
            commits = fresh.history(steps) if steps > 0 else []
        own = (self.writer, MAINTENANCE)
        is_own = all((it.get("writer"), it.get("lane")) == own for it in commits)
        if not is_own or not 0 < steps == len(commits):
            return False
        self.delta = fresh
        return True

    def _adopt_commit(self, delta: DeltaTable, commit: str) -> str:
        self.delta, self._state = delta, self._untold[commit]
        self._untold.clear()
        return commit

    def _rows_since_full(self) -> pa.Table:
        last = highest(self.delta, "seq")
        rows = dataset(self.delta, self.path)
        # The last full is nearly always near: file statistics spare reading the rest.
        for since in (last - 2 * FULL_EVERY, 0):
            found = rows.to_table(
                columns=["seq"], filter=(pc.field("seq") > since) & pc.field("full")
            )
            if found.num_rows:
                return rows.to_table(filter=pc.field("seq") >= pc.max(found["seq"]))
        return rows.to_table()


def stored_state(place: CheckpointConfig) -> CheckpointState:
    """What the table of a config holds now; nothing where there is no table yet.

    CheckpointError when it cannot be read or is damaged.
    """
    table = CheckpointTable.open(place.path, place.storage_options)
    return table.load() if table is not None else CheckpointState()
