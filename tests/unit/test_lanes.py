"""Lanes: every partition in exactly one, bounded, apart by source, stable under change."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.config.schema import StreamConfig
from aggregator.model import Lane, SourcePartition
from aggregator.plan.lanes import LanePlan, plan_lanes, required_slots


def parts(cluster: str, count: int, topic: str = "t", first: int = 0) -> list[SourcePartition]:
    return [SourcePartition(cluster, topic, number) for number in range(first, first + count)]


def sizes(plan: LanePlan) -> dict[str, int]:
    return {lane.name: len(lane.partitions) for lane in plan.lanes}


def test_few_sources_stay_apart() -> None:
    assert sizes(plan_lanes([*parts("eu", 6), *parts("us", 3)])) == {"eu": 6, "us": 3}


def test_a_large_source_gets_balanced_lanes_with_each_topic_spread() -> None:
    all_of_them = [*parts("eu", 60, "a"), *parts("eu", 40, "b"), *parts("us", 101)]
    plan = plan_lanes(all_of_them, "auto", 50)
    assert sizes(plan) == {"eu": 50, "eu-2": 50, "us": 34, "us-2": 34, "us-3": 33}
    topics = Counter(sp.topic for sp in plan.lanes[0].partitions)
    assert topics == {"a": 30, "b": 20}


def test_what_is_not_given_is_what_the_config_has_by_itself() -> None:
    most = StreamConfig().max_partitions_per_lane
    assert sizes(plan_lanes(parts("eu", most))) == {"eu": most}
    assert len(plan_lanes(parts("eu", most + 1)).lanes) == 2


def test_more_than_sixteen_sources_share_but_large_ones_do_not() -> None:
    many = [sp for number in range(40) for sp in parts(f"s{number:02}", 5)]
    plan = plan_lanes([*many, *parts("big", 80)], "auto", 50)
    assert sizes(plan) == {
        "big": 40,
        "big-2": 40,
        "shared-1": 50,
        "shared-2": 50,
        "shared-3": 50,
        "shared-4": 50,
    }
    for cluster in {sp.cluster for sp in many}:
        assert sum(cluster in lane.clusters for lane in plan.lanes) == 1


def test_sixteen_sources_do_not_share() -> None:
    plan = plan_lanes([sp for number in range(16) for sp in parts(f"s{number}", 1)])
    assert all(len(lane.clusters) == 1 for lane in plan.lanes)
    assert len(plan.lanes) == 16


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, {"shared-1": 9}),
        (2, {"eu": 6, "us": 3}),
        (3, {"eu": 3, "eu-2": 3, "us": 3}),
        (9, dict.fromkeys(["eu", *(f"eu-{n}" for n in range(2, 7)), "us", "us-2", "us-3"], 1)),
        (20, dict.fromkeys(["eu", *(f"eu-{n}" for n in range(2, 7)), "us", "us-2", "us-3"], 1)),
    ],
)
def test_a_number_of_lanes(count: int, expected: dict[str, int]) -> None:
    assert sizes(plan_lanes([*parts("eu", 6), *parts("us", 3)], count)) == expected


def test_one_lane_above_the_bound_is_warned_about() -> None:
    plan = plan_lanes(parts("eu", 60), 1, 50)
    assert sizes(plan) == {"eu": 60}
    assert "60 partitions" in plan.warnings[0]
    assert plan_lanes(parts("eu", 60), "auto", 50).warnings == ()


def test_new_partitions_join_a_lane_of_their_source_and_nothing_else_changes() -> None:
    before = plan_lanes([*parts("eu", 6), *parts("us", 3)]).lanes
    after = plan_lanes([*parts("eu", 8), *parts("us", 3)], current=before)
    assert sizes(after) == {"eu": 8, "us": 3}
    assert [lane for lane in after.lanes if lane not in before] == [after.lanes[0]]
    assert plan_lanes([*parts("eu", 8), *parts("us", 3)], current=after.lanes) == after


def test_what_does_not_fit_gets_a_lane_of_its_own() -> None:
    before = plan_lanes(parts("eu", 40)).lanes
    after = plan_lanes(parts("eu", 60), "auto", 50, before)
    assert sizes(after) == {"eu": 40, "eu-2": 20}
    assert after.lanes[0] is not None and after.lanes[0] == before[0]


def test_a_new_source_leaves_the_others_alone() -> None:
    before = plan_lanes(parts("eu", 4)).lanes
    after = plan_lanes([*parts("eu", 4), *parts("us", 4)], current=before)
    assert after.lanes == (*before, Lane("us", tuple(parts("us", 4))))


def test_a_vanished_source_and_vanished_partitions() -> None:
    before = plan_lanes([*parts("eu", 4), *parts("us", 4)]).lanes
    after = plan_lanes(parts("eu", 3), current=before)
    assert after.lanes == (Lane("eu", tuple(parts("eu", 3))),)


def test_a_new_source_among_many_joins_a_shared_lane() -> None:
    many = [sp for number in range(20) for sp in parts(f"s{number:02}", 2)]
    before = plan_lanes(many).lanes
    assert sizes(plan_lanes(many)) == {"shared-1": 40}
    after = plan_lanes([*many, *parts("zz", 5)], "auto", 50, before)
    assert sizes(after) == {"shared-1": 45}
    more = plan_lanes([*many, *parts("zz", 11)], "auto", 50, before)
    assert sizes(more) == {"shared-1": 40, "zz": 11}


def test_fewer_lanes_than_run_now_is_planned_anew() -> None:
    before = plan_lanes(parts("eu", 6), 3).lanes
    assert sizes(plan_lanes(parts("eu", 6), 2, current=before)) == {"eu": 3, "eu-2": 3}


def test_a_smaller_bound_moves_only_the_surplus() -> None:
    before = plan_lanes(parts("eu", 40)).lanes
    after = plan_lanes(parts("eu", 40), "auto", 30, before)
    assert sizes(after) == {"eu": 30, "eu-2": 10}


def test_names_do_not_clash_with_a_source_called_like_a_lane() -> None:
    plan = plan_lanes([*parts("eu", 100), *parts("eu-2", 1)], "auto", 50)
    assert sizes(plan) == {"eu": 50, "eu-3": 50, "eu-2": 1}
    shared = plan_lanes([*parts("shared-1", 1), *parts("b", 1)], 1)
    assert sizes(shared) == {"shared-2": 2}


def test_nothing_to_do() -> None:
    assert plan_lanes([]) == LanePlan(())
    assert plan_lanes([], 3) == LanePlan(())
    assert plan_lanes([], current=plan_lanes(parts("eu", 1)).lanes) == LanePlan(())


clusters = st.sampled_from([f"c{number}" for number in range(30)])
partition_sets = st.sets(
    st.builds(SourcePartition, clusters, st.sampled_from(["a", "b"]), st.integers(0, 60)),
    max_size=300,
)
lane_settings = st.one_of(st.just("auto"), st.integers(1, 12))


@given(partition_sets, lane_settings, st.integers(1, 50))
@settings(max_examples=150)
def test_every_partition_is_in_exactly_one_lane(
    partitions: set[SourcePartition], lanes: "int | str", limit: int
) -> None:
    plan = plan_lanes(partitions, lanes, limit)  # type: ignore[arg-type]
    _check(plan, partitions, lanes, limit)
    if isinstance(lanes, int):
        assert len(plan.lanes) == min(lanes, len(partitions))
    assert plan_lanes(set(partitions), lanes, limit) == plan  # type: ignore[arg-type]


@given(partition_sets, partition_sets, lane_settings, st.integers(1, 50))
@settings(max_examples=150)
def test_growth_and_loss_keep_running_lanes(
    before: set[SourcePartition], after: set[SourcePartition], lanes: "int | str", limit: int
) -> None:
    running = plan_lanes(before, lanes, limit).lanes  # type: ignore[arg-type]
    plan = plan_lanes(after, lanes, limit, running)  # type: ignore[arg-type]
    _check(plan, after, lanes, limit)
    home = {sp: lane.name for lane in running for sp in lane.partitions}
    for lane in plan.lanes:
        for sp in lane.partitions:
            assert home.get(sp, lane.name) == lane.name
    touched = {sp.cluster for sp in before ^ after}
    for lane in running:
        if lanes == "auto" and not touched & set(lane.clusters) and len(lane.clusters) == 1:
            again = next(now for now in plan.lanes if now.name == lane.name)
            assert again == lane or len(again.clusters) > 1
    assert plan_lanes(after, lanes, limit, plan.lanes) == plan  # type: ignore[arg-type]


def _check(
    plan: LanePlan, partitions: set[SourcePartition], lanes: "int | str", limit: int
) -> None:
    placed = [sp for lane in plan.lanes for sp in lane.partitions]
    assert sorted(placed) == sorted(partitions)
    assert required_slots(plan.lanes) == len(partitions)
    assert len({lane.name for lane in plan.lanes}) == len(plan.lanes)
    assert all(lane.partitions for lane in plan.lanes)
    if lanes == "auto":
        assert all(len(lane.partitions) <= limit for lane in plan.lanes)
    else:
        assert len(plan.lanes) <= int(lanes)
