"""A standby instance: it waits until no one writes the checkpoint, or its writer is silent.

It changes nothing while it waits. Any number may wait: what they do afterwards is what any start
does, so the lock, or the epoch, goes to one of them, and the others wait again.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from aggregator.config.schema import Config
from aggregator.model.errors import CheckpointError, HeldError
from aggregator.model.events import Event, EventSink
from aggregator.plan.lease import Life, Locality, Sighting, Turn, locality_of, plan_turn
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.lease.lock import has_lock, record_of, renewals_of
from aggregator.store.lease.owner import Owner, here
from aggregator.store.lease.process import life_of
from aggregator.store.lease.takeover import StoppedEarlyError

LOCAL_POLL_SECONDS = 0.5
STORE_POLL_SECONDS = 3.0
FOLLOW_SECONDS = 30.0
"""How often it reads the config that it would run by."""
AGAIN_SECONDS = 5.0
"""After a start that another one was quicker than, or that could not end the one before it."""
SLOW_START = 3
"""How many times in turn a writer without an epoch yet may ask its clusters."""
STORE_LEASE = 0.5
"""On an object store the start itself waits for the lease once more: this share is enough."""


@dataclass(frozen=True, slots=True)
class WriterRecord:
    """What a writer shows of itself. `mark` changes with each sign that it is alive."""

    owner: Owner
    mark: object
    claimed: bool


class Standby:
    """The wait of one instance for its turn, as often as it has to wait.

    `report` gets in words which writer it waits for, each time that this changes; `follow` is
    called now and then, so that what it would run by is known, and is read in time.
    """

    def __init__(
        self,
        config: Config,
        emit: EventSink,
        stop: threading.Event,
        report: Callable[[str], None],
        follow: Callable[[], object],
    ) -> None:
        self._config = config
        self._path = config.checkpoint.path
        self._emit = emit
        self._stop = stop
        self._report = report
        self._follow = follow
        self._followed = time.monotonic()
        self._local = has_lock(self._path)
        self._table: CheckpointTable | None = None
        self._reported = ""

    def wait(self) -> str:
        """Return when this one may start; "" when no other has to be ended for that.

        Otherwise the record of the writer that was silent: the writer by then may be another
        standby that was quicker. StoppedEarlyError when it must stop before its turn; what
        `follow` raises.
        """
        poll = LOCAL_POLL_SECONDS if self._local else STORE_POLL_SECONDS
        mark, since = object(), time.monotonic()
        while True:
            now = time.monotonic()
            if now - self._followed >= FOLLOW_SECONDS:
                self._follow()
                # What that took is no silence of the writer.
                self._followed = now = time.monotonic()
            try:
                found = self._record()
            except CheckpointError as error:
                # Whether it is alive cannot be seen meanwhile: so it is not counted as silent.
                self._note(f"is on standby: {error}")
                since = now
                self._pause(poll)
                continue
            if found is not None and found.mark != mark:
                mark, since = found.mark, now
            turn = plan_turn(self._sighting(found, now - since))
            if turn is not Turn.WAIT:
                self._report_waiting(turn, found)
                # A store's lease is waited for by the start itself, which then knows it is over.
                overdue = turn is Turn.OVERDUE and self._local
                return str(found.mark) if overdue and found is not None else ""
            assert found is not None
            self._note(f"is on standby: {found.owner} writes")
            self._pause(poll)

    def again(self, error: HeldError) -> None:
        """Another one has it after all: wait a moment. StoppedEarlyError as `wait`."""
        words = f"is on standby: {error}"
        if words == self._reported:
            # It is no news, but meanwhile it was shown to start.
            self._report(words)
        self._note(words)
        self._pause(AGAIN_SECONDS)

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StoppedEarlyError

    def _record(self) -> WriterRecord | None:
        if self._local:
            text = record_of(self._path)
            owner = Owner.from_json(text)
            return WriterRecord(owner, text, renewals_of(text) > 1) if owner is not None else None
        if self._table is None:
            options = self._config.checkpoint.storage_options
            self._table = CheckpointTable.open(self._path, options)
        # One that is open reads only what is new.
        table = self._table
        text = table.holder() if table is not None else ""
        owner = Owner.from_json(text)
        if table is None or owner is None:
            return None
        return WriterRecord(owner, (text, table.version), claimed=True)

    def _sighting(self, found: WriterRecord | None, still: float) -> Sighting | None:
        if found is None:
            return None
        owner = found.owner
        near = locality_of(owner.place, here()) is Locality.PROCESSES
        return Sighting(
            life_of(owner.pid, owner.started) if near else Life.UNKNOWN,
            still,
            owner.lease * (1.0 if self._local else STORE_LEASE),
            found.claimed,
            SLOW_START * self._config.supervision.connect_timeout,
        )

    def _report_waiting(self, turn: Turn, found: WriterRecord | None) -> None:
        if found is None and not self._reported:
            return
        who = f"{found.owner}: " if found is not None else ""
        self._emit(Event("standing_in", f"{who}{turn.value}"))

    def _note(self, words: str) -> None:
        if words != self._reported:
            self._reported = words
            self._emit(Event("standing_by", words))
            self._report(words)
