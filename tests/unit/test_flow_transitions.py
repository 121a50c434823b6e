"""Every transition of a source partition from one stage to another, each by its name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from aggregator.model.values import Part
from aggregator.plan.lifecycle import commands as c
from aggregator.plan.lifecycle.judge import BACKFILLED
from aggregator.plan.lifecycle.stage import TRANSITIONS, Stage, Trigger
from aggregator.plan.lifecycle.step_context import StepContext
from aggregator.plan.positions.gaps import GapRecord, gap_id
from aggregator.plan.positions.start import Gap, GapKind
from support.flow_world import DAY, EU, EU0, EU1, PARTITIONS, US, World, running

Triggers = list[Trigger]


@pytest.fixture
def triggers(monkeypatch: pytest.MonkeyPatch) -> Triggers:
    """The transitions of EU0 from now on, without judgements that change nothing."""
    taken: Triggers = []
    transition = StepContext.transition

    def recorded(
        self: StepContext, trigger: Trigger, sp: Any, stage: Stage, **changes: Any
    ) -> None:
        if sp == EU0 and (trigger is not Trigger.JUDGED or self.at(sp).stage is not stage):
            taken.append(trigger)
        transition(self, trigger, sp, stage, **changes)

    monkeypatch.setattr(StepContext, "transition", recorded)
    return taken


def test_every_trigger_has_a_test_by_its_name() -> None:
    tests = " ".join(name for name in vars(sys.modules[__name__]) if name.startswith("test_"))
    missing = [trigger for trigger in Trigger if re.sub(r"\W", "_", trigger) not in tests]
    assert not missing
    assert TRANSITIONS.keys() == set(Trigger)


def test_every_stage_can_be_left_and_reached_but_the_last() -> None:
    before = {stage for it in TRANSITIONS.values() for stage in it.before}
    after = {stage for it in TRANSITIONS.values() for stage in it.after}
    assert before == {*Stage} - {Stage.DONE}
    assert after == {*Stage}


def test_a_transition_that_there_is_not_is_refused() -> None:
    world = running()
    ctx = StepContext(world.state, world._inputs(turn=True), world.now)
    with pytest.raises(AssertionError, match="reading: not recovered"):
        ctx.transition(Trigger.RECOVERED, EU0, Stage.HELD)
    with pytest.raises(AssertionError, match="cannot be done"):
        ctx.transition(Trigger.TAKEN_OUT, EU0, Stage.DONE)


def test_judged_and_started(triggers: Triggers) -> None:
    running()
    assert triggers == [Trigger.JUDGED, Trigger.STARTED]


def test_taken_out_and_given_up_when_its_source_is_paused(triggers: Triggers) -> None:
    world = running()
    triggers.clear()
    world.paused = {"eu"}
    world.until_all(Stage.OUT, *EU)
    assert triggers == [Trigger.TAKEN_OUT, Trigger.KEPT, Trigger.JUDGED]
    assert world.state.at(EU0).why == "paused; aggregator resume eu"
    assert world.state.of(Stage.READING) == set(US)
    world.paused = set()
    world.until_all(Stage.READING)
    assert triggers[3:] == [Trigger.JUDGED, Trigger.STARTED]


def test_a_stuck_partition_is_recovered_and_read_beside_its_lane_which_never_ends(
    triggers: Triggers,
) -> None:
    world = running()
    triggers.clear()
    tasks = world.lanes["union"]
    world.logs[EU0].end += 3
    world.stick(tasks, EU0)
    committed = world.entries[EU0]
    world.until_all(Stage.RESTING, EU0)
    assert world.state.at(EU0).why == "stuck"
    # What the hub holds beyond its position is not known: its last commit and bound count.
    assert world.entries[EU0] == committed
    assert not committed.snapshot.clean
    assert world.messages("partitions_stuck") == [
        f"lane union continues without {EU0}, next try in 2 s: stuck"
    ]
    world.until_all(Stage.READING)
    assert triggers == [
        *(Trigger.TAKEN_OUT, Trigger.STOPPED, Trigger.DUE, Trigger.JUDGED, Trigger.RECOVERED_FROM),
        *(Trigger.RECOVERED, Trigger.JUDGED, Trigger.STARTED),
    ]
    assert world.lanes["union"] is tasks
    assert world.state.at(EU0).lane == "eu"
    # Another one that sticks joins it there.
    world.stick(tasks, EU1)
    world.until_all(Stage.RESTING, EU1)
    world.until_all(Stage.READING)
    assert (world.lanes["union"], world.state.at(EU1).lane) == (tasks, "eu")


def test_what_a_backfill_may_still_write_is_recovered_when_that_has_ended(
    triggers: Triggers,
) -> None:
    """Or the recovery misses what is written behind its look, and it comes twice."""
    world = running()
    triggers.clear()
    world.backfilled = {EU0: 1}
    world.stick(world.lanes["union"], EU0)
    world.until(lambda: world.state.at(EU0).why == BACKFILLED)
    for _ in range(20):
        world.turn()
    assert (world.state.at(EU0).stage, world.state.at(EU0).why) == (Stage.HELD, BACKFILLED)
    assert Trigger.RECOVERED_FROM not in triggers
    assert world.state.at(EU1).stage is Stage.READING
    world.backfilled = {}
    world.until_all(Stage.READING)
    assert triggers[-3:] == [Trigger.RECOVERED, Trigger.JUDGED, Trigger.STARTED]


@pytest.mark.parametrize(("behind", "stage"), [(0, Stage.READING), (1, Stage.HELD)])
def test_only_before_the_end_of_a_backfill_does_a_partition_wait_for_it(
    behind: int, stage: Stage
) -> None:
    world = running()
    world.logs[EU0].end += 3
    world.paused = {"eu"}
    world.until_all(Stage.OUT, *EU)
    world.backfilled = {EU0: world.entries[EU0].position + behind}
    world.paused = set()
    world.until_all(Stage.READING, EU1)
    assert world.state.at(EU0).stage is stage
    world.backfilled = {}
    world.until_all(Stage.READING)


def test_a_run_with_an_end_is_not_over_while_a_backfill_writes() -> None:
    world = World(Random(3), until_done=True)
    world.calm = True
    world.until(lambda: world.state.begun)
    world.backfilled = {EU0: 1}
    world.until_all(Stage.DONE)
    assert not world.state.is_over
    world.backfilled = {}
    world.until(lambda: world.state.is_over)


def test_a_lane_that_ends_for_a_hub_partition_starts_without_what_that_refuses(
    triggers: Triggers,
) -> None:
    """On executors, and with dedup, no task may give a partition up while it runs."""
    world = running()
    world.ends_whole = True
    triggers.clear()
    world.stick(world.lanes["union"], EU0)
    world.until_all(Stage.READING)
    assert triggers == [
        *(Trigger.FAILED, Trigger.GONE, Trigger.DUE, Trigger.JUDGED, Trigger.RECOVERED_FROM),
        *(Trigger.RECOVERED, Trigger.JUDGED, Trigger.STARTED),
    ]
    why = "hub partition orders-0 has not taken the same records for 120 s, though the hub answers"
    kind = "aggregator.connector.HubWriter$Stuck"
    assert world.messages("lane_failed") == [f"lane union failed, next try in 2 s: {kind}: {why}"]
    assert world.messages("partitions_stuck") == [
        f"lane union continues without {EU0}, which gets a lane beside it: {kind}: {why}"
    ]
    assert set(world.lanes["union"].positions) == {EU1, *US}
    assert set(world.lanes["eu"].positions) == {EU0}
    # As often as it is refused again, no other partition notices.
    union = world.lanes["union"]
    for _ in range(3):
        world.stick(world.lanes["eu"], EU0)
        world.until_all(Stage.LOST, EU0)
        world.until_all(Stage.READING)
    assert world.lanes["union"] is union
    # Another one joins it there, and what is left continues.
    world.stick(union, EU1)
    world.until_all(Stage.LOST, EU1)
    world.until_all(Stage.READING)
    assert {name: set(it.positions) for name, it in world.lanes.items()} == {
        "us": set(US),
        "eu": {EU0, EU1},
    }


def test_a_partition_is_taken_out_by_itself_and_its_lane_continues(triggers: Triggers) -> None:
    world = running()
    triggers.clear()
    world.parts = {Part("eu", "orders", 0)}
    world.until_all(Stage.OUT, EU0)
    assert triggers == [Trigger.TAKEN_OUT, Trigger.KEPT, Trigger.JUDGED]
    assert world.state.at(EU0).why == "it is paused"
    assert world.state.of(Stage.READING) == {EU1, *US}
    assert world.lanes.keys() == {"union"}
    world.parts = set()
    world.until_all(Stage.READING)
    assert triggers[3:] == [Trigger.JUDGED, Trigger.STARTED]
    # Beside the union, which kept running.
    assert world.generation == 2


def test_a_topic_is_taken_out_with_all_its_partitions(triggers: Triggers) -> None:
    world = running()
    world.parts = {Part("eu", "orders")}
    world.until_all(Stage.OUT, *EU)
    assert world.state.of(Stage.READING) == set(US)
    world.parts = set()
    world.until_all(Stage.READING)
    assert Trigger.FAILED not in triggers


def test_lane_failed_tasks_gone_due_recovery_begins_recovered(triggers: Triggers) -> None:
    world = running()
    triggers.clear()
    world.lanes["union"].active = False
    world.until_all(Stage.LOST)
    assert world.messages("lane_failed") == ["lane union failed, next try in 2 s: it broke"]
    world.until_all(Stage.READING)
    assert triggers == [
        *(Trigger.FAILED, Trigger.GONE, Trigger.DUE, Trigger.JUDGED, Trigger.RECOVERED_FROM),
        *(Trigger.RECOVERED, Trigger.JUDGED, Trigger.STARTED),
    ]
    # Alone, only the culprit fails again.
    assert set(world.lanes) == {"eu", "us"}


def test_recovery_failed_of_a_source_that_does_not_answer_and_the_others_continue(
    triggers: Triggers, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = running()
    triggers.clear()
    world.lanes["union"].active = False
    recovered: Callable[[c.Recover], c.Outcome] = world._recovered
    silent = [dict.fromkeys(EU, "no answer")]

    def without(command: c.Recover) -> c.Outcome:
        own = silent.pop() if silent and command.partitions >= set(EU) else {}
        done = recovered(replace(command, partitions=command.partitions - own.keys()))
        assert isinstance(done.result, c.Recovered)
        return c.Outcome(command, replace(done.result, silent=own))

    monkeypatch.setattr(world, "_recovered", without)
    world.until_all(Stage.READING, *US)
    assert not silent
    assert world.state.of(Stage.READING) == set(US)
    (words,) = world.messages("recovery_failed")
    assert words.startswith("eu: 2 partitions: ")
    world.until_all(Stage.READING)
    assert triggers.count(Trigger.NOT_RECOVERED) == 1
    assert triggers[-3:] == [Trigger.RECOVERED, Trigger.JUDGED, Trigger.STARTED]


def test_recovered_but_what_the_hub_holds_is_of_another_log(
    triggers: Triggers, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = running(**{"sources.eu.on_gap": "stop"})
    triggers.clear()
    world.lanes["union"].active = False
    recovered: Callable[[c.Recover], c.Outcome] = world._recovered
    records: list[GapRecord] = []

    def foreign(command: c.Recover) -> c.Outcome:
        if records or EU0 not in command.partitions:
            return recovered(command)
        done = recovered(replace(command, partitions=command.partitions - {EU0}))
        assert isinstance(done.result, c.Recovered)
        at = world.entries[EU0].position
        # What is there belongs to someone else.
        world.hub = [it for it in world.hub if it[0] != EU0 or it[2] < at]
        gap = Gap(EU0, GapKind.FOREIGN_ORIGIN, at, at + 3, "not its own", at)
        records.append(GapRecord(gap_id(gap), gap, DAY, 1))
        world.table[records[0].id] = records[0]
        return c.Outcome(command, replace(done.result, records=tuple(records)))

    monkeypatch.setattr(world, "_recovered", foreign)
    world.until_all(Stage.QUARANTINED, EU0)
    world.until_all(Stage.READING, EU1, *US)
    assert world.state.at(EU0).why == "not its own"
    (words,) = world.messages("gap")
    at = records[0].gap.position
    assert f"continues at {at}, and what the hub holds of it comes again" in words
    for _ in range(20):
        world.turn()
    assert world.state.at(EU0).stage is Stage.QUARANTINED
    world.table[records[0].id] = records[0].accepted(DAY)
    world.until_all(Stage.READING)
    assert world.table[records[0].id].resolved
    assert triggers.count(Trigger.RECOVERED_FROM) == 1


def test_recovery_failed(triggers: Triggers, monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    triggers.clear()
    world.lanes["union"].active = False
    recovered: Callable[[c.Recover], c.Outcome] = world._recovered
    failures = ["the hub is away"]

    def fail_once(command: c.Recover) -> c.Outcome:
        if failures:
            return c.Outcome(command, error=RuntimeError(failures.pop()))
        return recovered(command)

    monkeypatch.setattr(world, "_recovered", fail_once)
    world.until_all(Stage.READING)
    assert triggers[4:8] == [
        Trigger.RECOVERED_FROM,
        Trigger.NOT_RECOVERED,
        Trigger.DUE,
        Trigger.JUDGED,
    ]
    assert world.messages("recovery_failed") == ["the hub is away"]


def test_start_put_off_when_all_is_to_stop(triggers: Triggers) -> None:
    world = World(Random(7))
    world.calm = world.stopping = True
    world.until(lambda: Trigger.NOT_STARTED in triggers)
    assert triggers[:3] == [Trigger.JUDGED, Trigger.STARTED, Trigger.NOT_STARTED]
    assert world.state.lanes == {}


def test_stopped_at_a_record_that_cannot_be_written(triggers: Triggers) -> None:
    world = running()
    triggers.clear()
    world.poisoned = {EU0}
    world.until_all(Stage.RESTING, EU0)
    assert triggers == [Trigger.TAKEN_OUT, Trigger.STOPPED]
    assert world.messages("partition_stopped") == [f"{EU0} is stopped, next try in 2 s: poisoned"]
    assert world.state.of(Stage.READING) == {EU1, *US}
    world.poisoned = set()
    world.until_all(Stage.READING)
    assert triggers[2:] == [Trigger.DUE, Trigger.JUDGED, Trigger.STARTED]


def test_what_cannot_be_read_is_stopped_alone_and_quarantined_until_it_can(
    triggers: Triggers,
) -> None:
    world = running(**{"sources.eu.on_gap": "stop"})
    for log in world.logs.values():
        log.end += 9
    world.damaged = {EU0: 2}
    triggers.clear()
    world.until_all(Stage.QUARANTINED, EU0)
    assert triggers[:3] == [Trigger.TAKEN_OUT, Trigger.STOPPED, Trigger.DUE]
    assert "cannot be read: bad sum" in world.state.at(EU0).why
    assert world.state.of(Stage.READING) == {EU1, *US}
    assert world.state.damaged == {EU0}
    world.damaged = {}
    world.until_all(Stage.READING)
    assert world.state.damaged == set()
    (gap,) = [it for it in world.state.gaps.values() if it.gap.partition == EU0]
    assert (gap.resolved, gap.note) == (True, "it can be read again")


def test_a_run_that_is_to_end_says_of_what_cannot_be_read_that_it_is_a_gap() -> None:
    world = World(Random(7), until_done=True, **{"sources.eu.on_gap": "stop"})
    world.calm = True
    world.until(lambda: world.state.begun)
    for log in world.logs.values():
        log.end += 9
    world.damaged = {EU0: 2}
    world.until(lambda: world.state.is_over)
    assert world.state.at(EU0).stage is Stage.QUARANTINED


def test_finished_when_it_was_copied_up_to_its_end(triggers: Triggers) -> None:
    world = World(Random(7), until_done=True)
    world.calm = True
    ends = {sp: log.end for sp, log in world.logs.items()}
    world.until(lambda: world.state.begun)
    for log in world.logs.values():
        log.end += 5
    world.until_all(Stage.DONE)
    assert triggers[-2:] == [Trigger.TAKEN_OUT, Trigger.FINISHED]
    assert {sp: it.position for sp, it in world.entries.items()} == ends
    assert world.state.is_over


def test_in_a_run_that_is_to_end_a_lane_is_tried_three_times() -> None:
    world = World(Random(7), until_done=True, **{"stream.lanes": "source"})
    world.calm = True
    tries = 0
    while tries < 3:
        world.until(lambda: "eu" in world.lanes)
        tries += 1
        world.lanes["eu"].active = False
        world.until(lambda: "eu" not in world.lanes)
    world.until(lambda: world.state.is_over)
    assert {world.state.at(sp).why for sp in EU} == {"it broke"}
    assert world.state.over["eu"].reason == "it broke"


def test_a_stopped_partition_of_a_run_that_is_to_end_is_not_tried_again() -> None:
    world = World(Random(7), until_done=True)
    world.calm = True
    world.poisoned = {EU0}
    world.until(lambda: world.state.begun and world.state.is_over)
    assert world.state.at(EU0).why == "poisoned"
    assert world.state.of(Stage.DONE) == set(PARTITIONS)
