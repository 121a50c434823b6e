"""Which lanes end, hold and start, and from where: by the one step, in a world of plain values."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from aggregator.model.values import Part, Skip
from aggregator.plan.lifecycle import commands as c
from aggregator.plan.lifecycle import lane_changes
from aggregator.plan.lifecycle.failures import TRIES_ALLOWED
from aggregator.plan.lifecycle.judge import CREATING, Judgement, judge
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.step import step
from aggregator.plan.lifecycle.step_context import StepContext
from aggregator.plan.plan import Plan
from aggregator.plan.snapshot import ClusterSnapshot
from aggregator.plan.topics.refused_records import NO_ANSWER
from aggregator.store.checkpoint.start_state import CheckpointState
from support.flow_world import EU, EU0, EU1, PARTITIONS, ROUTES, US, World, config_of, running


def given(world: World, kind: type[Any]) -> list[Any]:
    """The commands of one kind since the last call."""
    found = [it for it in world.given if isinstance(it, kind)]
    world.given = [it for it in world.given if not isinstance(it, kind)]
    return found


def test_all_sources_share_a_lane_and_what_comes_back_gets_one_beside_it() -> None:
    world = running()
    assert set(world.lanes) == {"union"}
    world.paused = {"eu"}
    world.until_all(Stage.OUT, *EU)
    assert world.state.lanes["union"].lane.partitions == US
    world.paused = set()
    world.until_all(Stage.READING)
    assert {name: life.lane.partitions for name, life in world.state.lanes.items()} == {
        "union": US,
        "eu": EU,
    }
    # The union read on all the while.
    assert [it.lane.name for it in given(world, c.Start)] == ["union", "eu"]


def test_what_comes_back_while_it_is_given_up_waits_for_that() -> None:
    world = running()
    world.busy = {EU0}
    world.paused = {"eu"}
    world.until_all(Stage.LEAVING, *EU)
    world.paused = set()
    world.turn()
    world.turn()
    assert set(world.lanes) == {"union"}
    world.busy = set()
    world.until_all(Stage.READING)
    assert world.state.at(EU0).lane == "eu"


def after_another_look(world: World) -> None:
    began = world.now
    world.until(lambda: world.state.snapshot is not None and world.state.snapshot.began > began)
    world.until_quiet()


def test_a_lane_restarts_for_a_route_that_is_another_one_and_not_for_equal_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = running()
    given(world, c.Start)
    # Nor for one that has another partition.
    for partitions in (ROUTES["eu"].partitions, ROUTES["eu"].partitions + 1):
        monkeypatch.setitem(ROUTES, "eu", replace(ROUTES["eu"], partitions=partitions))
        after_another_look(world)
    assert {it.lane.name for it in given(world, c.Start)} <= {"eu"}
    lives = {name: life.generation for name, life in world.state.lanes.items()}
    monkeypatch.setitem(ROUTES, "us", replace(ROUTES["us"], partition_by="round_robin"))
    world.until(lambda: "union" in {it.lane.name for it in given(world, c.Start)})
    assert world.state.lanes["union"].generation != lives["union"]


def test_sources_have_lanes_of_their_own_where_the_config_says_so() -> None:
    world = running(**{"stream.lanes": "source"})
    assert set(world.lanes) == {"eu", "us"}


def test_a_lane_is_late_when_its_tasks_do_not_end_in_time() -> None:
    world = running(**{"stream.lanes": "source", "supervision.stop_timeout": "5s"})
    world.busy = {EU0}
    world.paused = {"eu"}
    world.until(lambda: "eu" not in world.lanes)
    (finish,) = given(world, c.Finish)
    assert finish == c.Finish("eu", clean=False)
    assert world.messages("lane_failed") == ["lane eu failed, next try in 2 s: it broke"]


def test_what_is_given_up_and_cannot_be_committed_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = running()
    world.paused = {"eu"}
    fails = [True, True]
    monkeypatch.setattr(
        world, "_fails", lambda what, _: "full" if what == "the checkpoint" and fails.pop() else ""
    )
    fails.insert(0, False)
    world.until_all(Stage.OUT, *EU)
    assert len(given(world, c.Release)) == 3
    assert world.messages("checkpoint_error") == ["full", "full"]


def test_a_lane_starts_without_what_a_recovery_has_found_and_once() -> None:
    world = running()
    world.logs[EU0].end += 6
    world.calm = False
    tasks = world.lanes["union"]
    at = tasks.positions[EU0]
    world.deliver((EU0, tasks.ids[EU0], at + 1), tasks, wild=False)
    tasks.positions.pop(EU0)
    tasks.active, world.calm = False, True
    given(world, c.Start)
    world.until_all(Stage.READING)
    (start,) = [it for it in given(world, c.Start) if EU0 in it.lane.partitions]
    assert start.positions[EU0] == at
    assert start.holes[EU0].skip == Skip([(at + 1, at + 2)])
    assert world.state.at(EU0).hole is None
    world.until(lambda: not world.missing())


def test_before_the_first_lanes_what_is_clean_is_doubted_when_the_hub_is_further() -> None:
    world = running()
    world.paused = {"eu", "us"}
    world.until_all(Stage.OUT)
    world.paused = set()
    # Somebody has restored an older checkpoint.
    older = [
        world._row(sp, 0, entry.topic_id, entry.snapshot.topic_ids, clean=True, hub=0)
        for sp, entry in world.entries.items()
    ]
    world.checkpoint = CheckpointState().apply(*older)
    world.restart()
    world.until_all(Stage.READING)
    assert world.messages("doubt")
    world.until(lambda: not world.missing())


def test_a_fresh_start_doubts_nothing() -> None:
    world = World(Random(7))
    world.calm = True
    world.state = type(world.state)(world.config, fresh=True)
    world.until_all(Stage.READING)
    assert given(world, c.AskHub) == []


def test_a_partition_that_is_paused_before_it_is_read_misses_nothing_of_the_pause() -> None:
    settings: dict[str, Any] = {"sources.eu.start": "latest"}
    world = World(Random(7), **settings)
    world.calm, world.parts = True, {Part("eu", "orders", 0)}
    world.logs[EU0].end = 9
    world.until_all(Stage.READING, EU1, *US)
    world.turn()
    assert world.entries[EU0].position == 9
    world.logs[EU0].end = 12
    world.restart()
    world.until_all(Stage.READING, EU1, *US)
    world.parts = set()
    world.until_all(Stage.READING)
    (start,) = [it for it in given(world, c.Start) if EU0 in it.lane.partitions]
    assert start.positions[EU0] == 9


def test_an_open_gap_is_reported_once_and_the_others_run() -> None:
    world = World(Random(7))
    world.calm = True
    world.config = config_of(**{"sources.eu.on_gap": "stop"})
    world.restart()
    world.until_all(Stage.READING)
    world.logs[EU0].end += 10
    world.lanes["union"].positions[EU0], world.logs[EU0].earliest = 0, 5
    world.hub = [it for it in world.hub if it[0] != EU0]
    world.until_all(Stage.QUARANTINED, EU0)
    for _ in range(40):
        world.turn()
    (message,) = world.messages("gap")
    assert f"{EU0}: BELOW_EARLIEST [0, 5)" in message
    assert world.state.of(Stage.READING) == {EU1, *US}
    world.accept()
    world.asked = True
    world.until_all(Stage.READING)
    assert world.entries[EU0].position >= 5
    assert "accept: continues at 5" in world.messages("gap")[1]


def test_nothing_moves_that_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    fails = {"the table of gaps"}
    monkeypatch.setattr(world, "_fails", lambda what, _: "full" if what in fails else "")
    world.logs[EU0].end += 10
    world.lanes["union"].positions[EU0], world.logs[EU0].earliest = 0, 5
    world.hub = [it for it in world.hub if it[0] != EU0]
    world.until(lambda: world.messages("gap_failed"))
    world.until_all(Stage.HELD, EU0)
    snapshots = []
    for _ in range(3):
        snapshots.append(world.state.snapshot)
        world.asked = True
        world.until(lambda: world.state.snapshot is not snapshots[-1])
    world.until_all(Stage.HELD, EU0)
    assert world.entries[EU0].position == 0
    # Once, however often it is tried.
    assert len(world.messages("gap_failed")) == 1
    fails.clear()
    world.asked = True
    world.until_all(Stage.READING)


def test_what_waits_for_a_decision_waits_on_while_the_gaps_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its log was cut while it was read, and has grown since: only the record shows the gap."""
    world = running(**{"sources.eu.on_gap": "stop"})
    fails: set[str] = set()
    monkeypatch.setattr(world, "_fails", lambda what, _: "away" if what in fails else "")
    world.logs[EU0].end += 10
    world.until(lambda: not world.missing())
    world.logs[EU0].end -= 5
    world.until_all(Stage.QUARANTINED, EU0)
    position = world.entries[EU0].position
    world.logs[EU0].end += 20
    world.restart()
    world.until_all(Stage.READING, EU1, *US)
    world.until_all(Stage.QUARANTINED, EU0)
    fails.add("the table of gaps")
    world.asked = True
    world.until(lambda: world.messages("gap_failed"))
    for _ in range(8):
        world.turn()
    assert world.state.at(EU0).stage is Stage.HELD
    assert "that cannot be recorded: away" in world.state.at(EU0).why
    fails.clear()
    world.asked = True
    world.until_all(Stage.QUARANTINED, EU0)
    assert world.entries[EU0].position == position
    (gap,) = [it for it in world.state.gaps.values() if it.gap.partition == EU0]
    assert (gap.resolved, gap.gap.start, gap.gap.position) == (False, position - 5, position)


def test_a_log_that_is_another_one_is_taken_out_and_looked_at_again() -> None:
    world = running()
    world.create_again("us")
    world.until(lambda: world.messages("partition_suspect"))
    assert len(world.messages("partition_suspect")) == 2
    world.until_all(Stage.READING)
    assert {world.entries[sp].topic_id for sp in US} == {"us-2"}
    world.until(lambda: not world.missing())


def test_offsets_that_could_not_be_read_are_asked_for_again_at_once_a_few_times() -> None:
    world = World(Random(7))
    world.calm, world.leaderless = True, set(US)
    world.until_all(Stage.READING, *EU)
    for _ in range(40):
        world.turn()
    assert {world.state.at(sp).stage for sp in US} == {Stage.HELD}
    assert "could not be read" in world.state.at(US[0]).why
    assert len(given(world, c.RequestDiscovery)) == 2
    world.leaderless = set()
    world.asked = True
    world.until_all(Stage.READING)


def test_what_ends_ends_where_the_first_snapshot_saw_its_log_end() -> None:
    world = World(Random(7), until_done=True, **{"stream.lanes": "source"})
    world.calm = True
    ends = {sp: log.end for sp, log in world.logs.items()}
    world.until(lambda: world.state.begun)
    for log in world.logs.values():
        log.end += 5
    world.lanes["eu"].active = False
    world.until(lambda: "eu" not in world.lanes)
    world.until(lambda: "eu" in world.lanes)
    assert [it.until for it in given(world, c.Start)][-1] == {sp: ends[sp] for sp in EU}


def test_a_hub_that_refuses_a_record_separates_no_source_and_each_record_is_then_checked() -> None:
    world = running()
    world.refused = "org.apache.kafka.common.errors.RecordTooLargeException: too large"
    world.lanes["union"].active = False
    world.until_all(Stage.LOST)
    assert world.state.refused == {("eu", "orders"), ("us", "orders")}
    assert world.state.alone == frozenset()
    assert "from now on each one is checked" in world.messages("records_checked")[0]
    world.until_all(Stage.READING)
    assert set(world.lanes) == {"union"}


def test_a_lost_answer_of_the_hub_separates_no_source_and_is_tried_again_soon() -> None:
    world = running(until_done=True)
    for turn in range(TRIES_ALLOWED + 1):
        world.refused = f"{NO_ANSWER}: NetworkException: Disconnected from node 1"
        world.lanes["union"].active = False
        world.until_all(Stage.LOST)
        world.refused = ""
        assert world.state.alone == frozenset()
        assert f"next try in {min(2 << turn, 4)} s" in world.messages("lane_failed")[-1]
        world.until_all(Stage.READING)
    assert set(world.lanes) == {"union"}


def test_a_failure_ends_the_run_where_the_config_says_so() -> None:
    world = running(**{"supervision.failure": "abort"})
    world.lanes["union"].active = False
    world.turn()
    (abort,) = given(world, c.Abort)
    assert str(abort.error) == ("lane union failed, and supervision.failure is abort: it broke")


def test_sources_behind_catch_up_at_their_limit_until_they_are_near() -> None:
    world = running(**{"sources.eu.catch_up_records_per_second": "100"})
    given(world, c.SetPace)
    world.lags = {"eu": 50_000, "us": 0}
    world.turn()
    (slow,) = given(world, c.SetPace)
    assert slow.pace.limits["eu"].records == 100
    world.lags = {"eu": 600, "us": 0}
    world.turn()
    assert given(world, c.SetPace) == []
    world.lags = {"eu": 400, "us": 0}
    world.turn()
    (full,) = given(world, c.SetPace)
    assert full.pace.limits == {}
    assert world.messages("source_pace") == [
        "source eu is 50,000 records behind: it catches up at 100 a second",
        "source eu has caught up",
    ]


def test_after_another_config_nothing_is_decided_by_a_snapshot_of_the_old_one() -> None:
    world = running()
    both = world.config
    # Its lanes are to end before the config is in force without it.
    world.leaving = frozenset({"us"})
    world.until(lambda: world.state.in_lanes == set(EU))
    only_eu = both.model_copy(update={"sources": {"eu": both.sources["eu"]}})
    world.leaving, world.config, world.only = frozenset(), only_eu, {"eu"}
    given(world, c.Start)
    for _ in range(40):
        world.asked = True
        world.turn()
    assert world.state.in_lanes == set(EU)
    assert given(world, c.Start) == []
    world.config, world.only, world.asked = both, {"eu", "us"}, True
    world.until_all(Stage.READING)


def test_with_another_config_a_snapshot_is_asked_for_whatever_was_awaited_before() -> None:
    """One by the old config may be there already, and is not handed over."""
    world = running()
    state = replace(world.state, asked_at=world.now - 1.0)
    inputs = replace(world._inputs(turn=False), config=config_of())
    state, commands = step(state, inputs, world.now)
    assert c.RequestDiscovery() in commands
    assert state.asked_at == world.now


def test_a_snapshot_that_is_awaited_and_comes_to_nothing_is_asked_for_again() -> None:
    world = running()
    world.lanes["union"].active = False
    world.until(lambda: world.state.asked_at is not None)
    given(world, c.RequestDiscovery)
    asked_at, inputs = (
        world.state.asked_at,
        replace(world._inputs(turn=False), discovery_failed=True),
    )
    state, commands = step(world.state, inputs, world.now + 1.0)
    assert commands == (c.RequestDiscovery(),)
    assert state.asked_at == world.now + 1.0 != asked_at
    # Who awaits none asks for none.
    assert step(replace(state, asked_at=None), inputs, world.now)[1] == ()


def test_what_waits_for_its_hub_topic_is_found_once_for_all_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes a look at all of them: of ten thousand, each of them a look, minutes went by."""
    found, judged = list[int](), list[int]()
    waiting: Any = vars(Plan)["waiting"]

    def found_of(plan: Plan) -> Any:
        found.append(1)
        return waiting.fget(plan)

    def counted(ctx: StepContext, snapshot: ClusterSnapshot) -> Judgement:
        judged.append(1)
        return judge(ctx, snapshot)

    monkeypatch.setattr(Plan, "waiting", property(found_of))
    monkeypatch.setattr(lane_changes, "judge", counted)
    world = World(Random(7))
    world.calm, world.creating = True, {"orders", "orders.us"}
    world.until(lambda: all(world.state.at(sp).why == CREATING for sp in PARTITIONS))
    # By the judgement, and for what begins now.
    assert 0 < len(found) <= 2 * len(judged)


def test_what_waits_for_its_hub_topic_begins_where_it_was_when_that_was_planned() -> None:
    """Others flow; and what comes after the start belongs to `latest`, however long it takes."""
    settings: dict[str, Any] = {"sources.eu.start": "latest"}
    world = World(Random(7), **settings)
    world.calm, world.creating = True, {"orders"}
    world.until(lambda: EU0 in world.entries)
    world.until(lambda: {world.state.at(sp).stage for sp in US} == {Stage.READING})
    found = [world.state.at(sp) for sp in EU]
    assert {(it.stage, it.why) for it in found} == {(Stage.HELD, CREATING)}
    at = world.entries[EU0].position
    world.logs[EU0].end += 5
    world.creating = set()
    world.until_all(Stage.READING)
    (start,) = [it for it in given(world, c.Start) if EU0 in it.lane.partitions]
    assert start.positions[EU0] == at
    world.until(lambda: not world.missing())
