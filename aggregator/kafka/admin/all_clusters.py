"""All clusters of a config, asked at once with a deadline; a failure of one is a value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from confluent_kafka.admin import ClusterMetadata

from aggregator.config.schema import Config
from aggregator.kafka.admin.client_errors import ClusterCallError
from aggregator.kafka.admin.parallel import LateError, ask_all, seconds_for
from aggregator.kafka.admin.pool import HUB, AdminPool
from aggregator.kafka.admin.producer_expiry import producer_expiry
from aggregator.kafka.admin.topic_facts import ConfigTurns
from aggregator.kafka.credentials import prepare
from aggregator.model.errors import AggregatorError
from aggregator.model.values import ClusterFacts, ClusterFailure, Discovery, FailureKind
from aggregator.plan.topics.routes import hub_topic_selected
from aggregator.plan.topics.selection import selection_of

LATE_SECONDS = 1.0
"""Calls end at the deadline by themselves; a thread that is later than this is given up."""

NO_TURNS: Mapping[str, ConfigTurns] = MappingProxyType({})


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
    _open_stores(config, names)
    read = {alias: partial(_read, clients, alias) for alias in names}
    known = ask_all(read, timeout + LATE_SECONDS)
    describe = {
        alias: partial(_describe, clients, alias, it, turns.get(alias))
        for alias, it in known.items()
        if not isinstance(it, Exception)
    }
    counts = (len(it.topics) for it in known.values() if not isinstance(it, Exception))
    found = run_all(describe, seconds_for(timeout, topics=max(counts, default=0)))
    silent = {alias: it for alias, it in known.items() if isinstance(it, Exception)}
    failed = {alias: _failure(alias, it) for alias, it in silent.items()}
    return Discovery(found.ok, {**failed, **found.failed})


def _read(clients: AdminPool, alias: str) -> ClusterMetadata:
    with clients.use(alias) as admin:
        return admin.metadata(clients.config.supervision.connect_timeout)


def _describe(
    clients: AdminPool, alias: str, cluster: ClusterMetadata, turns: ConfigTurns | None
) -> ClusterFacts:
    config = clients.config
    timeout = config.supervision.connect_timeout
    with clients.use(alias) as admin:
        facts = admin.described(cluster, selector(config, alias), timeout, turns)
        if alias != HUB:
            return facts
        return replace(facts, producer_expiry_ms=producer_expiry(admin, timeout))


def _open_stores(config: Config, names: Collection[str]) -> None:
    """Open the stores of all clusters at once; the cluster that needs one reports its error."""
    try:
        prepare(config.hub if it == HUB else config.sources[it] for it in names)
    except AggregatorError:
        return


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


def run_all(jobs: Mapping[str, Callable[[], ClusterFacts]], timeout: float) -> Discovery:
    """Run a job per cluster at the same time and collect facts and failures."""
    answers = ask_all(jobs, timeout + LATE_SECONDS)
    return Discovery(
        {alias: it for alias, it in answers.items() if not isinstance(it, Exception)},
        {alias: _failure(alias, it) for alias, it in answers.items() if isinstance(it, Exception)},
    )


def _failure(alias: str, error: Exception) -> ClusterFailure:
    match error:
        case ClusterCallError():
            return error.failure
        case LateError():
            return ClusterFailure(alias, FailureKind.TIMEOUT, str(error))
        case AggregatorError():
            return ClusterFailure(alias, FailureKind.OTHER, str(error))
    return ClusterFailure(alias, FailureKind.OTHER, f"{type(error).__name__}: {error}")
