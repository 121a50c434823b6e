"""Partitions that run, and whose log is not the one, or not as long, as it was read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aggregator.model.values import ReaderState, SourcePartition
from aggregator.plan.health.suspects import PATIENCE_SECONDS, Seen
from aggregator.plan.lifecycle.inputs import LaneSeen
from aggregator.plan.lifecycle.reports import notice_logs
from aggregator.plan.lifecycle.step_context import StepContext
from support.flow_world import EU, EU0, EU1, US, US0, World, running


class Scene:
    """What is reported of all logs, and which of them a step suspects."""

    def __init__(self) -> None:
        self.world: World = running()
        self.inputs = self.world._inputs(turn=True)
        self.now = self.world.now + 1.0
        self.logged: list[str] = []

    def probe(self, alias: str, **changes: Any) -> None:
        seen = self.inputs.seen[alias]
        changed = replace(seen, **{"asked_at": self.now, **changes})
        self.inputs = replace(self.inputs, seen={**self.inputs.seen, alias: changed})

    def reads(self, states: dict[SourcePartition, str]) -> None:
        lane = replace(self.inputs.lanes["union"], states=states)
        self.inputs = replace(self.inputs, lanes={"union": lane})

    def act(self) -> set[SourcePartition]:
        """One turn later: what is suspect."""
        self.now += 0.25
        ctx = StepContext(self.world.state, self.inputs, self.now)
        notice_logs(ctx)
        self.world.state = ctx.state
        self.asked = any(type(it).__name__ == "RequestDiscovery" for it in ctx.commands)
        self.logged += [it.event.message for it in ctx.commands if hasattr(it, "event")]
        return {sp for sp, it in ctx.state.partitions.items() if it.suspect}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_log_that_does_not_hold_its_position_is_logged_once(scene: Scene) -> None:
    assert scene.act() == set()
    scene.reads({EU1: ReaderState.OUT_OF_RANGE, US0: ReaderState.REFUSED})
    assert (scene.act(), scene.asked) == ({EU1}, True)
    assert scene.act() == {EU1}
    assert len(scene.logged) == 1
    assert "its log does not hold" in scene.logged[0]


def test_a_topic_that_was_created_again_and_is_longer_is_suspect(scene: Scene) -> None:
    scene.probe("eu", topic_ids={"orders": "another"})
    assert scene.act() == set(EU)
    scene.probe("us", cluster_id="another")
    assert scene.act() == {*EU, *US}


def test_a_log_that_was_cut_is_suspect_when_it_was_asked_after_its_reader_stood(
    scene: Scene,
) -> None:
    world = scene.world
    for log in world.logs.values():
        log.end += 5
    world.until(lambda: not world.missing())
    scene.inputs, scene.now = world._inputs(turn=True), world.now
    short = {sp: 2 if sp == EU0 else 90 for sp in EU}
    asked_before = scene.now
    assert scene.act() == set()
    scene.probe("eu", ends=short, asked_at=asked_before - 10)
    assert scene.act() == set()
    scene.now += 1
    scene.probe("eu", ends=short)
    assert scene.act() == set()
    scene.now += PATIENCE_SECONDS
    scene.probe("eu", ends=short)
    assert scene.act() == {EU0}
    assert scene.world.state.at(EU0).cut == 2


def test_where_a_log_becomes_another_one_is_kept_as_its_reader_reports_it(scene: Scene) -> None:
    scene.reads({EU1: ReaderState.OUT_OF_RANGE})
    assert scene.act() == {EU1}
    assert scene.world.state.at(EU1).cut is None
    lane = replace(scene.inputs.lanes["union"], cuts={EU1: 7})
    scene.inputs = replace(scene.inputs, lanes={"union": lane})
    assert scene.act() == {EU1}
    assert scene.world.state.at(EU1).cut == 7
    assert len(scene.logged) == 1


def test_a_topic_that_is_gone_is_news_once(scene: Scene) -> None:
    scene.probe("us", topic_ids={})
    assert scene.act() == set()
    assert scene.asked
    scene.world.state = replace(scene.world.state, asked_at=None)
    assert scene.act() == set()
    assert not scene.asked


def test_a_lane_of_which_nothing_is_known_says_nothing(scene: Scene) -> None:
    scene.inputs = replace(scene.inputs, lanes={"union": LaneSeen(True)}, seen={"eu": Seen()})
    assert scene.act() == set()
