"""The newest events in memory, numbered, for those that follow them; and those not yet kept."""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from aggregator.features.timeline.minutes import event_row
from aggregator.features.timeline.timeline_report import EventRow
from aggregator.model.events import Event

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
