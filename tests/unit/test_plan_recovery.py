"""Recovery's pure core: tails, positions and what to leave out, once under any partial delivery."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import (
    LogId,
    OffsetRange,
    PoisonRule,
    Positions,
    Ranges,
    Route,
    Skip,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.positions.recovery import (
    counts_below,
    earlier_hub_ends,
    highest,
    hub_topics_of,
    plan_losses,
    plan_skips,
    plan_tail,
    recovered_positions,
)
from aggregator.plan.positions.start import Remembered
from support.offsets import offsets_in, ranges_of

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


def test_hub_topics_from_before_a_rename_are_bounded_by_the_first_that_went_there() -> None:
    old0, old1 = TopicPartition("old", 0), TopicPartition("old", 1)
    routes = (Route("eu", "orders", "orders", 2, 2),)
    own = {EU0: {old0: 7, old1: 3, HUB0: 1}, EU1: {old0: 5}, US0: {HUB0: 2}}
    assert earlier_hub_ends(own, routes) == {old0: 5, old1: 3}
    assert earlier_hub_ends({US0: {HUB0: 2}}, routes) == {}


def test_a_tail_never_leaves_the_log() -> None:
    deleted = plan_tail(Positions({EU0: 5}), {HUB0: 10}, {HUB0: OffsetRange(30, 40)})
    truncated = plan_tail(Positions({EU0: 5}), {HUB0: 50}, {HUB0: OffsetRange(30, 40)})
    assert deleted.ranges == {HUB0: OffsetRange(30, 40)}
    assert truncated.ranges == {}


def recovered(
    found: Ranges, log: OffsetRange | None = WHOLE[EU0]
) -> tuple[int, list[tuple[int, int]]]:
    """Where a partition at 5 continues, and what its lane leaves out."""
    positions = Positions({EU0: 5})
    at = recovered_positions(positions, {EU0: found}, {EU0: log} if log else {})
    skips = plan_skips(at, {EU0: Skip(found)}, {})
    return at[EU0], list(skips[EU0].ranges) if skips else []


def test_only_partitions_that_were_found_beyond_their_position_move() -> None:
    positions = Positions({EU0: 5, EU1: 5})
    assert recovered_positions(positions, {EU0: [(5, 9)]}, WHOLE) == Positions({EU0: 9, EU1: 5})
    assert recovered_positions(positions, {}, WHOLE) == positions


@pytest.mark.parametrize(
    ("found", "position", "skipped"),
    [
        # The hub holds all: nothing has to be looked through.
        ([(5, 9)], 9, []),
        # 6 and 7 are missing, or are no records: the lane looks.
        ([(5, 6), (8, 9)], 6, [(8, 9)]),
        # So from the position on, when it is 5 that is missing.
        ([(7, 9), (11, 12)], 5, [(7, 9), (11, 12)]),
        ([(5, 6), (7, 8), (9, 12)], 6, [(7, 8), (9, 12)]),
    ],
)
def test_a_position_moves_on_to_the_first_hole_and_the_rest_is_left_out(
    found: Ranges, position: int, skipped: Ranges
) -> None:
    assert recovered(found) == (position, skipped)


@pytest.mark.parametrize(
    ("earliest", "position", "skipped"),
    [
        (3, 6, [(8, 10)]),
        # What is deleted cannot be looked through; what it was, `plan_losses` says.
        (7, 7, [(8, 10)]),
        (8, 10, []),
        (9, 10, []),
        (10, 10, []),
        # All that was found is deleted; what is lost behind it shows by itself.
        (20, 10, []),
    ],
)
def test_a_lane_looks_through_what_the_source_still_holds(
    earliest: int, position: int, skipped: Ranges
) -> None:
    assert recovered([(5, 6), (8, 10)], OffsetRange(earliest, 100)) == (position, skipped)


def test_of_a_log_that_is_another_one_what_the_hub_lacks_is_kept_for_its_gap() -> None:
    assert recovered([(5, 6), (8, 9)], None) == (6, [(8, 9)])
    assert recovered([(7, 9)], None) == (5, [(7, 9)])


def test_a_position_never_goes_back() -> None:
    """What lies before it was found all the same, by a bound of more partitions."""
    at = recovered_positions(Positions({EU0: 5}), {EU0: [(2, 4)]}, {})
    assert at == Positions({EU0: 5})
    assert recovered_positions(Positions({EU0: 5}), {EU0: [(2, 7)]}, WHOLE) == Positions({EU0: 7})


def test_what_is_left_out_begins_at_the_position_and_has_the_newest_of_each_key() -> None:
    found = {
        EU0: Skip([(3, 7), (9, 12)], {HUB0: {b"k": 11}}),
        EU1: Skip([(5, 9)], {HUB0: {b"k": 8}}),
    }
    skips = plan_skips(Positions({EU0: 5, EU1: 9}), found, {})
    assert skips == {EU0: Skip([(5, 7), (9, 12)], {HUB0: {b"k": 11}})}


def test_the_highest_is_the_next_offset_behind_all_that_was_found() -> None:
    assert highest({EU0: [(5, 6), (8, 9)], EU1: [(1, 4)]}) == {EU0: 9, EU1: 4}
    assert highest({}) == {}


def test_records_that_the_source_has_deleted_are_counted_in_the_hub() -> None:
    found = {EU0: [(5, 6), (8, 12)], EU1: [(0, 3)], US0: [(0, 9)]}
    logs = {EU0: OffsetRange(10, 50), EU1: OffsetRange(0, 50)}
    assert counts_below(found, logs) == {EU0: 3, EU1: 0}
    assert counts_below({EU0: [(5, 6), (8, 12)]}, {EU0: OffsetRange(90, 95)}) == {EU0: 5}


@pytest.mark.parametrize(
    ("log", "found", "expected"),
    [
        # The hub holds 5 to 8, of which the source has deleted some: nothing is lost.
        (OffsetRange(7, 100), [(5, 9)], None),
        # One of 5, 6 never arrived.
        (OffsetRange(7, 100), [(5, 6), (7, 9)], (5, 7, 1)),
        # 5 to 8 were found in part, and 9 to 19 are gone as well.
        (OffsetRange(20, 100), [(5, 6), (7, 9)], (5, 20, 12)),
        # 9 to 19 are gone, and all before arrived: that shows by itself.
        (OffsetRange(20, 100), [(5, 9)], None),
        # 5 to 7 may be missing, and are there: the lane writes them.
        (OffsetRange(0, 100), [(8, 9)], None),
        # 7 is missing and there.
        (OffsetRange(7, 100), [(5, 7), (8, 9)], None),
        (None, [(8, 9)], None),
    ],
)
def test_what_was_deleted_before_it_could_be_replayed_is_a_loss(
    log: OffsetRange | None, found: Ranges, expected: tuple[int, int, int] | None
) -> None:
    known = Remembered(Positions({EU0: 5}), {EU0: LogId("C", "T")})
    logs = {EU0: log} if log else {}
    after = recovered_positions(known.positions, {EU0: found}, logs)
    tops, below = highest({EU0: found}), counts_below({EU0: found}, logs)
    gaps = plan_losses(known, after, tops, logs, below)
    losses = [(gap.start, gap.end, gap.lost) for gap in gaps]
    assert losses == ([expected] if expected else [])
    assert all(gap.position == 9 and gap.then.topic == "T" for gap in gaps)


def test_a_partition_of_which_nothing_was_found_has_no_loss_to_report() -> None:
    known = Remembered(Positions({EU0: 5}))
    assert plan_losses(known, known.positions, {}, {EU0: OffsetRange(20, 100)}, {}) == ()


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
    below = sorted(offset for offset in offsets if offset < covered)
    beyond = sorted(offset for offset in offsets if offset >= covered)
    hub = Counter(below)
    hub.update(delivered.draw(st.sets(st.sampled_from(beyond))) if beyond else [])
    at = Positions({EU0: covered})
    for attempt in range(crashes + 1):
        ranges = ranges_of(offset for offset in hub if offset >= at[EU0])
        found = {EU0: ranges} if ranges else {}
        at = recovered_positions(at, found, WHOLE)
        skips = plan_skips(at, {sp: Skip(each) for sp, each in found.items()}, {})
        skipped = {it for skip in skips.values() for it in offsets_in(skip.ranges)}
        missing = [it for it in beyond if it >= at[EU0] and it not in skipped]
        last = attempt == crashes
        # A crash after some were written, in any order of hub partitions; nothing is committed.
        hub.update(missing if last else missing[attempt % 2 :: 2])
    assert hub == Counter(offsets)


@given(
    held=st.sets(st.integers(0, 30), min_size=1),
    arrived=st.sets(st.integers(0, 30)),
    position=st.integers(0, 30),
    earliest=st.integers(0, 30),
)
def test_every_offset_is_in_the_hub_or_read_or_reported_as_lost(
    held: set[int], arrived: set[int], position: int, earliest: int
) -> None:
    """Below a position all is there; of the log the source has deleted what lies below earliest."""
    ranges = ranges_of(at for at in arrived & held if at >= position)
    found = {EU0: ranges} if ranges else {}
    known, logs = Remembered(Positions({EU0: position})), {EU0: OffsetRange(earliest, 31)}
    after = recovered_positions(known.positions, found, logs)
    skips = plan_skips(after, {sp: Skip(each) for sp, each in found.items()}, {})
    skipped = {at for skip in skips.values() for at in offsets_in(skip.ranges)}
    there = {at for at in held if at < position or at in arrived}
    read = {at for at in held if at >= max(after[EU0], earliest) and at not in skipped}
    assert not read & there, "nothing is written twice"
    gaps = plan_losses(known, after, highest(found), logs, counts_below(found, logs))
    shows = set(range(after[EU0], earliest))
    reported = {at for gap in gaps for at in range(gap.start, gap.end or 0)}
    assert held <= there | read | shows | reported, "nothing is lost without a word"


def test_each_partition_has_a_tail_of_its_own() -> None:
    """A topic that was created again must not be judged by what the hub holds of the old one."""
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


def test_what_was_found_beyond_the_end_of_a_log_that_was_cut_is_not_left_out() -> None:
    found = {EU0: Skip([(2, 5), (8, 12), (20, 30)]), EU1: Skip([(3, 4)])}
    skips = plan_skips(Positions({EU0: 1, EU1: 1}), found, {EU0: 10, EU1: 3})
    assert skips == {EU0: Skip([(2, 5), (8, 10)])}
