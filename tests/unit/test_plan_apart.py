"""Sources that share no lane for now: lanes of their own beside the planned ones."""

from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.model import SourcePartition
from aggregator.plan.apart import plan_lanes_apart
from aggregator.plan.lanes import LanePlan, plan_lanes


def parts(cluster: str, count: int) -> list[SourcePartition]:
    return [SourcePartition(cluster, "t", number) for number in range(count)]


def sizes(plan: LanePlan) -> dict[str, int]:
    return {lane.name: len(lane.partitions) for lane in plan.lanes}


EVERYTHING = [*parts("eu", 4), *parts("us", 2), *parts("asia", 3)]


def test_nobody_apart_is_the_ordinary_plan() -> None:
    assert plan_lanes_apart(EVERYTHING, (), 1) == plan_lanes(EVERYTHING, 1)


def test_out_then_apart_then_together_again_changes_the_shared_lane_twice() -> None:
    before = plan_lanes(EVERYTHING, 1)
    without = [sp for sp in EVERYTHING if sp.cluster != "us"]
    out = plan_lanes_apart(without, (), 1, current=before.lanes)
    assert sizes(out) == {"shared-1": 7}
    back = plan_lanes_apart(EVERYTHING, {"us"}, 1, current=out.lanes)
    assert sizes(back) == {"shared-1": 7, "catchup-us": 2}
    assert back.lanes[0] == out.lanes[0]
    assert plan_lanes_apart(EVERYTHING, {"us"}, 1, current=back.lanes) == back
    joined = plan_lanes_apart(EVERYTHING, (), 1, current=back.lanes)
    assert sizes(joined) == {"shared-1": 9}


def test_a_source_with_lanes_of_its_own_keeps_them() -> None:
    before = plan_lanes(EVERYTHING)
    assert plan_lanes_apart(EVERYTHING, {"us"}, current=before.lanes).lanes == (
        *(lane for lane in before.lanes if lane.name != "us"),
        next(lane for lane in before.lanes if lane.name == "us"),
    )


def test_many_sources_that_share_by_themselves() -> None:
    many = [sp for number in range(20) for sp in parts(f"s{number:02}", 2)]
    before = plan_lanes(many)
    assert sizes(before) == {"shared-1": 40}
    apart = plan_lanes_apart(many, {"s03"}, current=before.lanes)
    assert sizes(apart) == {"shared-1": 38, "catchup-s03": 2}
    assert sizes(plan_lanes_apart(many, (), current=apart.lanes)) == {"shared-1": 40}


def test_a_source_called_like_a_catch_up_lane_is_not_taken_for_one() -> None:
    named = [*parts("catchup-eu", 2), *parts("eu", 2), *parts("us", 1)]
    plan = plan_lanes_apart(named, {"eu"}, current=plan_lanes(named, 2).lanes)
    assert len({lane.name for lane in plan.lanes}) == len(plan.lanes)
    assert {sp for lane in plan.lanes for sp in lane.partitions} == set(named)


clusters = st.sampled_from([f"c{number}" for number in range(20)])
partition_sets = st.sets(st.builds(SourcePartition, clusters, st.just("a"), st.integers(0, 60)))
aparts = st.sets(clusters)
counts = st.one_of(st.just("auto"), st.integers(1, 12))


@given(partition_sets, partition_sets, aparts, aparts, counts, st.integers(1, 50))
@settings(max_examples=150)
def test_every_partition_is_in_one_lane_and_who_is_apart_shares_none(
    before: set[SourcePartition],
    after: set[SourcePartition],
    apart_before: set[str],
    apart: set[str],
    lanes: "int | str",
    limit: int,
) -> None:
    running = plan_lanes_apart(before, apart_before, lanes, limit).lanes  # type: ignore[arg-type]
    plan = plan_lanes_apart(after, apart, lanes, limit, running)  # type: ignore[arg-type]
    placed = [sp for lane in plan.lanes for sp in lane.partitions]
    assert sorted(placed) == sorted(after)
    assert len({lane.name for lane in plan.lanes}) == len(plan.lanes)
    for lane in plan.lanes:
        assert len(lane.clusters) == 1 or not apart & set(lane.clusters)
    again = plan_lanes_apart(after, apart, lanes, limit, plan.lanes)  # type: ignore[arg-type]
    assert set(again.lanes) == set(plan.lanes)
