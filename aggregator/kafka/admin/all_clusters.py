"""All clusters of a config, asked at once with a deadline; a failure of one is a value."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from confluent_kafka.admin import ConfigResource, ResourceType

from aggregator.config.schema import Config
from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.client_errors import ClusterCallError
from aggregator.kafka.admin.parallel import (
    LATE_SECONDS,
    LateError,
    Replies,
    ask_all,
    seconds_for,
)
from aggregator.kafka.admin.pool import HUB, AdminPool, client_of
from aggregator.kafka.admin.topic_facts import ConfigTurns
from aggregator.kafka.credentials import prepare
from aggregator.model.errors import AggregatorError
from aggregator.model.values import (
    ClusterFacts,
    ClusterFailure,
    Discovery,
    FailureKind,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.lanes.producer import EXPIRY
from aggregator.plan.topics.routes import hub_topic_selected
from aggregator.plan.topics.selection import selection_of

SECONDS = 2.0
"""Discovery can do without it, so a broker that hangs does not hold it up for longer."""


def producer_expiry(admin: ClusterAdmin, timeout: float) -> int | None:
    """The shortest time (ms) that any broker reports; None when none does."""
    asked: dict[int, Future[Mapping[str, Any]]] = {}
    try:
        for broker in admin.metadata(timeout).brokers:
            # Each broker reports its own, and librdkafka asks one at a time.
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            found = admin.client.describe_configs([resource], request_timeout=SECONDS)
            asked[broker] = found[resource]
        answers = admin.wait(asked, SECONDS).values()
    except ClusterCallError:
        return None
    entries = [it[EXPIRY] for it in answers if not isinstance(it, Exception) and EXPIRY in it]
    return min((int(it.value) for it in entries if it.value is not None), default=None)


Answer = TypeVar("Answer")

NO_TURNS: Mapping[str, ConfigTurns] = MappingProxyType({})


def each_cluster(
    config: Config,
    aliases: Iterable[str],
    ask: Callable[[ClusterAdmin], Answer],
    *,
    clients: AdminPool | None = None,
    seconds: float | None = None,
) -> Replies[Answer]:
    """Ask several clusters (aliases, or HUB) the same at once: the one way to do so.

    `ask` gets a client, whose `alias` says whose it is: one of `clients` where there are some, else
    one of its own. A cluster has `seconds`, as a rule `supervision.connect_timeout`, and a little
    more. A failure of one is a value in the result.
    """

    def job(alias: str) -> Answer:
        with client_of(config, alias, clients) as admin:
            return ask(admin)

    seconds = config.supervision.connect_timeout if seconds is None else seconds
    return ask_all({it: partial(job, it) for it in aliases}, seconds + LATE_SECONDS)


def by_partition(
    found: Mapping[str, Mapping[TopicPartition, Answer]],
) -> dict[SourcePartition, Answer]:
    """What was found at each source (alias), as one."""
    return {
        SourcePartition(alias, *tp): it for alias, own in found.items() for tp, it in own.items()
    }


def discover(
    config: Config,
    *,
    aliases: Collection[str] | None = None,
    clients: AdminPool | None = None,
    turns: Mapping[str, ConfigTurns] = NO_TURNS,
) -> Discovery:
    """Describe the hub (under `HUB`) and the sources, or only those of `aliases` (may name HUB).

    By `clients` of this config, where there are some; `turns` (by alias) say whose configs are
    asked for, those of all topics where they do not.

    Takes at most `supervision.connect_timeout` and a little for what a cluster says of itself, and
    as long for each of the requests that thousands of topics take. Raises nothing for a cluster
    that is down, hung or refuses us.
    """
    if clients is None:
        with AdminPool(config) as own:
            return discover(config, aliases=aliases, clients=own, turns=turns)
    names = [HUB, *config.sources] if aliases is None else list(aliases)
    timeout = config.supervision.connect_timeout
    with suppress(AggregatorError):
        # At once, which is cheaper; the cluster that needs a store reports its error.
        prepare(config.hub if it == HUB else config.sources[it] for it in names)
    known = each_cluster(config, names, lambda admin: admin.metadata(timeout), clients=clients)

    def describe(admin: ClusterAdmin) -> ClusterFacts:
        alias = admin.alias
        selected = selector(config, alias)
        facts = admin.described(known.ok[alias], selected, timeout, turns.get(alias))
        if alias != HUB:
            return facts
        return replace(facts, producer_expiry_ms=producer_expiry(admin, timeout))

    most = max((len(it.topics) for it in known.ok.values()), default=0)
    seconds = seconds_for(timeout, topics=most)
    found = each_cluster(config, known.ok, describe, clients=clients, seconds=seconds)
    return Discovery(found.ok, {**failures_of(known), **failures_of(found)})


def selector(config: Config, alias: str) -> Callable[[str], bool]:
    """Which topics of a cluster are described in full: the selected ones; of the hub, all that a
    source's topic may flow into.
    """
    if alias == HUB:
        return lambda name: hub_topic_selected(config, name)
    return selection_of(config, alias).matches


def hub_facts(discovery: Discovery) -> ClusterFacts:
    """The hub of a discovery; ClusterCallError when it failed, as nothing works without it."""
    if (failure := discovery.failed.get(HUB)) is not None:
        raise ClusterCallError(failure)
    return discovery.ok[HUB]


def failures_of(replies: Replies[Answer]) -> dict[str, ClusterFailure]:
    """Why clusters did not answer."""
    return {alias: _failure(alias, it) for alias, it in replies.failed.items()}


def _failure(alias: str, error: Exception) -> ClusterFailure:
    match error:
        case ClusterCallError():
            return error.failure
        case LateError():
            return ClusterFailure(alias, FailureKind.TIMEOUT, str(error))
        case AggregatorError():
            return ClusterFailure(alias, FailureKind.OTHER, str(error))
    return ClusterFailure(alias, FailureKind.OTHER, f"{type(error).__name__}: {error}")
