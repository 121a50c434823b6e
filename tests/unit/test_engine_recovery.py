"""What a recovery commits and hands to the next lanes; the checkpoint is a real table."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.config import load_text
from aggregator.config.in_force import InForce
from aggregator.datapath.connector.connector import Cancellation, TailFound
from aggregator.datapath.hub_ledger import Ends
from aggregator.engine.commits.observer import Observer
from aggregator.engine.recoverer import Recovery
from aggregator.kafka.admin.offsets import PartitionOffsets
from aggregator.kafka.discovery import hub_logs as hub_module
from aggregator.kafka.discovery.hub_logs import StoodAt, settled_logs
from aggregator.model.errors import CheckpointError, ClusterError
from aggregator.model.events import Event
from aggregator.model.values import (
    ClusterFacts,
    OffsetRange,
    Positions,
    Route,
    Skip,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan.lanes.slots import SlotPlan
from aggregator.plan.lifecycle.commands import Hole, Outcome, Recover, Recovered
from aggregator.plan.plan import Plan
from aggregator.plan.positions.origins import HubSample, Print, SampleAnswers, SourceRecord
from aggregator.plan.positions.recovery import TailPlan
from aggregator.plan.positions.start import GapKind, Observed
from aggregator.plan.snapshot import ClusterSnapshot
from aggregator.plan.topics.hub_topics import HubTopic
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.identity import Identity
from aggregator.store.checkpoint.past_commits import Past
from aggregator.store.checkpoint.rows import HUB
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore
from support.flow_world import config_of

EU0, EU1, EU2 = (SourcePartition("eu", "orders", number) for number in range(3))
HUB0, HUB1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ROUTES: tuple[Route, ...] = (Route("eu", "orders", "orders", 3, 2),)


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
        self.routes = ROUTES
        self.logs = {HUB0: OffsetRange(0, 20)}
        self.sources = {sp: OffsetRange(0, 100) for sp in (EU0, EU1, EU2)}
        self.topic_id = "T"
        self.hub_topic_id = "H1"
        self.found: dict[SourcePartition, Skip] = {}
        self.samples: dict[SourcePartition, tuple[HubSample, ...]] = {}
        self.answers = SampleAnswers()
        self.wanted: list[Mapping[SourcePartition, Sequence[int]]] = []
        self.failure: Exception | None = None
        self.asked: list[tuple[TailPlan, Mapping[str, str], list[str]]] = []
        self.cancelled = threading.Event()
        self.events: list[Event] = []
        self.asked_ends = 0
        self.gaps = GapTable(StateStore(str(folder)))
        self.recovered = Recovered()
        identity = Identity(
            {HUB: "H", "eu": "E"}, {("eu", "orders"): "T"}, {"orders": 2}, {"orders": "H1"}
        )
        self.unseen: dict[TopicPartition, int] = {}
        self.unread: dict[str, str] = {}
        """Where logs of the hub end at their leaders, when that is further than anybody sees."""
        self.cuts: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int | None] = {}
        """What tasks have found to be cut off, and where leaders began to write."""
        self.connector = SimpleNamespace(
            take_cuts=self.take_cuts,
            read_tail=self.read_tail,
            log_ends=self.log_ends,
            log_starts=lambda offsets, *_: {
                tp: self.starts[tp] for tp in offsets if tp in self.starts
            },
            read_samples=self.read_samples,
            cancellation=lambda: SimpleNamespace(cancel=self.cancelled.set),
        )
        connector: Any = self.connector
        hub: Any = self
        emit = self.events.append
        self.observer = Observer(
            table, self.ends, connector, identity, InForce(config_of()), 3600.0, emit
        )
        self.recovery = Recovery(connector, self.observer, hub, self.gaps, emit, threading.Event())

    # The hub, as its admin client is asked.

    def partition_counts(self, _timeout: float) -> dict[str, int]:
        names = [tp.topic for tp in self.logs]
        return {name: names.count(name) for name in names}

    def offsets(self, wanted: Iterable[TopicPartition], _timeout: float) -> PartitionOffsets:
        return PartitionOffsets({tp: self.logs[tp] for tp in wanted})

    def ends(self, _: Mapping[str, int]) -> Ends:
        return {tp: log.latest for tp, log in self.logs.items()}

    def grows_to(self, end: int) -> None:
        self.logs[HUB0] = OffsetRange(0, end)

    # The connector.

    def take_cuts(self) -> dict[TopicPartition, int]:
        taken, self.cuts = self.cuts, {}
        return taken

    def log_ends(
        self, partitions: Iterable[TopicPartition], _settings: Mapping[str, str], _seconds: float
    ) -> dict[TopicPartition, int]:
        return {tp: self.unseen.get(tp, self.logs[tp].latest) for tp in partitions}

    def read_tail(
        self,
        tail: TailPlan,
        consumer: Mapping[str, str],
        compacted: list[str],
        _cancellation: Cancellation,
    ) -> TailFound:
        self.asked.append((tail, consumer, compacted))
        if self.failure is not None:
            raise self.failure
        count = sum(end - start for it in self.found.values() for start, end in it.ranges)
        unread = {
            it: why for it, why in self.unread.items() if it in {tp.topic for tp in tail.ranges}
        }
        return TailFound(tail.offsets, count, self.found, self.samples, unread)

    def read_samples(
        self,
        wanted: Mapping[SourcePartition, Sequence[int]],
        consumers: Mapping[str, Mapping[str, str]],
        **_within: object,
    ) -> SampleAnswers:
        self.wanted.append(wanted)
        assert consumers["eu"]["bootstrap.servers"] == "127.0.0.1:10"
        return self.answers

    # What the test does.

    @property
    def snapshot(self) -> ClusterSnapshot:
        facts = ClusterFacts("eu", "E", 1, {"orders": TopicFacts("orders", self.topic_id, 3, 1)})
        slots = SlotPlan("local[4]", 4, 2)
        topics = {"orders": HubTopic("orders", 2, 1, "compact")}
        there = {"orders": TopicFacts("orders", self.hub_topic_id, 2, 1)}
        hub = replace(facts, cluster_id="H", topics=there)
        plan = Plan(hub, {"eu": facts}, {}, self.routes, topics, (), (), slots)
        observed = Observed({"eu": "E"}, {("eu", "orders"): self.topic_id}, self.sources)
        return ClusterSnapshot(plan, observed, {}, 100.0)

    def crashed(self, positions: Mapping[SourcePartition, int], end: int = 50) -> None:
        """A lane began here, and has written up to there when it died."""
        self.observer.begin("eu", 1, Positions(positions), {}, {"orders"})
        self.grows_to(end)

    def command(self, *partitions: SourcePartition, **fields: Any) -> Recover:
        return Recover(frozenset(partitions), self.snapshot, **{"alone": False, **fields})

    def recover(self, *partitions: SourcePartition, **fields: Any) -> None:
        command = self.command(*partitions, **fields)
        self.recovered = self.recovery.recover(command, self.config)

    @property
    def holes(self) -> Mapping[SourcePartition, Hole]:
        return self.recovered.holes

    @property
    def skips(self) -> dict[SourcePartition, Skip]:
        return {sp: hole.skip for sp, hole in self.holes.items()}

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
    assert world.holes == {}
    done = world.recovered
    assert (done.partitions, done.tail, done.found, done.records) == (2, 30, 4, ())


def test_what_has_a_hole_is_not_clean_and_its_next_lane_leaves_out_what_was_found(
    world: World,
) -> None:
    world.crashed({EU0: 5, EU1: 3})
    world.found = {EU0: Skip([(5, 7), (9, 12), (20, 21)], {HUB0: {b"k": 20}}), EU1: Skip([(3, 4)])}
    world.recover(EU0, EU1)
    state = world.observer.state
    assert state.positions == Positions({EU0: 7, EU1: 4})
    assert state.unclean == {EU0}
    # What the hub holds of it beyond 7 lies where the tail began, not where the hub ends now.
    assert world.bound(EU0) == {HUB0: 20}
    snapshot = state.entries[EU0].snapshot.snapshot_at_ms
    skip = Skip([(9, 12), (20, 21)], {HUB0: {b"k": 20}})
    assert world.holes == {EU0: Hole(7, snapshot, skip, {HUB0: 20})}
    done = world.recovered
    assert (done.partitions, done.tail, done.found) == (2, 30, 7)


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
        older = {sp: hole.ends for sp, hole in world.holes.items()}
        world.observer.begin("eu", 2, Positions({EU0: 7}), older, {"orders"})
        assert world.observer.state.unclean == {EU0}
        assert world.skips == {EU0: Skip([(9, 12)])}


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
    assert {sp: hole.ends for sp, hole in world.holes.items()} == older
    assert (world.bound(EU0), world.bound(EU1)) == (older[EU0], older[EU1])


def test_the_tail_is_read_whole_and_without_regard_to_transactions(world: World) -> None:
    world.crashed({EU0: 5})
    world.recover(EU0)
    ((tail, consumer, compacted),) = world.asked
    assert (tail.positions, tail.ranges) == (Positions({EU0: 5}), {HUB0: OffsetRange(20, 50)})
    assert consumer["isolation.level"] == "read_uncommitted"
    assert consumer["bootstrap.servers"] == "127.0.0.1:9"
    assert compacted == ["orders"]


def test_the_hub_topic_of_before_a_rename_is_read_as_well(world: World) -> None:
    old = TopicPartition("before.orders", 0)
    # The lane wrote to another topic when it died, and to one that is gone by now.
    now = world.logs
    world.logs = {old: OffsetRange(0, 20), TopicPartition("gone", 0): OffsetRange(0, 1)}
    world.observer.begin("eu", 1, Positions({EU0: 5}), {}, {"orders"})
    world.logs = {**now, old: OffsetRange(0, 30)}
    world.found = {EU0: Skip([(5, 9), (11, 12)])}
    world.recover(EU0)
    assert world.asked[-1][0].ranges == {HUB0: OffsetRange(0, 20), old: OffsetRange(20, 30)}
    assert world.observer.state.positions == Positions({EU0: 9})
    # Another crash finds the same again.
    assert world.bound(EU0) == {HUB0: 0, old: 20, TopicPartition("gone", 0): 1}


def test_beside_lanes_what_comes_a_moment_after_the_hub_answers_is_read_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.crashed({EU0: 5})
    ends = [50, 60]

    def offsets(wanted: Iterable[TopicPartition], _timeout: float) -> PartitionOffsets:
        world.grows_to(ends.pop(0) if ends else 60)
        return PartitionOffsets({tp: world.logs[tp] for tp in wanted})

    monkeypatch.setattr(world, "offsets", offsets)
    world.recover(EU0, alone=False)
    assert [tail.ranges for tail, _, _ in world.asked] == [{HUB0: OffsetRange(20, 60)}]


def test_what_the_hub_has_lost_is_copied_again_from_where_it_certainly_had_all(
    world: World,
) -> None:
    """It was restored from a backup: of 50 records it holds the first 33."""
    world.logs[HUB1] = OffsetRange(0, 5)
    for position, end in ((5, 20), (12, 30), (25, 50)):
        world.grows_to(end)
        world.observer.recovered(Positions({EU0: position, EU1: position}))
    world.grows_to(33)
    world.found = {EU0: Skip([(12, 14), (16, 17)])}
    world.recover(EU0)
    (tail, _, _) = world.asked[-1]
    assert tail.ranges == {HUB0: OffsetRange(30, 33)}
    assert tail.positions == {EU0: 12}
    assert world.observer.state.positions == {EU0: 14, EU1: 25}
    assert world.skips == {EU0: Skip([(16, 17)])}
    assert world.bound(EU0) == {HUB0: 30, HUB1: 5}
    lost = [it for it in world.events if it.kind == "hub_lost"]
    assert [it.fields for it in lost] == [{"hub_partitions": 1}, {"partitions": 1, "offsets": 13}]
    assert "the hub holds less in orders" in lost[1].message
    # By its own commit it has lost no more; that the other partition has is known from now on.
    world.recover(EU0)
    assert len([it for it in world.events if it.kind == "hub_lost"]) == 2
    other = world.observer.state.entries[EU1].snapshot
    assert (other.clean, other.topic_ids) == (True, {"orders": "lost H1 0:33"})


def test_what_was_cut_off_is_copied_again_though_the_hub_has_grown_since(world: World) -> None:
    """From offset 33 on another leader has written; a task has noticed it at 36."""
    world.logs[HUB1] = OffsetRange(0, 5)
    for position, end in ((5, 20), (12, 30), (20, 35), (25, 50)):
        world.grows_to(end)
        world.observer.recovered(Positions({EU0: position, EU1: position}))
    world.grows_to(70)
    world.observer.cut_off({HUB0: 36})
    world.starts = {HUB0: None}
    world.recover(EU0)
    assert world.recovered.waits == {"orders": "its leaders do not say since when they lead"}
    assert world.asked == []
    world.starts = {HUB0: 33}
    world.recover(EU0, EU1)
    (tail, _, _) = world.asked[-1]
    assert tail.positions == {EU0: 12, EU1: 12}
    assert tail.ranges == {HUB0: OffsetRange(30, 70)}
    state = world.observer.state
    assert state.own_hub_ids() == {sp: {"orders": "H1"} for sp in (EU0, EU1)}
    assert world.bound(EU0) == {HUB0: 70, HUB1: 5}


def test_a_recovery_that_has_read_before_the_hub_lost_something_counts_for_nothing(
    world: World,
) -> None:
    world.crashed({EU0: 5})
    world.found = {EU0: Skip([(5, 9)])}
    world.cuts = {HUB0: 30}
    with pytest.raises(ClusterError, match="orders-0 has lost records"):
        world.recover(EU0)
    assert world.observer.state.positions == {EU0: 5}
    assert world.observer.state.own_hub_ids() == {EU0: {"orders": "lost H1 0:30"}}


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_hub_topic_that_was_created_again_gets_all_that_is_known_to_be_copied(
    world: World, trimmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.crashed({EU0: 5})
    world.observer.distrust(Positions({EU0: 30}), {EU0: {HUB0: 40}}, {}, ())
    world.grows_to(0)
    if trimmed:
        # Older commits have expired.
        monkeypatch.setattr(Past, "is_whole", False)
    world.recover(EU0)
    assert world.observer.state.positions == {EU0: 5}
    assert world.observer.state.clean
    gaps = [it.gap for it in world.recovered.records]
    found = [(it.kind, it.start, it.end, it.position) for it in gaps]
    assert found == ([(GapKind.HUB_LOST, 0, 5, 5)] if trimmed else [])


def test_a_hub_topic_that_was_created_again_and_outgrew_its_end_holds_nothing_of_before(
    world: World,
) -> None:
    for position, end in ((5, 20), (12, 30)):
        world.grows_to(end)
        world.observer.recovered(Positions({EU0: position, EU1: position}))
    world.grows_to(60)
    world.hub_topic_id = "H2"
    world.recover(EU0)
    (tail, _, _) = world.asked[-1]
    assert tail.ranges == {HUB0: OffsetRange(0, 60)}
    assert tail.positions == {EU0: 5}
    state = world.observer.state
    assert state.positions == {EU0: 5, EU1: 12}
    assert {sp: it.snapshot.topic_ids for sp, it in state.entries.items()} == {
        EU0: {"orders": "H2"},
        EU1: {"orders": "H1"},
    }
    # It is the one that is there now.
    world.recover(EU0)
    assert len([it for it in world.events if it.kind == "hub_lost"]) == 1


def test_what_is_known_to_be_lost_stays_so_when_the_hub_grows(world: World) -> None:
    world.crashed({EU0: 5})
    ends = {EU0: {HUB0: 40}}
    world.observer.distrust(Positions({EU0: 30}), ends, {}, (), {EU0: frozenset({"orders"})})
    world.grows_to(50)
    world.recover(EU0)
    assert world.observer.state.positions == {EU0: 5}
    assert world.observer.state.entries[EU0].snapshot.topic_ids == {"orders": "H1"}


def test_a_tail_without_anything_in_it_is_not_read(world: World) -> None:
    world.crashed({EU0: 5}, end=20)
    world.recover(EU0)
    assert world.asked == []
    assert world.observer.state.clean
    assert world.observer.state.positions == Positions({EU0: 5})


def test_what_the_source_has_deleted_meanwhile_is_lost_and_reported(world: World) -> None:
    world.crashed({EU0: 5})
    world.sources[EU0] = OffsetRange(10, 100)
    world.found = {EU0: Skip([(5, 7), (9, 12)])}
    world.recover(EU0)
    assert world.observer.state.positions == Positions({EU0: 12})
    (record,) = world.recovered.records
    # Of 5 to 9 the hub holds three.
    gap = record.gap
    assert (gap.partition, gap.start, gap.end, gap.lost) == (EU0, 5, 10, 2)
    assert world.gaps.load() == {record.id: record}


def test_what_is_lost_is_recorded_once(world: World) -> None:
    world.crashed({EU0: 5})
    world.sources[EU0] = OffsetRange(10, 100)
    world.found = {EU0: Skip([(9, 12)])}
    for count in (1, 0):
        world.observer.distrust(Positions({EU0: 5}), {EU0: {HUB0: 20}}, {}, ())
        world.recover(EU0)
        assert len(world.recovered.records) == count


def test_ends_that_were_looked_up_while_a_lane_read_cut_nothing_off(world: World) -> None:
    world.crashed({EU0: 5})
    world.sources[EU0] = OffsetRange(0, 8)
    world.found = {EU0: Skip([(7, 12)])}
    world.recover(EU0, left_at={EU0: world.snapshot.began + 1})
    assert world.skips == {EU0: Skip([(7, 12)])}
    world.recover(EU0, left_at={EU0: world.snapshot.began - 1})
    assert world.skips == {EU0: Skip([(7, 8)])}


def test_of_a_topic_that_was_created_again_what_the_hub_lacks_stays_known(world: World) -> None:
    world.crashed({EU0: 5})
    world.topic_id = "U"
    world.found = {EU0: Skip([(5, 6), (7, 9)])}
    world.recover(EU0)
    # 6 is lost with its topic: a gap from here on names it.
    assert world.observer.state.positions == Positions({EU0: 6})
    assert world.skips == {EU0: Skip([(7, 9)])}


def with_samples(world: World, *partitions: SourcePartition) -> None:
    """The hub holds 5 to 8 of these, all of timestamp 100."""
    for sp in partitions:
        world.found[sp] = Skip([(5, 9)])
        world.samples[sp] = tuple(HubSample(at, (Print(100, 1, "orders"),)) for at in range(5, 9))


def at_source(timestamp: int) -> dict[int, SourceRecord]:
    return {at: SourceRecord(timestamp, 1) for at in range(5, 9)}


def test_what_is_of_another_log_is_recorded_and_only_that_is_not_believed(world: World) -> None:
    world.crashed({EU0: 5, EU1: 5})
    with_samples(world, EU0, EU1)
    world.answers = SampleAnswers({EU0: at_source(99), EU1: at_source(100)})
    world.recover(EU0, EU1)
    state = world.observer.state
    assert state.positions == Positions({EU0: 5, EU1: 9})
    assert state.unclean == {EU0}
    assert world.bound(EU0) == {HUB0: 20}
    assert world.holes == {}
    (record,) = world.recovered.records
    gap = record.gap
    assert (gap.partition, gap.kind, gap.position) == (EU0, GapKind.FOREIGN_ORIGIN, 5)
    assert (gap.start, gap.end, gap.now.topic) == (5, 9, "T")
    assert world.gaps.load() == {record.id: record}
    del world.found[EU1]
    # While no one decides, it is the same finding; once it is settled, it is a new one.
    world.recover(EU0)
    assert not world.recovered.records
    world.gaps.append([record.closed("by hand", record.found_at)])
    world.recover(EU0)
    (again,) = world.recovered.records
    assert again.id == record.id
    assert not world.gaps.load()[record.id].resolved


def test_nothing_of_a_source_that_does_not_say_what_is_its_own_moves_and_the_others_continue(
    world: World,
) -> None:
    """Also where the checkpoint had it for clean, or did not have it at all."""
    world.observer.recovered(Positions({EU0: 5}))
    world.grows_to(50)
    with_samples(world, EU0, EU1, EU2)
    world.answers = SampleAnswers(
        {EU1: at_source(100)}, silent={EU0: "no answer", EU2: "no answer"}
    )
    every = (EU0, EU1, EU2)
    doubted = {sp: {HUB0: 7} for sp in every}
    world.observer.distrust(Positions(dict.fromkeys(every, 5)), doubted, {}, ())
    world.recover(*every)
    assert world.recovered.silent == {EU0: "no answer", EU2: "no answer"}
    assert world.recovered.records == ()
    state = world.observer.state
    assert state.positions == Positions({EU0: 5, EU1: 9, EU2: 5})
    assert state.unclean == {EU0, EU2}
    assert world.bound(EU2) == {HUB0: 7}


def test_the_source_is_only_asked_about_a_log_that_is_still_the_same(world: World) -> None:
    world.crashed({EU0: 5, EU1: 5})
    world.recover(EU0, EU1)
    assert world.wanted == []
    world.crashed({EU0: 5, EU1: 5}, end=60)
    with_samples(world, EU0, EU1)
    del world.sources[EU1]
    world.recover(EU0, EU1)
    assert world.wanted == [{EU0: [5, 8, 6, 7]}]
    world.topic_id = "U"
    world.recover(EU0)
    assert len(world.wanted) == 1


@pytest.mark.parametrize("failure", [ClusterError("the hub is away"), CheckpointError("full")])
def test_a_recovery_that_fails_commits_nothing(world: World, failure: Exception) -> None:
    world.crashed({EU0: 5})
    seq, world.failure = world.observer.state.seq, failure
    with pytest.raises(type(failure)):
        world.recover(EU0)
    assert world.observer.state.seq == seq
    world.failure = None
    del world.logs[HUB0]
    world.recover(EU0, alone=True)
    assert world.recovered.waits == {"orders": "it is not there"}
    assert world.observer.state.seq == seq


def test_what_is_not_believed_is_recovered_behind_the_ends_that_belong_to_the_doubt(
    world: World,
) -> None:
    world.observer.recovered(Positions({EU0: 5}))
    world.grows_to(30)
    world.found = {EU0: Skip([(5, 8)])}
    world.observer.distrust(Positions({EU0: 5}), {EU0: {HUB0: 25}}, {}, ())
    world.recover(EU0)
    assert world.asked[0][0].ranges == {HUB0: OffsetRange(25, 30)}
    assert world.observer.state.positions == Positions({EU0: 8})


def test_what_is_whole_and_what_is_not_are_one_commit(world: World) -> None:
    """A crash between two would leave what says where the hub is now, and not what is in doubt."""
    world.crashed({EU0: 5, EU1: 3, EU2: 0})
    # Two ids of one topic cannot stand in one checkpoint, and still they are one commit.
    world.topic_id = "U"
    world.observer.update(Identity({HUB: "H", "eu": "E"}, {("eu", "orders"): "U"}, {"orders": 2}))
    world.observer.moved(Positions({EU2: 0}))
    world.crashed({EU2: 0})
    world.found = {EU0: Skip([(5, 7)]), EU1: Skip([(6, 7)]), EU2: Skip([(0, 4)])}
    before = world.observer.state.seq
    world.recover(EU0, EU1, EU2)
    state = world.observer.state
    assert state.seq == before + 1
    assert {sp: it.seq for sp, it in state.entries.items()} == dict.fromkeys(
        (EU0, EU1, EU2), before + 1
    )
    assert state.unclean == {EU1}
    assert {it.topic_id for it in state.entries.values()} == {"T", "U"}


def test_a_tail_is_read_when_all_of_it_can_be_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica has died: its leader holds records that no one sees before it is given up."""
    monkeypatch.setattr(hub_module, "SHOWN_SECONDS", 0.0)
    world.crashed({EU0: 5}, end=30)
    world.unseen = {HUB0: 37}
    world.recover(EU0)
    assert world.recovered.waiting == {EU0: "orders"}
    assert "7 records that not all replicas have" in world.recovered.waits["orders"]
    assert world.asked == []
    assert world.observer.state.unclean == {EU0}
    world.grows_to(37)
    world.recover(EU0)
    assert world.asked[0][0].ranges == {HUB0: OffsetRange(20, 37)}
    assert world.observer.state.clean


PAYS, PAY = SourcePartition("eu", "pays", 0), TopicPartition("pays", 0)


def test_what_goes_to_another_hub_topic_does_not_wait(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is committed by itself, and the others keep the bound behind which theirs may be."""
    monkeypatch.setattr(hub_module, "SHOWN_SECONDS", 0.0)
    world.routes = (*ROUTES, Route("eu", "pays", "pays", 1, 1))
    world.logs |= {PAY: OffsetRange(0, 10)}
    world.sources |= {PAYS: OffsetRange(0, 100)}
    world.crashed({EU0: 5, PAYS: 2}, end=30)
    world.logs[PAY] = OffsetRange(0, 14)
    world.unseen = {HUB0: 37}
    world.found = {PAYS: Skip([(2, 6)])}
    world.recover(EU0, PAYS)
    ((tail, *_),) = world.asked
    assert (tail.positions, tail.ranges) == (Positions({PAYS: 2}), {PAY: OffsetRange(10, 14)})
    assert world.recovered.waiting == {EU0: "orders"}
    state = world.observer.state
    assert state.positions == Positions({EU0: 5, PAYS: 6})
    assert state.unclean == {EU0}
    assert world.bound(EU0)[HUB0] == 20
    world.grows_to(37)
    world.found = {EU0: Skip([(5, 9)])}
    world.recover(EU0)
    assert world.asked[1][0].ranges == {HUB0: OffsetRange(20, 37)}
    assert world.observer.state.positions == Positions({EU0: 9, PAYS: 6})
    assert world.observer.state.clean


def test_a_topic_that_cannot_be_read_costs_only_what_is_written_into_it(world: World) -> None:
    world.routes = (*ROUTES, Route("eu", "pays", "pays", 1, 1))
    world.logs |= {PAY: OffsetRange(0, 10)}
    world.sources |= {PAYS: OffsetRange(0, 100)}
    world.crashed({EU0: 5, PAYS: 2}, end=30)
    world.logs[PAY] = OffsetRange(0, 14)
    world.found = {PAYS: Skip([(2, 6)])}
    world.unread = {"orders": "it may not be read"}
    world.recover(EU0, PAYS)
    # What was found before was perhaps not all of it.
    assert [set(tail.ranges) for tail, *_ in world.asked] == [{HUB0, PAY}, {PAY}]
    assert world.recovered.waiting == {EU0: "orders"}
    assert world.recovered.waits == {"orders": "it may not be read"}
    assert world.observer.state.positions == Positions({EU0: 5, PAYS: 6})
    assert world.observer.state.unclean == {EU0}
    world.unread = {}
    world.found = {EU0: Skip([(5, 9)])}
    world.recover(EU0)
    assert world.observer.state.positions == Positions({EU0: 9, PAYS: 6})
    world.unread = {"orders": "it may not be read"}
    world.crashed({EU0: 9}, end=40)
    world.recover(EU0)
    assert world.recovered.waiting == {EU0: "orders"}


# --- in the background ----------------------------------------------------------------------


def ended(world: World) -> Outcome | None:
    """The end of a recovery in the background, waited for."""
    assert world.recovery._thread is not None
    world.recovery._thread.join(30)
    return world.recovery.ended()


def test_the_end_of_one_is_reported_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.crashed({EU0: 5, EU1: 3})
    proceed = threading.Event()

    def slow(*asked: Any) -> TailFound:
        assert proceed.wait(30)
        return world.read_tail(*asked)

    monkeypatch.setattr(world.connector, "read_tail", slow)
    assert world.recovery.ended() is None
    command = world.command(EU0)
    world.recovery.begin(command, world.config)
    assert world.recovery.ended() is None
    proceed.set()
    outcome = ended(world)
    assert outcome is not None
    assert (outcome.command, outcome.error) == (command, None)
    assert isinstance(outcome.result, Recovered)
    assert world.recovery.ended() is None
    assert world.observer.state.unclean == {EU1}


def test_one_that_fails_says_why(world: World) -> None:
    world.crashed({EU0: 5})
    world.failure = ClusterError("the hub is away")
    world.recovery.begin(world.command(EU0), world.config)
    outcome = ended(world)
    assert outcome is not None
    assert outcome.error is world.failure
    assert world.observer.state.unclean == {EU0}


def test_one_that_continues_when_everything_has_to_stop_is_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_cancelled(*_: Any) -> TailFound:
        assert world.cancelled.wait(30)
        raise ClusterError("cancelled")

    world.crashed({EU0: 5})
    monkeypatch.setattr(world.connector, "read_tail", until_cancelled)
    world.recovery.begin(world.command(EU0), world.config)
    world.recovery.cancel()
    assert world.cancelled.is_set()
    assert ended(world) is not None


# --- the hub's ends -------------------------------------------------------------------------


def settled(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    grow: Callable[[int], int],
    stood: StoodAt | None = None,
) -> Mapping[TopicPartition, OffsetRange]:
    """The hub's logs, as a recovery takes them while its end moves as `grow` says."""
    world.asked_ends = 0

    def ends_of() -> int:
        world.asked_ends += 1
        return grow(world.asked_ends - 1)

    def offsets(wanted: Iterable[TopicPartition], _timeout: float) -> PartitionOffsets:
        end = ends_of()
        return PartitionOffsets({tp: OffsetRange(0, end) for tp in wanted})

    monkeypatch.setattr(world, "offsets", offsets)
    hub: Any = world
    needs = [frozenset({"orders"})]
    found = settled_logs(hub, needs, 1.0, threading.Event(), world.events.append, stood)
    assert not found.waits
    return found.logs


def test_the_hub_is_read_when_its_ends_stand_still(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settled(world, monkeypatch, lambda asked: min(asked, 4))
    assert found == {HUB0: OffsetRange(0, 4)}
    assert world.events == []


def test_it_is_read_at_once_where_its_ends_stand_as_they_did_while_the_session_started(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood = StoodAt({HUB0: 4}, time.monotonic() - hub_module.SETTLE_SECONDS)
    assert settled(world, monkeypatch, lambda _: 4, stood) == {HUB0: OffsetRange(0, 4)}
    assert world.asked_ends == 1


@pytest.mark.parametrize(
    ("ends", "ago"),
    [({HUB0: 3}, 60.0), ({}, 60.0), ({HUB0: 4}, -1.0)],
    ids=["it has grown since", "it did not say then", "that is a moment ago only"],
)
def test_else_it_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch, ends: dict[TopicPartition, int], ago: float
) -> None:
    stood = StoodAt(ends, time.monotonic() - ago)
    assert settled(world, monkeypatch, lambda _: 4, stood) == {HUB0: OffsetRange(0, 4)}
    assert world.asked_ends == 2


def test_where_others_keep_writing_it_is_read_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "SETTLE_LIMIT_SECONDS", 0.0)
    assert settled(world, monkeypatch, lambda asked: asked) == {HUB0: OffsetRange(0, 1)}
    assert [it.kind for it in world.events] == ["hub_not_settled"]


def test_a_topic_that_others_keep_writing_into_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.logs |= {PAY: OffsetRange(0, 10)}
    hub: Any = world
    grown = iter(range(21, 99))

    def offsets(wanted: Iterable[TopicPartition], _timeout: float) -> PartitionOffsets:
        world.grows_to(next(grown))
        return PartitionOffsets({tp: world.logs[tp] for tp in wanted})

    monkeypatch.setattr(world, "offsets", offsets)
    needs = [frozenset({"orders"}), frozenset({"pays"})]
    found = settled_logs(hub, needs, 1.0, threading.Event(), world.events.append)
    assert found.logs == {PAY: OffsetRange(0, 10)}
    assert "others write into it" in found.waits["orders"]
    assert not world.events
