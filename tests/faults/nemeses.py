"""The faults themselves: each does one thing to a world, undoes it, and waits for records again."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from faults.edges import (
    back_up_sometimes,
    checkpoint_lost,
    checkpoint_restored,
    follower_cut,
    overlap,
    store_away,
    tokens_hang,
    topic_refused,
)
from faults.holds import HOLDS
from faults.schedule import STOPPING, TASKS, Fault
from faults.soak import config_reload
from faults.world import Struck, World
from support.reading import wait_for
from support.workers import Workers

RECOVERING_SECONDS = (3.0, 14.0)
"""When a recovery is under way, after a start: seconds, as an idle to a busy machine has it."""
FAILPOINT_SECONDS = 60.0
"""A life that does not come to its failpoint in time is killed where it is."""


class Nemesis(NamedTuple):
    """A sentence for the report, and what is done."""

    says: str
    act: Callable[[World, Fault], None]


def strike(world: World, fault: Fault) -> None:
    """Do a fault, and see that records flow afterwards."""
    world.keep_alive()
    began = world.seconds
    NEMESES["overlap" if fault.during else fault.kind].act(world, fault)
    world.keep_alive()
    world.struck.append(Struck(round(began, 1), str(fault), round(world.seconds - began, 1)))
    world.progress(f"{fault}: records flow again after {world.seconds - began:.1f} s")


def app_kill(world: World, fault: Fault) -> None:
    """kill -9, then start it again."""
    world.kill_app()
    back_up_sometimes(world, fault)
    world.restart_app(fault.kind)


def app_kill_at(world: World, fault: Fault) -> None:
    """Let it die at a failpoint of its next life."""
    if world.workers is not None and fault.failpoint.partition(":")[0] in TASKS:
        # There it is an executor that passes the place.
        executor_kill_at(world, fault)
        return
    world.kill_app()
    die_at(world, fault.failpoint, fault.kind)
    world.restart_app(str(fault))


def app_kill_recovering(world: World, fault: Fault) -> None:
    """Kill it, and kill it again while it recovers: at a failpoint, or at any moment."""
    world.kill_app()
    die_at(world, fault.failpoint, fault.kind)
    die_within(world, random.Random(fault.target).uniform(*RECOVERING_SECONDS), fault.kind)
    world.restart_app(str(fault))


def app_restart(world: World, fault: Fault) -> None:
    """A clean stop, and a start."""
    world.stop_app()
    back_up_sometimes(world, fault)
    world.restart_app(fault.kind)


def app_freeze(world: World, fault: Fault) -> None:
    """SIGSTOP to Python and its JVM for a while."""
    world.app.signal_all(signal.SIGSTOP)
    time.sleep(fault.seconds)
    healed = time.monotonic()
    world.app.signal_all(signal.SIGCONT)
    world.wait_for_records(healed, str(fault))


def lasting(world: World, fault: Fault) -> None:
    """One that lasts, and is healed."""
    with HOLDS[fault.kind](world, fault):
        time.sleep(fault.seconds)
    if fault.kind.startswith("source-"):
        # Records of the source itself: the others never stopped.
        alias = world.source(fault.target).name
        world.wait_for_records(time.monotonic(), f"{fault}, {alias}", alias=alias)
        return
    world.wait_for_records(time.monotonic(), str(fault))
    world.wait_in_sync()


def hub_rolling(world: World, fault: Fault) -> None:
    """Every hub broker is stopped cleanly and started, one after the other."""
    for broker in world.hub.brokers:
        broker.stop()
        broker.start()
        world.wait_in_sync()
    world.wait_for_records(time.monotonic(), str(fault))


def executor_kill(world: World, _fault: Fault) -> None:
    """kill -9 of one executor."""
    killed = time.monotonic()
    _workers(world).kill_executor()
    for alias in world.sources:
        # Its lane fails, waits for its producers' time to be over, and is recovered.
        world.wait_for_records(killed + 3, f"an executor was killed, {alias}", alias=alias)


def executor_kill_at(world: World, fault: Fault) -> None:
    """A life whose executors die at a failpoint, again and again; then one whose do not."""
    world.stop_app()
    world.start_app(f"{fault.kind}, executors armed", executors=fault.failpoint)
    if fault.failpoint in STOPPING:
        world.app.until_logged("running", FAILPOINT_SECONDS)
        world.stop_app()
    else:
        deadline = time.monotonic() + FAILPOINT_SECONDS
        while not world.app.has_logged("lane_failed") and time.monotonic() < deadline:
            time.sleep(0.25)
        world.kill_app()
    world.restart_app(str(fault))


def executor_pause(world: World, fault: Fault) -> None:
    """SIGSTOP to one executor, for long enough that its lease may end; SIGCONT later."""
    workers = _workers(world)
    frozen = workers.executors()[:1]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(fault.seconds)
    for pid in frozen:
        # Spark may have given it up meanwhile.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    healed = time.monotonic()
    for alias in world.sources:
        world.wait_for_records(healed, f"{fault}, {alias}", alias=alias)


def _workers(world: World) -> Workers:
    """Where tasks run, once an executor is there."""
    if world.workers is None:
        raise ValueError("this needs executors: --executors")
    wait_for(world.workers.executors, "an executor")
    return world.workers


def die_at(world: World, failpoint: str, why: str) -> None:
    """A life that is to die at a failpoint; it is killed when it does not come there in time."""
    world.start_app(f"{why}, armed with {failpoint}", failpoint)
    if failpoint.partition(":")[0] in STOPPING:
        deadline = time.monotonic() + FAILPOINT_SECONDS
        while not world.app.has_logged("running") and time.monotonic() < deadline:
            time.sleep(0.25)
        world.app.terminate()
    if not world.app.wait(FAILPOINT_SECONDS):
        # A recovery that finds nothing to write does not pass the places of a replay.
        world.progress(f"not at {failpoint} within {FAILPOINT_SECONDS:.0f} s: killed where it is")
        world.kill_app()
    elif not world.app.failpoints():
        world.note(f"armed with {failpoint}, it ended by itself: {world.exit_of_app()}")


def die_within(world: World, seconds: float, why: str) -> None:
    """A life that is killed some seconds after its start."""
    world.start_app(f"{why}, killed after {seconds:.1f} s")
    if world.app.wait(seconds):
        world.note(f"it ended by itself: {world.exit_of_app()}")
    else:
        world.kill_app()


NEMESES: dict[str, Nemesis] = {
    "app-kill": Nemesis("kill -9 of the application at any moment", app_kill),
    "app-kill-at": Nemesis("the application dies at a failpoint", app_kill_at),
    "app-kill-recovering": Nemesis(
        "the application dies while it recovers, twice", app_kill_recovering
    ),
    "app-restart": Nemesis("SIGTERM, and a start", app_restart),
    "app-freeze": Nemesis("SIGSTOP to the application and its JVM, SIGCONT later", app_freeze),
    "hub-kill": Nemesis("kill -9 of a hub broker, back later", lasting),
    "hub-kill-leader": Nemesis("kill -9 of a partition's leader, back later", lasting),
    "hub-pause": Nemesis("SIGSTOP to a hub broker, SIGCONT later", lasting),
    "hub-below-min-isr": Nemesis("too few replicas for a write to the hub", lasting),
    "hub-away": Nemesis("kill -9 of all hub brokers, back later", lasting),
    "hub-rolling": Nemesis("rolling restart of the hub", hub_rolling),
    "source-kill": Nemesis("kill -9 of a source, back later", lasting),
    "source-pause": Nemesis("SIGSTOP to a source, SIGCONT later", lasting),
    "acks-lost": Nemesis("the hub's answers about old records are lost", lasting),
    "follower-cut": Nemesis(
        "the hub does not replicate at the kill -9, and again when lanes run again",
        follower_cut,
    ),
    "checkpoint-restored": Nemesis(
        "an old checkpoint is restored, and a source is away at that start", checkpoint_restored
    ),
    "checkpoint-lost": Nemesis(
        "the checkpoint is lost, and a source is away at that start", checkpoint_lost
    ),
    "topic-refused": Nemesis(
        "a topic that the hub refuses is made at a source, and then a good one", topic_refused
    ),
    "config-reload": Nemesis("the config is changed and read again (SIGHUP)", config_reload),
    "tokens-hang": Nemesis(
        "the token server of a source hangs, and the source starts again", tokens_hang
    ),
    "overlap": Nemesis("a fault while another one lasts", overlap),
    "executor-kill": Nemesis("kill -9 of an executor", executor_kill),
    "executor-kill-at": Nemesis("executors die at a failpoint", executor_kill_at),
    "executor-pause": Nemesis("SIGSTOP to an executor, SIGCONT later", executor_pause),
    "clock-step": Nemesis("the application's clock is set ahead or back", lasting),
    "store-kill": Nemesis("kill -9 of the checkpoint's object store, back later", store_away),
    "store-pause": Nemesis("SIGSTOP to the object store, SIGCONT later", store_away),
    "store-refuses": Nemesis("the object store refuses our key for a while", store_away),
    "store-answers-lost": Nemesis("the object store's answers are lost", store_away),
}
"""Kind -> what it does; `faults.schedule` draws them."""
