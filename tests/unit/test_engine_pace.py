"""The pace in force: what a plan, a lag and another config change, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

from aggregator.audit.document import LaneState, SourceState
from aggregator.config.schema import Config
from aggregator.engine.board import Board, LaneNote, LaneProgress
from aggregator.engine.events import Event
from aggregator.engine.pace import Paces
from aggregator.model import ClusterFacts, Lane, Positions, SourcePartition
from aggregator.plan.pace import Pace
from aggregator.plan.plan import Plan
from aggregator.plan.slots import plan_slots

EU, US = SourcePartition("eu", "t", 0), SourcePartition("us", "t", 0)
LANES = [Lane("eu", (EU,)), Lane("us", (US,))]
HUB = ClusterFacts("(hub)", "hub-id", 1, {})


def config(limit: int | None = 100, trigger: str = "realtime") -> Config:
    common = {"bootstrap_servers": "a:1", "topics": {"include": "t"}}
    return Config.model_validate(
        {
            "hub": {"bootstrap_servers": "h:1"},
            "sources": {"eu": {**common, "catch_up_records_per_second": limit}, "us": common},
            "stream": {"trigger": trigger},
        }
    )


def plan(partitions: int = 2) -> Plan:
    return Plan(HUB, {}, {}, (), {}, (), (), plan_slots("local[4]", partitions))


class Scene:
    """Paces with a board, and what they told."""

    def __init__(self, trigger: str = "realtime", limit: int | None = 100) -> None:
        self.told: list[Event] = []
        self.board = Board(config(limit), trigger)
        self.paces = Paces(config(limit), trigger, self.board, self.told.append)
        self.runs()

    def runs(self, generation: int = 1, told: int = 1) -> None:
        """Lane eu runs in a generation; batches of another may be told."""
        self.board.lanes["eu"] = LaneNote(LaneState.RUNNING, generation, (EU,))
        self.board.lanes["us"] = LaneNote(LaneState.RUNNING, 1, (US,))
        self.board.progress = {
            "eu": LaneProgress(generation=told),
            "us": LaneProgress(generation=1),
        }

    def lags(self, eu: int, state: SourceState = SourceState.CATCHING_UP) -> bool:
        self.board.positions, self.board.log_ends = {EU: 0, US: 0}, {EU: eu, US: 10**9}
        self.board.source("eu", state)
        return self.paces.follow(LANES)

    def words(self) -> list[str]:
        return [event.message for event in self.told]


def test_a_source_with_a_long_way_to_go_starts_at_its_limit_and_joins_when_it_is_near() -> None:
    scene = Scene()
    scene.paces.planned(plan(), first=True)
    scene.paces.starting({EU, US}, Positions({EU: 0, US: 0}), {EU: 5_000, US: 5_000})
    assert scene.paces.now == Pace("realtime", {"eu": 100})
    assert not scene.lags(4_000)
    assert scene.lags(400)
    assert scene.paces.now == Pace("realtime")
    assert scene.words() == [
        "source eu is 5,000 records behind: it catches up at 100 a second",
        "source eu has caught up",
    ]


def test_a_source_that_falls_behind_while_it_runs_is_held_back_too() -> None:
    scene = Scene()
    assert not scene.lags(900)
    assert scene.lags(1_100)
    assert scene.paces.now.limits == {"eu": 100}
    # A lane that starts anew in the meantime changes nothing.
    scene.paces.starting({EU}, Positions({EU: 0}), {EU: 600})
    assert scene.paces.now.limits == {"eu": 100}
    assert len(scene.told) == 1


def test_positions_that_are_told_once_in_a_batch_are_no_backlog() -> None:
    scene = Scene()
    assert not scene.lags(10**6, SourceState.RUNNING)
    assert scene.paces.now.limits == {}


def test_a_lag_counts_when_the_lane_that_runs_now_has_told_a_batch_and_all_ends_are_known() -> None:
    scene = Scene()
    scene.paces.starting({EU}, Positions({EU: 0}), {EU: 5_000})
    scene.runs(generation=2, told=1)
    assert not scene.lags(0)
    scene.runs(generation=2, told=2)
    scene.board.positions, scene.board.log_ends = {EU: 0}, {}
    assert not scene.paces.follow(LANES)
    assert scene.lags(0)
    assert scene.paces.now.limits == {}


def test_without_the_setting_nothing_changes() -> None:
    scene = Scene(limit=None)
    scene.paces.starting({EU}, Positions({EU: 0}), {EU: 10**9})
    assert not scene.lags(10**9)
    assert scene.paces.now == Pace("realtime")


def test_a_source_that_is_not_read_keeps_what_was_decided() -> None:
    scene = Scene()
    scene.lags(2_000)
    assert not scene.paces.follow(LANES[1:])
    assert scene.paces.now.limits == {"eu": 100}


def test_more_partitions_than_the_session_has_slots_for_mean_micro_batches_until_they_fit() -> None:
    scene = Scene()
    scene.paces.planned(plan(), first=True)
    assert scene.board.trigger == "realtime"
    # The master of a later plan may promise more: the session has what it was started with.
    later = replace(plan(5), slots=replace(plan(5).slots, slots=100))
    scene.paces.planned(later, first=False)
    assert (scene.board.trigger, scene.paces.now.trigger) == ("microbatch", "microbatch")
    assert "4 task slots for 5 source partitions" in scene.words()[0]
    scene.paces.planned(plan(4), first=False)
    assert scene.paces.now == Pace("realtime")


def test_what_ends_by_itself_stays_so() -> None:
    scene = Scene("available-now")
    scene.paces.planned(plan(5), first=True)
    assert scene.paces.now == Pace("available-now")
    assert not scene.lags(10**9)


def test_a_limit_that_until_caught_up_does_not_keep_is_told() -> None:
    common = {"bootstrap_servers": "a:1", "topics": {"include": "t"}}
    made = Config.model_validate(
        {
            "hub": {"bootstrap_servers": "h:1"},
            "sources": {"eu": {**common, "max_records_per_second": 5}},
        }
    )
    told: list[Event] = []
    paces = Paces(made, "available-now", Board(made, "available-now"), told.append)
    paces.planned(plan(), first=True)
    paces.planned(plan(), first=False)
    (event,) = told
    assert "eu (5 records/s): no limit is kept" in event.message


def test_another_config_counts_at_once() -> None:
    scene = Scene()
    scene.lags(2_000)
    scene.paces.reconfigure(config(300))
    assert scene.paces.now.limits == {"eu": 300}
    scene.paces.reconfigure(config(None))
    assert scene.paces.now.limits == {}
