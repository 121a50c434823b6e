"""A process of our own beside this one: what it is to do goes in, what it tells comes out.

Python runs a module of the package, with low priority. A value comes on its stdin; it tells JSON
objects, one a line, on its stdout. It ends when whoever started it is gone, however that one died.
"""

from __future__ import annotations

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
"""What spark-submit tells a driver: by it another Python would take part in the instance's JVM."""

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
    """Tell the child what to do; OSError when it has ended already."""
    assert child.stdin is not None
    # Through a pipe between two processes of ours: secrets stand on no command line.
    pickle.dump(what, child.stdin)
    child.stdin.flush()


def messages_of(child: Child) -> Iterator[dict[str, Any]]:
    """What the child tells, until it has ended."""
    assert child.stdout is not None
    for line in child.stdout:
        yield json.loads(line)


def ask_to_end(child: Child) -> None:
    """The same for the child as if this process had ended."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()


def close(child: Child) -> None:
    """Nothing more is told to a child that has ended, nor by it."""
    ask_to_end(child)
    if child.stdout is not None:
        child.stdout.close()


def be_apart() -> tuple[Any, Callable[[dict[str, Any]], None], threading.Event]:
    """In the child: what it is to do, what tells, and what is set when it is to end.

    Nothing else, such as Java, writes to stdout from here on.
    """
    os.nice(NICENESS)
    what = pickle.load(sys.stdin.buffer)
    stop = threading.Event()
    threading.Thread(target=_watch, args=(stop,), daemon=True).start()
    return what, _sender(), stop


def live(send: Callable[[dict[str, Any]], None], work: Callable[[], None]) -> NoReturn:
    """Do it, and end; what goes wrong is told as `error`, and by the code with which it ends.

    `held` with it says that somebody else does the same already.
    """
    try:
        work()
    except AggregatorError as error:
        held = {"held": True} if isinstance(error, HeldError) else {}
        send({"error": str(error), **held})
        leave(error.exit_code)
    except Exception as error:  # nobody is there to see it: it is the answer
        send({"error": f"{type(error).__name__}: {error}"})
        leave(EXIT_OTHER)
    leave(0)


def leave(code: int) -> NoReturn:
    """End at once: the JVM ends when its stdin does."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)


def _watch(stop: threading.Event) -> None:
    """When whoever started this is gone, end soon: also while a JVM starts, or a cluster hangs."""
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
