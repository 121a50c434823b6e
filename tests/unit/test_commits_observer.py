"""What the observer committer, on a real Delta table, of queries that report what the test says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from aggregator.config.in_force import InForce
from aggregator.datapath.connector.reports import Counted, LaneReport, TaskReport
from aggregator.datapath.hub_ledger import Ends
from aggregator.datapath.spark.lane import LaneQuery
from aggregator.engine.commits import committer, observer
from aggregator.engine.commits.observer import Observer
from aggregator.model.errors import CheckpointConflictError, CheckpointError, ClusterError
from aggregator.model.events import Event
from aggregator.model.patched import Patched
from aggregator.model.values import Lane, Positions, SourcePartition, TopicPartition
from aggregator.plan.health.suspects import Seen
from aggregator.plan.positions.hub_losses import cuts_in
from aggregator.store.checkpoint import checkpoint_table
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.history import history
from aggregator.store.checkpoint.identity import Identity
from aggregator.store.checkpoint.rows import Checkpoint
from aggregator.store.checkpoint.start_state import CheckpointState
from aggregator.store.delta import table_uri
from support.flow_world import config_of
from support.hub_ends import hub_ends_for
from support.reading import wait_for
from support.reports import lane_report, task
from support.sizes import largest

EU0, EU1, EU2 = (SourcePartition("eu", "orders", number) for number in range(3))
US0, US1 = (SourcePartition("us", "orders", number) for number in range(2))
HUB0 = TopicPartition("orders", 0)
INTERVAL = 10.0
NO_CUTS: Mapping[int, int] = MappingProxyType({})


class Query(LaneQuery):
    """A lane's query that reports what the test puts in; it needs no Spark."""

    def __init__(self, name: str, positions: Positions, generation: int = 1) -> None:
        self.lane = Lane(name, tuple(positions))
        self.generation = generation
        self.now = LaneReport((), whole=False)

    @property
    def report(self) -> LaneReport:
        return self.now

    def reports(self, *tasks: TaskReport, expected: int | None = None) -> None:
        self.now = lane_report(*tasks, expected=expected)


class Hub:
    """A hub whose end is what the test says; None = it does not answer, -1 = not for this one."""

    end: int | None = 0

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def read(self, topics: Mapping[str, int]) -> Ends:
        if self.end is None:
            raise ClusterError("the hub does not answer")
        self.asked.append(sorted(topics))
        assert topics.items() <= {"orders": 1}.items()
        return {} if self.end < 0 else {HUB0: self.end}


class FakeConnector:
    """Takes no reports, as the queries have them. Notes which snapshot the tasks get."""

    number = 0

    def __init__(self) -> None:
        self.cuts: dict[TopicPartition, int] = {}

    def poll(self) -> None:
        pass

    def take_cuts(self) -> dict[TopicPartition, int]:
        taken, self.cuts = self.cuts, {}
        return taken

    def snapshot(self, number: int) -> None:
        self.number = number


class Clock:
    """The time of the observer, which moves only when the test moves it."""

    seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds

    def time_ns(self) -> int:
        return time.time_ns()


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hub, self.connector, self.clock = Hub(), FakeConnector(), Clock()
        self.events: list[Event] = []
        self.table = CheckpointTable.create(str(folder))
        self.table.claim_epoch("the test")
        ids = {("eu", "orders"): "T", ("us", "orders"): "S"}
        clusters = {"hub": "H", "eu": "E", "us": "U"}
        connector: Any = self.connector
        in_force = InForce(config_of(**{"stream.checkpoint_interval": f"{INTERVAL:g}s"}))
        self.observer = Observer(
            self.table,
            self.hub.read,
            connector,
            Identity(clusters, ids, {"orders": 1}),
            in_force,
            3600.0,
            self.events.append,
        )

    @property
    def state(self) -> CheckpointState:
        return self.observer.state

    def begun(
        self,
        end: int = 100,
        positions: Positions | None = None,
        older: Mapping[SourcePartition, Mapping[TopicPartition, int]] | None = None,
        name: str = "eu",
        into: str = "orders",
    ) -> tuple[Query, int]:
        """A lane that has begun when the hub ended there, and the number of that snapshot."""
        positions = positions or Positions({EU0: 0})
        query = Query(name, positions)
        self.hub.end = end
        number = self.observer.begin(name, 1, positions, older, {into})
        self.observer.watch(query)
        return query, number

    def later(self, seconds: float = INTERVAL) -> None:
        """Look again when so much time has passed."""
        self.clock.seconds += seconds
        self.observer.tick()

    def bound(self, *partitions: SourcePartition) -> int:
        """Where a recovery of these partitions (of EU0 alone) would begin to read."""
        return hub_ends_for(self.state, partitions or [EU0])[HUB0]

    def read_again(self) -> CheckpointState:
        """The state as another process finds it."""
        table = CheckpointTable.open(str(self.folder), {})
        assert table is not None
        return table.load()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path)
    for module in (observer, committer):
        monkeypatch.setattr(module, "time", made.clock)
    yield made


def test_a_start_is_known_and_unclean_before_anything_is_written(world: World) -> None:
    world.begun(end=100)
    assert world.observer.positions == Positions({EU0: 0})
    assert world.state.positions == Positions({EU0: 0})
    assert world.state.unclean == {EU0}
    assert world.bound() == 100


def test_when_the_hub_was_asked_is_by_the_clock_of_the_commits(world: World) -> None:
    world.begun(end=100)
    asked = world.state.entries[EU0].snapshot.snapshot_at_ms
    # The hub's own answer says 1.
    assert 1 < asked < history(str(world.folder))[0].committed_at_ms


def test_a_report_is_committed_when_it_is_due_with_the_snapshot_that_it_names(
    world: World,
) -> None:
    query, number = world.begun(end=100)
    # By now 50 records are written that it does not cover.
    world.hub.end = 250
    query.reports(task({EU0: 10}, snapshot=number))
    world.later(INTERVAL - 1)
    assert (world.state.positions, world.observer.positions) == (
        Positions({EU0: 0}),
        Positions({EU0: 10}),
    )
    world.later(1)
    assert world.state.positions == Positions({EU0: 10})
    assert world.state.unclean == {EU0}
    assert world.bound() == 100
    query.reports(task({EU0: 20}, point=2, snapshot=number, ends={HUB0: 180}))
    world.later(INTERVAL - 1)
    assert world.state.positions == Positions({EU0: 10})
    world.later(1)
    assert (world.state.positions, world.bound()) == (Positions({EU0: 20}), 180)


def test_a_new_report_gives_all_positions_of_its_lane_where_another_was_set_meanwhile(
    world: World,
) -> None:
    query, number = world.begun(positions=Positions({EU0: 0, EU1: 0}))
    base = {EU0: 7, EU1: 8}
    query.reports(task(base, snapshot=number))
    world.later(1)
    world.observer.moved(Positions({EU0: 3}))
    assert world.observer.positions == Positions({EU0: 3, EU1: 8})
    world.later(1)
    assert world.observer.positions == Positions({EU0: 3, EU1: 8})
    query.reports(task(Patched(base, {EU1: 9}), point=2, snapshot=number))
    world.later(1)
    assert world.observer.positions == Positions({EU0: 7, EU1: 9})
    query.reports(task(Patched(base, {EU0: 8, EU1: 9}), point=3, snapshot=number))
    world.later(1)
    assert world.observer.positions == Positions({EU0: 8, EU1: 9})


def test_all_that_is_due_is_one_commit(world: World) -> None:
    eu, number = world.begun(positions=Positions({EU0: 0, EU1: 0}))
    us, _ = world.begun(positions=Positions({US0: 0}), name="us")
    before = world.state.seq
    eu.reports(task({EU0: 7}, snapshot=number), task({EU1: 8}, snapshot=number, number=1))
    us.reports(task({US0: 7}, snapshot=number))
    world.later()
    assert world.state.seq == before + 1
    assert world.state.positions == Positions({EU0: 7, EU1: 8, US0: 7})
    assert world.read_again() == world.state


def test_nothing_is_committed_before_each_task_of_a_lane_has_reported(world: World) -> None:
    query, number = world.begun(positions=Positions({EU0: 0, EU1: 0}))
    before = world.state.seq
    query.reports(task({EU0: 10}, snapshot=number), expected=2)
    world.later(10 * INTERVAL)
    assert world.state.seq == before
    assert world.observer.positions == Positions({EU0: 0, EU1: 0})
    query.reports(task({EU0: 10}, snapshot=number), task({EU1: 3}, snapshot=number, number=1))
    world.observer.tick()
    assert world.state.positions == Positions({EU0: 10, EU1: 3})


def test_positions_that_stand_still_are_committed_now_and_then_for_their_bound(
    world: World,
) -> None:
    query, number = world.begun(end=100)
    query.reports(task({EU0: 0}, snapshot=number))
    before = world.state.seq
    world.later(INTERVAL)
    assert world.state.seq == before
    world.hub.end = 300
    world.later(60.0)
    # The tasks get the new number, and name it in their next report.
    query.reports(task({EU0: 0}, point=2, snapshot=world.connector.number))
    world.later(60.0)
    assert (world.state.positions, world.bound()) == (Positions({EU0: 0}), 300)


def test_tasks_get_a_new_number_when_they_report_that_the_hub_is_further(
    world: World,
) -> None:
    query, number = world.begun(end=100)
    world.observer.tick()
    assert world.connector.number == number
    query.reports(task({EU0: 10}, snapshot=number, ends={HUB0: 110}))
    world.observer.tick()
    assert world.connector.number > number
    given = world.connector.number
    world.observer.tick()
    assert world.connector.number == given


def test_a_lane_is_bounded_by_its_own_start_when_the_others_are_further(world: World) -> None:
    other, number = world.begun(end=100, positions=Positions({US0: 0}), name="us")
    late, begun = world.begun(end=200)
    for point in range(1, 4):
        number = max(number, world.connector.number)
        other.reports(task({US0: point}, point=point, snapshot=number, ends={HUB0: 200 + point}))
        world.observer.tick()
    late.reports(task({EU0: 0}, point=0, snapshot=begun))
    world.later(60.0)
    assert world.bound() == 200


def test_a_hub_partition_that_does_not_show_its_end_keeps_the_last_known_one(world: World) -> None:
    query, number = world.begun(end=100)
    world.hub.end = -1
    query.reports(task({EU0: 10}, snapshot=number))
    world.observer.finish(query, clean=True)
    # Without any, the next recovery would read it from its beginning.
    assert (world.bound(), world.state.clean) == (100, True)


def test_a_lane_that_fails_keeps_the_bound_of_its_last_report(world: World) -> None:
    query, number = world.begun(end=100)
    query.reports(task({EU0: 10}, snapshot=number))
    world.hub.end = 250
    world.observer.tick()
    # What it wrote since then, from 200 on, is covered by no position.
    world.hub.end = 300
    world.observer.finish(query, clean=False)
    assert world.state.positions == Positions({EU0: 10})
    assert world.state.unclean == {EU0}
    assert world.bound() == 100


def test_a_lane_that_fails_before_its_first_report_is_known_by_its_start(world: World) -> None:
    query, _ = world.begun(end=100)
    world.observer.tick()
    world.hub.end = 300
    world.observer.finish(query, clean=False)
    assert world.observer.positions == Positions({EU0: 0})
    assert world.state.unclean == {EU0}
    assert world.bound() == 100


def test_a_clean_end_needs_no_look_into_the_hub(world: World) -> None:
    query, number = world.begun(end=100)
    query.reports(task({EU0: 10}, snapshot=number))
    world.hub.end = 110
    world.observer.finish(query, clean=True)
    assert world.state.positions == Positions({EU0: 10})
    assert world.state.clean
    assert world.bound() == 110


def test_an_end_is_clean_even_when_the_hub_does_not_answer(world: World) -> None:
    query, number = world.begun(end=100, positions=Positions({EU0: 0, EU1: 0}))
    query.reports(task({EU0: 10, EU1: 4}, snapshot=number, states={EU1: "held"}))
    world.hub.end = None
    world.observer.left(query, {EU1})
    assert world.state.positions == Positions({EU0: 0, EU1: 4})
    assert world.state.unclean == {EU0}
    world.observer.finish(query, clean=True)
    assert world.read_again().positions == Positions({EU0: 10, EU1: 4})
    assert world.state.clean
    # What was known of its ends before; the next start finds the hub further, and looks.
    assert world.bound() == world.state.furthest_hub_ends()[HUB0] == 100
    assert [event.message for event in world.events] == [
        "the hub does not report its end offsets, commits name older ones: the hub does not answer"
    ]


def test_records_are_counted_over_the_lives_of_a_lane(world: World) -> None:
    for life in (1, 2):
        query, number = world.begun()
        first = task({EU0: 10}, snapshot=number, records=7, generation=life)
        query.reports(first, expected=2)
        world.observer.tick()
        query.reports(replace(first, point=2, sent={"orders": Counted(10, 100)}, replayed=4))
        world.observer.tick()
        world.observer.finish(query, clean=True)
    assert world.observer.progress["eu"].records == 20
    assert world.observer.progress["eu"].replayed == 8
    assert world.observer.figures.at(0)["eu"].records == 20


def test_a_hub_that_does_not_answer_is_logged_and_stops_no_commit(world: World) -> None:
    query, number = world.begun(end=100)
    world.hub.end = None
    for point in (1, 2):
        query.reports(task({EU0: 10 * point}, point=point, snapshot=number))
        world.later(60.0)
    assert [event.kind for event in world.events] == ["hub_ends_warning"]
    assert world.observer.error == ""
    assert world.state.positions == world.observer.positions == Positions({EU0: 20})
    assert world.bound() == 100
    world.hub.end = 120
    world.later(60.0)
    assert [event.kind for event in world.events] == ["hub_ends_warning", "hub_ends_known"]


def recreated(world: World) -> None:
    """A look finds that the topic is another one, and longer."""
    ids = {("eu", "orders"): "U"}
    world.observer.update(Identity({"hub": "H", "eu": "E"}, ids, {"orders": 1}))


def test_a_lane_commits_with_the_ids_that_were_known_when_it_began(world: World) -> None:
    world.observer.saw({"eu": Seen(ends={EU0: 9})})
    query, number = world.begun(end=0)
    recreated(world)
    query.reports(task({EU0: 7}, snapshot=number))
    world.later()
    entry = world.state.entries[EU0]
    assert (entry.position, entry.topic_id, entry.log_end) == (7, "T", 9)
    query.reports(task({EU0: 8}, point=2, snapshot=number))
    world.observer.finish(query, clean=False)
    assert world.state.entries[EU0].topic_id == "T"
    # What a recovery finds of it still belongs to the topic that it was read from.
    world.observer.recovered(Positions({EU0: 9}))
    entry = world.state.entries[EU0]
    assert (entry.position, entry.topic_id, entry.log_end) == (9, "T", 9)
    assert world.state.clean


def test_the_end_of_a_log_that_is_gone_is_the_last_that_was_seen(world: World) -> None:
    """Also where nothing was committed in between: no one can ask for it any more."""
    query, number = world.begun(end=0)
    world.observer.saw({"eu": Seen(1.0, "E", {"orders": "T"}, {EU0: 9})})
    world.observer.saw({"eu": Seen(2.0, "E", {"orders": "U"}, {EU0: 3})})
    query.reports(task({EU0: 7}, snapshot=number))
    world.later()
    entry = world.state.entries[EU0]
    assert (entry.position, entry.topic_id, entry.log_end) == (7, "T", 9)


def test_a_position_that_is_moved_belongs_to_the_new_topic_and_is_bounded_by_the_hub_of_now(
    world: World,
) -> None:
    world.observer.saw({"eu": Seen(ends={EU0: 9})})
    query, number = world.begun(end=0)
    query.reports(task({EU0: 7}, snapshot=number))
    world.observer.finish(query, clean=True)
    recreated(world)
    world.hub.end = 55
    world.observer.moved(Positions({EU0: 0}))
    entry = world.state.entries[EU0]
    assert (entry.position, entry.topic_id, entry.log_end) == (0, "U", None)
    assert world.state.clean
    assert hub_ends_for(world.state) == {HUB0: 55}
    assert world.observer.positions == Positions({EU0: 0})


# --- lanes that leave out what the hub holds already ----------------------------------------


def test_what_leaves_something_out_keeps_its_older_bound_until_its_lane_is_through(
    world: World,
) -> None:
    positions = Positions({EU0: 5, EU1: 0, EU2: 0})
    older = {EU0: {HUB0: 40}, EU1: {HUB0: 60}, US0: {HUB0: 1}}
    query, number = world.begun(100, positions, older)
    assert [world.bound(sp) for sp in positions] == [40, 60, 100]
    assert world.read_again() == world.state
    reported = {EU0: 6, EU1: 0, EU2: 1}
    query.reports(task(reported, snapshot=number, ends={HUB0: 130}, skipping=True))
    world.later()
    assert world.state.positions == Positions(reported)
    assert [world.bound(sp) for sp in positions] == [40, 60, 130]
    assert world.read_again() == world.state
    # When it is through, that is committed at once: a recovery has less to read from here on.
    query.reports(task({EU0: 9, EU1: 9, EU2: 9}, point=2, snapshot=number, ends={HUB0: 150}))
    world.observer.tick()
    assert world.state.positions == Positions({EU0: 9, EU1: 9, EU2: 9})
    assert world.bound(*positions) == 150
    seq = world.state.seq
    world.later(1)
    assert world.state.seq == seq


def test_one_that_ends_before_it_is_through_is_not_clean_where_it_left_something_out(
    world: World,
) -> None:
    positions = Positions({EU0: 5, EU1: 0})
    query, number = world.begun(100, positions, {EU0: {HUB0: 40}})
    query.reports(task({EU0: 6, EU1: 3}, snapshot=number, skipping=True, ended=True))
    world.hub.end = 110
    world.observer.finish(query, clean=True)
    # The hub holds records of EU0 beyond 6: a start that believed it clean would write them twice.
    assert world.state.unclean == {EU0}
    assert (world.bound(EU0), world.bound(EU1)) == (40, 110)
    assert world.state.positions == Positions({EU0: 6, EU1: 3})
    assert world.read_again() == world.state


def test_so_are_partitions_that_are_given_up_before_that(world: World) -> None:
    positions = Positions({EU0: 5, EU1: 0, EU2: 0})
    query, number = world.begun(100, positions, {EU0: {HUB0: 40}})
    query.reports(task({EU0: 6, EU1: 3, EU2: 1}, snapshot=number, skipping=True))
    world.observer.left(query, {EU0, EU1})
    assert world.state.unclean == {EU0, EU2}
    assert world.bound(EU0) == 40


def test_one_that_is_through_ends_clean(world: World) -> None:
    query, number = world.begun(100, Positions({EU0: 5}), {EU0: {HUB0: 40}})
    query.reports(task({EU0: 9}, snapshot=number, ended=True))
    world.observer.finish(query, clean=True)
    assert (world.state.clean, world.bound()) == (True, 100)


def test_what_was_recovered_and_has_holes_is_not_clean_and_each_keeps_its_own_bound(
    world: World,
) -> None:
    older = {EU0: {HUB0: 40}, EU1: {HUB0: 60}}
    world.observer.recovered(Positions({EU0: 5, EU1: 6}), older)
    assert world.state.unclean == {EU0, EU1}
    assert [world.bound(sp) for sp in older] == [40, 60]
    assert world.observer.positions == Positions({EU0: 5, EU1: 6})
    assert world.read_again() == world.state


# --- partitions that a lane gives up --------------------------------------------------------


def test_partitions_that_are_given_up_are_clean_and_no_later_commit_holds_them(
    world: World,
) -> None:
    query, number = world.begun(positions=Positions({EU0: 0, EU1: 0}))
    query.reports(task({EU0: 10, EU1: 4}, snapshot=number, states={EU1: "held"}))
    world.hub.end = 120
    world.observer.left(query, {EU1})
    assert world.state.positions == Positions({EU0: 0, EU1: 4})
    assert world.state.unclean == {EU0}
    assert world.bound(EU1) == 120
    left = world.state.entries[EU1]
    # Another lane reads it from there on.
    world.observer.begin("eu-2", 2, Positions({EU1: 4}), {}, {"orders"})
    world.observer.moved(Positions({EU1: 30}))
    moved = world.state.entries[EU1]
    assert moved != left
    # Nothing new is reported, and it is committed for its bound alone; then there is news.
    world.later(60.0)
    assert world.state.positions == Positions({EU0: 10, EU1: 30})
    query.reports(task({EU0: 11, EU1: 4}, point=2, snapshot=number, states={EU1: "held"}))
    world.later()
    world.observer.finish(query, clean=True)
    assert world.state.entries[EU1] == moved
    assert world.observer.positions == world.state.positions == Positions({EU0: 11, EU1: 30})


def test_what_is_stuck_keeps_its_last_commit_with_the_bound_of_then(world: World) -> None:
    query, number = world.begun(positions=Positions({EU0: 0, EU1: 0}))
    query.reports(task({EU0: 10, EU1: 4}, snapshot=number))
    world.later()
    before = world.state.entries[EU1]
    # It may have written anything behind the bound of then; the lane itself is further.
    world.hub.end = 250
    query.reports(task({EU0: 20, EU1: 6}, point=2, snapshot=number, ends={HUB0: 250}))
    world.observer.tick()
    stuck = {EU1: "stuck"}
    query.reports(task({EU0: 30, EU1: 6}, point=3, snapshot=number, ends={HUB0: 300}, states=stuck))
    world.later()
    assert (world.bound(EU0), world.bound(EU1)) == (300, 100)
    world.hub.end = 300
    world.observer.left(query, {EU1})
    assert world.state.entries[EU1] == before
    assert EU1 in world.state.unclean
    # What is acknowledged below it is known all the same, as after a lane that failed.
    assert world.observer.positions == Positions({EU0: 30, EU1: 6})
    world.observer.finish(query, clean=True)
    assert world.state.unclean == {EU1}
    assert world.state.entries[EU1] == before


def test_what_is_stuck_is_let_go_also_while_no_other_point_holds(world: World) -> None:
    query, number = world.begun(positions=Positions({EU0: 0, EU1: 0}))
    query.reports(task({EU0: 10, EU1: 4}, snapshot=number))
    world.observer.tick()
    query.reports(task({EU0: 10, EU1: 4}, snapshot=number, states={EU1: "stuck"}))
    world.observer.left(query, {EU1})
    assert world.state.unclean == {EU0, EU1}
    world.observer.finish(query, clean=True)
    assert world.state.unclean == {EU1}


def test_a_lane_that_has_given_everything_up_ends_without_a_commit(world: World) -> None:
    query, number = world.begun()
    query.reports(task({EU0: 10}, snapshot=number, states={EU0: "held"}))
    world.observer.left(query, {EU0})
    seq = world.state.seq
    world.later(60.0)
    world.observer.finish(query, clean=False)
    assert (world.state.seq, world.state.clean) == (seq, True)


# --- commits that fail ----------------------------------------------------------------------


def test_a_commit_that_fails_is_tried_again_with_what_is_reported_by_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Checkpoint) -> None:
        raise CheckpointError("the disk is full")

    query, number = world.begun()
    query.reports(task({EU0: 10}, snapshot=number))
    with monkeypatch.context() as patched:
        patched.setattr(world.table, "append", fail)
        world.later()
        world.later(0.25)
        assert (world.observer.error, world.state.positions[EU0]) == ("the disk is full", 0)
    query.reports(task({EU0: 20}, point=2, snapshot=number))
    world.later(0.25)
    assert (world.observer.error, world.state.positions[EU0]) == ("", 20)
    logged = [(event.kind, event.message) for event in world.events]
    assert logged == [
        ("checkpoint_error", "the disk is full"),
        ("checkpoint_recovered", "checkpoints are committed again"),
    ]


class Unheard:
    """Commits, and does not say so, as an object store whose answer is lost."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, _: DeltaTable, *args: Any, **named: Any) -> None:
        write_deltalake(DeltaTable(table_uri(str(self._folder))), *args, **named)
        raise OSError("timed out")


@pytest.mark.parametrize("is_moved", [False, True], ids=["recovered", "moved"])
def test_where_a_failed_commit_that_has_landed_leaves_a_partition_it_starts(
    world: World, monkeypatch: pytest.MonkeyPatch, is_moved: bool
) -> None:
    query, _ = world.begun()
    world.observer.finish(query, clean=False)
    other, number = world.begun(name="us", positions=Positions({US0: 0}))

    def commit(after: Positions) -> None:
        if is_moved:
            world.observer.moved(after)
        else:
            world.observer.recovered(after)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_table, "write_deltalake", Unheard(world.folder))
        with pytest.raises(CheckpointError, match="timed out"):
            commit(Positions({EU0: 50}))
    # Until another commit shows it, it is where it was.
    assert (world.observer.positions[EU0], world.state.positions[EU0]) == (0, 0)
    assert EU0 in world.state.unclean
    other.reports(task({US0: 10}, snapshot=number))
    world.later()
    assert world.observer.error == ""
    assert EU0 not in world.state.unclean
    assert world.observer.positions == world.state.positions == Positions({EU0: 50, US0: 10})
    assert world.read_again() == world.state
    # Later commits leave what lanes have reported alone.
    other.reports(task({US0: 20}, point=2, snapshot=number))
    world.observer.tick()
    assert world.observer.positions[US0] == 20


def test_beside_another_writer_nothing_is_committed_any_more(world: World) -> None:
    query, number = world.begun()
    CheckpointTable.create(str(world.folder)).claim_epoch("another one")
    query.reports(task({EU0: 10}, snapshot=number))
    world.later()
    assert isinstance(world.observer.conflict, CheckpointConflictError)
    assert world.observer.error == ""
    with pytest.raises(CheckpointConflictError):
        world.observer.begin("us", 2, Positions({US0: 0}), {}, {"orders"})
    with pytest.raises(CheckpointConflictError):
        world.observer.finish(query, clean=True)
    assert world.read_again().positions == Positions({EU0: 0})


def lost(world: World) -> dict[SourcePartition, dict[int, int]]:
    """What commits say of the hub topic's partitions that were cut off."""
    ids = world.read_again().own_hub_ids()
    return {sp: cuts_in(it.get("orders", "")) for sp, it in ids.items()}


def test_what_the_hub_has_lost_is_said_at_once_of_all_that_may_have_been_copied_there(
    world: World,
) -> None:
    us, number = world.begun(end=40, positions=Positions({US0: 0}), name="us")
    us.reports(task({US0: 3}, snapshot=number))
    world.hub.end = 50
    world.observer.finish(us, clean=True)
    eu, number = world.begun(end=100, positions=Positions({EU0: 0, EU1: 0}))
    other, _ = world.begun(end=100, positions=Positions({EU2: 0}), name="other")
    elsewhere = Positions({US1: 7})
    aside, _ = world.begun(end=100, positions=elsewhere, name="aside", into="logs")
    aside.reports(task(elsewhere, snapshot=number))
    eu.reports(task({EU0: 10, EU1: 4}, snapshot=number, ends={HUB0: 150}))
    world.observer.tick()
    # A report that came with it, and an answer to nothing that the hub still holds.
    eu.reports(task({EU0: 12, EU1: 4}, point=2, snapshot=number, ends={HUB0: 170}))
    world.connector.cuts = {HUB0: 60}
    world.observer.tick()
    assert world.read_again().positions == Positions({EU0: 12, EU1: 4, EU2: 0, US0: 3, US1: 7})
    less = {0: 60}
    assert lost(world) == {EU0: less, EU1: less, EU2: less, US0: {}, US1: less}
    assert world.bound(EU0) == world.bound(EU2) == 60
    assert world.state.entries[US0].snapshot.clean
    # It stays so however they end, until the hub was read.
    other.reports(task({EU2: 5}, snapshot=number, ends={HUB0: 170}))
    aside.reports(task({US1: 8}, point=2, snapshot=number))
    world.later()
    world.hub.end = 90
    world.observer.finish(eu, clean=False)
    world.observer.finish(other, clean=True)
    assert lost(world) == {EU0: less, EU1: less, EU2: less, US0: {}, US1: {}}
    assert world.observer.hub_ends == {HUB0: 90}
    world.observer.recovered(Positions({EU0: 8, EU1: 4, EU2: 1}))
    assert lost(world) == dict.fromkeys((EU0, EU1, EU2, US0, US1), NO_CUTS)
    # What begins then is of the hub as it is.
    eu, number = world.begun(end=90, positions=Positions({EU0: 8}))
    eu.reports(task({EU0: 9}, snapshot=number, ends={HUB0: 95}))
    world.later()
    assert (world.bound(EU0), lost(world)[EU0]) == (95, {})
    logged = [it.fields for it in world.events if it.kind == "hub_lost"]
    assert logged == [{"hub_partitions": 1}]
    # A hub that reports a loss is not silent.
    assert not [it for it in world.events if it.kind.startswith("hub_ends")]


def test_what_was_decided_before_the_hub_had_lost_something_is_not_begun(world: World) -> None:
    world.begun(end=100, positions=Positions({US0: 0}), name="us")
    world.connector.cuts = {HUB0: 60}
    with pytest.raises(ClusterError, match="orders-0 has lost records that were acknowledged"):
        world.begun(end=60)
    assert lost(world) == {US0: {0: 60}}
    world.begun(end=60)
    assert lost(world) == {US0: {0: 60}, EU0: {}}


def test_a_lane_that_starts_or_ends_asks_for_the_ends_of_its_own_hub_topics_alone(
    world: World,
) -> None:
    """Hundreds of lanes start one by one: each looks at the whole hub would be their product."""
    logs = (TopicPartition("logs", 0), TopicPartition("logs", 1))
    ends, asked = {HUB0: 10, logs[0]: 20}, list[dict[str, int]]()

    def read(topics: Mapping[str, int]) -> Ends:
        asked.append(dict(topics))
        return {tp: end for tp, end in ends.items() if tp.topic in topics}

    world.observer._read_hub = read
    counts = {"orders": 1, "logs": 2}
    identity = world.observer._identity
    world.observer.update(replace(identity, hub_topics={"orders": 1}))
    world.begun()
    # One that has come since, of which a partition does not report its end at first.
    world.observer.update(replace(identity, hub_topics=counts))
    world.begun(positions=Positions({EU1: 0}), name="eu-2")
    ends |= {HUB0: 15, logs[0]: 25, logs[1]: 5}
    world.begun(positions=Positions({EU2: 0}), name="eu-3")
    query, number = world.begun(positions=Positions({US0: 0}), name="us")
    ends |= {HUB0: 17, logs[0]: 27}
    world.begun(positions=Positions({US1: 0}), name="us-2", into="logs")
    assert asked == [{"orders": 1}, counts, counts, {"orders": 1}, {"logs": 2}]
    assert hub_ends_for(world.state, [US0]) == {HUB0: 15, logs[0]: 25, logs[1]: 5}
    assert hub_ends_for(world.state, [US1]) == {HUB0: 15, logs[0]: 27, logs[1]: 5}
    # All of them are bounds of those that have begun before.
    assert hub_ends_for(world.state, [EU0]) == {HUB0: 10}
    asked.clear()
    query.reports(task({US0: 3}, snapshot=number))
    world.observer.finish(query, clean=True)
    assert asked == [{"orders": 1}]
    assert hub_ends_for(world.state, [US0]) == {HUB0: 17, logs[0]: 27, logs[1]: 5}
    # And of the whole hub now and then, as others may write there.
    asked.clear()
    world.later(observer.READ_SECONDS)
    assert asked == [counts]


def test_a_hub_that_ends_before_it_ended_has_lost_something(world: World) -> None:
    query, number = world.begun(end=100)
    query.reports(task({EU0: 10}, snapshot=number, ends={HUB0: 150}))
    world.observer.tick()
    world.hub.end = 149
    world.later(observer.READ_SECONDS)
    assert lost(world) == {EU0: {0: 149}}
    # A lane that has begun, and does not run yet, is of before as well.
    world.hub.end = 160
    number = world.observer.begin("us", 1, Positions({US0: 0}), {}, {"orders"})
    world.connector.cuts = {HUB0: 120}
    world.observer.tick()
    us = Query("us", Positions({US0: 0}))
    world.observer.watch(us)
    us.reports(task({US0: 7}, snapshot=number, ends={HUB0: 170}))
    world.observer.tick()
    assert lost(world) == {EU0: {0: 120}, US0: {0: 120}}
    assert world.bound(US0) == 120


def test_what_the_hub_has_lost_is_said_later_where_it_cannot_be_committed(world: World) -> None:
    query, number = world.begun(end=100)
    query.reports(task({EU0: 10}, snapshot=number, ends={HUB0: 150}))
    world.begun(end=150, positions=Positions({US0: 0}), name="us")
    world.connector.cuts = {HUB0: 60}
    with pytest.MonkeyPatch.context() as patched:

        def fail(*_: object) -> None:
            raise CheckpointError("the disk is full")

        patched.setattr(world.table, "append", fail)
        world.observer.tick()
        assert lost(world) == {EU0: {}, US0: {}}
    world.observer.tick()
    assert lost(world) == {EU0: {0: 60}, US0: {0: 60}}


def test_an_unforeseen_error_ends_the_thread_and_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(world.connector, "poll", fail)
    world.observer.start()
    wait_for(lambda: not world.observer._loop.is_alive, "its thread has ended")
    assert str(world.observer.failure) == "no such thing"
    world.observer.stop()


def test_commits_of_lanes_that_move_and_start_again_all_day_leave_nothing_behind(
    world: World,
) -> None:
    query, number = world.begun(positions=Positions({EU0: 0, EU1: 0}))

    def tick(at: int) -> None:
        nonlocal query, number
        world.hub.end = 100 + 2 * at
        ends = {HUB0: 100 + at}
        query.reports(task({EU0: at, EU1: 0}, point=at + 1, snapshot=number, ends=ends))
        world.later()
        number = world.connector.number
        if at % 10 == 9:
            world.observer.finish(query, clean=at % 20 == 9)
            query, number = world.begun(world.hub.end, world.observer.positions)

    first, second = largest(lambda: world.observer, tick, 40)
    assert second <= 1.1 * first
    assert world.read_again().positions == Positions({EU0: 39, EU1: 0})
