"""How the sources are, by what was measured of them and what their lanes report. Pure."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from aggregator.model.values import Lane, Part, SourcePartition, SourceState
from aggregator.plan.lifecycle.health import CATCHING_UP_ABOVE
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import LaneOver
from support.flow_world import EU, EU0, EU1, US, World, running

RUNNING, FAILED = SourceState.RUNNING, SourceState.FAILED


@pytest.fixture
def world() -> World:
    return running()


def states(world: World) -> dict[str, tuple[SourceState, str]]:
    """What is decided a turn later."""
    world.turn()
    return {alias: (it.state, it.reason) for alias, it in world.state.sources.items()}


def test_a_source_that_gives_its_readers_nothing_has_failed_and_the_other_runs(
    world: World,
) -> None:
    assert states(world) == {"eu": (RUNNING, ""), "us": (RUNNING, "")}
    world.errors = {"us": "SaslAuthenticationException: no"}
    assert states(world) == {
        "eu": (RUNNING, ""),
        "us": (FAILED, "SaslAuthenticationException: no"),
    }
    world.errors = {}
    assert states(world)["us"] == (RUNNING, "")
    assert world.messages("source_state") == [
        "source us is FAILED: SaslAuthenticationException: no",
        "source us is RUNNING",
    ]


def test_it_is_quiet_while_all_is_read_and_nothing_is_under_way(world: World) -> None:
    seen = [world.state.is_quiet]
    for paused in (set(), {"us"}):
        world.paused = paused
        world.turn()
        seen.append(world.state.is_quiet)
    assert seen == [True, True, False]
    world.until(lambda: world.state.is_quiet)
    assert world.state.of(Stage.READING) == set(EU)
    world.paused = set()
    world.turn()
    world.until(lambda: world.state.is_quiet)
    assert not world.state.of(Stage.OUT)


def test_a_lane_that_is_ending_says_nothing_about_now(world: World) -> None:
    world.errors = {"us": "SaslAuthenticationException: no"}
    world.paused = {"us"}
    assert states(world)["us"][0] is SourceState.PAUSED
    world.paused = set()
    world.errors = {}
    world.until_all(Stage.READING)
    assert states(world)["us"] == (RUNNING, "")


def test_a_source_that_is_paused_says_how_to_resume_it(world: World) -> None:
    world.errors = {"us": "SaslAuthenticationException: no"}
    world.silent = {"us": "no answer for 10 s"}
    world.paused = {"us"}
    assert states(world)["us"] == (SourceState.PAUSED, "paused; aggregator resume us")


def test_a_source_that_does_not_answer_is_unreachable_until_it_does(world: World) -> None:
    world.silent = {"eu": "no answer for 10 s"}
    assert states(world)["eu"] == (SourceState.UNREACHABLE, "no answer for 10 s")
    since = world.state.sources["eu"].since
    world.silent = {"eu": "connection refused"}
    assert states(world)["eu"] == (SourceState.UNREACHABLE, "connection refused")
    # Another reason is no news, and no other beginning.
    assert world.state.sources["eu"].since == since
    world.silent = {}
    assert states(world)["eu"] == (RUNNING, "")
    assert world.messages("source_state") == [
        "source eu is UNREACHABLE: no answer for 10 s",
        "source eu is RUNNING",
    ]


def test_one_that_was_away_at_the_start_is_so_until_it_has_answered() -> None:
    world = World(Random(7))
    world.calm, world.away, world.answered = True, {"us"}, frozenset({"eu"})
    world.until_all(Stage.READING, *EU)
    assert world.state.sources["us"].state is SourceState.UNREACHABLE
    assert states(world)["us"] == (SourceState.UNREACHABLE, "it does not answer")
    world.away = set()
    world.answered = frozenset({"eu", "us"})
    assert states(world)["us"] == (RUNNING, "")


def test_one_that_is_paused_is_never_shown_as_running() -> None:
    world = World(Random(7))
    world.calm, world.paused, world.away = True, {"us"}, {"us"}
    world.until(lambda: "us" in world.state.sources)
    assert world.state.sources["us"].state is SourceState.PAUSED
    world.until_all(Stage.READING, *EU)
    assert world.messages("source_state") == []


def test_a_source_far_behind_is_catching_up_unless_so_much_comes_in(world: World) -> None:
    world.lags = {"eu": CATCHING_UP_ABOVE + 1, "us": CATCHING_UP_ABOVE}
    assert states(world) == {"eu": (SourceState.CATCHING_UP, ""), "us": (RUNNING, "")}
    world.arrivals = {"eu": 20_000.0}
    assert states(world)["eu"] == (RUNNING, "")


def test_a_source_whose_lane_has_failed_has_failed(world: World) -> None:
    world.lanes["union"].active = False
    world.turn()
    found = states(world)
    assert found["eu"] == found["us"] == (FAILED, "it broke")


def test_a_source_runs_while_only_a_lane_beside_its_main_one_fails(world: World) -> None:
    world.parts = {Part("eu", "orders", 0)}
    world.until_all(Stage.OUT, EU0)
    world.parts = set()
    world.until_all(Stage.READING)
    assert {name: life.lane.partitions for name, life in world.state.lanes.items()} == {
        "union": (EU1, *US),
        "eu": (EU0,),
    }
    world.lanes["eu"].active = False
    world.until_all(Stage.LOST, EU0)
    assert states(world)["eu"] == (RUNNING, "")
    # What is not read says so itself.
    assert world.state.at(EU0).why == "it broke"
    world.until_all(Stage.READING)
    # Of more than half of it nothing comes.
    more = tuple(SourcePartition("eu", "clicks", n) for n in (0, 1))
    world.state = replace(world.state, over={"main": LaneOver(Lane("main", more), 1, 1, "no")})
    assert states(world)["eu"] == (RUNNING, "")
    more = tuple(SourcePartition("eu", "clicks", n) for n in (0, 1, 2))
    world.state = replace(world.state, over={"main": LaneOver(Lane("main", more), 1, 1, "no")})
    assert states(world)["eu"] == (FAILED, "no")


def test_a_partition_that_is_stuck_is_reported_once(world: World) -> None:
    world.stuck = {EU0: "its log has moved on"}
    world.turn()
    world.stuck = {EU0: "its log has moved on since long"}
    world.turn()
    assert world.messages("partition_stuck") == [f"{EU0}: its log has moved on"]
    world.stuck = {}
    world.turn()
    world.stuck = {EU0: "again"}
    world.turn()
    assert len(world.messages("partition_stuck")) == 2
