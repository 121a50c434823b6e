"""Parts of the engine go by another config: nothing of the old one is handed over any more."""

from __future__ import annotations

import threading

import pytest

from aggregator.audit.document import SourceState
from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.engine import look as look_module
from aggregator.engine.board import Board
from aggregator.engine.look import Lookout
from aggregator.engine.sources import SourcesWatch
from aggregator.errors import AggregatorError
from aggregator.model import ClusterFacts, SourcePartition

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
    "topics.refresh_interval=1h",
)
US = ("sources.us.bootstrap_servers=127.0.0.1:11", "sources.us.topics.include=orders")


def config(*sets: str) -> Config:
    return load_text("", [*SETS, *sets])


def test_a_look_by_the_old_config_is_never_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    asked: list[tuple[list[str], list[str]]] = []

    def slow(config: Config, known: dict[str, ClusterFacts]) -> AggregatorError:
        asked.append(([*config.sources], [*known]))
        begun.set()
        go_on.wait(30)
        raise AggregatorError(f"look {len(asked)}")

    monkeypatch.setattr(look_module, "_look", slow)
    known = {alias: ClusterFacts(alias, alias, 1, {}) for alias in ("eu", "us")}
    lookout = Lookout(config(*US), known)
    lookout.start()
    lookout.wake()
    assert begun.wait(30)
    lookout.reconfigure(config())
    begun.clear()
    go_on.set()
    # It looks again at once, by the new config; of the first look nothing is told.
    assert begun.wait(30)
    lookout.stop()
    lookout._thread.join(30)
    assert asked == [(["eu", "us"], ["eu", "us"]), (["eu"], ["eu"])]
    assert str(lookout.latest()) == "look 2"


def test_what_is_reached_otherwise_is_not_known_any_more() -> None:
    facts = {"eu": ClusterFacts("eu", "id", 1, {})}
    lookout = Lookout(config(), facts)
    lookout.reconfigure(config("sources.eu.topics.include=payments"))
    assert lookout._known == facts
    lookout.reconfigure(config("sources.eu.bootstrap_servers=127.0.0.1:12"))
    assert lookout._known == {}


def test_watches_come_and_go_and_the_others_go_on() -> None:
    watches = SourcesWatch(config(*US))
    mine = {SourcePartition("eu", "orders", 0), SourcePartition("us", "orders", 0)}
    watches.follow(mine)
    before = dict(watches._watches)
    watches.reconfigure(config(*US, "sources.us.kafka.client.id=x"))
    assert watches._watches["eu"] is before["eu"]
    assert watches._watches["us"] is not before["us"]
    assert watches._watches["us"].partitions == before["us"].partitions
    assert before["us"]._stop.is_set()
    watches.reconfigure(config())
    assert watches._watches == {"eu": before["eu"]}
    assert not before["eu"]._stop.is_set()


def test_the_board_shows_no_source_that_is_gone() -> None:
    board = Board(config(*US))
    for alias in ("eu", "us"):
        board.source(alias, SourceState.RUNNING)
    board.reconfigure(config())
    assert [it.alias for it in board.document().sources] == ["eu"]
