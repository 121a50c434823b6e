"""A loop in a thread: it takes a turn, waits, and takes the next one, until it is ended.

What runs beside the engine does so in a thread with clients of its own: a cluster or a table that
hangs, or refuses, must not delay a record.
"""

import threading
from collections.abc import Callable

LAST_SECONDS = 2.0
FOREVER = threading.TIMEOUT_MAX
"""Seconds of a wait that only `wake` or `end` ends, and of a `stop` that waits for the thread."""


def _nothing() -> None:
    pass


class Loop:
    """Calls `turn` in a thread of its own, again `every()` seconds after it has returned.

    An exception of `turn` is given to `on_error`, which makes it a state and an event; the next
    turn follows as usual, unless it calls `end`. `finish` is called by the thread after the last
    turn, and only if there was a thread; its exception goes the same way. `wait` waits for an
    event, but no longer than some seconds: tests have a clock of their own.

    `over` is set from `end` on, so that a long turn can return early. It may be waited for.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], object],
        *,
        every: Callable[[], float],
        on_error: Callable[[Exception], None],
        finish: Callable[[], None] = _nothing,
        stop_seconds: float = LAST_SECONDS,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self.over = threading.Event()
        self._turn = turn
        self._every = every
        self._on_error = on_error
        self._finish = finish
        self._stop_seconds = stop_seconds
        self._wait = wait
        self._delay = 0.0
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether its thread has begun and not ended."""
        return self._thread.is_alive()

    @property
    def has_begun(self) -> bool:
        """Whether its thread was ever started."""
        return self._thread.ident is not None

    def start(self, *, delay: float = 0.0) -> None:
        """Take the first turn after `delay` seconds. Again, or after `end`, it changes nothing.

        For one thread: the engine's, as a rule. `wake` ends the delay.
        """
        self._delay = delay
        if not self.has_begun and not self.over.is_set():
            self._thread.start()

    def take_turn(self) -> None:
        """Take one turn in the calling thread, as the loop does."""
        self._try(self._turn)

    def wake(self) -> None:
        """Take a turn that begins after this call, without waiting any longer. Never waits."""
        self._woken.set()

    def end(self) -> None:
        """Take no more turns; returns at once."""
        self.over.set()
        self._woken.set()

    def stop(self) -> None:
        """End it and wait until its thread has ended, but no longer than `stop_seconds`."""
        self.end()
        if self.is_alive:
            self._thread.join(self._stop_seconds)

    def _run(self) -> None:
        if self._delay:
            self._wait(self._woken, self._delay)
        while True:
            # Before the turn: a wake-up from here on gets another one.
            self._woken.clear()
            # After that, as `end` sets this one first.
            if self.over.is_set():
                break
            self.take_turn()
            self._wait(self._woken, self._every())
        self._try(self._finish)

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:  # a thread has no caller to raise to: it becomes a state
            self._on_error(error)
