"""A world to play with: three sources under load, one of which breaks and comes back.

Nothing is counted here: sources may be paused, rewound and moved in between. `aggregator verify`
judges what arrived.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from aggregator.extras.demo.generator import (
    ORDERS,
    REGIONS,
    SHIPMENT,
    SHIPMENTS,
    TOPICS,
    EventMaker,
)
from aggregator.extras.demo.load import Load, loading
from aggregator.extras.demo.world import World, check_alive
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.topics import end_offsets
from aggregator.model.errors import AggregatorError

SOURCES = {"eu": 6, "us": 3, "apac": 2}
BREAKS = "apac"
"""The source whose broker is stopped at times."""
LONGEST_OUTAGE = 60.0
GROUP, GROUP_SOURCE = "billing", "eu"
"""A consumer group that has read half of the orders of a source."""
TICK_SECONDS = 0.5
START_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class LivingOptions:
    """The settings of a living world. An outage begins every `outage_every` seconds; 0: never."""

    rate: float = 1000.0
    seed: int = 1
    outage_every: float = 180.0

    @property
    def outage_seconds(self) -> float:
        """How long the source is away: a third of the time, at most a minute."""
        return min(LONGEST_OUTAGE, self.outage_every / 3)


class Living:
    """One living world. `report` takes what is done while it starts and stops, `say` what happens.

    `ready` gets the world when records of every source are in the hub.
    """

    def __init__(
        self,
        options: LivingOptions,
        report: Callable[[str], None],
        say: Callable[[str], None],
        ready: Callable[[World], None],
    ) -> None:
        self.options = options
        self._report = report
        self._say = say
        self._ready = ready

    def run(self, stop: threading.Event) -> None:
        """Live until `stop` is set; then every process has ended.

        AggregatorError with the log's end when the aggregator fails, ClusterError for a cluster.
        """
        with World(SOURCES, (*TOPICS, SHIPMENTS), self._report, registry=True) as world:
            if stop.is_set():
                return
            loads = self._loads(world)
            with world.aggregator() as child, loading(loads, Load.abandon):
                if self._wait_for_copies(world, child, stop):
                    self._commit_group(world)
                    self._ready(world)
                    self._live(world, child, stop)

    def _loads(self, world: World) -> list[Load]:
        assert world.registry is not None
        schema_id = world.registry.register(f"{SHIPMENTS}-value", SHIPMENT)
        return [
            Load(
                alias,
                world.clusters[alias].bootstrap_servers,
                EventMaker(REGIONS[alias], self.options.seed, schema_id),
                self.options.rate / len(SOURCES),
                counted=False,
            )
            for alias in SOURCES
        ]

    def _wait_for_copies(self, world: World, child: GuardedProcess, stop: threading.Event) -> bool:
        """Whether records of each source arrive; False when `stop` is set before."""
        ends = time.monotonic() + START_SECONDS
        while not stop.wait(TICK_SECONDS):
            check_alive(child)
            sources = world.status().get("sources", ())
            if sources and all(it["records"] for it in sources):
                return True
            if time.monotonic() > ends:
                raise AggregatorError(
                    f"not every source has records in the hub within {START_SECONDS:g} s:\n"
                    f"{child.log_tail()}"
                )
        return False

    def _commit_group(self, world: World) -> None:
        """Have a group read half of the orders of a source; its consumers have stopped."""
        servers = world.clusters[GROUP_SOURCE].bootstrap_servers
        ends = end_offsets(servers, ORDERS)
        consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP, "log_level": 0})
        halves = [TopicPartition(ORDERS, number, end // 2) for number, end in ends.items()]
        consumer.commit(offsets=halves, asynchronous=False)
        consumer.close()

    def _live(self, world: World, child: GuardedProcess, stop: threading.Event) -> None:
        (broker,) = world.clusters[BREAKS].brokers
        every, away = self.options.outage_every, self.options.outage_seconds
        changes_at = time.monotonic() + every - away
        while not stop.wait(TICK_SECONDS):
            check_alive(child)
            if not every or time.monotonic() < changes_at:
                continue
            if broker.alive:
                broker.stop()
                self._say(f"{BREAKS} is away: its broker was stopped, for {away:g} s")
                changes_at = time.monotonic() + away
            else:
                broker.start()
                self._say(f"{BREAKS} is back: what it was sent in that time is copied now")
                changes_at = time.monotonic() + every - away
