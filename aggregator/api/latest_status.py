"""Holds the latest status of a run for the threads that serve it, and an earlier one for rates."""

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from aggregator.status.live import Recent
from aggregator.status.rates import WINDOW_SECONDS
from aggregator.status.schema import NOT_BEGUN, Phase, Status

KEPT = 12


class _Moment:
    """A status that is made at its first request: most are never requested."""

    def __init__(self, at: datetime, phase: Phase, make: Callable[[], Status]) -> None:
        self.at = at
        self.phase = phase
        self.put = time.monotonic()
        self._make = make
        self._status: Status | None = None
        self._lock = threading.Lock()

    def status(self) -> Status:
        with self._lock:
            if self._status is None:
                self._status = self._make()
            return self._status


class StatusHolder:
    """Thread-safe: the engine puts a moment about once a second, requests read the latest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: _Moment | None = None
        self._kept: deque[_Moment] = deque()
        self.recent = Recent()
        """The last minutes by the second."""

    def put(self, at: datetime, phase: Phase, make: Callable[[], Status]) -> None:
        """Take what makes the status of a moment; keeps few older ones, as far back as rates look.

        `make` is called later, in another thread, or never.
        """
        window, moment = timedelta(seconds=WINDOW_SECONDS), _Moment(at, phase, make)
        with self._lock:
            self._latest, kept = moment, self._kept
            if kept and at < kept[-1].at:
                # The clock was set back: what was read before gives no rate, for as long as that.
                kept.clear()
            if not kept or at - kept[-1].at >= window / KEPT:
                kept.append(moment)
            while len(kept) > 1 and at - kept[1].at >= window:
                kept.popleft()

    def latest(self) -> Status | None:
        """The newest status, None before the first."""
        with self._lock:
            moment = self._latest
        # Not while the engine may want to put the next one.
        return moment.status() if moment is not None else None

    def phase(self) -> Phase | None:
        """The newest phase, None before the first; nothing has to be made for that."""
        with self._lock:
            return self._latest.phase if self._latest is not None else None

    def still(self) -> float:
        """Seconds since the newest moment was put; 0 before the first."""
        with self._lock:
            return time.monotonic() - self._latest.put if self._latest is not None else 0.0

    def earlier(self) -> Status | None:
        """The oldest status that is kept: about a window ago, or the first that has begun.

        Of one that still started nothing can be compared.
        """
        with self._lock:
            kept = list(self._kept)
        statuses = (it.status() for it in kept)
        begun = next((it for it in statuses if it.phase not in NOT_BEGUN), None)
        return begun if begun is not None or not kept else kept[0].status()
