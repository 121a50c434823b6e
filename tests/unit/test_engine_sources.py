"""What the source watches put on the board when the engine asks: lags and time behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aggregator.audit.document import SourceState
from aggregator.config import load_text
from aggregator.engine import sources
from aggregator.engine.board import Board
from aggregator.engine.sources import CATCHING_UP_ABOVE, SourcesWatch
from aggregator.engine.watch import Watched
from aggregator.model import OffsetRange, SourcePartition
from aggregator.plan.behind import Delay

EU0, EU1, US0 = (SourcePartition(*it) for it in (("eu", "t", 0), ("eu", "t", 1), ("us", "t", 0)))
SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=t",
    "sources.us.bootstrap_servers=127.0.0.1:11",
    "sources.us.topics.include=t",
    "supervision.deadline=10s",
)


class Clock:
    """Stands still until the test lets it go on."""

    seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


class World:
    """Two sources whose probes tell what the test says."""

    def __init__(self, clock: Clock) -> None:
        config = load_text("", SETS)
        self.clock, self.board, self.watches = clock, Board(config), SourcesWatch(config)
        self.watches.follow({EU0, EU1, US0})
        self.board.positions = {EU0: 10, EU1: 20, US0: 30}
        for alias in ("eu", "us"):
            self.board.source(alias, SourceState.RUNNING)

    def probe(self, ends: dict[SourcePartition, int]) -> None:
        """The sources of these partitions tell their log ends now."""
        for alias in {sp.cluster for sp in ends}:
            logs = {sp: OffsetRange(0, end) for sp, end in ends.items() if sp.cluster == alias}
            told = Watched(logs, answered_at=self.clock.seconds, has_answered=True)
            self.watches._watches[alias].latest = told

    def behind(self, later: float = 0.0) -> dict[SourcePartition, Delay]:
        """What is told so many seconds later."""
        self.clock.seconds += later
        self.watches.tell(self.board, lambda _: None)
        return dict(self.board.behind)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    clock = Clock()
    monkeypatch.setattr(sources, "time", clock)
    yield World(clock)


def test_partitions_are_behind_since_their_probe_told_so(world: World) -> None:
    assert world.behind() == {}
    world.probe({EU0: 10, EU1: 20, US0: 30})
    assert world.behind(0.5) == {EU0: Delay(0.0), EU1: Delay(0.0), US0: Delay(0.0)}
    world.clock.seconds += 0.5
    world.probe({EU0: 12, EU1: 20})
    assert world.behind(0.75) == {EU0: Delay(0.75), EU1: Delay(0.0), US0: Delay(0.0)}
    assert world.behind(4)[EU0] == Delay(4.75)
    world.board.positions = {**world.board.positions, EU0: 12}
    assert world.behind(1)[EU0] == Delay(0.0)


def test_of_a_source_that_is_unreachable_only_what_was_behind_before_is_known(
    world: World,
) -> None:
    world.probe({EU0: 10, EU1: 25, US0: 30})
    world.behind()
    world.clock.seconds += 11
    world.probe({US0: 30})
    assert world.behind() == {EU1: Delay(11.0, at_least=True), US0: Delay(0.0)}
    assert world.board.sources["eu"].state is SourceState.UNREACHABLE


def test_partitions_that_are_followed_no_more_are_behind_no_more(world: World) -> None:
    world.probe({EU0: 12, EU1: 20, US0: 30})
    world.behind()
    world.watches.follow({EU1})
    assert world.behind(1) == {EU1: Delay(0.0)}


def test_a_source_far_behind_is_catching_up(world: World) -> None:
    world.probe({EU0: 12, EU1: 20 + CATCHING_UP_ABOVE, US0: 30})
    world.behind()
    states = {alias: note.state for alias, note in world.board.sources.items()}
    assert states == {"eu": SourceState.CATCHING_UP, "us": SourceState.RUNNING}
    assert world.board.catching_up == {"eu"}
