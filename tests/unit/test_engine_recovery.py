"""What a recovery commits and hands to the next lanes; the checkpoint is a real table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.checkpoint.rows import HUB
from aggregator.checkpoint.table import CheckpointTable
from aggregator.config import load_text
from aggregator.connector.driver import TailFound
from aggregator.discover.offsets import PartitionOffsets
from aggregator.engine import hub as hub_module
from aggregator.engine.board import Board
from aggregator.engine.events import Event
from aggregator.engine.hub import settled_logs
from aggregator.engine.identity import Identity
from aggregator.engine.look import Look
from aggregator.engine.observer import Observer
from aggregator.engine.recovery import Recovery
from aggregator.engine.tail import HubSnapshot
from aggregator.errors import CheckpointError, ClusterError
from aggregator.model import (
    ClusterFacts,
    OffsetRange,
    Positions,
    Route,
    Skip,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan.hub_topics import HubTopic
from aggregator.plan.plan import Plan
from aggregator.plan.positions import Gap, Observed
from aggregator.plan.recovery import TailPlan
from aggregator.plan.slots import SlotPlan

EU0, EU1, EU2 = (SourcePartition("eu", "orders", number) for number in range(3))
HUB0, HUB1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ROUTES = (Route("eu", "orders", "orders", 3, 2),)


class World:
    """A source whose logs hold 0 to 99, and a hub of which the checkpoint knows the first part."""

    def __init__(self, folder: Path) -> None:
        self.config = load_text(
            "",
            [
                "hub.bootstrap_servers=127.0.0.1:9",
                "sources.eu.bootstrap_servers=127.0.0.1:10",
                "sources.eu.topics.include=orders",
                f"checkpoint.path={folder}",
            ],
        )
        table = CheckpointTable.create(str(folder))
        table.claim_epoch("the test")
        self.logs = {HUB0: OffsetRange(0, 20)}
        self.sources = {sp: OffsetRange(0, 100) for sp in (EU0, EU1, EU2)}
        self.topic_id = "T"
        self.found: dict[SourcePartition, Skip] = {}
        self.failure: Exception | None = None
        self.asked: list[tuple[TailPlan, Mapping[str, str], list[str]]] = []
        self.cancelled = threading.Event()
        self.events: list[Event] = []
        self.lost: list[Gap] = []
        self.board = Board(self.config)
        identity = Identity({HUB: "H", "eu": "E"}, {("eu", "orders"): "T"}, {"orders": 2})
        self.connector = SimpleNamespace(read_tail=self.read_tail, cancel_tail=self.cancelled.set)
        connector: Any = self.connector
        hub: Any = self
        gaps: Any = SimpleNamespace(lost=self.lost.extend)
        emit = self.events.append
        self.observer = Observer(table, self.snapshot, connector, identity, 1.0, 3600.0, emit)
        self.recovery = Recovery(
            self.config,
            connector,
            self.observer,
            hub,
            self.board,
            emit,
            threading.Event(),
            gaps,
            {},
        )

    # The hub, as its admin client is asked.

    def partition_counts(self, _timeout: float) -> dict[str, int]:
        return {"orders": len(self.logs)} if self.logs else {}

    def offsets(self, wanted: Iterable[TopicPartition], _timeout: float) -> PartitionOffsets:
        return PartitionOffsets({tp: self.logs[tp] for tp in wanted})

    def snapshot(self, _: Mapping[str, int]) -> HubSnapshot:
        return HubSnapshot(1, {tp: log.latest for tp, log in self.logs.items()})

    def grows_to(self, end: int) -> None:
        self.logs[HUB0] = OffsetRange(0, end)

    # The connector.

    def read_tail(
        self, tail: TailPlan, consumer: Mapping[str, str], compacted: list[str]
    ) -> TailFound:
        self.asked.append((tail, consumer, compacted))
        if self.failure is not None:
            raise self.failure
        count = sum(end - start for it in self.found.values() for start, end in it.ranges)
        return TailFound(tail.offsets, count, self.found)

    # What the test does.

    @property
    def look(self) -> Look:
        facts = ClusterFacts("eu", "E", 1, {"orders": TopicFacts("orders", self.topic_id, 3, 1)})
        slots = SlotPlan("local[4]", 4, 2)
        topics = {"orders": HubTopic("orders", 2, 1, "compact")}
        plan = Plan(facts, {"eu": facts}, {}, ROUTES, topics, (), (), slots)
        observed = Observed({"eu": "E"}, {("eu", "orders"): self.topic_id}, self.sources)
        return Look(plan, observed, {}, 100.0)

    def crashed(self, positions: Mapping[SourcePartition, int], end: int = 50) -> None:
        """A lane began here, and has written up to there when it died."""
        self.observer.begin("eu", 1, Positions(positions))
        self.grows_to(end)

    def recover(self, *partitions: SourcePartition) -> None:
        self.recovery.recover(set(partitions), self.look, alone=False)

    def bound(self, sp: SourcePartition) -> dict[TopicPartition, int]:
        return dict(self.observer.state.entries[sp].snapshot.hub_ends)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(hub_module, "SETTLE_SECONDS", 0.0)
    return World(tmp_path)


def test_without_holes_positions_are_clean_behind_all_that_was_found(world: World) -> None:
    world.crashed({EU0: 5, EU1: 3})
    world.found = {EU0: Skip([(5, 9)])}
    world.recover(EU0, EU1)
    assert world.observer.state.positions == Positions({EU0: 9, EU1: 3})
    assert world.observer.state.clean
    assert world.recovery.ready == set()
    assert world.recovery.take([EU0, EU1]) == ({}, {})
    (told,) = [it.message for it in world.events if it.kind == "recovered"]
    assert told.startswith(
        "2 partitions: 30 offsets of the hub tail read, 4 records found beyond the checkpoint, "
        "nothing is missing"
    )


def test_what_has_a_hole_is_not_clean_and_its_next_lane_leaves_out_what_was_found(
    world: World,
) -> None:
    world.crashed({EU0: 5, EU1: 3})
    world.found = {EU0: Skip([(5, 7), (9, 12), (20, 21)], {b"k": 20}), EU1: Skip([(3, 4)])}
    world.recover(EU0, EU1)
    state = world.observer.state
    assert state.positions == Positions({EU0: 7, EU1: 4})
    assert state.unclean == {EU0}
    # What the hub holds of it beyond 7 lies where the tail began, not where the hub ends now.
    assert world.bound(EU0) == {HUB0: 20}
    assert world.recovery.ready == {EU0}
    assert world.recovery.take([EU1]) == ({}, {})
    skips, older = world.recovery.take([EU0, EU1])
    assert skips == {EU0: Skip([(9, 12), (20, 21)], {b"k": 20})}
    assert older == {EU0: {HUB0: 20}}
    # Once: a lane that fails before it is through has to be recovered again.
    assert (world.recovery.take([EU0, EU1]), world.recovery.ready) == (({}, {}), set())
    recovery = world.board.document().recovery
    assert recovery is not None
    assert (recovery.partitions, recovery.tail, recovery.found, recovery.holed) == (2, 30, 7, 1)


def test_a_recovery_that_was_cut_short_or_whose_lane_failed_finds_the_same_again(
    world: World,
) -> None:
    world.crashed({EU0: 5})
    world.found = {EU0: Skip([(5, 7), (9, 12)])}
    for end in (50, 60):
        world.grows_to(end)
        world.recover(EU0)
        assert world.asked[-1][0].ranges == {HUB0: OffsetRange(20, end)}
        assert (world.observer.state.positions[EU0], world.bound(EU0)) == (7, {HUB0: 20})
        skips, older = world.recovery.take([EU0])
        world.observer.begin("eu", 2, Positions({EU0: 7}), older)
        assert world.observer.state.unclean == {EU0}
        assert skips == {EU0: Skip([(9, 12)])}


def test_each_partition_with_holes_keeps_the_bound_that_is_its_own(world: World) -> None:
    world.crashed({EU0: 5}, end=40)
    # Of a topic that was created again: what lies before 40 is of its predecessor.
    world.observer.moved(Positions({EU1: 0}))
    world.crashed({EU1: 0})
    world.logs[HUB1] = OffsetRange(3, 9)
    world.found = {EU0: Skip([(8, 9)]), EU1: Skip([(1, 2)])}
    world.recover(EU0, EU1)
    (tail, _, _) = world.asked[-1]
    assert tail.ranges == {HUB0: OffsetRange(20, 50), HUB1: OffsetRange(3, 9)}
    assert tail.above == {EU1: {HUB0: 40}}
    # A hub partition that the checkpoint did not know is read from where it begins.
    older = {EU0: {HUB0: 20, HUB1: 3}, EU1: {HUB0: 40, HUB1: 3}}
    assert world.recovery.take([EU0, EU1])[1] == older
    assert (world.bound(EU0), world.bound(EU1)) == (older[EU0], older[EU1])


def test_the_tail_is_read_whole_and_without_regard_to_transactions(world: World) -> None:
    world.crashed({EU0: 5})
    world.recover(EU0)
    ((tail, consumer, compacted),) = world.asked
    assert (tail.positions, tail.ranges) == (Positions({EU0: 5}), {HUB0: OffsetRange(20, 50)})
    assert consumer["isolation.level"] == "read_uncommitted"
    assert consumer["bootstrap.servers"] == "127.0.0.1:9"
    assert compacted == ["orders"]


def test_a_tail_without_anything_in_it_is_not_read(world: World) -> None:
    world.crashed({EU0: 5}, end=20)
    world.recover(EU0)
    assert world.asked == []
    assert world.observer.state.clean
    assert world.observer.state.positions == Positions({EU0: 5})


def test_what_the_source_has_deleted_meanwhile_is_lost_and_told(world: World) -> None:
    world.crashed({EU0: 5})
    world.sources[EU0] = OffsetRange(10, 100)
    world.found = {EU0: Skip([(5, 7), (9, 12)])}
    world.recover(EU0)
    assert world.observer.state.positions == Positions({EU0: 12})
    (gap,) = world.lost
    # Of 5 to 9 the hub holds three.
    assert (gap.partition, gap.start, gap.end, gap.lost) == (EU0, 5, 10, 2)


def test_of_a_topic_that_was_created_again_what_the_hub_lacks_stays_known(world: World) -> None:
    world.crashed({EU0: 5})
    world.topic_id = "U"
    world.found = {EU0: Skip([(5, 6), (7, 9)])}
    world.recover(EU0)
    # 6 is lost with its topic: a gap from here on names it.
    assert world.observer.state.positions == Positions({EU0: 6})
    assert world.recovery.copied == {EU0: [(7, 9)]}
    # From the beginning of the new topic nothing of the old one is left out, at whatever offset.
    world.observer.update(Identity({HUB: "H", "eu": "E"}, {("eu", "orders"): "U"}, {"orders": 2}))
    world.observer.moved(Positions({EU0: 6}))
    assert world.recovery.copied == {}


def test_a_hole_of_which_the_source_has_deleted_something_is_recovered_again(world: World) -> None:
    world.crashed({EU0: 5})
    world.found = {EU0: Skip([(7, 9)])}
    world.recover(EU0)
    world.recovery.forget_cut(world.look)
    assert world.recovery.ready == {EU0}
    world.sources[EU0] = OffsetRange(6, 100)
    world.recovery.forget_cut(world.look)
    assert world.recovery.ready == set()
    world.recover(EU0)
    assert world.observer.state.positions == Positions({EU0: 6})
    assert world.recovery.copied == {EU0: [(7, 9)]}


@pytest.mark.parametrize("failure", [ClusterError("the hub is away"), CheckpointError("full")])
def test_a_recovery_that_fails_commits_nothing(world: World, failure: Exception) -> None:
    world.crashed({EU0: 5})
    seq, world.failure = world.observer.state.seq, failure
    with pytest.raises(type(failure)):
        world.recover(EU0)
    assert (world.observer.state.seq, world.recovery.ready) == (seq, set())
    world.failure = None
    del world.logs[HUB0]
    with pytest.raises(ClusterError):
        world.recovery.recover({EU0}, world.look, alone=True)
    assert world.observer.state.seq == seq


# --- before the first lanes start -----------------------------------------------------------


def ended_cleanly(world: World) -> None:
    world.observer.recovered(Positions({EU0: 5}))


def test_what_ended_cleanly_is_believed_when_the_hub_is_where_it_was(world: World) -> None:
    ended_cleanly(world)
    world.recovery.doubt({EU0}, Positions({EU0: 5}), world.look)
    assert world.asked == []


def test_when_the_hub_is_further_it_is_doubted_and_looked_for(world: World) -> None:
    ended_cleanly(world)
    world.grows_to(30)
    world.found = {EU0: Skip([(5, 8)])}
    world.recovery.doubt({EU0}, Positions({EU0: 5}), world.look)
    assert world.asked[0][0].ranges == {HUB0: OffsetRange(20, 30)}
    assert world.observer.state.positions == Positions({EU0: 8})
    assert "the checkpoint does not know of" in world.events[0].message


def test_what_was_recovered_just_now_is_not_doubted(world: World) -> None:
    world.observer.recovered(Positions({EU1: 5}))
    world.crashed({EU0: 5})
    world.found = {EU0: Skip([(7, 9)])}
    world.recover(EU0)
    world.recovery.doubt({EU0, EU1}, Positions({EU0: 5, EU1: 5}), world.look)
    assert len(world.asked) == 1
    assert world.recovery.ready == {EU0}


# --- beside lanes that run ------------------------------------------------------------------


def ended(world: World) -> bool:
    """The end of a recovery in the background, waited for."""
    assert world.recovery._thread is not None
    world.recovery._thread.join(30)
    return world.recovery.ended()


def test_in_the_background_one_goes_on_at_a_time_and_its_end_is_noticed_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.crashed({EU0: 5, EU1: 3})
    go_on = threading.Event()

    def slow(*asked: Any) -> TailFound:
        assert go_on.wait(30)
        return world.read_tail(*asked)

    monkeypatch.setattr(world.connector, "read_tail", slow)
    assert not world.recovery.ended()
    world.recovery.begin({EU0}, world.look)
    world.recovery.begin({EU1}, world.look)
    assert (world.recovery.under_way, world.recovery.ended()) == (True, False)
    go_on.set()
    assert ended(world)
    assert (world.recovery.under_way, world.recovery.ended()) == (False, False)
    assert world.observer.state.unclean == {EU1}


def test_one_that_fails_in_the_background_is_told_and_left_to_the_next_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.engine.recovery.RETRY_SECONDS", 0.0)
    world.crashed({EU0: 5})
    world.failure = ClusterError("the hub is away")
    world.recovery.begin({EU0}, world.look)
    assert ended(world)
    assert [it.message for it in world.events if it.kind == "recovery_failed"] == [
        "the hub is away"
    ]
    assert world.observer.state.unclean == {EU0}


def test_one_that_goes_on_when_all_is_to_stop_is_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.engine.recovery.RETRY_SECONDS", 0.0)

    def until_cancelled(*_: Any) -> TailFound:
        assert world.cancelled.wait(30)
        raise ClusterError("cancelled")

    world.crashed({EU0: 5})
    monkeypatch.setattr(world.connector, "read_tail", until_cancelled)
    world.recovery.begin({EU0}, world.look)
    world.recovery.cancel()
    assert world.cancelled.is_set()
    assert ended(world)


# --- the hub's ends -------------------------------------------------------------------------


def settled(
    world: World, monkeypatch: pytest.MonkeyPatch, grow: Callable[[int], int]
) -> dict[TopicPartition, OffsetRange]:
    """The hub's logs, as a recovery takes them while its end moves as `grow` says."""
    ends = iter(map(grow, range(1_000)))

    def offsets(wanted: Iterable[TopicPartition], _timeout: float) -> PartitionOffsets:
        end = next(ends)
        return PartitionOffsets({tp: OffsetRange(0, end) for tp in wanted})

    monkeypatch.setattr(world, "offsets", offsets)
    hub: Any = world
    return settled_logs(hub, ["orders"], 1.0, threading.Event(), world.events.append)


def test_the_hub_is_read_when_its_ends_stand_still(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settled(world, monkeypatch, lambda asked: min(asked, 4))
    assert found == {HUB0: OffsetRange(0, 4)}
    assert world.events == []


def test_where_others_keep_writing_it_is_read_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "SETTLE_LIMIT_SECONDS", 0.0)
    assert settled(world, monkeypatch, lambda asked: asked) == {HUB0: OffsetRange(0, 1)}
    assert [it.kind for it in world.events] == ["hub_not_settled"]
