"""Recovery's pure core: tails, replay ranges, and exactly-once under any partial delivery."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.model import (
    OffsetRange,
    PoisonRule,
    Positions,
    Route,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.positions import Remembered
from aggregator.plan.recovery import (
    hub_topics_of,
    plan_losses,
    plan_replay,
    plan_tail,
    recovered_positions,
)

US0 = SourcePartition("us", "orders", 0)
EU0 = SourcePartition("eu", "orders", 0)
EU1 = SourcePartition("eu", "orders", 1)
HUB0, HUB1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
WHOLE = {EU0: OffsetRange(0, 1_000), EU1: OffsetRange(0, 1_000)}


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
    highest = {EU0: 8, EU1: 4}
    assert plan_replay(positions, highest, WHOLE) == {EU0: OffsetRange(5, 9)}
    assert recovered_positions(positions, highest) == Positions({EU0: 9, EU1: 5})


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (OffsetRange(7, 100), OffsetRange(7, 9)),
        (OffsetRange(0, 8), OffsetRange(5, 8)),
        (OffsetRange(9, 100), None),
        (OffsetRange(0, 5), None),
        (None, None),
    ],
)
def test_only_what_the_source_still_holds_is_replayed(
    log: OffsetRange | None, expected: OffsetRange | None
) -> None:
    logs = {EU0: log} if log else {}
    ranges = plan_replay(Positions({EU0: 5}), {EU0: 8}, logs)
    assert ranges == ({EU0: expected} if expected else {})


@pytest.mark.parametrize(
    ("log", "found", "expected"),
    [
        # The hub holds 5 to 8, of which the source has deleted some: nothing is lost.
        (OffsetRange(7, 100), 2, None),
        # One of 5, 6 never arrived.
        (OffsetRange(7, 100), 1, (5, 7, 1)),
        # 5 to 8 were found in part, and 9 to 19 are gone as well.
        (OffsetRange(20, 100), 3, (5, 20, 12)),
        # 9 to 19 are gone, and all before arrived: that shows by itself.
        (OffsetRange(20, 100), 4, None),
        (OffsetRange(0, 100), 0, None),
        (None, 0, None),
    ],
)
def test_what_was_deleted_before_it_could_be_replayed_is_a_loss(
    log: OffsetRange | None, found: int, expected: tuple[int, int, int] | None
) -> None:
    known = Remembered(Positions({EU0: 5}), {EU0: "T"}, {EU0: "C"})
    gaps = plan_losses(known, Positions({EU0: 9}), {EU0: log} if log else {}, {EU0: found})
    told = [(gap.start, gap.end, gap.lost) for gap in gaps]
    assert told == ([expected] if expected else [])
    assert all(gap.position == 9 and gap.topic_ids[0] == "T" for gap in gaps)


def test_hub_topics_are_those_that_the_partitions_are_routed_to() -> None:
    routes = [
        Route("eu", "orders", "all.orders", 2, 4),
        Route("us", "orders", "all.orders", 2, 4),
        Route("eu", "payments", "payments", 1, 4),
    ]
    assert hub_topics_of(routes, [EU0]) == {"all.orders"}
    aside = [replace(route, poison=PoisonRule("central.quarantine")) for route in routes]
    assert hub_topics_of(aside, [EU0]) == {"all.orders", "central.quarantine"}


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
        highest = {EU0: max(found)} if found else {}
        ranges = plan_replay(at, highest, WHOLE)
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
        at = recovered_positions(at, highest)
    hub.update(offset for offset in beyond if offset >= at[EU0])
    assert hub == Counter(offsets)


def test_each_partition_has_a_tail_of_its_own() -> None:
    """A topic that was created again must not be told by what the hub holds of the old one."""
    logs = {HUB0: OffsetRange(0, 100), HUB1: OffsetRange(0, 100)}
    own = {EU0: {HUB0: 10, HUB1: 20}, US0: {HUB0: 60, HUB1: 20}}
    tail = plan_tail(Positions({EU0: 5, US0: 0}), {HUB0: 10, HUB1: 20}, logs, own)
    assert tail.ranges == {HUB0: OffsetRange(10, 100), HUB1: OffsetRange(20, 100)}
    assert tail.above == {US0: {HUB0: 60}}
    # In what is not read at all, nothing has to be left out.
    assert plan_tail(Positions({EU0: 5}), {}, {HUB1: OffsetRange(0, 9)}, own).above == {
        EU0: {HUB1: 20},
        US0: {HUB1: 20},
    }
