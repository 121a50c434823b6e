"""Discovery goes by the config in force: nothing of an older one is handed over."""

from __future__ import annotations

import threading
import time

import pytest

from aggregator.config import load_text
from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.kafka.admin import HUB, AdminPool, ClusterAdmin, ClusterCallError
from aggregator.kafka.discovery import poller as poller_module
from aggregator.kafka.discovery import prepare as prepare_module
from aggregator.kafka.discovery.poller import DiscoveryPoller, Planner, first_snapshot
from aggregator.kafka.discovery.prepare import prepare
from aggregator.model.errors import AggregatorError
from aggregator.model.values import ClusterFacts, Discovery
from aggregator.plan.refusals import NOTHING_REFUSED
from aggregator.plan.snapshot import ClusterSnapshot, Doubts
from support.reading import wait_for

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
    "topics.refresh_interval=1h",
)
US = ("sources.us.bootstrap_servers=127.0.0.1:11", "sources.us.topics.include=orders")


def config(*sets: str) -> Config:
    return load_text("", [*SETS, *sets])


def test_a_snapshot_by_the_old_config_is_never_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, proceed = threading.Event(), threading.Event()
    asked: list[tuple[list[str], list[str]]] = []

    def slow(config: Config, known: dict[str, ClusterFacts], *_: object) -> AggregatorError:
        asked.append(([*config.sources], [*known]))
        begun.set()
        proceed.wait(30)
        raise AggregatorError(f"discovery {len(asked)}")

    monkeypatch.setattr(poller_module, "_discover", slow)
    known = {alias: ClusterFacts(alias, alias, 1, {}) for alias in ("eu", "us")}
    in_force = InForce(config(*US))
    poller = DiscoveryPoller(in_force, known)
    poller.start()
    poller.wake()
    assert begun.wait(30)
    in_force.config = config()
    begun.clear()
    proceed.set()
    # Discovery runs again at once, by the new config; the first result is not handed over.
    assert begun.wait(30)
    poller.stop()
    wait_for(lambda: not poller._loop.is_alive, "its thread has ended")
    assert asked == [(["eu", "us"], ["eu", "us"]), (["eu"], ["eu"])]
    assert str(poller.latest()) == "discovery 2"


def test_a_result_that_has_waited_since_the_old_config_is_left_out() -> None:
    in_force = InForce(config())
    poller = DiscoveryPoller(in_force, {})
    poller._results.put((in_force.config, AggregatorError("old")))
    in_force.config = config(*US)
    assert poller.latest() is None
    poller._results.put((in_force.config, AggregatorError("new")))
    assert str(poller.latest()) == "new"


def test_what_is_reached_otherwise_is_not_known_any_more() -> None:
    facts = {"eu": ClusterFacts("eu", "id", 1, {})}
    poller = DiscoveryPoller(InForce(config()), facts)
    poller._forget_others(config("sources.eu.topics.include=payments"))
    assert poller._known == facts
    poller._forget_others(config("sources.eu.bootstrap_servers=127.0.0.1:12"))
    assert poller._known == {}


def test_each_discovery_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an older one may lead to a cluster that the address has left since."""
    used: list[tuple[AdminPool, ClusterAdmin]] = []

    def failing(_: Config, *, clients: AdminPool, turns: object) -> AggregatorError:
        with clients.use("eu") as admin:
            used.append((clients, admin))
        raise AggregatorError("no answer")

    monkeypatch.setattr(poller_module, "discover", failing)
    for _ in range(2):
        with pytest.raises(AggregatorError, match="no answer"):
            poller_module._discover(config(), {}, (), NOTHING_REFUSED, Doubts(), {}, Planner())
    (first, admin), (second, other) = used
    assert first is not second
    assert admin is not other
    with pytest.raises(ClusterCallError, match="closed"):
        admin.client.poll(0)


def test_a_snapshot_is_as_old_as_the_first_request_for_what_it_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic that is created again while another cluster is slow has the id of before in it."""
    asked: list[float] = []

    def slow(_: Config, **__: object) -> Discovery:
        asked.append(time.monotonic())
        return Discovery({alias: ClusterFacts(alias, alias, 1, {}) for alias in (HUB, "eu")})

    for module in (poller_module, prepare_module):
        monkeypatch.setattr(module, "discover", slow)
    snapshot = poller_module._discover(config(), {}, (), NOTHING_REFUSED, Doubts(), {}, Planner())
    assert isinstance(snapshot, ClusterSnapshot)
    assert snapshot.began <= asked[0]
    # So is the snapshot of a start, whatever was waited for since its plan was made.
    prepared = prepare(config())
    assert prepared.began <= asked[1]
    assert first_snapshot(config(), prepared).began == prepared.began
