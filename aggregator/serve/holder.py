"""Holds the latest status of a run for the threads that serve it, and an earlier one for rates."""

from __future__ import annotations

import threading
from collections import deque
from datetime import timedelta

from aggregator.audit.document import Status
from aggregator.audit.rates import WINDOW_SECONDS

KEPT = 12


class StatusHolder:
    """Thread-safe: the engine puts a status about once a second, requests read the latest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: Status | None = None
        self._kept: deque[Status] = deque()

    def put(self, status: Status) -> None:
        """Take a new status; keeps few of the older ones, as far back as rates look."""
        window = timedelta(seconds=WINDOW_SECONDS)
        with self._lock:
            self._latest = status
            if not self._kept or status.at - self._kept[-1].at >= window / KEPT:
                self._kept.append(status)
            while len(self._kept) > 1 and status.at - self._kept[1].at >= window:
                self._kept.popleft()

    def latest(self) -> Status | None:
        """The newest status, None before the first."""
        with self._lock:
            return self._latest

    def earlier(self) -> Status | None:
        """The oldest status that is kept: about a window ago, or the first of this run."""
        with self._lock:
            return self._kept[0] if self._kept else None
