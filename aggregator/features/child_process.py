"""A child process of our own: a job goes in, messages come out.

Python runs a module of the package, with low priority. A value comes on its stdin; it writes JSON
objects, one a line, to its stdout. It ends when its parent is gone, however that one died.
"""

import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from aggregator.model.errors import EXIT_OTHER, AggregatorError, HeldError

NICENESS = 10
"""The stream goes first."""
ORPHAN_SECONDS = 10.0
SPARK_VARIABLES = ("PYSPARK_", "SPARK_")
"""What spark-submit passes to a driver: with it another Python would join the instance's JVM."""

Child = subprocess.Popen[bytes]


def begin(module: str) -> Child:
    """Start a process that runs `module`; OSError when there can be none."""
    return subprocess.Popen(
        [sys.executable, "-m", module],
        env={k: v for k, v in os.environ.items() if not k.startswith(SPARK_VARIABLES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def hand_over(child: Child, what: Any) -> None:
    """Send the child its job; OSError when it has ended already."""
    assert child.stdin is not None
    # Through a pipe between two processes: no secrets on a command line.
    pickle.dump(what, child.stdin)
    child.stdin.flush()


def messages_of(child: Child) -> Iterator[dict[str, Any]]:
    """The child's messages, until it has ended."""
    assert child.stdout is not None
    for line in child.stdout:
        yield json.loads(line)


def ask_to_end(child: Child) -> None:
    """The same for the child as if this process had ended."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()


def close(child: Child) -> None:
    """Close the pipes of a child that has ended."""
    ask_to_end(child)
    if child.stdout is not None:
        child.stdout.close()


def enter_child() -> tuple[Any, Callable[[dict[str, Any]], None], threading.Event]:
    """In the child: its job, the function that sends, and the event that is set when it must end.

    Nothing else, such as Java, writes to stdout from here on.
    """
    os.nice(NICENESS)
    what = pickle.load(sys.stdin.buffer)
    stop = threading.Event()
    threading.Thread(target=_watch, args=(stop,), daemon=True).start()
    return what, _sender(), stop


def live(send: Callable[[dict[str, Any]], None], work: Callable[[], None]) -> NoReturn:
    """Do the job, and end; a failure is sent as `error`, and shown by the exit code.

    `held` with it says that another process does the same already.
    """
    try:
        work()
    except AggregatorError as error:
        held = {"held": True} if isinstance(error, HeldError) else {}
        send({"error": str(error), **held})
        leave(error.exit_code)
    except Exception as error:  # no one is there to see it: it is the answer
        send({"error": f"{type(error).__name__}: {error}"})
        leave(EXIT_OTHER)
    leave(0)


def leave(code: int) -> NoReturn:
    """End at once: the JVM ends when its stdin does."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)


def _watch(stop: threading.Event) -> None:
    """End soon after the parent is gone: also while a JVM starts, or a cluster hangs."""
    # Nothing more is ever written there: what comes is the end of it. Not by the buffer of stdin,
    # whose lock a thread that waits would take along to the end of the process.
    while os.read(0, 1024):
        pass
    stop.set()
    threading.Event().wait(ORPHAN_SECONDS)
    leave(EXIT_OTHER)


def _sender() -> Callable[[dict[str, Any]], None]:
    """What writes to the stdout of now."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(what: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            print(json.dumps(what), file=out, flush=True)

    return send
