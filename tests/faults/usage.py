"""What the application holds while it runs: memory, threads, open files, and files of its state.

In a soak each of them is flat. A slope is judged over a life that is long enough, after its
warm-up: it fits a line, and what that line grows by counts, so a single peak does not. Of how long
copies and commits take, which a fault lengthens a thousand times, the medians of the first and the
last third are compared.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from statistics import linear_regression, median

from bench.usage import members, memory_bytes
from faults.world import World
from support.rest import ask

EVERY_SECONDS = 20.0
POOLS = (
    *("tokio-rt-worke", "block-manager-", "shuffle-exchang", "broadcast-excha"),
    *("QueryStageCreat", "ResultQueryStag"),
)
"""How threads of pools are called that have a bound and end without work: delta-rs has up to 512 of
the first, Spark 100 of the second for each of two pools. How many there are is a matter of the
moment, so they are not counted.
"""
WARM_UP_SECONDS = 300.0
"""Java loads and compiles classes, and heaps find their size."""
LONG_SECONDS = 1200.0
"""A life is judged when it is older than this."""
GROWTH_ALLOWED = {"memory": 0.5, "threads": 0.1, "descriptors": 0.15}
"""The part of its first value by which a measure may have grown at the end of a life. Java widens
its heap for hours, up to 2 GB, so memory has the most room.
"""
MEDIANS = {"copy_ms": 1.0, "commit_age": 1.0}
"""The same of medians, of an application that answers; both are a matter of the machine's load."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a life held at a moment: seconds of the round, and since the life began."""

    at: float
    life: int
    age: float
    memory: int
    threads: int
    descriptors: int
    files: int
    size: int
    copy_ms: float | None = None
    """How long a record is with the application, of the slowest source: the last minute's p50."""
    commit_age: float | None = None
    """How long ago positions were committed last, in seconds."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A measure over a long life: its line's first and last value."""

    life: int
    measure: str
    minutes: float
    first: float
    last: float

    @property
    def grows(self) -> bool:
        """Whether it grew by more than is allowed."""
        return self.last > self.first * (1 + (GROWTH_ALLOWED | MEDIANS)[self.measure])


def trends(usages: Sequence[Usage]) -> list[Trend]:
    """The trends of all lives that are long enough."""
    found = []
    for life in sorted({it.life for it in usages}):
        own = [it for it in usages if it.life == life and it.age >= WARM_UP_SECONDS]
        if not own or own[-1].age < LONG_SECONDS:
            continue
        times = [it.age for it in own]
        for measure in GROWTH_ALLOWED:
            line = linear_regression(times, [float(getattr(it, measure)) for it in own])
            first, last = (line.intercept + line.slope * it for it in (times[0], times[-1]))
            found.append(Trend(life, measure, (times[-1] - times[0]) / 60, first, last))
        found += _trends_of_medians(life, own)
    return found


def _trends_of_medians(life: int, own: Sequence[Usage]) -> Iterator[Trend]:
    for measure in MEDIANS:
        known = [it for it in own if getattr(it, measure) is not None]
        third = len(known) // 3
        if third:
            minutes = (known[-1].age - known[0].age) / 60
            first, last = (
                median(getattr(it, measure) for it in part)
                for part in (known[:third], known[-third:])
            )
            yield Trend(life, measure, minutes, first, last)


@contextmanager
def metering(made: World) -> Iterator[list[Usage]]:
    """Measure the present life again and again, until the block ends. Yields what was found."""
    found: list[Usage] = []
    missed: list[Exception] = []
    over = threading.Event()

    def run() -> None:
        while not over.wait(EVERY_SECONDS):
            if not made.lives or not made.app.alive:
                continue
            try:
                found.append(_usage(made))
            except (OSError, ValueError, HTTPException) as error:
                # It is killed at any moment, and folders of its state come and go.
                missed.append(error)

    thread = threading.Thread(target=run, name="usage")
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        if missed:
            made.notes.append(f"{len(missed)} measures are missing, the last for: {missed[-1]!r}")
        if len(missed) > len(found):
            made.note("the application was hardly measured")


def _usage(made: World) -> Usage:
    group = made.app.pid
    copy_ms, commit_age = _from_status(made) if made.settings.commanded else (None, None)
    threads = descriptors = 0
    for pid in members(group):
        # A process or a thread may end while it is looked at.
        with suppress(OSError):
            descriptors += len(list(Path(f"/proc/{pid}/fd").iterdir()))
            for each in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):
                    threads += not (each / "comm").read_text("utf-8").startswith(POOLS)
    sizes = []
    for path in made.state.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                sizes.append(path.stat().st_size)
    return Usage(
        at=round(made.seconds, 1),
        life=len(made.lives),
        age=round(time.monotonic() - made.app.started, 1),
        memory=memory_bytes(group),
        threads=threads,
        descriptors=descriptors,
        files=len(sizes),
        size=sum(sizes),
        copy_ms=copy_ms,
        commit_age=commit_age,
    )


def _from_status(made: World) -> tuple[float | None, float | None]:
    """`copy_ms` and `commit_age` as the status has them; None while it does not answer."""
    with suppress(OSError):
        code, status = ask("GET", f"http://{made.config.api.listen}/api/status")
        if code == 200:
            copies = [it["latency"]["flight_ms"] for it in status["sources"]]
            slowest = max((float(it["p50"]) for it in copies if it), default=None)
            committed = status["checkpoint"]["committed_at"]
            at = datetime.fromisoformat(status["at"])
            age = committed and (at - datetime.fromisoformat(committed)).total_seconds()
            return slowest, age
    return None, None
