"""Step 3 of a run, one writer: take the checkpoint, keep it while it runs, give it back at the end.

On a local path an OS lock says who writes, on an object store the table and the lease in it. The
lock of a dead writer is free at once, but its JVM may deliver for a moment yet: so `ready` waits
for whatever of an earlier writer can still reach the hub.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.datapath.spark.write_guard import Guard
from aggregator.model.errors import AggregatorError, CheckpointConflictError
from aggregator.model.events import Event, EventSink
from aggregator.plan.lanes.producer import is_local
from aggregator.plan.lease import EXECUTOR_SECONDS, Life
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.lease.conditional_puts import check_conditional_puts
from aggregator.store.lease.lease import Lease, LockTitle, TableTitle
from aggregator.store.lease.lock import WriterLock, has_lock, held_by, jvm_lock_file
from aggregator.store.lease.owner import Owner
from aggregator.store.lease.process import kill, life_of, started_of
from aggregator.store.lease.takeover import StoppedEarlyError, TakeOver

JVM_SECONDS = 3.0
"""A JVM whose Python was killed ends by itself; after this time it is killed."""
POLL_SECONDS = 0.05
DELIVERY_TIMEOUT_MS = 120_000
"""Kafka's default for delivery.timeout.ms (ProducerConfig, kafka-clients 3.9.2)."""
MARGIN_SECONDS = 5.0


class Writer:
    """The right to write one checkpoint. Used by the engine's thread; the lease has its own."""

    def __init__(self, config: Config, emit: EventSink, stop: threading.Event) -> None:
        self._config = config
        self._path = config.checkpoint.path
        self._emit = emit
        self._stop = stop
        lease = config.checkpoint.lease
        self._owner = Owner(
            lease=lease,
            quiet=lease + delivery_seconds(config),
            remote=not is_local(config.spark.master),
            api=config.api.listen,
        )
        self._lock: WriterLock | None = None
        self._table: CheckpointTable | None = None
        self._lease: Lease | None = None
        self._guard: Guard | None = None
        self._waiting_since = 0.0
        self._may_write = False
        self._ended = False
        self.was_alone = True
        """Whether nothing of an earlier writer was there any more when the checkpoint was taken."""

    @classmethod
    @contextmanager
    def take(
        cls,
        config: Config,
        *,
        take_over: bool,
        emit: EventSink,
        stop: threading.Event,
        silent: str = "",
    ) -> Iterator[Writer]:
        """The writer, for as long as the block runs.

        Raises CheckpointConflictError that names the other writer when there is one; with
        `take_over` it is ended, or overruled where it cannot be; with `silent` as well, only if its
        record in the lock is still this one. StoppedEarlyError when `stop` is set while it waits.
        """
        writer = cls(config, emit, stop)
        try:
            writer._take(take_over, silent)
            yield writer
        finally:
            writer._close()

    @property
    def error(self) -> AggregatorError | None:
        """Why this writer must end now and write nothing more; None while it may continue."""
        return self._lease.error if self._lease else None

    @property
    def _owes(self) -> bool:
        """Whether there is an earlier writer that the next start has to wait for, as we did not."""
        return not self._may_write and bool(self._owner.jvm or self._owner.pending)

    def claim(self) -> CheckpointTable:
        """The checkpoint table with a new epoch: from here on no earlier writer can commit."""
        if self._table is None:
            self._claim(retries=0)
        assert self._table is not None
        return self._table

    def ready(self, spark: SparkSession, config: Config) -> None:
        """Return when nothing of an earlier writer can arrive at the hub any more, as far as a
        wait can show; from then on this one may write.

        `config` is what it writes by, which may be newer than the one it was taken with. Raises
        CheckpointConflictError when an earlier JVM does not end, and StoppedEarlyError.
        """
        assert self._table is not None
        assert self._lease is not None
        self._guard = Guard(spark)
        jvm = self._guard.process
        self._await_jvm(self._guard, jvm)
        self._await_pending(self._table)
        self._may_write = True
        self._note(
            replace(
                self._owner,
                jvm=jvm,
                jvm_started=started_of(jvm),
                pending=0.0,
                quiet=self._owner.lease + delivery_seconds(config),
                remote=not is_local(config.spark.master),
            )
        )
        self._lease.guard(self._guard.until)
        if self.error is not None:
            raise self.error

    def release(self) -> None:
        """Say that this writer has ended cleanly: the next start has nothing to wait for.

        Raises what `error` holds, when another one writes by now.
        """
        assert self._table is not None
        assert self._lease is not None
        self._lease.stop()
        if self.error is not None:
            raise self.error
        if not has_lock(self._path):
            if not self._owes:
                self._table.release()
        elif self._guard is not None:
            self._guard.free(jvm_lock_file(self._path))
        self._ended = True

    def _take(self, take_over: bool, silent: str) -> None:
        asked = TakeOver(self._config, self._emit, self._stop)
        self._waiting_since = time.monotonic()
        if has_lock(self._path):
            self._lock = asked.lock(self._owner, silent) if take_over else self._plain_lock(asked)
            self._owner = self._lock.owner
        else:
            options = self._config.checkpoint.storage_options
            table = CheckpointTable.open(self._path, options)
            if table is not None:
                self._owner = asked.lease(table, self._owner, take_over=take_over)
            check_conditional_puts(self._path, options)
            # At once: until the epoch is claimed, any other may do the same.
            self._claim(retries=asked.CLAIMS if take_over else 0)
        life = life_of(self._owner.jvm, self._owner.jvm_started)
        self.was_alone = life is Life.GONE and not self._owner.pending

    def _plain_lock(self, asked: TakeOver) -> WriterLock:
        lock = WriterLock.acquire(self._path, self._owner)
        try:
            asked.watch_lock(lock)
        except BaseException:
            lock.release(ended=False)
            raise
        return lock

    def _claim(self, retries: int) -> None:
        """Claim the epoch; with retries also from one that commits all the while."""
        table = CheckpointTable.create(self._path, self._config.checkpoint.storage_options)
        while True:
            try:
                table.claim_epoch(str(self._owner), self._owner.to_json())
                break
            except CheckpointConflictError as error:
                if not retries:
                    raise held_by(self._path, Owner.from_json(table.holder())) from error
                retries -= 1
        self._table = table
        title = LockTitle(self._lock, table) if self._lock else TableTitle(table)
        self._lease = Lease(title, self._owner.lease, lambda *event: self._emit(Event(*event)))
        self._lease.start()

    def _await_jvm(self, guard: Guard, own: int) -> None:
        # One elsewhere cannot be killed, but may end by itself while it is waited for anyway.
        deadline, killed = time.monotonic() + max(JVM_SECONDS, self._pending), False
        while not self._is_alone(guard, own):
            if self._stop.wait(POLL_SECONDS):
                raise StoppedEarlyError
            if time.monotonic() < deadline:
                continue
            if killed or not self._kill_earlier():
                raise CheckpointConflictError(
                    f"checkpoint.path {self._path}: the JVM of an earlier aggregator (pid "
                    f"{self._owner.jvm or 'unknown'}) may write yet and is not ours to end: end it"
                )
            killed, deadline = True, time.monotonic() + JVM_SECONDS

    def _is_alone(self, guard: Guard, own: int) -> bool:
        earlier, started = self._owner.jvm, self._owner.jvm_started
        if earlier not in (0, own) and life_of(earlier, started) is not Life.GONE:
            return False
        # By the kernel's word, also where an earlier JVM has an id in another container only.
        return not has_lock(self._path) or guard.hold(jvm_lock_file(self._path))

    def _kill_earlier(self) -> bool:
        """Kill the JVM of an earlier writer whose Python is gone; False when it cannot be."""
        earlier = self._lock.earlier if self._lock else None
        if not self._owner.jvm:
            return False
        if earlier is not None and life_of(earlier.pid, earlier.started) is not Life.GONE:
            # A notebook, say, that has ended its run badly: its JVM is still in use.
            return False
        self._emit(Event("killing", f"an earlier JVM (pid {self._owner.jvm}) is still there"))
        try:
            return kill(self._owner.jvm, self._owner.jvm_started)
        except PermissionError:
            return False

    def _await_pending(self, table: CheckpointTable) -> None:
        left = self._pending
        if left <= 0 or not table.load().unclean:
            return
        self._emit(
            Event(
                "waiting",
                "an earlier aggregator on another machine, or its executors, may deliver for "
                f"{left:.0f} s yet",
            )
        )
        if self._stop.wait(left):
            raise StoppedEarlyError

    @property
    def _pending(self) -> float:
        """Seconds for which an earlier writer elsewhere may keep delivering."""
        return self._waiting_since + self._owner.pending - time.monotonic()

    def _note(self, owner: Owner) -> None:
        self._owner = owner
        if self._table is not None:
            self._table.record = owner.to_json()
        if self._lock is not None:
            self._lock.note(owner)
        elif self._table is not None:
            self._table.renew()

    def _close(self) -> None:
        if self._lease is not None:
            self._lease.stop()
        if self._lock is not None:
            self._lock.release(ended=self._ended if self._may_write else not self._owes)


def delivery_seconds(config: Config) -> float:
    """How long a producer may keep delivering a record after it was handed over."""
    settings = jvm_settings(config.hub, "producer")
    return int(settings.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)) / 1000


def lost_seconds(config: Config) -> float:
    """How long an executor that is not heard of may still deliver something.

    It sends nothing new a few seconds after it last heard of us, and gives up what its producers
    had been handed before after `delivery.timeout.ms`.
    """
    return EXECUTOR_SECONDS + delivery_seconds(config) + MARGIN_SECONDS
