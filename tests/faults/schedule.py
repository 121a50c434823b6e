"""Draws the faults of a random campaign from a seed. Pure: the same seed, the same faults."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aggregator.model.failpoint import POINTS

MAINTENANCE = ("before-compaction", "after-compaction", "after-vacuum")
"""Passed every hundred commits only: a life of seconds never comes there."""
STOPPING = ("before-drain", "task-abort", "before-final-commit", "after-final-commit")
RECOVERY = ("before-settle", "after-settle", "after-scan", "after-recovered", "task-skip")
BATCHES = ("task-flush", "task-commit")
"""Passed where a batch ends: a life that is to come there has short ones."""
TASKS = ("task-skip", "task-point", "task-report", *BATCHES, "task-abort")
"""Places in an executor, where there are some."""
ELSEWHERE = (
    *("after-gap", "after-change", "backfill-scanned", "backfill-point"),
    *("before-events-known", "before-events-kept", "after-events-kept", "task-pass"),
)
"""Passed where something is lost, somebody changes a source, backfills, has each event once, or
copies batches as they are: each has a test of its own (tests/integration/test_gaps.py,
test_connect_rest.py, test_backfill.py, test_dedup.py, test_whole_batches.py)."""
LIVING = tuple(
    name
    for name in POINTS
    if name not in {*MAINTENANCE, *STOPPING, *RECOVERY, "after-plan", *ELSEWHERE}
)
MANY = (
    *("before-write", "after-write", "after-commit", "mid-batch", "before-point"),
    *("task-point", "task-report", *BATCHES),
)
"""Places that a life passes again and again."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: seconds of calm before it, what it is, on whom, and for how many seconds.

    `during` is the kind of another one that lasts meanwhile: so much longer it is not healed.
    """

    calm: float
    kind: str
    target: int = 0
    seconds: float = 0.0
    failpoint: str = ""
    during: str = ""

    def __str__(self) -> str:
        parts = [f"{self.kind} during {self.during}" if self.during else self.kind]
        if self.failpoint:
            parts.append(f"at {self.failpoint}")
        if self.seconds:
            parts.append(f"for {self.seconds:.0f} s")
        return " ".join(parts)


WEIGHTS: dict[str, int] = {
    "app-kill": 6,
    "app-kill-at": 6,
    "app-kill-recovering": 4,
    "app-restart": 3,
    "app-freeze": 1,
    "hub-kill": 3,
    "hub-kill-leader": 2,
    "hub-pause": 2,
    "hub-below-min-isr": 2,
    "hub-away": 1,
    "hub-rolling": 1,
    "source-kill": 3,
    "source-pause": 2,
    "acks-lost": 3,
    "follower-cut": 3,
    "checkpoint-restored": 2,
    "checkpoint-lost": 1,
    "topic-refused": 2,
    "config-reload": 1,
    "tokens-hang": 3,
    "overlap": 8,
    "executor-kill": 5,
    "executor-kill-at": 5,
    "executor-pause": 2,
    "clock-step": 2,
    "store-kill": 3,
    "store-pause": 3,
    "store-refuses": 2,
    "store-answers-lost": 4,
}
"""Kind -> how often it is drawn. `faults.nemeses` does them."""


def kinds_of(*, executors: bool = False, store: bool = False) -> tuple[str, ...]:
    """The kinds that can be done with executors or without, on an object store or on the disk.

    A clock that is set needs a library, so it has to be asked for.
    """
    there = {"executor-": executors, "store-": store, "clock-": False}
    absent = tuple(prefix for prefix, is_there in there.items() if not is_there)
    return tuple(kind for kind in WEIGHTS if not kind.startswith(absent))


LOCAL = kinds_of()
"""What can be done where tasks run in the driver's JVM and the checkpoint is on the disk."""

LASTS = {
    "app-freeze": (2, 8),
    "hub-kill": (3, 15),
    "hub-kill-leader": (3, 15),
    "hub-pause": (3, 20),
    "hub-below-min-isr": (5, 20),
    "hub-away": (5, 25),
    "source-kill": (3, 15),
    "source-pause": (3, 20),
    "acks-lost": (1, 3),
    "follower-cut": (30, 60),
    "checkpoint-restored": (2, 10),
    "checkpoint-lost": (2, 10),
    "tokens-hang": (10, 40),
    "executor-pause": (3, 45),
    "clock-step": (10, 60),
    "store-kill": (3, 14),
    "store-pause": (3, 14),
    "store-refuses": (3, 14),
    "store-answers-lost": (1, 5),
}
"""Kind -> how long it lasts, in seconds, at least and at most."""

OVERLAPS = (
    *(("hub-pause", "app-kill"), ("hub-pause", "source-kill"), ("hub-kill", "app-kill")),
    *(("hub-below-min-isr", "app-kill"), ("hub-away", "app-kill"), ("hub-kill", "source-pause")),
    *(("source-kill", "app-kill"), ("source-kill", "app-restart"), ("source-kill", "hub-kill")),
    *(("source-pause", "app-kill"), ("source-pause", "app-restart"), ("source-pause", "hub-pause")),
    *(("tokens-hang", "app-kill"), ("tokens-hang", "app-restart"), ("acks-lost", "app-kill")),
    *(("store-pause", "app-kill"), ("store-kill", "app-kill"), ("store-pause", "source-kill")),
    *(("store-answers-lost", "app-kill"), ("store-kill", "hub-kill")),
)
"""(what lasts, what is done meanwhile): a campaign that heals each fault before the next one never
meets these, and a data centre does."""

NEEDS: Mapping[str, Mapping[str, Any]] = {
    "acks-lost": {"proxied": True},
    "follower-cut": {"proxied": True, "lag_seconds": 60.0},
    "topic-refused": {"older": "3.9"},
    "config-reload": {"commanded": True},
    "tokens-hang": {"tokens": True, "batch_seconds": 20.0},
    "clock-step": {"clock": True},
    **{kind: {"store": True} for kind in WEIGHTS if kind.startswith("store-")},
    # Kafka's own.
    "overlap": {"session_seconds": 9.0},
}
"""Kind -> settings of a world in which it can be done."""


def needs(kinds: Iterable[str]) -> dict[str, Any]:
    """The settings of a world in which all of these can be done."""
    found: dict[str, Any] = {}
    for kind in kinds:
        found |= NEEDS.get(kind, {})
    return found


def faults(seed: int, kinds: Sequence[str] = LOCAL, calm: float = 8.0) -> Iterator[Fault]:
    """Faults without end, of these kinds, with up to `calm` seconds of calm between them.

    Each kind comes once before one comes again; then they are drawn by their weights.
    """
    rng = random.Random(seed)
    weights = [WEIGHTS[kind] for kind in kinds]
    once = rng.sample([*kinds], len(kinds))
    pairs = [pair for pair in OVERLAPS if set(pair) <= {*kinds}] or OVERLAPS[:1]
    while True:
        kind = once.pop() if once else rng.choices(kinds, weights)[0]
        during = ""
        if kind == "overlap":
            during, kind = rng.choice(pairs)
        low, high = LASTS.get(during or kind, (0, 0))
        yield Fault(
            calm=round(rng.uniform(1.0, calm), 1),
            kind=kind,
            target=rng.randrange(1_000),
            seconds=round(rng.uniform(low, high), 1),
            failpoint=_failpoint(kind, rng),
            during=during,
        )


def _failpoint(kind: str, rng: random.Random) -> str:
    if kind == "app-kill-recovering":
        return rng.choice(RECOVERY)
    if kind == "app-kill-at":
        name = rng.choice([*LIVING, *STOPPING])
        return f"{name}:{rng.randint(2, 12)}" if name in MANY else name
    if kind == "executor-kill-at":
        name = rng.choice(TASKS)
        return f"{name}:{rng.randint(2, 12)}" if name in MANY else name
    return ""
