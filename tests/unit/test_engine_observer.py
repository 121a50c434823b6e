"""What the observer commits, on a real Delta table, of queries that end well and badly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aggregator.checkpoint.table import CheckpointTable
from aggregator.engine.events import Event
from aggregator.engine.identity import Identity
from aggregator.engine.observer import Observer
from aggregator.engine.tail import HubSnapshot
from aggregator.errors import ClusterError
from aggregator.model import Lane, Positions, SourcePartition, TopicPartition
from aggregator.stream.lane import BatchEnd, LaneQuery

EU0 = SourcePartition("eu", "orders", 0)
HUB0 = TopicPartition("orders", 0)


class Query(LaneQuery):
    """A lane's query that tells what the test has put in; it needs no Spark."""

    def __init__(self) -> None:
        self.lane = Lane("eu", (EU0,))
        self.generation = 1
        self.batches: list[BatchEnd] = []

    def new_batch(self) -> BatchEnd | None:
        return self.batches.pop(0) if self.batches else None


class Hub:
    """A hub whose end is what the test says; None = it does not answer, -1 = not for this one."""

    end: int | None = 0

    def read(self, topics: Mapping[str, int]) -> HubSnapshot:
        if self.end is None:
            raise ClusterError("the hub does not answer")
        assert dict(topics) == {"orders": 1}
        return HubSnapshot(1, {} if self.end < 0 else {HUB0: self.end})


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def observer(tmp_path: Path, hub: Hub, events: list[Event]) -> Iterator[Observer]:
    table = CheckpointTable.create(str(tmp_path))
    table.claim_epoch("the test")
    identity = Identity({"hub": "H", "eu": "E"}, {("eu", "orders"): "T"}, {"orders": 1})
    yield Observer(table, hub.read, identity, 1.0, 3600.0, events.append)


def batch(number: int, position: int) -> BatchEnd:
    return BatchEnd(number, 0, 1, position, Positions({EU0: position}))


def begun(observer: Observer, hub: Hub, end: int) -> Query:
    query = Query()
    hub.end = end
    observer.begin("eu", 1, Positions({EU0: 0}))
    observer.watch(query)
    return query


def bound(observer: Observer) -> int:
    return observer.state.hub_ends_for([EU0])[HUB0]


def test_a_start_is_known_and_unclean_before_anything_is_written(
    observer: Observer, hub: Hub
) -> None:
    begun(observer, hub, end=100)
    assert observer.positions == Positions({EU0: 0})
    assert observer.state.positions == Positions({EU0: 0})
    assert observer.state.unclean == {EU0}
    assert bound(observer) == 100


def test_a_batch_is_committed_with_what_was_read_before_the_next_one_began(
    observer: Observer, hub: Hub
) -> None:
    query = begun(observer, hub, end=100)
    # By now the next batch has written 50 records already.
    query.batches, hub.end = [batch(0, 10)], 250
    observer.tick()
    assert observer.state.positions == Positions({EU0: 10})
    assert bound(observer) == 100


def test_a_hub_partition_that_does_not_tell_its_end_keeps_the_one_it_told(
    observer: Observer, hub: Hub
) -> None:
    query = begun(observer, hub, end=100)
    hub.end = -1
    query.batches = [batch(0, 10)]
    observer.finish(query, clean=True)
    # Without any, the next recovery would read it from its beginning.
    assert (bound(observer), observer.state.clean) == (100, True)


def test_a_lane_that_fails_keeps_the_bound_of_its_last_whole_batch(
    observer: Observer, hub: Hub
) -> None:
    query = begun(observer, hub, end=100)
    query.batches, hub.end = [batch(0, 10)], 250
    observer.tick()
    observer.tick()
    # Batch 1 is cut off: what it wrote, from 200 on, is covered by no position.
    hub.end = 300
    observer.finish(query, clean=False)
    assert observer.state.positions == Positions({EU0: 10})
    assert observer.state.unclean == {EU0}
    assert bound(observer) == 100


def test_a_lane_that_fails_before_its_first_batch_ends_is_known_by_its_start(
    observer: Observer, hub: Hub
) -> None:
    query = begun(observer, hub, end=100)
    observer.tick()
    hub.end = 300
    observer.finish(query, clean=False)
    assert observer.positions == Positions({EU0: 0})
    assert bound(observer) == 100


def test_a_clean_end_needs_no_look_into_the_hub(observer: Observer, hub: Hub) -> None:
    query = begun(observer, hub, end=100)
    query.batches, hub.end = [batch(0, 10)], 110
    observer.finish(query, clean=True)
    assert observer.state.positions == Positions({EU0: 10})
    assert observer.state.clean
    assert bound(observer) == 110


def test_records_are_counted_over_the_lives_of_a_lane(observer: Observer, hub: Hub) -> None:
    for _ in range(2):
        query = begun(observer, hub, end=100)
        query.batches = [batch(0, 10)]
        observer.tick()
        observer.finish(query, clean=True)
    assert observer.progress["eu"].records == 20


def test_a_hub_that_does_not_answer_is_told_once_and_stops_no_commit(
    observer: Observer, hub: Hub, events: list[Event]
) -> None:
    query = begun(observer, hub, end=100)
    hub.end = None
    for number in (1, 2):
        query.batches = [batch(number, 10 * number)]
        observer.tick()
    assert [event.kind for event in events].count("checkpoint_error") >= 1
    assert observer.positions == Positions({EU0: 20})
    assert bound(observer) == 100


def recreated(observer: Observer) -> None:
    """A look finds that the topic is another one, and longer."""
    observer.update(Identity({"hub": "H", "eu": "E"}, {("eu", "orders"): "U"}, {"orders": 1}))


def test_a_lane_commits_with_the_ids_that_were_known_when_it_began(
    observer: Observer, hub: Hub
) -> None:
    observer.saw({EU0: 9})
    query = begun(observer, hub, 0)
    recreated(observer)
    query.batches = [batch(0, 7)]
    observer.tick()
    entry = observer.state.entries[EU0]
    assert (entry.position, entry.topic_id, entry.log_end) == (7, "T", 9)
    query.batches = [batch(1, 8)]
    observer.finish(query, clean=False)
    assert observer.state.entries[EU0].topic_id == "T"
    # What a recovery finds of it still belongs to the topic that it was read from.
    observer.recovered(Positions({EU0: 9}))
    entry = observer.state.entries[EU0]
    assert (entry.position, entry.topic_id, entry.log_end) == (9, "T", 9)
    assert observer.state.clean


def test_a_position_that_is_moved_belongs_to_the_new_topic_and_is_bounded_by_the_hub_of_now(
    observer: Observer, hub: Hub
) -> None:
    observer.saw({EU0: 9})
    query = begun(observer, hub, 0)
    query.batches = [batch(0, 7)]
    observer.finish(query, clean=True)
    recreated(observer)
    hub.end = 55
    observer.moved(Positions({EU0: 0}))
    entry = observer.state.entries[EU0]
    assert (entry.position, entry.topic_id, entry.log_end) == (0, "U", None)
    assert observer.state.clean
    assert observer.state.hub_ends_for() == {HUB0: 55}
    assert observer.positions == Positions({EU0: 0})
