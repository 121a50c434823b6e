"""Faults by a script, one scenario each: what a random schedule would hit too rarely."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from faults.nemeses import NEMESES, die_at, die_within, strike
from faults.schedule import RECOVERY, Fault, needs
from faults.steering import WARM_SECONDS, steer
from faults.steps import report_silence, step
from faults.takeovers import SMALL as TWO
from faults.takeovers import take_overs
from faults.world import ALIASES, World
from support import elsewhere
from support.workers import EXECUTOR

QUIET = {
    "log_append_time": True,
    # What a user has who sets none.
    "checkpoint_seconds": 5.0,
    # All clusters share two cores with the application. A silence must come from its supervision,
    # not from a machine with too few cores: hence one broker for the hub, and less load.
    "rate": 500.0,
    "linger_ms": 50.0,
    "hub_brokers": 1,
    "replication": 1,
    "min_isr": 1,
}
"""Settings of a scenario that watches for silence."""
PAUSED = ALIASES[0]
PAUSE_SECONDS = 60.0
AFTER_SECONDS = 20.0
"""How long the silence of the others is still watched after the source is back."""


def nothing(_world: World) -> None:
    """Say nothing more."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A sentence, the script, settings that differ, and what to say once the hub was read."""

    says: str
    script: Callable[[World], None]
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluate: Callable[[World], None] = nothing


def kills(times: int) -> Callable[[World], None]:
    """kill -9 it `times` times, at random moments."""

    def script(world: World) -> None:
        rng = random.Random(world.settings.seed)
        for _ in range(times):
            strike(world, _calm(world, Fault(rng.uniform(0.5, 6.0), "app-kill")))

    return script


def recovery_kills(times: int) -> Callable[[World], None]:
    """Kill it under load, then `times` times in a row while it recovers from that."""

    def script(world: World) -> None:
        rng = random.Random(world.settings.seed)
        time.sleep(5)
        world.kill_app()
        for turn in range(times):
            if turn % 2:
                die_within(world, rng.uniform(3.0, 14.0), "recovering")
            else:
                die_at(world, rng.choice(RECOVERY), "recovering")
        world.restart_app(f"killed {times} times in a row while it recovered")

    return script


def of_kind(kind: str, seconds: float, times: int = 1) -> Callable[[World], None]:
    """One kind of fault, `times` times."""

    def script(world: World) -> None:
        for turn in range(times):
            strike(world, _calm(world, Fault(8.0, kind, turn, seconds)))
        time.sleep(10)

    return script


def zombie(world: World) -> None:
    """A hub broker is frozen with our requests in it, we die, recover, and it wakes.

    A broker that is frozen still has what arrived at its socket; awake, it may write that.
    """
    time.sleep(8)
    broker = world.leader()
    broker.pause()
    # Long enough for requests to be parked there, too short for them to be given up.
    time.sleep(1)
    world.kill_app()
    restart = world.start_app("a hub broker is frozen")
    deadline = time.monotonic() + 2 * world.allowed_seconds
    while not world.app.has_logged("recovered") and time.monotonic() < deadline:
        if not world.app.alive:
            world.notes.append(f"while the broker was frozen: {world.exit_of_app()}")
            break
        time.sleep(0.2)
    found = "after" if world.app.has_logged("recovered") else "before"
    before = world.delivered() if found == "after" else None
    broker.resume()
    world.notes.append(f"the frozen broker woke {found} the recovery had ended")
    if not world.app.alive:
        restart = world.start_app("the hub broker is awake again")
    world.first_record(restart)
    if before is not None:
        world.notes.append(f"{before} records in the hub when it woke")
    time.sleep(15)


def executor_kills(world: World) -> None:
    """kill -9 of one executor's JVM in the middle of its tasks, three times."""
    for _ in range(3):
        time.sleep(10)
        executors = [pid for pid, line in world.app.members().items() if EXECUTOR in line]
        if not executors:
            world.note(f"no executor is there: {world.app.members()}")
            return
        killed = time.monotonic()
        os.kill(executors[0], signal.SIGKILL)
        world.progress(f"one of {len(executors)} executors is killed")
        for alias in ALIASES:
            # Its lanes fail, wait for their producers' time to be over, and are recovered.
            world.wait_for_records(killed + 3, f"an executor was killed, {alias}", alias=alias)


def source_paused(world: World) -> None:
    """A source is frozen for a minute; the others are to notice as little as possible."""

    def freeze() -> None:
        broker = world.sources[PAUSED].brokers[0]
        broker.pause()
        time.sleep(PAUSE_SECONDS)
        broker.resume()
        world.wait_for_records(time.monotonic(), f"{PAUSED} is awake", alias=PAUSED)
        time.sleep(AFTER_SECONDS)

    step(world, "nothing is done, soon after the start", "", lambda: time.sleep(WARM_SECONDS))
    step(world, f"{PAUSED} is frozen, and {AFTER_SECONDS:.0f} s after it", PAUSED, freeze)


def _calm(_world: World, fault: Fault) -> Fault:
    time.sleep(fault.calm)
    return fault


def edge(kind: str, seconds: float, target: int = 0) -> Callable[[World], None]:
    """One fault where the promise has its edges, with load before and after it."""

    def script(world: World) -> None:
        strike(world, _calm(world, Fault(3.0, kind, target, seconds)))
        time.sleep(2)

    return script


def all_edges(world: World) -> None:
    """Each of them once, in as few starts as that takes."""
    for kind, target, seconds in TOGETHER:
        strike(world, Fault(0.0, kind, target, seconds))


EDGES = (
    ("acks-lost", 0, 1.0),
    ("topic-refused", 0, 0.0),
    ("tokens-hang", 0, 12.0),
    ("follower-cut", 0, 60.0),
    ("checkpoint-restored", 0, 1.0),
    ("checkpoint-lost", 1, 1.0),
)
TOGETHER = (*EDGES[:3], ("checkpoint-lost", 3, 1.0), ("checkpoint-restored", 0, 1.0))
"""The checkpoint is lost at a kill while followers are cut off; the backup is made then, too."""
SMALL = {
    **needs(kind for kind, *_ in EDGES),
    "sources": 2,
    "rate": 300.0,
    "linger_ms": 20.0,
    "hub_brokers": 2,
    "replication": 2,
    "min_isr": 1,
    "batch_seconds": 3.0,
}
"""A world in which all of them can be done, as small as that allows."""
EDGE_SCENARIOS = {
    f"edge-{kind}": Scenario(NEMESES[kind].says, edge(kind, seconds, target), SMALL)
    for kind, target, seconds in EDGES
}

SCENARIOS: dict[str, Scenario] = {
    "kills": Scenario("kill -9 at random moments, 30 times", kills(30)),
    "recovery-kills": Scenario("kill -9 during recovery, 10 times in a row", recovery_kills(10)),
    "hub-leader": Scenario(
        "a leader of the hub is killed and comes back, 3 times", of_kind("hub-kill-leader", 12, 3)
    ),
    "hub-below-min-isr": Scenario(
        "the hub takes no writes for 45 s: too few replicas", of_kind("hub-below-min-isr", 45)
    ),
    "hub-away": Scenario("all hub brokers are away for 2 minutes", of_kind("hub-away", 120)),
    "hub-rolling": Scenario("rolling restart of the hub", of_kind("hub-rolling", 0)),
    "zombie": Scenario(
        "a hub broker is frozen with requests in it, and wakes after our recovery", zombie
    ),
    "zombie-alone": Scenario(
        "the same where that broker is the only replica",
        zombie,
        {"replication": 1, "min_isr": 1},
    ),
    "executor-kills": Scenario(
        "an executor of local-cluster[2,...] is killed in the middle of its tasks, 3 times",
        executor_kills,
        {"master": "local-cluster[2,8,1024]", "delivery_timeout_seconds": 10.0},
    ),
    "source-paused": Scenario(
        "a source is frozen for 60 s, each source in lanes of its own",
        source_paused,
        {**QUIET, "lanes": "source"},
        report_silence(0.2),
    ),
    "source-paused-shared": Scenario(
        "a source is frozen for 60 s, all sources in one lane",
        source_paused,
        QUIET,
        report_silence(0.2),
    ),
    "source-steered": Scenario(
        "a source is paused, resumed, removed, added, and refuses our login for a while",
        steer,
        {**QUIET, "commanded": True, "locked": True},
        report_silence(0.2),
    ),
    "take-overs": Scenario(
        "two instances take turns 30 times: killed, frozen, stopped, with a change of the config "
        "before each",
        take_overs(30),
        TWO,
    ),
    "take-overs-store": Scenario(
        "the same as on two machines, whose checkpoint is on a real object store",
        take_overs(30, elsewhere.MACHINE),
        {**TWO, "store": True},
    ),
    **EDGE_SCENARIOS,
    "edges": Scenario("each fault at the edges of the promise once", all_edges, SMALL),
}
"""Name -> scenario, for `--only`."""
