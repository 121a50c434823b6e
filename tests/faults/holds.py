"""Faults that last: each is done when its block begins, and healed when that ends, however it does.

So one can be done while another lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from aggregator.extras.embedded.broker import Broker
from faults.schedule import Fault
from faults.world import World
from support.object_store import Store

OLD_MS = 3 * 86_400_000
UNDER_WAY_SECONDS = 0.5
FORGOTTEN_SECONDS = 2.5
"""More than two of the hub's looks for producers that have ended."""

STEPS_SECONDS = (-3600, -60, 60, 3600)
"""By how much a clock is set, as a time server or a person does."""

Hold = Callable[[World, Fault], AbstractContextManager[None]]


@contextmanager
def hub_kill(world: World, fault: Fault) -> Iterator[None]:
    """kill -9 of one hub broker."""
    with _away(world.broker(fault.target)):
        yield


@contextmanager
def hub_kill_leader(world: World, fault: Fault) -> Iterator[None]:
    """The same to the broker that leads some partition."""
    with _away(world.leader(fault.target % world.settings.hub_partitions)):
        yield


@contextmanager
def hub_pause(world: World, fault: Fault) -> Iterator[None]:
    """SIGSTOP to one hub broker."""
    with _frozen(world.broker(fault.target)):
        yield


@contextmanager
def hub_below_min_isr(world: World, fault: Fault) -> Iterator[None]:
    """One broker away while the topic wants all of them: nothing can be written."""
    world.set_min_isr(len(world.hub.brokers))
    try:
        with _away(world.broker(fault.target)):
            yield
    finally:
        world.set_min_isr(world.settings.min_isr)


@contextmanager
def hub_away(world: World, _fault: Fault) -> Iterator[None]:
    """kill -9 of all hub brokers."""
    for broker in world.hub.brokers:
        broker.kill()
    try:
        yield
    finally:
        for broker in world.hub.brokers:
            broker.launch()
        for broker in world.hub.brokers:
            broker.wait_ready(len(world.hub.brokers))


@contextmanager
def source_kill(world: World, fault: Fault) -> Iterator[None]:
    """kill -9 of a source's broker."""
    with _away(world.source(fault.target).brokers[0]):
        yield


@contextmanager
def source_pause(world: World, fault: Fault) -> Iterator[None]:
    """SIGSTOP to a source's broker."""
    with _frozen(world.source(fault.target).brokers[0]):
        yield


@contextmanager
def tokens_hang(world: World, _fault: Fault) -> Iterator[None]:
    """The token server takes requests and answers none."""
    assert world.token_server is not None, "this needs a source that wants tokens"
    world.token_server.hung.set()
    try:
        yield
    finally:
        world.token_server.hung.clear()


@contextmanager
def follower_cut(world: World, _fault: Fault) -> Iterator[None]:
    """No hub broker reaches another one, though each is alive for its controller and clients."""
    assert world.inner_proxies, "this needs a hub behind proxies"
    for proxy in world.inner_proxies:
        proxy.cut()
    try:
        yield
    finally:
        for proxy in world.inner_proxies:
            proxy.heal()


@contextmanager
def acks_lost(world: World, _fault: Fault) -> Iterator[None]:
    """The hub writes what is days old, its answers are lost, and it forgets who wrote.

    The brokers conclude from the records' own time which producers have ended long ago.
    """
    assert world.proxies, "this needs a hub behind proxies"
    for writer in world.writers:
        writer.age_ms = OLD_MS
    time.sleep(UNDER_WAY_SECONDS)
    # A busy machine is behind with what is not old.
    world.catch_up("before answers are lost")
    for proxy in world.proxies:
        proxy.mute()
    try:
        yield
        for proxy in world.proxies:
            proxy.cut()
        time.sleep(FORGOTTEN_SECONDS)
    finally:
        for proxy in world.proxies:
            proxy.heal()
        for writer in world.writers:
            writer.age_ms = 0


@contextmanager
def store_kill(world: World, _fault: Fault) -> Iterator[None]:
    """kill -9 of the object store's server."""
    with _away(_store(world)):
        yield


@contextmanager
def store_pause(world: World, _fault: Fault) -> Iterator[None]:
    """SIGSTOP to the object store's server."""
    with _frozen(_store(world)):
        yield


@contextmanager
def store_refuses(world: World, _fault: Fault) -> Iterator[None]:
    """The object store refuses our key."""
    store = _store(world)
    store.kill()
    try:
        store.start(refuses=True)
        yield
    finally:
        store.kill()
        store.start()


@contextmanager
def store_answers_lost(world: World, _fault: Fault) -> Iterator[None]:
    """The object store does what it is asked, and its answers are lost."""
    store = _store(world)
    store.proxy.mute()
    try:
        yield
    finally:
        store.proxy.heal()


@contextmanager
def clock_step(world: World, fault: Fault) -> Iterator[None]:
    """The application's time of day is set ahead or back, and then it is right again."""
    assert world.clock is not None, "this needs a clock that can be set"
    world.clock.set(STEPS_SECONDS[fault.target % len(STEPS_SECONDS)])
    try:
        yield
    finally:
        world.clock.set(0)


def _store(world: World) -> Store:
    assert world.store is not None, "this needs a checkpoint on an object store"
    return world.store


@contextmanager
def _away(server: Broker | Store) -> Iterator[None]:
    server.kill()
    try:
        yield
    finally:
        server.start()


@contextmanager
def _frozen(server: Broker | Store) -> Iterator[None]:
    server.pause()
    try:
        yield
    finally:
        server.resume()


HOLDS: dict[str, Hold] = {
    "hub-kill": hub_kill,
    "hub-kill-leader": hub_kill_leader,
    "hub-pause": hub_pause,
    "hub-below-min-isr": hub_below_min_isr,
    "hub-away": hub_away,
    "source-kill": source_kill,
    "source-pause": source_pause,
    "tokens-hang": tokens_hang,
    "acks-lost": acks_lost,
    "follower-cut": follower_cut,
    "store-kill": store_kill,
    "store-pause": store_pause,
    "store-refuses": store_refuses,
    "store-answers-lost": store_answers_lost,
    "clock-step": clock_step,
}
"""Kind -> how it begins and ends."""
