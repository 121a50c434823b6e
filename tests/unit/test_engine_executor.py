"""Commands are carried out in their order, and each has an outcome, whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.config import load_text
from aggregator.engine.executor import CommandExecutor
from aggregator.model.errors import (
    AggregatorError,
    CheckpointConflictError,
    CheckpointError,
    ClusterError,
)
from aggregator.model.events import Event
from aggregator.model.values import ClusterFacts, Lane, Positions, SourcePartition
from aggregator.plan.actions import Action, Applied, CreateTopic
from aggregator.plan.lanes.slots import SlotPlan
from aggregator.plan.lifecycle import commands as c
from aggregator.plan.lifecycle.commands import Command, Outcome
from aggregator.plan.lifecycle.inputs import Ready
from aggregator.plan.plan import Plan
from aggregator.plan.positions.start import Observed
from aggregator.plan.snapshot import ClusterSnapshot

SP = SourcePartition("eu", "t", 0)
RECORD = c.RecordGaps(())
MOVE, NEW = c.Move(Positions({SP: 1}), "gaps"), c.Move(Positions({SP: 1}), "new")
START = c.Start(Lane("eu", (SP,)), Positions({SP: 1}), ())
END = c.End("eu")
FINISH = c.Finish("eu", clean=True)


class World:
    """Edges that note what they are asked, and fail where a test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.stop = threading.Event()
        edge: Any = SimpleNamespace(
            **{name: self.note(name) for name in ("append", "moved", "end", "finish", "wake")},
            **{name: self.note(name) for name in ("plan_by", "update", "load")},
        )
        self.changes = SimpleNamespace(refused=list, make=self.make, all_now=False)
        hub: Any = SimpleNamespace(descriptions=self.note("descriptions"))
        changes: Any = self.changes
        unused: Any = None
        self.events: list[Event] = []
        self.executor = CommandExecutor(
            edge,
            unused,
            edge,
            edge,
            hub,
            changes,
            edge,
            edge,
            self.events.append,
            self.stop,
        )
        source = ("sources.eu.bootstrap_servers=b:1", "sources.eu.topics.include=t")
        self.config = load_text("", ["hub.bootstrap_servers=a:1", *source])

    def make(self, actions: Sequence[Action], *_: Any, **__: Any) -> Any:
        return [Applied(it, True, True) for it in actions], frozenset()

    def note(self, name: str) -> Any:
        def call(*_: Any, **__: Any) -> str:
            self.asked.append(name)
            if name in self.fails:
                raise self.fails[name]
            return ""

        return call

    def do(self, *commands: Command) -> list[Outcome]:
        return self.executor.carry_out(commands, self.config)


@pytest.fixture
def world() -> World:
    return World()


def test_each_command_has_an_outcome_in_its_order(world: World) -> None:
    emit = c.Emit(Event("kind", "words"))
    outcomes = world.do(RECORD, MOVE, END, FINISH, c.RequestDiscovery(), emit)
    assert [it.command for it in outcomes] == [
        RECORD,
        MOVE,
        END,
        FINISH,
        c.RequestDiscovery(),
        emit,
    ]
    assert world.asked == ["append", "moved", "end", "finish", "wake"]
    assert world.events == [emit.event]
    assert not any(it.error or it.dropped for it in outcomes)


def test_no_position_moves_for_a_gap_that_could_not_be_recorded(world: World) -> None:
    world.fails["append"] = CheckpointError("full")
    recorded, moved, new, ended = world.do(RECORD, MOVE, NEW, END)
    assert str(recorded.error) == "full"
    assert (moved.dropped, new.dropped, ended.dropped) == (True, False, False)
    # What is no gap is committed all the same.
    assert world.asked == ["append", "moved", "end"]


def test_nothing_starts_any_more_when_all_is_to_stop(world: World) -> None:
    world.stop.set()
    (started,) = world.do(START)
    assert (started.dropped, started.error) == (True, None)


def test_a_lane_that_does_not_stop_ends_the_run_when_the_rest_is_done(world: World) -> None:
    world.fails["finish"] = AggregatorError("lane eu does not stop")
    with pytest.raises(AggregatorError, match="does not stop"):
        world.do(FINISH, MOVE)
    assert world.asked == ["finish", "moved"]


def test_so_does_what_the_config_says_is_to_end_it(world: World) -> None:
    with pytest.raises(AggregatorError, match="abort"):
        world.do(c.Abort(AggregatorError("supervision.failure is abort")), END)
    assert world.asked == ["end"]


@pytest.mark.parametrize("ends", [False, True])
def test_what_flows_into_a_new_topic_waits_for_its_id_unless_the_run_is_to_end(
    world: World, *, ends: bool
) -> None:
    world.fails["descriptions"] = ClusterError("hub: no answer")
    world.changes.all_now = ends
    hub, slots = ClusterFacts("hub", "H", 1, {}), SlotPlan("local[4]", None, 4)
    plan = Plan(hub, {}, {}, (), {}, (CreateTopic("new", 1, None, {}),), (), slots)
    (prepared,) = world.do(c.Prepare(ClusterSnapshot(plan, Observed({}, {}, {}), {}, 0.0)))
    assert isinstance(prepared.result, Ready)
    assert prepared.result.plan.creating == (frozenset() if ends else {"new"})
    assert ("wake" in world.asked) == (not ends)
    (event,) = world.events
    assert event.message == "the ids of 1 topics just created are not known yet: hub: no answer"


def test_after_another_writer_nothing_is_done_any_more(world: World) -> None:
    world.fails["moved"] = CheckpointConflictError("another one writes")
    with pytest.raises(CheckpointConflictError):
        world.do(MOVE, END)
    assert world.asked == ["moved"]


def test_nothing_starts_before_the_gaps_of_before_are_known(world: World) -> None:
    hub, slots = ClusterFacts("hub", "H", 1, {}), SlotPlan("local[4]", None, 4)
    plan = Plan(hub, {}, {}, (), {}, (), (), slots)
    prepare = c.Prepare(ClusterSnapshot(plan, Observed({}, {}, {}), {}, 0.0))
    damaged = CheckpointError("damaged")
    world.fails["load"] = damaged
    (first,) = world.do(prepare)
    assert first.error is damaged
    world.fails.clear()
    world.do(prepare)
    world.fails["load"] = damaged
    (later,) = world.do(prepare)
    assert isinstance(later.result, Ready)
    assert later.result.gaps.error == "damaged"
