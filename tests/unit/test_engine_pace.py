"""The pace in force: what a lag and another config change, and what is told of it."""

from __future__ import annotations

from aggregator.audit.document import LaneState, SourceState
from aggregator.config.schema import Config
from aggregator.engine.board import Board, LaneNote
from aggregator.engine.events import Event
from aggregator.engine.pace import Paces
from aggregator.model import Positions, SourcePartition
from aggregator.plan.pace import Limit, Pace

EU, US = SourcePartition("eu", "t", 0), SourcePartition("us", "t", 0)


def config(limit: int | None = 100, always: int | None = None) -> Config:
    common = {"bootstrap_servers": "a:1", "topics": {"include": "t"}}
    eu = {"catch_up_records_per_second": limit, "max_records_per_second": always}
    return Config.model_validate(
        {"hub": {"bootstrap_servers": "h:1"}, "sources": {"eu": {**common, **eu}, "us": common}}
    )


class Scene:
    """Paces with a board on which both sources run, and what they told."""

    def __init__(self, limit: int | None = 100, always: int | None = None) -> None:
        self.told: list[Event] = []
        self.board = Board(config(limit, always))
        self.paces = Paces(config(limit, always), self.board, self.told.append)
        for name, sp in (("eu", EU), ("us", US)):
            self.board.lanes[name] = LaneNote(LaneState.RUNNING, 1, (sp,))

    def lags(self, eu: int, state: SourceState = SourceState.CATCHING_UP) -> bool:
        self.board.positions, self.board.log_ends = {EU: 0, US: 0}, {EU: eu, US: 10**9}
        self.board.source("eu", state)
        return self.paces.follow([EU, US])

    def words(self) -> list[str]:
        return [event.message for event in self.told]


SLOW = Pace({"eu": Limit(100.0)})


def test_a_source_with_a_long_way_to_go_starts_at_its_limit_and_joins_when_it_is_near() -> None:
    scene = Scene()
    assert scene.paces.now == Pace()
    scene.paces.starting({EU, US}, Positions({EU: 0, US: 0}), {EU: 5_000, US: 5_000})
    assert scene.paces.now == SLOW
    assert not scene.lags(4_000)
    assert scene.lags(400)
    assert scene.paces.now == Pace()
    assert scene.words() == [
        "source eu is 5,000 records behind: it catches up at 100 a second",
        "source eu has caught up",
    ]


def test_a_source_that_falls_behind_while_it_runs_is_held_back_too() -> None:
    scene = Scene()
    assert not scene.lags(900)
    assert scene.lags(1_100)
    assert scene.paces.now == SLOW
    # A lane that starts anew in the meantime changes nothing.
    scene.paces.starting({EU}, Positions({EU: 0}), {EU: 600})
    assert scene.paces.now == SLOW
    assert len(scene.told) == 1


def test_a_lag_alone_is_no_backlog_before_its_source_is_seen_to_catch_up() -> None:
    scene = Scene()
    assert not scene.lags(10**6, SourceState.RUNNING)
    assert scene.paces.now == Pace()


def test_a_lag_counts_when_all_ends_are_known() -> None:
    scene = Scene()
    scene.paces.starting({EU}, Positions({EU: 0}), {EU: 5_000})
    scene.board.positions, scene.board.log_ends = {EU: 0}, {}
    assert not scene.paces.follow([EU, US])
    assert scene.paces.now == SLOW
    assert scene.lags(0)
    assert scene.paces.now == Pace()


def test_without_the_setting_nothing_changes() -> None:
    scene = Scene(limit=None)
    scene.paces.starting({EU}, Positions({EU: 0}), {EU: 10**9})
    assert not scene.lags(10**9)
    assert scene.paces.now == Pace()


def test_a_source_that_is_not_read_keeps_what_was_decided() -> None:
    scene = Scene()
    scene.lags(2_000)
    assert not scene.paces.follow([US])
    assert scene.paces.now == SLOW


def test_a_limit_that_always_counts_stays_when_a_source_has_caught_up() -> None:
    scene = Scene(limit=100, always=300)
    assert scene.paces.now == Pace({"eu": Limit(300.0)})
    assert scene.lags(2_000)
    assert scene.paces.now == SLOW
    assert scene.lags(0)
    assert scene.paces.now == Pace({"eu": Limit(300.0)})


def test_another_config_counts_at_once() -> None:
    scene = Scene()
    scene.lags(2_000)
    scene.paces.reconfigure(config(300))
    assert scene.paces.now == Pace({"eu": Limit(300.0)})
    scene.paces.reconfigure(config(None))
    assert scene.paces.now == Pace()
    # A source that is gone is not behind when it comes again.
    scene.paces.reconfigure(config(300))
    gone = config(300)
    scene.paces.reconfigure(gone.model_copy(update={"sources": {"us": gone.sources["us"]}}))
    scene.paces.reconfigure(config(300))
    assert scene.paces.now == Pace()
