"""A hub topic that does not show all that it holds holds up what goes there, and nothing else."""

from __future__ import annotations

import pytest

from aggregator.plan.lifecycle.stage import Stage
from support.flow_world import EU, HUB_TOPICS, PARTITIONS, US, World, running

SOON = 40
"""Turns: ten seconds."""


def flows_but_for_us(world: World) -> None:
    """What goes to another hub topic is read soon, and the rest waits with a reason."""
    world.until(lambda: world.state.of(Stage.READING) == set(EU), turns=SOON)
    world.until(lambda: all(world.state.at(sp).stage is Stage.RESTING for sp in US), turns=SOON)
    assert all(HUB_TOPICS["us"] in world.state.at(sp).why for sp in US)
    for log in world.logs.values():
        log.end += 3
    world.until(lambda: all(sp in US for sp, _, _ in world.missing()), turns=SOON)
    assert world.missing()


@pytest.mark.parametrize("lanes", ["auto", "source"])
@pytest.mark.parametrize("how", ["start", "lane"])
def test_nothing_else_waits_for_a_hub_topic(how: str, lanes: str) -> None:
    world = running(**{"stream.lanes": lanes})
    world.unshown = {HUB_TOPICS["us"]}
    if how == "start":
        world.restart()
    else:
        for tasks in world.lanes.values():
            tasks.active = False
    flows_but_for_us(world)
    reading = [name for name, lane in world.lanes.items() if set(EU) & lane.positions.keys()]
    for _ in range(SOON):
        world.turn()
    # It is said once, and what flows is not disturbed by each try.
    assert len(world.messages("recovery_waits")) == 1
    assert set(reading) <= world.lanes.keys()
    world.unshown = set()
    world.until(lambda: world.state.of(Stage.READING) == set(PARTITIONS), turns=SOON)
    world.until(lambda: not world.missing())
    world.unshown = {HUB_TOPICS["us"]}
    world.restart()
    flows_but_for_us(world)


def test_one_that_is_silent_at_a_clean_start_holds_up_no_other() -> None:
    world = running()
    world.paused = {"eu", "us"}
    world.until_all(Stage.OUT)
    world.paused, world.unshown = set(), {HUB_TOPICS["us"]}
    world.restart()
    flows_but_for_us(world)
    (doubt,) = world.messages("doubt")
    assert HUB_TOPICS["us"] in doubt and HUB_TOPICS["eu"] + "," not in doubt
    world.until_quiet()


def test_a_run_that_is_to_end_gives_them_up_some_time() -> None:
    world = running()
    world.until_done, world.unshown = True, {HUB_TOPICS["us"]}
    world.restart()
    world.until(lambda: world.state.begun and world.state.is_over, turns=800)
    assert world.state.of(Stage.DONE) == set(PARTITIONS)
    assert all(HUB_TOPICS["us"] in world.state.at(sp).why for sp in US)
    assert len(world.messages("recovery_waits")) == 2
