"""Recovery's pure core: tails, replay ranges, and exactly-once under any partial delivery."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from aggregator.model import OffsetRange, Positions, Route, SourcePartition, TopicPartition
from aggregator.plan.recovery import hub_topics_of, plan_replay, plan_tail, recovered_positions

EU0 = SourcePartition("eu", "orders", 0)
EU1 = SourcePartition("eu", "orders", 1)
HUB0, HUB1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_tail_lies_between_the_checkpoint_and_the_end() -> None:
    tail = plan_tail(
        Positions({EU0: 5}),
        {HUB0: 10, HUB1: 7},
        {HUB0: OffsetRange(0, 12), HUB1: OffsetRange(0, 7)},
    )
    assert tail.ranges == {HUB0: OffsetRange(10, 12)}
    assert tail.offsets == 2


def test_a_hub_partition_the_checkpoint_does_not_know_is_read_from_its_beginning() -> None:
    tail = plan_tail(Positions({EU0: 5}), {HUB0: 10}, {HUB1: OffsetRange(3, 9)})
    assert tail.ranges == {HUB1: OffsetRange(3, 9)}


def test_a_tail_never_leaves_the_log() -> None:
    deleted = plan_tail(Positions({EU0: 5}), {HUB0: 10}, {HUB0: OffsetRange(30, 40)})
    truncated = plan_tail(Positions({EU0: 5}), {HUB0: 50}, {HUB0: OffsetRange(30, 40)})
    assert deleted.ranges == {HUB0: OffsetRange(30, 40)}
    assert truncated.ranges == {}


def test_only_partitions_that_were_found_beyond_their_position_are_replayed() -> None:
    positions = Positions({EU0: 5, EU1: 5})
    ranges = plan_replay(positions, {EU0: 8, EU1: 4})
    assert ranges == {EU0: OffsetRange(5, 9)}
    assert recovered_positions(positions, ranges) == Positions({EU0: 9, EU1: 5})


def test_hub_topics_are_those_that_the_partitions_are_routed_to() -> None:
    routes = [
        Route("eu", "orders", "all.orders", 2, 4),
        Route("us", "orders", "all.orders", 2, 4),
        Route("eu", "payments", "payments", 1, 4),
    ]
    assert hub_topics_of(routes, [EU0]) == {"all.orders"}


@given(
    offsets=st.sets(st.integers(0, 60), min_size=1),
    covered=st.integers(0, 60),
    delivered=st.data(),
    crashes=st.integers(0, 3),
)
def test_each_origin_once_for_any_partial_delivery_and_any_crash_in_recovery(
    offsets: set[int], covered: int, delivered: st.DataObject, crashes: int
) -> None:
    """Source offsets with gaps; some beyond the position arrived, on two hub partitions."""
    position = covered
    below = sorted(offset for offset in offsets if offset < position)
    beyond = sorted(offset for offset in offsets if offset >= position)
    hub = Counter(below)
    hub.update(delivered.draw(st.sets(st.sampled_from(beyond))) if beyond else [])
    at = Positions({EU0: position})
    for attempt in range(crashes + 1):
        found = {offset for offset in hub if offset >= position}
        ranges = plan_replay(at, {EU0: max(found)} if found else {})
        missing = [
            offset
            for offset in beyond
            if EU0 in ranges and offset < ranges[EU0].latest and offset not in found
        ]
        if attempt < crashes:
            # A crash after some of the missing ones were written; nothing is committed.
            hub.update(missing[: len(missing) // 2])
            continue
        hub.update(missing)
        at = recovered_positions(at, ranges)
    hub.update(offset for offset in beyond if offset >= at[EU0])
    assert hub == Counter(offsets)
