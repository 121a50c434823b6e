"""Writes the history and the events of a run, in a thread of its own, off the critical path.

The newest events are in memory, numbered, for those that follow them; and those not yet kept.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from aggregator.config.in_force import InForce
from aggregator.features.timeline.minutes import event_row, history_rows
from aggregator.features.timeline.past_queries import events_log, history_log
from aggregator.features.timeline.timeline_report import EventRow, HistoryRow
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import Loop
from aggregator.status.schema import NOT_BEGUN, Phase, SourceStatus, Status
from aggregator.store.state_store import StateStore

KEPT = 1_000
UNSAVED = 10_000
"""Events that wait for a table that cannot be written; beyond them the oldest are let go."""


class Feed:
    """Thread-safe. Numbers are microseconds of the event's time, each larger than the one before,
    so that they continue over restarts.
    """

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask
        self._lock = threading.Lock()
        self._newest: deque[EventRow] = deque(maxlen=KEPT)
        self._unsaved: deque[EventRow] = deque(maxlen=UNSAVED)
        self._last = 0
        self.closed = False

    def take(self, event: Event) -> None:
        """Take an event; never waits for anything outside."""
        with self._lock:
            self._last = max(self._last + 1, int(event.at.timestamp() * 1_000_000))
            row = event_row(event, self._last, self._mask)
            self._newest.append(row)
            self._unsaved.append(row)

    def after(self, number: int) -> tuple[EventRow, ...]:
        """The events with a larger number, of those still in memory."""
        with self._lock:
            return tuple(row for row in self._newest if row.id > number)

    @property
    def last(self) -> int:
        """The number of the newest event, 0 before the first."""
        return self._last

    def unsaved(self) -> tuple[EventRow, ...]:
        """Events that no table holds yet."""
        with self._lock:
            return tuple(self._unsaved)

    def saved(self, rows: Sequence[EventRow]) -> None:
        """These are in the table now."""
        done = {row.id for row in rows}
        with self._lock:
            kept = [row for row in self._unsaved if row.id not in done]
            self._unsaved = deque(kept, maxlen=UNSAVED)

    def close(self) -> None:
        """Followers must stop."""
        self.closed = True


EVENTS_SECONDS = 5.0
"""How long an event may be in memory alone."""
MAINTAIN_SECONDS = 3_600.0
STOP_SECONDS = 5.0
"""How long a clean stop waits for the last rows at most."""


class Recorder:
    """Keeps the history. A failed write is an event and `failing`; the run continues.

    `phase` is that of the run, and `latest` makes its newest status, which is expensive where there
    are thousands of partitions; None before the first. `emit` gets an event when writing begins to
    fail and when it works again, and what is reported. `bounds` are those of `history_rows`.
    """

    def __init__(
        self,
        in_force: InForce,
        phase: Callable[[], Phase | None],
        latest: Callable[[], Status | None],
        mask: Callable[[str], str],
        emit: EventSink,
        bounds: Sequence[int],
    ) -> None:
        store = StateStore.of(in_force.config.checkpoint)
        self.feed = Feed(mask)
        self.failing = ""
        self._in_force = in_force
        self._phase = phase
        self._latest = latest
        self._emit = emit
        self._bounds = bounds
        self._history = history_log(store)
        self._events = events_log(store)
        self._earlier: dict[str, SourceStatus] = {}
        self._begun: float | None = None
        self._next_row = time.monotonic() + in_force.config.timeline.interval
        self._next_care = time.monotonic() + MAINTAIN_SECONDS
        self._loop = Loop(
            "timeline",
            self._turn,
            every=lambda: EVENTS_SECONDS,
            on_error=self._fail,
            finish=partial(self._turn, last=True),
            stop_seconds=STOP_SECONDS,
        )

    def take(self, event: Event) -> None:
        """Take an event of the run; never waits."""
        self.feed.take(event)

    def report(self, event: Event) -> None:
        """Log an event that comes from beside the run, and take it; never waits."""
        self._emit(event)
        self.take(event)

    def start(self) -> None:
        """Begin to write."""
        self._loop.start()

    def stop(self) -> None:
        """Write what is left, if the table takes it soon, and end."""
        self._loop.stop()

    def _turn(self, *, last: bool = False) -> None:
        row_due = last or time.monotonic() >= self._next_row
        if not (row_due or self.feed.unsaved()):
            return
        # A run that is refused leaves nothing behind.
        phase = self._phase()
        if phase is None or phase in NOT_BEGUN:
            return
        self._save_events()
        if row_due and (status := self._latest()) is not None:
            self._next_row = time.monotonic() + self._in_force.config.timeline.interval
            self._history.append(self._rows(status))
            self._earlier |= {it.alias: it for it in status.sources}
            self._begun = time.monotonic()
        if not last and time.monotonic() >= self._next_care:
            self._next_care = time.monotonic() + MAINTAIN_SECONDS
            self._maintain()
        if self.failing:
            self.failing = ""
            self._emit(Event("timeline_back", "history and events are kept again"))

    def _fail(self, error: Exception) -> None:
        if not self.failing:
            self._emit(Event("timeline_failed", f"history and events are not kept: {error}"))
        self.failing = str(error)

    def _rows(self, status: Status) -> tuple[HistoryRow, ...]:
        begun = status.started_at
        if self._begun is not None:
            # Not by the time of day, which may be set meanwhile.
            begun = status.at - timedelta(seconds=time.monotonic() - self._begun)
        return history_rows(self._earlier, begun, status, self._bounds)

    def _save_events(self) -> None:
        rows = self.feed.unsaved()
        if rows:
            self._events.append(rows)
            self.feed.saved(rows)

    def _maintain(self) -> None:
        before = datetime.now(UTC) - timedelta(seconds=self._in_force.config.timeline.keep)
        for table in (self._history.table, self._events.table):
            table.trim(before)
