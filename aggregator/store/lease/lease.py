"""Keeps a writer's lease: renews it while it runs, and says when another one has taken it.

A thread of its own, because neither a slow hub nor a long recovery may make the writer look dead.
"""

import threading
from collections.abc import Callable

from aggregator.model.errors import AggregatorError, CheckpointConflictError, CheckpointError
from aggregator.model.loop import FOREVER, Loop
from aggregator.plan.lease import USABLE, Moment, RenewalOutcome, Verdict, plan_lease, renewal_due
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.lease.conflict import FENCED, now
from aggregator.store.lease.lock import WriterLock

TICK_SECONDS = 0.25
LONGEST_TICK_SECONDS = 1.0
TICKS = 12
"""At least as often it looks at the clocks while a lease lasts: four times for each renewal."""
RETRY_SECONDS = 1.0
NEVER_AGAIN = -1

Until = Callable[[int, int], None]
"""Takes until when records may be sent: ms since 1970 by the wall's clock, and ms from now on by
the monotonic one."""


class TableTitle:
    """What a lease is renewed by: on an object store each commit, an empty one where none comes."""

    def __init__(self, table: CheckpointTable) -> None:
        self._table = table

    def renewed(self) -> Moment | None:
        """When the last renewal that came by the way began; None when there is none."""
        return self._table.renewed

    def renew(self) -> RenewalOutcome:
        """Commit that we are still alive, which the table refuses after another's commit."""
        try:
            self._table.renew()
        except CheckpointConflictError:
            return RenewalOutcome.REFUSED
        except CheckpointError:
            return RenewalOutcome.FAILED
        return RenewalOutcome.RENEWED

    def lost(self) -> CheckpointConflictError | None:
        """What the table answered to a commit of this writer, from any of its threads."""
        return self._table.refused


class LockTitle(TableTitle):
    """A local path: the lock is held by the kernel, and its file shows that the holder is alive."""

    def __init__(self, lock: WriterLock, table: CheckpointTable) -> None:
        super().__init__(table)
        self._lock = lock

    def renewed(self) -> None:
        """Commits do not show in the lock file."""
        return

    def renew(self) -> RenewalOutcome:
        """Write the lock file, if it is still the one in its place."""
        return self._lock.renew()

    def lost(self) -> CheckpointConflictError | None:
        """What the table said, or that the lock file is another's."""
        if super().lost() is None and not self._lock.is_ours:
            return CheckpointConflictError(
                f"checkpoint.path {self._table.path}: {FENCED}its lock file was taken out of its "
                "place, as a take-over from another machine does; this instance writes nothing more"
            )
        return super().lost()


class Lease:
    """A lease of `lease` seconds; `emit` gets an event's kind and text when its state changes."""

    def __init__(
        self,
        title: TableTitle,
        seconds: float,
        emit: Callable[[str, str], None],
        clock: Callable[[], Moment] = now,
    ) -> None:
        self._title = title
        self._seconds = seconds
        self._emit = emit
        self._clock = clock
        self._renewed = clock()
        self._resting = 0.0
        self._waits = False
        self._until: Until | None = None
        self._lock = threading.RLock()
        self._loop = Loop(
            "lease",
            self.tick,
            every=lambda: min(max(TICK_SECONDS, self._seconds / TICKS), LONGEST_TICK_SECONDS),
            on_error=self._fail,
            stop_seconds=FOREVER,
        )
        self.error: AggregatorError | None = None
        """Set when this writer must end and write nothing more: mostly a CheckpointConflictError
        that says who writes in its place."""

    def start(self) -> None:
        """Begin to renew it."""
        self._loop.start(delay=TICK_SECONDS)

    def stop(self) -> None:
        """Renew it no more."""
        self._loop.stop()

    def guard(self, until: Until) -> None:
        """From now on limit how long the JVM may send; after that it waits by itself."""
        with self._lock:
            self._until = until
            self._inform_jvm()
        self.tick()

    def tick(self) -> None:
        """Look at the clocks, and renew the lease if it is time."""
        with self._lock:
            if self.error is not None:
                return
            if self._title.lost() is not None:
                self._fence(0.0)
                return
            self._see(self._title.renewed())
            moment = self._clock()
            age = self._renewed.until(moment)
            if renewal_due(age, self._seconds) and moment.steady >= self._resting:
                self._renew(age)

    def _renew(self, age: float) -> None:
        began = self._clock()
        tried = self._title.renew()
        verdict = plan_lease(tried, age, self._seconds, guarded=self._until is not None)
        if verdict is Verdict.FENCE:
            self._fence(age)
            return
        if age >= self._seconds * USABLE and not self._waits:
            self._waits = True
            self._emit("lease_over", f"the lease is {age:.0f} s old: nothing is sent until renewed")
        if tried is RenewalOutcome.RENEWED:
            self._see(began)
        else:
            self._resting = began.steady + RETRY_SECONDS

    def _see(self, renewed: Moment | None) -> None:
        if renewed is None or renewed.steady <= self._renewed.steady:
            return
        self._renewed = renewed
        self._inform_jvm()
        if self._waits and self._renewed.until(self._clock()) < self._seconds * USABLE:
            self._waits = False
            self._emit("lease_renewed", "the lease is renewed, no one has taken over")

    def _fence(self, age: float) -> None:
        self.error = self._title.lost() or CheckpointConflictError(
            f"{FENCED}the lease (checkpoint.lease) is {age:.0f} s old and cannot be renewed, so "
            "another instance may write by now: see why checkpoint.path does not answer"
        )
        if self._until is not None:
            self._until(NEVER_AGAIN, 0)

    def _inform_jvm(self) -> None:
        if self._until is not None:
            usable = self._seconds * USABLE
            left = max(0.0, usable - self._renewed.until(self._clock()))
            self._until(round((self._renewed.wall + usable) * 1000), round(left * 1000))

    def _fail(self, error: Exception) -> None:
        self.error = AggregatorError(f"the lease is renewed no more: {error}")
        self._loop.end()
