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
    """A status that is made at its first request: most are never requested.

    Later moments have larger numbers.
    """

    def __init__(self, number: int, at: datetime, phase: Phase, make: Callable[[], Status]) -> None:
        self.number = number
        self.at = at
        self.phase = phase
        self.put = time.monotonic()
        self._make = make
        self._status: Status | None = None

    def status(self) -> Status:
        """Make it, unless it is made; by one thread at a time."""
        if self._status is None:
            self._status = self._make()
        return self._status


class StatusHolder:
    """Thread-safe: the engine puts a moment about once a second, requests read the latest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Not the same: the engine must be able to put the next moment while one is made.
        self._making = threading.Lock()
        self._latest: _Moment | None = None
        self._made: _Moment | None = None
        self._kept: deque[_Moment] = deque()
        self.recent = Recent()
        """The last minutes by the second."""

    def put(self, at: datetime, phase: Phase, make: Callable[[], Status]) -> None:
        """Take what makes the status of a moment; keeps few older ones, as far back as rates look.

        `make` is called later, in another thread, or never.
        """
        window = timedelta(seconds=WINDOW_SECONDS)
        with self._lock:
            number = self._latest.number + 1 if self._latest is not None else 0
            self._latest = moment = _Moment(number, at, phase, make)
            kept = self._kept
            if kept and at < kept[-1].at:
                # The clock was set back: what was read before gives no rate, for as long as that.
                kept.clear()
            if not kept or at - kept[-1].at >= window / KEPT:
                kept.append(moment)
            while len(kept) > 1 and at - kept[1].at >= window:
                kept.popleft()

    def latest(self) -> Status | None:
        """The newest status, None before the first.

        One is made at a time, and all who waited for that share the next one. Where making one
        takes longer than a second, each request would otherwise make its own.
        """
        with self._lock:
            wanted = self._latest
        if wanted is None:
            return None
        with self._making:
            made = self._made
            if made is None or made.number < wanted.number:
                with self._lock:
                    made = self._latest or wanted
                made.status()
                self._made = made
            return made.status()

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
        if not kept:
            return None
        # By the phase that came with it: those that are passed over need not be made.
        found = next((it for it in kept if it.phase not in NOT_BEGUN), kept[0])
        with self._making:
            return found.status()
