"""Lanes: every partition in exactly one, one union of all sources, stable under change."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import Lane, SourcePartition
from aggregator.plan.lanes.lanes import How, by_cluster, free_name, plan_lanes
from support.examples import examples


def parts(cluster: str, count: int, topic: str = "t", first: int = 0) -> list[SourcePartition]:
    return [SourcePartition(cluster, topic, number) for number in range(first, first + count)]


def sizes(lanes: tuple[Lane, ...]) -> dict[str, int]:
    return {lane.name: len(lane.partitions) for lane in lanes}


BOTH = [*parts("eu", 6), *parts("us", 3)]


def test_by_default_one_lane_unions_all_sources() -> None:
    (lane,) = plan_lanes(BOTH)
    assert (lane.name, lane.clusters) == ("union", ("eu", "us"))
    assert sorted(lane.partitions) == sorted(BOTH)
    many = [sp for number in range(40) for sp in parts(f"s{number:02}", 50)]
    assert sizes(plan_lanes(many)) == {"union": 2_000}


def test_one_source_needs_no_union_and_its_lane_has_its_name() -> None:
    assert sizes(plan_lanes(parts("eu", 6))) == {"eu": 6}


def test_a_lane_for_each_source_where_it_is_asked_for() -> None:
    assert sizes(plan_lanes(BOTH, "source")) == {"eu": 6, "us": 3}


def test_what_is_new_gets_a_lane_beside_the_union_which_keeps_running() -> None:
    before = plan_lanes(BOTH)
    after = plan_lanes([*BOTH, *parts("eu", 2, "new")], current=before)
    assert after == (*before, Lane("eu", tuple(parts("eu", 2, "new"))))
    more = plan_lanes([*BOTH, *parts("eu", 5, "new"), *parts("asia", 1)], current=after)
    assert more[0] == before[0]
    assert sizes(more) == {"union": 9, "eu": 5, "asia": 1}


def test_new_partitions_join_the_lane_of_their_source_alone() -> None:
    before = plan_lanes(BOTH, "source")
    after = plan_lanes([*parts("eu", 8), *parts("us", 3)], "source", before)
    assert sizes(after) == {"eu": 8, "us": 3}
    assert after[1] == before[1]
    assert plan_lanes([*parts("eu", 8), *parts("us", 3)], "source", after) == after


def test_what_rests_apart_gets_a_lane_beside_and_joins_another_one_only_without_room() -> None:
    before = plan_lanes(parts("eu", 3))
    apart = parts("eu", 2, "stuck")
    new = [*parts("eu", 3), *apart]
    after = plan_lanes(new, current=before, apart=apart)
    assert after == (*before, Lane("eu-2", tuple(apart)))
    more = plan_lanes(
        [*new, *parts("eu", 1, "more"), *parts("eu", 1, "late")],
        current=after,
        apart=[*apart, *parts("eu", 1, "more")],
    )
    assert sizes(more) == {"eu": 4, "eu-2": 3}
    assert sizes(plan_lanes(new, current=before, apart=apart, room=False)) == {"eu": 5}
    assert sizes(plan_lanes(new, apart=apart)) == {"eu": 3, "eu-2": 2}
    # Where none runs, as after the failure of all, those that may share do.
    first = plan_lanes([*BOTH, *apart], apart=apart)
    assert sizes(first) == {"union": 9, "eu": 2}
    again = plan_lanes([*BOTH, *apart], current=first[1:], apart=apart)
    assert sizes(again) == {"eu": 2, "union": 9}
    # What is new joins no lane of such.
    grown = [*BOTH, *parts("eu", 1, "new"), *apart]
    assert sizes(plan_lanes(grown, current=first, apart=apart)) == {
        "union": 9,
        "eu": 2,
        "eu-2": 1,
    }


def test_a_new_source_leaves_the_others_alone() -> None:
    before = plan_lanes(parts("eu", 4))
    after = plan_lanes([*parts("eu", 4), *parts("us", 4)], current=before)
    assert after == (*before, Lane("us", tuple(parts("us", 4))))


def test_what_is_not_wanted_any_more_is_taken_out() -> None:
    before = plan_lanes([*parts("eu", 4), *parts("us", 4)])
    assert plan_lanes(parts("eu", 3), current=before) == (Lane("union", tuple(parts("eu", 3))),)
    assert plan_lanes(parts("us", 1), "source", plan_lanes(BOTH, "source")) == (
        Lane("us", tuple(parts("us", 1))),
    )


def test_a_source_that_comes_back_stops_no_other() -> None:
    before = plan_lanes(BOTH)
    without = plan_lanes(parts("eu", 6), current=before)
    assert plan_lanes(BOTH, current=without) == (
        Lane("union", tuple(parts("eu", 6))),
        Lane("us", tuple(parts("us", 3))),
    )


def test_a_source_apart_leaves_the_lane_that_it_shares_and_gets_its_own() -> None:
    everything = [*BOTH, *parts("asia", 2)]
    before = plan_lanes(everything)
    alone = plan_lanes(everything, current=before, alone={"us"})
    assert sizes(alone) == {"union": 8, "us": 3}
    assert plan_lanes(everything, current=alone, alone={"us"}) == alone
    assert sizes(plan_lanes(everything, alone={"us"})) == {"union": 8, "us": 3}
    assert sizes(plan_lanes(everything, alone={"us", "eu"})) == {"asia": 2, "eu": 6, "us": 3}


def test_all_sources_of_a_lane_that_failed_are_alone_afterwards() -> None:
    alone = plan_lanes(BOTH, current=plan_lanes(BOTH), alone={"eu", "us"})
    assert sizes(alone) == {"eu": 6, "us": 3}
    # They are not put together again while they run.
    assert plan_lanes(BOTH, current=alone) == alone


def test_without_room_what_is_new_joins_a_lane_of_its_source_or_else_another() -> None:
    before = plan_lanes([*parts("eu", 2), *parts("us", 2)])
    grown = plan_lanes([*parts("eu", 3), *parts("us", 2)], current=before, room=False)
    assert sizes(grown) == {"union": 5}
    both = plan_lanes(BOTH, "source")
    new = [*BOTH, *parts("asia", 2), *parts("us", 1, "new")]
    assert sizes(plan_lanes(new, "source", both, room=False)) == {"eu": 8, "us": 4}
    # With nothing to join it has a lane all the same.
    assert sizes(plan_lanes(parts("eu", 2), room=False)) == {"eu": 2}
    assert sizes(plan_lanes(BOTH, room=False)) == {"union": 9}


def test_a_source_apart_shares_no_lane_even_without_room() -> None:
    alone = plan_lanes(BOTH, current=plan_lanes(BOTH), alone={"eu", "us"}, room=False)
    assert sizes(alone) == {"eu": 6, "us": 3}
    # Its slot is free: the lane that it leaves has one task less.
    one = plan_lanes(BOTH, current=plan_lanes(BOTH), alone={"us"}, room=False)
    assert sizes(one) == {"union": 6, "us": 3}
    new = plan_lanes([*BOTH, *parts("asia", 1)], current=alone, alone={"eu", "us"}, room=False)
    assert sizes(new) == {"eu": 6, "us": 3, "asia": 1}


def test_names_do_not_clash_with_a_source_called_like_a_lane() -> None:
    named = [*parts("union", 2), *parts("eu", 1)]
    before = plan_lanes(named)
    assert sizes(before) == {"union-2": 3}
    assert sizes(plan_lanes([*named, *parts("union", 1, "new")], current=before)) == {
        "union-2": 3,
        "union": 1,
    }
    # Such a source comes later.
    late = plan_lanes([*BOTH, *parts("union", 1)], current=plan_lanes(BOTH))
    assert sizes(late) == {"union": 9, "union-2": 1}
    odd = plan_lanes([*parts("eu", 1), *parts("eu-2", 1)], "source", (Lane("eu", ()),))
    assert sizes(odd) == {"eu": 1, "eu-2": 1}


def test_a_free_name_is_neither_in_use_nor_that_of_another_source() -> None:
    assert free_name("eu", (), {"us"}) == "eu"
    assert free_name("eu", ("eu",), {"us"}) == "eu-2"
    assert free_name("eu", ("eu", "eu-3"), {"eu-2"}) == "eu-4"


def test_partitions_by_source_keep_their_order() -> None:
    mixed = [*parts("us", 1), *parts("eu", 2), *parts("us", 1, "x")]
    assert by_cluster(mixed) == {
        "us": [*parts("us", 1), *parts("us", 1, "x")],
        "eu": parts("eu", 2),
    }
    assert by_cluster([]) == {}


@pytest.mark.parametrize("how", ["auto", "source"])
def test_nothing_to_do(how: How) -> None:
    assert plan_lanes([], how) == ()
    assert plan_lanes([], how, current=plan_lanes(BOTH)) == ()


clusters = st.sampled_from([f"c{number}" for number in range(12)] + ["union"])
partition_sets = st.sets(
    st.builds(SourcePartition, clusters, st.sampled_from(["a", "b"]), st.integers(0, 30)),
    max_size=200,
)
aparts = st.sets(clusters)
hows = st.sampled_from(["auto", "source"])


@given(partition_sets, hows, aparts, st.booleans())
@examples(150)
def test_every_partition_is_in_exactly_one_lane(
    partitions: set[SourcePartition], how: How, alone: set[str], room: bool
) -> None:
    lanes = plan_lanes(partitions, how, alone=alone, room=room)
    _check(lanes, partitions, alone)
    assert plan_lanes(set(partitions), how, alone=alone, room=room) == lanes
    if how == "auto" and not alone:
        assert len(lanes) == min(1, len(partitions))
    if how == "source" and room:
        assert all(len(lane.clusters) == 1 for lane in lanes)


@given(partition_sets, partition_sets, hows, aparts, aparts, st.booleans())
@examples(250)
def test_growth_and_loss_keep_running_lanes(
    before: set[SourcePartition],
    after: set[SourcePartition],
    how: How,
    alone_before: set[str],
    alone: set[str],
    room: bool,
) -> None:
    running = plan_lanes(before, how, alone=alone_before)
    lanes = plan_lanes(after, how, running, alone, room=room)
    _check(lanes, after, alone)
    home = {sp: lane.name for lane in running for sp in lane.partitions}
    shared = {lane.name for lane in running if len(lane.clusters) > 1}
    for lane in lanes:
        for sp in lane.partitions:
            if sp.cluster not in alone or home.get(sp) not in shared:
                assert home.get(sp, lane.name) == lane.name, "what runs stays where it is"
    current = {lane.name: set(lane.partitions) for lane in running}
    for lane in lanes if room else ():
        continues = not current.get(lane.name, set()).isdisjoint(lane.partitions)
        if continues and len(lane.clusters) > 1:
            less = current[lane.name]
            assert set(lane.partitions) <= less, "a union need not start again"
    assert plan_lanes(after, how, lanes, alone, room=room) == lanes, "what is settled stays"


def _check(
    lanes: tuple[Lane, ...], partitions: Collection[SourcePartition], alone: set[str]
) -> None:
    placed = [sp for lane in lanes for sp in lane.partitions]
    assert sorted(placed) == sorted(partitions)
    assert len({lane.name for lane in lanes}) == len(lanes)
    assert all(lane.partitions for lane in lanes)
    assert all(len(lane.clusters) == 1 or alone.isdisjoint(lane.clusters) for lane in lanes)
