"""SIGTERM and Ctrl-C: the first asks for a clean stop, the second ends the process at once.

SIGHUP reloads the config. The death of one of our threads asks for a stop as well.
"""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from aggregator.engine.control.command_queue import NotReadyError
from aggregator.model.errors import EXIT_OTHER, AggregatorError

SIGNAL_SECONDS = 0.5
"""The main thread waits no longer than this at a time.

A signal that another thread was given, or that came just before the main thread slept, is handled
when that runs again, and nothing else wakes it.
"""
OURS = f"{__name__.partition('.')[0]}."
SAME_SIGNAL_SECONDS = 1.0
RELOAD_SECONDS = 1.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)
HARD = (
    "stopped at once by a second signal: there is no last checkpoint, so the hub may hold records "
    "beyond it; the next start looks for them before it continues\n"
)


@contextmanager
def stop_on_signals(
    stop: threading.Event, log: Callable[..., None], hard: str = HARD
) -> Iterator[None]:
    """While the block runs, the first signal sets `stop` and the second ends the process.

    `hard` is what it then says. For the main thread only, as Python's signal handlers are.
    """
    first, asked = 0, 0.0

    def stopping(number: int) -> None:
        words = "a clean stop was asked for; a second signal ends it at once"
        log("stopping", words, signal=signal.Signals(number).name)

    with set_by_handlers(stop, stopping) as ask:

        def handle(number: int, _frame: FrameType | None) -> None:
            nonlocal first, asked
            if number == first and time.monotonic() - asked < SAME_SIGNAL_SECONDS:
                # A shell, `timeout` or a container's init may deliver one signal twice.
                return
            if first or stop.is_set():
                # Nothing here may wait for a lock that the interrupted code holds.
                with suppress(OSError, ValueError):
                    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, hard.encode())
                os._exit(EXIT_OTHER)
            first, asked = number, time.monotonic()
            ask(number)

        with handled_by(handle):
            yield


@contextmanager
def handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """While the block runs, `handle` takes the signals that ask for a stop."""
    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def set_by_handlers(
    stop: threading.Event, then: Callable[[int], None] = lambda _: None
) -> Iterator[Callable[[int], None]]:
    """Yields what a signal handler calls with its number to have `stop` set, once; `then` follows.

    A thread does both: the interrupted code may be in `stop.wait`, whose lock `set` waits for, or
    in the middle of writing a log line.
    """
    reader, writer = os.pipe()

    def set_once_asked() -> None:
        with os.fdopen(reader, "rb", buffering=0) as numbers:
            # Nothing, when the block has ended.
            if number := numbers.read(1):
                stop.set()
                then(number[0])

    threading.Thread(target=set_once_asked, name="signals", daemon=True).start()

    def ask(number: int) -> None:
        os.write(writer, bytes([number]))

    try:
        yield ask
    finally:
        os.close(writer)


@contextmanager
def stop_on_dead_thread(stop: threading.Event, log: Callable[..., None]) -> Iterator[list[str]]:
    """While the block runs, an unhandled error in one of our threads sets `stop`.

    What only that thread did would never be done again, unnoticed. Yields what died. Threads of
    other libraries are left to them.
    """
    died: list[str] = []
    before = threading.excepthook

    def look(failure: threading.ExceptHookArgs) -> None:
        # It writes to stderr, which may be gone.
        with suppress(OSError):
            before(failure)
        if issubclass(failure.exc_type, SystemExit):
            return
        frames = traceback.walk_tb(failure.exc_traceback)
        if any(str(frame.f_globals.get("__name__", "")).startswith(OURS) for frame, _ in frames):
            name = failure.thread.name if failure.thread is not None else "unknown"
            error = traceback.format_exception_only(failure.exc_type, failure.exc_value)[-1].strip()
            died.append(f"thread {name} has died, a defect of aggregator: {error}")
            stop.set()
            log("thread_died", died[-1])

    threading.excepthook = look
    try:
        yield died
    finally:
        threading.excepthook = before


@contextmanager
def reload_on_hangup(reload: Callable[[], object], log: Callable[..., None]) -> Iterator[None]:
    """While the block runs, SIGHUP calls `reload`, in a thread of its own; its errors are logged.

    An instance that starts, or is on standby, is asked again until it can: nothing else would.
    Where the signal was ignored, as under `nohup`, it stays so. When the terminal that this was
    started on is gone, it asks for a clean stop: a reload is not meant then.
    """
    before = signal.getsignal(signal.SIGHUP)
    terminal = _has_terminal()

    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                reload()
            except NotReadyError:
                over.wait(RELOAD_SECONDS)
            except AggregatorError as error:
                log("reload_failed", f"the config stays as it was: {error}")
                return
            else:
                return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if terminal and not _has_terminal():
            os.kill(os.getpid(), signal.SIGTERM)
            return
        threading.Thread(target=work, name="reload", daemon=True).start()

    if before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGHUP, handle)
    if getattr(before, "came", False):
        # While all was imported (`aggregator.__main__`).
        handle(signal.SIGHUP, None)
    try:
        yield
    finally:
        over.set()
        signal.signal(signal.SIGHUP, before)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
