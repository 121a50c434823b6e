"""Steps 1 and 2 of a run, and all of `aggregator plan`: discover the clusters, decide the plan.

What the hub refuses of it is planned again without that.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from aggregator.config.kafka_settings import isolation_of
from aggregator.config.schema import CheckpointConfig, Config
from aggregator.kafka.admin import (
    HUB,
    AdminPool,
    ClusterAdmin,
    apply,
    by_partition,
    discover,
    each_cluster,
    hub_facts,
    open_admin,
)
from aggregator.kafka.admin.parallel import seconds_for
from aggregator.model.errors import CheckpointError, ClusterError
from aggregator.model.values import (
    ClusterFacts,
    Discovery,
    Route,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.actions import Action, Applied
from aggregator.plan.plan import Plan, make_plan, replanned
from aggregator.plan.positions.start import Observed
from aggregator.plan.refusals import NOTHING_REFUSED, Refusals
from aggregator.plan.topics.hub_topics import Flowing, flowing_of
from aggregator.plan.topics.naming import naming_of
from aggregator.store.checkpoint.checkpoint_table import stored_state
from aggregator.store.checkpoint.identity import identity_of

Attempt = Callable[[Sequence[Action]], Sequence[Applied]]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Settled:
    """The plan that is left, what the hub has refused by now, and what was done."""

    plan: Plan
    refusals: Refusals
    done: tuple[Applied, ...] = ()


def settle(
    plan: Plan,
    config: Config,
    refusals: Refusals,
    attempt: Attempt,
    flowing: Collection[Flowing] = (),
) -> Settled:
    """Attempt the plan's actions, and those of the plans that follow from what is refused.

    Each refusal leaves a config out, or a topic, so this ends. Raises what `attempt` raises.
    """
    done: list[Applied] = []
    todo = plan.actions
    while todo:
        answers = attempt(todo)
        done += [it for it in answers if it.ok]
        refused = [it for it in answers if not it.ok]
        if not refused:
            break
        refusals = refusals.after(refused, config.topics, time.monotonic())
        plan = replanned(plan, config, refusals, cores=os.cpu_count(), flowing=flowing)
        had = [it.action for it in done]
        todo = tuple(it for it in plan.actions if it not in had)
    return Settled(plan, refusals, tuple(done))


def copied_topics(place: CheckpointConfig) -> frozenset[tuple[str, str]]:
    """(alias, topic) of which there are positions; nothing where they cannot be read.

    What needs them next says why.
    """
    try:
        known = stored_state(place).entries
    except CheckpointError:
        return frozenset()
    return frozenset((sp.cluster, sp.topic) for sp in known)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was discovered, and the plan that follows.

    `asked_ms` is when discovery began, by the clock of the day; `began` by the monotonic one.
    """

    discovery: Discovery
    plan: Plan
    asked_ms: int = 0
    began: float = 0.0


def prepare(config: Config) -> Prepared:
    """Discover all clusters and plan a first start; changes nothing.

    A source that fails is a value in the result. Raises ClusterError when the hub gives no answer.
    """
    began, asked_ms = time.monotonic(), time.time_ns() // 1_000_000
    with AdminPool(config) as clients:
        found = discover(config, clients=clients)
        hub = hub_facts(found)
        flowing: Collection[Flowing] = ()
        draft = plan_with(config, found, hub)
        if draft.refused and (flowing := _flowed(config)):
            # Of topics that clash, those that were copied before continue.
            draft = plan_with(config, found, hub, flowing)
        ages = ages_of_oldest_records(config, draft.routes, clients)
    plan = make_plan(
        config,
        found,
        hub,
        ages_ms=ages,
        cores=os.cpu_count(),
        flowing=flowing,
    )
    return Prepared(found, plan, asked_ms, began)


def ahead(config: Config, prepared: Prepared) -> Plan:
    """The plan of `prepare` as the hub would let it be, which is asked; changes nothing.

    Raises ClusterError when the hub gives no answer.
    """
    timeout = config.supervision.connect_timeout
    with open_admin(config, HUB) as hub:
        return settle(
            prepared.plan,
            config,
            NOTHING_REFUSED,
            lambda actions: apply(actions, hub, timeout, dry=True),
            flowing_of(prepared.plan.routes),
        ).plan


def _flowed(config: Config) -> frozenset[Flowing]:
    """What was copied before, as it is named now."""
    namings = {alias: naming_of(config, alias) for alias in config.sources}
    return frozenset(
        (alias, topic, namings[alias].of(topic).name)
        for alias, topic in copied_topics(config.checkpoint)
        if alias in namings
    )


def plan_with(
    config: Config,
    found: Discovery,
    hub: ClusterFacts,
    flowing: Collection[Flowing] = (),
    refusals: Refusals = NOTHING_REFUSED,
) -> Plan:
    """The plan for clusters as found, without reading history."""
    return make_plan(config, found, hub, cores=os.cpu_count(), flowing=flowing, refusals=refusals)


def plan_of_all(config: Config, aliases: Sequence[str], why: str) -> Plan:
    """The plan of these sources as they are now, each of which has to answer, and the hub.

    ClusterError begins with `why` when one does not.
    """
    found = discover(config, aliases=[HUB, *aliases])
    hub = hub_facts(found)
    if found.failed:
        failures = "\n".join(f"  - {failure}" for failure in found.failed.values())
        raise ClusterError(
            f"{why}, and these give no answer (name one that does with --source):\n{failures}"
        )
    return plan_with(config, found, hub)


def merged(before: Mapping[str, ClusterFacts], found: Discovery) -> Discovery:
    """A discovery in which a source that gave no answer keeps its earlier facts.

    So a source that cannot be reached for a while loses none of its routes.
    """
    known = {alias: facts for alias, facts in before.items() if alias in found.failed}
    failed = {alias: it for alias, it in found.failed.items() if alias not in known}
    return Discovery({**known, **found.ok}, failed)


def observe(
    config: Config, plan: Plan, routes: Iterable[Route], clients: AdminPool | None = None
) -> Observed:
    """Log ranges of all partitions of `routes`; those of a source that fails are absent."""
    ranges = _ask_sources(
        config, routes, clients, lambda admin, own, timeout: admin.offsets(own, timeout).ranges
    )
    return Observed(
        cluster_ids={alias: facts.cluster_id for alias, facts in plan.sources.items()},
        topic_ids=identity_of(plan).topic_ids,
        offsets=by_partition(ranges),
        stable=frozenset(
            alias
            for alias, source in config.sources.items()
            if isolation_of(source) == "read_committed"
        ),
    )


def offsets_by_time(
    config: Config, routes: Iterable[Route], clients: AdminPool | None
) -> dict[SourcePartition, int]:
    """Start offsets of the sources whose `start` is a timestamp."""
    starts = {alias: it.start for alias, it in config.sources.items() if it.start.isdigit()}
    found = _ask_sources(
        config,
        [it for it in routes if it.cluster in starts],
        clients,
        lambda admin, own, timeout: admin.offsets_at(int(starts[admin.alias]), own, timeout),
    )
    return by_partition(found)


def ages_of_oldest_records(
    config: Config, routes: Iterable[Route], clients: AdminPool
) -> dict[tuple[str, str], int]:
    """(alias, topic) -> how old its oldest record is, in ms; for a warning only."""
    found = _ask_sources(
        config, routes, clients, lambda admin, own, timeout: admin.oldest_record_ms(own, timeout)
    )
    now = time.time_ns() // 1_000_000
    return {(alias, topic): now - at for alias, it in found.items() for topic, at in it.items()}


def partitions_by_cluster(routes: Iterable[Route]) -> dict[str, list[TopicPartition]]:
    """Alias -> the partitions of a source that these routes copy."""
    found: dict[str, list[TopicPartition]] = {}
    for route in routes:
        partitions = [sp.topic_partition for sp in route.source_partitions()]
        found.setdefault(route.cluster, []).extend(partitions)
    return found


def _ask_sources(
    config: Config,
    routes: Iterable[Route],
    clients: AdminPool | None,
    ask: Callable[[ClusterAdmin, Sequence[TopicPartition], float], Answer],
) -> dict[str, Answer]:
    """What the sources that answer (alias) say of their partitions in these routes."""
    own, timeout = partitions_by_cluster(routes), config.supervision.connect_timeout
    most = max(map(len, own.values()), default=0)
    return each_cluster(
        config,
        own,
        lambda admin: ask(admin, own[admin.alias], timeout),
        clients=clients,
        seconds=seconds_for(timeout, partitions=most),
    ).ok
