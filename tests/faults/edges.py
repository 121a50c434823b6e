"""Faults where the promise has its edges: each two things that go wrong at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from faults.holds import HOLDS
from faults.schedule import Fault
from faults.world import LATER, REFUSED, Restart, World

BEFORE_KILL_SECONDS = 1.0
"""Long enough for requests to be under way, too short for the hub to notice."""
RUNNING_SECONDS = 3.0
"""What lanes that run send at once."""
BETWEEN_SECONDS = 3.0
"""What comes after a backup, and is not in it."""
SHOWN_SECONDS = 1.0
"""A listener has read by then what the hub shows."""
RECORDS = 100
REFUSALS = ({"segment.bytes": "100000"}, {"message.downconversion.enable": "false"})
"""What an older Kafka takes: the first is too small for the hub's, the second unknown to it."""


def follower_cut(world: World, fault: Fault) -> None:
    """Die while leaders have appended records that no follower has.

    Readers are not shown them until replication works again, and lanes run then.
    """
    restart = _start_while_cut(world, fault, fault.seconds)
    _all_flow(world, fault, _begun(world, restart))


def _start_while_cut(
    world: World, fault: Fault, seconds: float, between: Callable[[], None] = lambda: None
) -> Restart:
    """Kill it while no follower gets what leaders append, and start it before that is healed."""
    with HOLDS["follower-cut"](world, fault):
        time.sleep(BEFORE_KILL_SECONDS)
        world.kill_app()
        back_up_sometimes(world, fault)
        between()
        restart = world.start_app(str(fault))
        deadline = time.monotonic() + seconds
        # It may run, or say that it waits for just that.
        while not world.app.has_logged("running") and time.monotonic() < deadline:
            if world.app.has_logged("recovery_waits"):
                break
            restart = _started_again(world) or restart
            time.sleep(0.2)
        time.sleep(RUNNING_SECONDS)
    return restart


def back_up_sometimes(world: World, fault: Fault) -> None:
    """Copy the state aside at some of the ends, clean or not, to be restored some day."""
    if fault.target % 3 == 0:
        world.back_up()


def checkpoint_restored(world: World, fault: Fault) -> None:
    """An earlier state, clean or not, with a source that comes back later."""
    if not world.backups:
        world.stop_app()
        world.back_up()
        world.restart_app("a backup")
        time.sleep(BETWEEN_SECONDS)
    _without_a_source(world, fault, lost=False)


def checkpoint_lost(world: World, fault: Fault) -> None:
    """No state at all, with a source that comes back later."""
    _without_a_source(world, fault, lost=True)


def _without_a_source(world: World, fault: Fault, *, lost: bool) -> None:
    def put_back() -> None:
        # Chosen now: the kill before it may have made a backup, for which an old one made room.
        world.restore(None if lost else world.backups[fault.target % len(world.backups)])

    cut, healed = world.inner_proxies and fault.target % 4 == 3, 0.0
    if not cut:
        (world.kill_app if fault.target % 2 else world.stop_app)()
    with HOLDS["source-kill"](world, fault):
        if cut:
            late = world.allowed_seconds
            restart = _start_while_cut(world, fault, late, put_back)
            restart = _begun(world, restart)
            healed = _shown(world)
        else:
            put_back()
            restart = world.start_app(str(fault))
        world.first_record(restart, healed)
        for alias in _others(world, world.source(fault.target).name):
            since = max(healed, world.app.started)
            world.wait_for_records(since, f"{fault}, {alias}", alias=alias)
        time.sleep(fault.seconds)
    _all_flow(world, fault)


def topic_refused(world: World, fault: Fault) -> None:
    """The other topics flow on, and a good topic that is made after it arrives."""
    alias = world.older_alias
    servers = world.sources[alias].admin_servers
    number = len(world.made_topics)
    refused, later = f"{REFUSED}-{number}", f"{LATER}-{number}"
    with _undisturbed(world, str(fault), world.aliases):
        for topic, config in ((refused, REFUSALS[fault.target % len(REFUSALS)]), (later, {})):
            create_topic(servers, topic, config=config)
            world.made_topics[topic] = alias
            values = (b"%d" % each for each in range(RECORDS))
            produce(servers, topic, [NewRecord(value, value) for value in values])
        deadline = time.monotonic() + world.allowed_seconds
        while not world.hub_has(later) or world.records_of(later) < RECORDS:
            if not world.app.alive or time.monotonic() > deadline:
                world.note(f"{fault}: {later}, which was made after {refused}, does not arrive")
                break
            time.sleep(0.2)


def tokens_hang(world: World, fault: Fault) -> None:
    """The source that wants tokens starts again: each client has to log in again, and cannot."""
    alias = world.locked_alias
    broker = world.sources[alias].brokers[0]
    with HOLDS["tokens-hang"](world, fault), _undisturbed(world, str(fault), _others(world, alias)):
        broker.kill()
        broker.start()
        time.sleep(fault.seconds)
    world.wait_for_records(time.monotonic(), f"{fault}, {alias}", alias=alias)


def store_away(world: World, fault: Fault) -> None:
    """Records flow while the object store cannot be used: no commit is on their way."""
    with _undisturbed(world, str(fault), world.aliases), HOLDS[fault.kind](world, fault):
        time.sleep(fault.seconds)
    world.wait_for_records(time.monotonic(), str(fault))


def overlap(world: World, fault: Fault) -> None:
    """Something is done while another fault lasts; both are healed, and all flows."""
    restart = None
    with HOLDS[fault.during](world, fault):
        time.sleep(min(2.0, fault.seconds / 4))
        if fault.kind in HOLDS:
            with HOLDS[fault.kind](world, replace(fault, target=fault.target // 7)):
                time.sleep(fault.seconds)
        else:
            restart = _end_and_start(world, fault)
            until = time.monotonic() + fault.seconds
            if not _stops_all(fault):
                # Somebody else's fault: the others flow meanwhile.
                world.first_record(restart)
            while time.monotonic() < until:
                restart = (_stops_all(fault) and _started_again(world)) or restart
                time.sleep(0.2)
    if restart is not None and _stops_all(fault):
        restart = _begun(world, restart)
    _all_flow(world, fault, restart)


def _stops_all(fault: Fault) -> bool:
    """Whether no start can succeed while the other fault lasts."""
    return fault.during.startswith(("hub-", "store-")) or fault.during == "acks-lost"


def _end_and_start(world: World, fault: Fault) -> Restart:
    if fault.kind == "app-restart":
        world.stop_app()
    else:
        world.kill_app()
    return world.start_app(str(fault))


def _started_again(world: World) -> Restart | None:
    """As a service manager does: where hub or store cannot be used, a start may end."""
    if world.app.alive:
        return None
    world.notes.append(f"while hub or store could not be used: {world.exit_of_app()}")
    return world.start_app("hub or store could not be used")


def _begun(world: World, restart: Restart) -> Restart:
    """The start that runs once the hub is whole: one that met the fault may end just after it."""
    deadline = time.monotonic() + world.allowed_seconds
    while world.app.alive and not world.app.has_logged("running") and time.monotonic() < deadline:
        time.sleep(0.2)
    return _started_again(world) or restart


def _all_flow(world: World, fault: Fault, restart: Restart | None = None) -> None:
    healed = _shown(world)
    if restart is not None and restart.first_record is None:
        world.first_record(restart, healed)
    for alias in world.aliases:
        world.wait_for_records(healed, f"{fault}, {alias}", alias=alias)


def _shown(world: World) -> float:
    """Since when what arrives is new: what the last life wrote is shown once it is replicated."""
    world.wait_in_sync()
    time.sleep(SHOWN_SECONDS)
    return time.monotonic()


def _others(world: World, alias: str) -> list[str]:
    return [each for each in world.aliases if each != alias]


@contextmanager
def _undisturbed(world: World, what: str, aliases: Collection[str]) -> Iterator[None]:
    """Records of these come all the time, as far as the settings allow.

    What an earlier fault has left, such as a lane that fails for lost answers, is over before.
    """
    world.catch_up(what)
    for alias in aliases:
        world.arrivals.longest[alias] = 0.0
    yield
    silent = {alias: world.arrivals.silence(alias) for alias in aliases}
    words = ", ".join(f"{alias} {seconds:.2f} s" for alias, seconds in silent.items())
    world.notes.append(f"longest silence of the others at {what}: {words}")
    for alias, seconds in silent.items():
        if seconds > world.settings.silence_seconds * world.settings.patience:
            world.note(f"{what}: {alias} was silent for {seconds:.1f} s")
