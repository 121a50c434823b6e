"""What a start does about another writer: refuse, wait for its lease, end it, or overrule it."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from aggregator.config.schema import Config
from aggregator.model.errors import EXIT_DONE, AggregatorError, CheckpointConflictError, HeldError
from aggregator.model.events import Event, EventSink
from aggregator.plan.lease import ClaimMove, Earlier, Life, Locality, locality_of, plan_start
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.lease.lock import WriterLock, alone, held_by, holder_of, lift, record_of
from aggregator.store.lease.owner import Owner
from aggregator.store.lease.process import ask, kill, life_of, wait_gone

ASK_MARGIN_SECONDS = 10.0
FREE_SECONDS = 10.0
"""How long the lock of an ended process may take to be free."""
WATCH_SECONDS = 0.5


class StoppedEarlyError(AggregatorError):
    """The stop was asked for before anything was begun."""

    exit_code = EXIT_DONE

    def __init__(self) -> None:
        super().__init__("stopped while it waited for an earlier aggregator; nothing was written")


class TakeOver:
    """One start, and what it does about the writer before it. Blocks until that is done."""

    CLAIMS = 20
    """A live writer keeps committing: this is how often claiming its epoch is tried."""

    def __init__(self, config: Config, emit: EventSink, stop: threading.Event) -> None:
        self._path = config.checkpoint.path
        self._emit = emit
        self._stop = stop
        # As long as a clean stop may take, by the same config.
        self._patience = config.supervision.stop_timeout + ASK_MARGIN_SECONDS

    def lock(self, owner: Owner, silent: str = "") -> WriterLock:
        """The lock of a local checkpoint, taken from any holder.

        With `silent`, the record of one that was found to be silent, only from that one, and only
        as long as it stays silent. Raises CheckpointConflictError when it cannot be taken: another
        take-over is under way, or the holder is not ours to end.
        """
        with alone(self._path) as only:
            if not only:
                raise HeldError(
                    f"checkpoint.path {self._path}: another `--take-over` is under way; let it be"
                )
            try:
                return WriterLock.acquire(self._path, owner)
            except CheckpointConflictError:
                holder = holder_of(self._path)
                if holder is None or silent not in ("", record_of(self._path)):
                    raise
            if self._move(holder, owner, locked=True, take_over=True) is ClaimMove.END:
                self._end(holder)
            else:
                self._overrule(holder)
                lift(self._path)
                owner = replace(owner, pending=max(holder.quiet, holder.pending))
            return self._freed_lock(owner)

    def watch_lock(self, lock: WriterLock) -> None:
        """Raise CheckpointConflictError when the writer before us, on another machine, is alive.

        Its file system should have kept the lock for it; not all do.
        """
        earlier = lock.earlier
        if earlier is None:
            return
        if self._move(earlier, lock.owner, locked=False, take_over=False) is ClaimMove.WATCH:
            self._watch(earlier, lambda: record_of(self._path))

    def lease(self, table: CheckpointTable, owner: Owner, *, take_over: bool) -> Owner:
        """The owner to claim the epoch of a table on an object store with.

        Raises CheckpointConflictError when another writer is alive and `take_over` is not set.
        """
        holder = Owner.from_json(table.holder())
        if holder is None:
            return owner
        pending = max(holder.quiet, holder.pending)
        match self._move(holder, owner, locked=None, take_over=take_over):
            case ClaimMove.REFUSE:
                raise held_by(self._path, holder)
            case ClaimMove.END:
                self._end(holder)
            case ClaimMove.WATCH:
                began = time.monotonic()
                self._watch(holder, lambda: (table.holder(), table.version))
                return replace(owner, pending=max(0.0, pending - (time.monotonic() - began)))
            case ClaimMove.OVERRULE:
                self._overrule(holder)
                return replace(owner, pending=pending)
        return owner.following(holder)

    def _move(
        self, holder: Owner, own: Owner, *, locked: bool | None, take_over: bool
    ) -> ClaimMove:
        near = locality_of(holder.place, own.place)
        life = Life.UNKNOWN
        if near is Locality.PROCESSES:
            life = life_of(holder.pid, holder.started)
        return plan_start(Earlier(near, life, locked), take_over=take_over)

    def _watch(self, holder: Owner, seen: Callable[[], object]) -> None:
        self._emit(Event("waiting", f"{holder} left no end mark: {holder.lease:.0f} s to wait"))
        deadline, before = time.monotonic() + holder.lease, seen()
        while time.monotonic() < deadline:
            if self._stop.wait(WATCH_SECONDS):
                raise StoppedEarlyError
            if seen() != before:
                raise held_by(self._path, holder)

    def _overrule(self, holder: Owner) -> None:
        self._emit(
            Event(
                "taking_over",
                f"{holder} cannot be ended from here: its epoch is taken, and its lease runs out",
            )
        )

    def _end(self, holder: Owner) -> None:
        life = life_of(holder.pid, holder.started)
        try:
            if life is Life.UNKNOWN:
                raise PermissionError
            if life is Life.RUNS:
                self._emit(Event("taking_over", f"{holder} is asked to stop"))
                ask(holder.pid, holder.started)
            if not wait_gone(holder.pid, holder.started, self._patience, self._pause):
                state = life_of(holder.pid, holder.started).value
                self._emit(Event("killing", f"{holder} {state}: killed, and its JVM"))
                for pid, started in (
                    (holder.jvm, holder.jvm_started),
                    (holder.pid, holder.started),
                ):
                    if pid and not kill(pid, started):
                        raise held_by(self._path, holder)
        except PermissionError as error:
            raise CheckpointConflictError(
                f"checkpoint.path {self._path}: {holder} is not ours to end: stop it, or run "
                "--take-over as the user that it runs as"
            ) from error

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StoppedEarlyError

    def _freed_lock(self, owner: Owner) -> WriterLock:
        deadline = time.monotonic() + FREE_SECONDS
        while True:
            try:
                return WriterLock.acquire(self._path, owner)
            except CheckpointConflictError:
                if time.monotonic() > deadline:
                    raise
            self._pause(0.05)
