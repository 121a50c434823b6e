"""All clusters of a config, asked at once with a deadline; a failure of one is a value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from aggregator.config.schema import Config
from aggregator.kafka.admin.client_errors import ClusterCallError
from aggregator.kafka.admin.parallel import LateError, ask_all
from aggregator.kafka.admin.pool import HUB, AdminPool, client_of
from aggregator.kafka.admin.producer_expiry import producer_expiry
from aggregator.kafka.credentials import prepare
from aggregator.model.errors import AggregatorError
from aggregator.model.values import ClusterFacts, ClusterFailure, Discovery, FailureKind
from aggregator.plan.topics.routes import hub_topic_selected
from aggregator.plan.topics.selection import selection_of

LATE_SECONDS = 1.0
"""Calls end at the deadline by themselves; a thread that is later than this is given up."""

Result = TypeVar("Result")


def discover(
    config: Config,
    *,
    aliases: Collection[str] | None = None,
    clients: AdminPool | None = None,
) -> Discovery:
    """Describe the hub (under `HUB`) and the sources, or only those of `aliases` (may name HUB).

    By `clients` of this config, where there are some.

    Takes at most `supervision.connect_timeout` and a little; raises nothing for a cluster that is
    down, hung or refuses us.
    """
    names = [HUB, *config.sources] if aliases is None else list(aliases)
    timeout = config.supervision.connect_timeout
    _open_stores(config, names)

    def describe(alias: str) -> Callable[[], ClusterFacts]:
        def call() -> ClusterFacts:
            with client_of(config, alias, clients) as admin:
                facts = admin.describe(selector(config, alias), timeout)
                if alias != HUB:
                    return facts
                return replace(facts, producer_expiry_ms=producer_expiry(admin, timeout))

        return call

    return run_all({alias: describe(alias) for alias in names}, timeout)


def _open_stores(config: Config, names: Collection[str]) -> None:
    """Open the stores of all at once; what goes wrong is told by the cluster that needs them."""
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
    results = {alias: _as_value(alias, answer) for alias, answer in answers.items()}
    return Discovery(
        {alias: it for alias, it in results.items() if isinstance(it, ClusterFacts)},
        {alias: it for alias, it in results.items() if isinstance(it, ClusterFailure)},
    )


def _as_value(alias: str, answer: ClusterFacts | Exception) -> ClusterFacts | ClusterFailure:
    match answer:
        case ClusterCallError():
            return answer.failure
        case LateError():
            return ClusterFailure(alias, FailureKind.TIMEOUT, str(answer))
        case AggregatorError():
            return ClusterFailure(alias, FailureKind.OTHER, str(answer))
        case Exception():
            return ClusterFailure(alias, FailureKind.OTHER, f"{type(answer).__name__}: {answer}")
    return answer
