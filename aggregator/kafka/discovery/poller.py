"""Discovers all clusters in the background, and plans from the result.

The engine's own thread never waits for a cluster: a thread runs discovery, every
`topics.refresh_interval` and when it is woken, and hands over whole snapshots.
"""

import queue
import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.kafka.admin import (
    HUB,
    AdminPool,
    ClusterAdmin,
    by_partition,
    discover,
    each_cluster,
    hub_facts,
)
from aggregator.kafka.admin.topic_facts import ConfigTurns
from aggregator.kafka.discovery.prepare import Prepared, merged, observe, offsets_by_time, plan_with
from aggregator.model.errors import AggregatorError
from aggregator.model.loop import Loop
from aggregator.model.values import (
    ClusterFacts,
    Discovery,
    OffsetRange,
    Route,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.plan import Plan
from aggregator.plan.positions.start import Damage, Observed
from aggregator.plan.refusals import NOTHING_REFUSED, Refusals
from aggregator.plan.reload import same_connection
from aggregator.plan.snapshot import ClusterSnapshot, Doubts
from aggregator.plan.topics.hub_topics import Flowing, flowing_of

MOST = 50
"""Limit of damaged partitions of a source that one discovery reads again."""
READ_SECONDS = 5.0


def observe_doubtful(observed: Observed, doubts: Doubts, clients: AdminPool) -> Observed:
    """What was observed, and what belongs to it of partitions that are in doubt.

    Asks no source without such a partition. What a source does not report is absent.
    """
    config = clients.config
    beyond: dict[str, list[SourcePartition]] = {}
    damaged: dict[str, dict[SourcePartition, OffsetRange]] = {}
    for sp, log in observed.offsets.items():
        at = doubts.positions.get(sp) if doubts.positions is not None else log.latest + 1
        if at is None:
            continue
        if at > log.latest and sp.cluster in observed.stable:
            beyond.setdefault(sp.cluster, []).append(sp)
        if sp in doubts.damaged and doubts.read_on and log.earliest <= at < log.latest:
            damaged.setdefault(sp.cluster, {})[sp] = OffsetRange(at, log.latest)
    timeout = config.supervision.connect_timeout

    def highs(admin: ClusterAdmin) -> Mapping[TopicPartition, int]:
        return admin.high_watermarks([it.topic_partition for it in beyond[admin.alias]], timeout)

    def damages(admin: ClusterAdmin) -> Mapping[TopicPartition, Damage]:
        own = damaged[admin.alias]
        wanted = {sp.topic_partition: own[sp] for sp in sorted(own)[:MOST]}
        read_on = doubts.read_on or (lambda *_: {})
        return read_on(config.sources[admin.alias], wanted, min(timeout, READ_SECONDS))

    return replace(
        observed,
        highs=by_partition(each_cluster(config, beyond, highs, clients=clients).ok),
        damages=by_partition(each_cluster(config, damaged, damages, clients=clients).ok),
    )


SOON_SECONDS = 1.0

Found = tuple[Config, ClusterSnapshot | AggregatorError]
"""The result of a discovery, and the config that it used."""


def first_snapshot(config: Config, prepared: Prepared) -> ClusterSnapshot:
    """The snapshot of a start, from what `prepare` found already."""
    with AdminPool(config) as clients:
        return _snapshot_of(clients, prepared, Doubts())


class Planner:
    """Makes plans: from what is the same as before, the same plan. Used by one thread."""

    def __init__(self) -> None:
        self._last: tuple[Config, tuple[object, ...], Plan] | None = None

    def plan(
        self,
        config: Config,
        found: Discovery,
        hub: ClusterFacts,
        flowing: Collection[Flowing],
        refusals: Refusals,
    ) -> Plan:
        """The plan for these clusters, without reading history."""
        made_of, last = (found, hub, flowing, refusals), self._last
        if last is None or last[0] is not config or last[1] != made_of:
            last = config, made_of, plan_with(config, found, hub, flowing, refusals)
            self._last = last
        return last[2]


class DiscoveryPoller:
    """The thread that runs discovery. `latest()` returns the newest snapshot once, or None.

    `known` and `flowing` are the sources, and the routes, of the plan that a run begins with.
    """

    def __init__(
        self, in_force: InForce, known: Mapping[str, ClusterFacts], flowing: Collection[Route] = ()
    ) -> None:
        self._in_force = in_force
        self._config = in_force.config
        self._known = dict(known)
        self._flowing = flowing_of(flowing)
        self._refusals = NOTHING_REFUSED
        self._turns: dict[str, ConfigTurns] = {}
        self._planner = Planner()
        self.doubts = Doubts()
        """What the next discovery must examine more closely."""
        self._results: queue.SimpleQueue[Found] = queue.SimpleQueue()
        self._is_woken = False
        self._loop = Loop("discovery", self._turn, every=self._interval, on_error=self._fail)

    def start(self) -> None:
        """Begin; the first snapshot comes after one interval."""
        self._loop.start(delay=self._interval())

    def wake(self) -> None:
        """Run discovery soon, whatever the interval."""
        self._is_woken = True
        self._loop.wake()

    def plan_by(self, routes: Collection[Route], refusals: Refusals) -> None:
        """These routes are in force, and the hub does not take that: plan by it from now on."""
        self._flowing, self._refusals = flowing_of(routes), refusals

    def stop(self) -> None:
        """End the thread soon, without waiting for a cluster that hangs."""
        self._loop.end()

    @property
    def has_news(self) -> bool:
        """Whether there is a result that `latest` has not returned."""
        return not self._results.empty()

    def latest(self) -> ClusterSnapshot | AggregatorError | None:
        """The newest result since the last call: a snapshot, or why there was none.

        By the config in force: no snapshot by an older one is handed over.
        """
        newest: ClusterSnapshot | AggregatorError | None = None
        while True:
            try:
                config, found = self._results.get_nowait()
            except queue.Empty:
                return newest
            if config is self._in_force.config:
                newest = found

    def _interval(self) -> float:
        return self._in_force.config.topics.refresh_interval

    def _turn(self) -> None:
        # Woken because something failed a moment ago: give it a moment.
        is_woken, self._is_woken = self._is_woken, False
        if is_woken and self._loop.over.wait(SOON_SECONDS):
            return
        config = self._in_force.config
        self._forget_others(config)
        try:
            result: ClusterSnapshot | AggregatorError = _discover(
                config,
                dict(self._known),
                self._flowing,
                self._refusals.at(time.monotonic()),
                self.doubts,
                self._turns,
                self._planner,
            )
        except Exception as error:  # a thread has no caller to raise to: it becomes the value
            result = _failure(error)
        if config is not self._in_force.config:
            self.wake()
        elif isinstance(result, ClusterSnapshot):
            self._known |= result.plan.sources
        self._results.put((config, result))

    def _fail(self, error: Exception) -> None:
        self._results.put((self._in_force.config, _failure(error)))

    def _forget_others(self, config: Config) -> None:
        """Forget what is known of sources that are gone, or that are reached otherwise by now."""
        for alias in list(self._known):
            before, after = self._config.sources.get(alias), config.sources.get(alias)
            if before is None or after is None or not same_connection(before, after):
                del self._known[alias]
        if config is not self._config or not self._turns:
            self._turns = {alias: ConfigTurns() for alias in (HUB, *config.sources)}
        self._config = config


def _failure(error: Exception) -> AggregatorError:
    if isinstance(error, AggregatorError):
        return error
    return AggregatorError(f"{type(error).__name__}: {error}")


def _discover(
    config: Config,
    known: Mapping[str, ClusterFacts],
    flowing: Collection[Flowing],
    refusals: Refusals,
    doubts: Doubts,
    turns: Mapping[str, ConfigTurns],
    planner: Planner,
) -> ClusterSnapshot:
    began, asked_ms = time.monotonic(), time.time_ns() // 1_000_000
    # Of this discovery alone: connections of an older one may lead to a cluster that the address
    # has left since, and a lane that starts connects to what is there now.
    with AdminPool(config) as clients:
        found = discover(config, clients=clients, turns=turns)
        whole, hub = merged(known, found), hub_facts(found)
        plan = planner.plan(config, whole, hub, flowing, refusals)
        return _snapshot_of(clients, Prepared(found, plan, asked_ms, began), doubts)


def _snapshot_of(clients: AdminPool, prepared: Prepared, doubts: Doubts) -> ClusterSnapshot:
    """What was found, what follows from it, and the offsets of all partitions to read.

    It is as old as what it was prepared from: a topic that is created again before its offsets are
    asked for would else be taken for the one whose id was found.
    """
    found, plan = prepared.discovery, prepared.plan
    return ClusterSnapshot(
        plan,
        observe_doubtful(observe(clients.config, plan, plan.routes, clients), doubts, clients),
        offsets_by_time(clients.config, plan.routes, clients),
        prepared.began,
        {alias: str(failure) for alias, failure in found.failed.items()},
        dict.fromkeys(found.ok, prepared.asked_ms),
    )
