"""All clusters of a config, asked at once with a deadline; a failure of one is a value."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from aggregator.config.schema import ClusterConfig, Config
from aggregator.discover.admin import ClusterAdmin
from aggregator.discover.errors import ClusterCallError
from aggregator.errors import AggregatorError
from aggregator.model import ClusterFacts, ClusterFailure, Discovery, FailureKind
from aggregator.plan.routes import hub_topic_selected
from aggregator.plan.selection import Selection

HUB = "(hub)"
"""The hub's key in a Discovery; no source can have it as its alias."""
LATE_SECONDS = 1.0
"""Calls end at the deadline by themselves; a thread that is later than this is given up."""

Result = TypeVar("Result")


def discover(config: Config, *, aliases: Collection[str] | None = None) -> Discovery:
    """Describe the hub (under `HUB`) and the sources, or only those of `aliases` (may name HUB).

    Takes at most `supervision.connect_timeout` and a little; raises nothing for a cluster that is
    down, hung or refuses us.
    """
    names = [HUB, *config.sources] if aliases is None else list(aliases)
    timeout = config.supervision.connect_timeout

    def describe(alias: str) -> Callable[[], ClusterFacts]:
        def call() -> ClusterFacts:
            with open_admin(config, alias) as admin:
                return admin.describe(selector(config, alias), timeout)

        return call

    return run_all({alias: describe(alias) for alias in names}, timeout)


def open_admin(config: Config, alias: str) -> ClusterAdmin:
    """A client for one source, or for the hub (`HUB`)."""
    cluster: ClusterConfig = config.hub if alias == HUB else config.sources[alias]
    return ClusterAdmin(alias, cluster, "hub" if alias == HUB else f"sources.{alias}")


def selector(config: Config, alias: str) -> Callable[[str], bool]:
    """Which topics of a cluster are described in full: the selected ones; of the hub, all that a
    source's topic may flow into.
    """
    if alias == HUB:
        return lambda name: hub_topic_selected(config, name)
    return Selection.of(config.sources[alias].topics).matches


def hub_facts(discovery: Discovery) -> ClusterFacts:
    """The hub of a discovery; ClusterCallError when it failed, as nothing works without it."""
    if (failure := discovery.failed.get(HUB)) is not None:
        raise ClusterCallError(failure)
    return discovery.ok[HUB]


def run_all(jobs: Mapping[str, Callable[[], ClusterFacts]], timeout: float) -> Discovery:
    """Run a job per cluster at the same time and collect facts and failures.

    The threads are daemons: one that hangs in the client delays neither the others nor the exit
    of the process.
    """
    done: queue.SimpleQueue[tuple[str, ClusterFacts | ClusterFailure]] = queue.SimpleQueue()

    def run(alias: str, job: Callable[[], ClusterFacts]) -> None:
        try:
            done.put((alias, job()))
        except ClusterCallError as error:
            done.put((alias, error.failure))
        except AggregatorError as error:
            done.put((alias, ClusterFailure(alias, FailureKind.OTHER, str(error))))
        except Exception as error:  # a thread has no caller to raise to: it becomes the value
            reason = f"{type(error).__name__}: {error}"
            done.put((alias, ClusterFailure(alias, FailureKind.OTHER, reason)))

    for alias, job in jobs.items():
        threading.Thread(
            target=run, args=(alias, job), daemon=True, name=f"discover-{alias}"
        ).start()
    end = time.monotonic() + timeout + LATE_SECONDS
    found: dict[str, ClusterFacts | ClusterFailure] = {}
    while len(found) < len(jobs):
        try:
            alias, result = done.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        found[alias] = result
    late = f"no answer within {timeout:.3g} s"
    results = {
        alias: found.get(alias, ClusterFailure(alias, FailureKind.TIMEOUT, late)) for alias in jobs
    }
    return Discovery(
        {alias: it for alias, it in results.items() if isinstance(it, ClusterFacts)},
        {alias: it for alias, it in results.items() if isinstance(it, ClusterFailure)},
    )
