"""From the lanes that run to those that are planned: nothing waits, nothing is read twice."""

from collections.abc import Collection

from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.model import Lane, SourcePartition
from aggregator.plan.lanes import plan_lanes
from aggregator.plan.steps import Steps, lanes_to_be, plan_steps


def parts(cluster: str, *numbers: int) -> tuple[SourcePartition, ...]:
    return tuple(SourcePartition(cluster, "t", number) for number in numbers)


EU, EU_LARGER = Lane("eu", parts("eu", 0, 1)), Lane("eu", parts("eu", 0, 1, 2))
US = Lane("us", parts("us", 0))


def test_what_is_new_starts_at_once_and_what_runs_as_planned_is_left_alone() -> None:
    steps = plan_steps((EU, US), {"us"}, {"eu": EU}, (), ())
    assert steps == Steps(frozenset(), (US,), ())


def test_a_lane_that_changes_ends_first_and_nothing_else_waits_for_it() -> None:
    steps = plan_steps((EU_LARGER, US), {"eu", "us"}, {"eu": EU}, (), ())
    assert steps == Steps(frozenset({"eu"}), (US,), (EU_LARGER,))


def test_a_lane_that_ends_already_is_not_told_again_and_begins_again_as_it_is_planned_now() -> None:
    assert plan_steps((EU_LARGER,), {"eu"}, {"eu": EU}, {"eu"}, ()) == Steps(
        frozenset(), (), (EU_LARGER,)
    )
    # Also when it is planned as it was: it ends all the same.
    assert plan_steps((EU,), (), {"eu": EU}, {"eu"}, ()) == Steps(frozenset(), (), (EU,))


def test_a_lane_that_nobody_plans_any_more_ends() -> None:
    steps = plan_steps((US,), (), {"eu": EU, "us": US}, (), ())
    assert steps == Steps(frozenset({"eu"}), (), ())


def test_partitions_wait_for_the_lane_that_reads_them_whatever_their_new_one_is_called() -> None:
    moved = Lane("eu-2", parts("eu", 1))
    left = Lane("eu", parts("eu", 0))
    steps = plan_steps((left, moved), {"eu", "eu-2"}, {"eu": EU}, (), ())
    assert steps == Steps(frozenset({"eu"}), (), (left, moved))
    # The name is free only when the lane that has it has ended.
    other = Lane("eu", parts("eu", 5))
    assert plan_steps((other,), {"eu"}, {"eu": EU}, {"eu"}, ()).later == (other,)


def test_a_lane_with_a_partition_that_rests_is_left_out() -> None:
    assert plan_steps((EU, US), {"eu", "us"}, {}, (), parts("eu", 1)).start == (US,)
    waits = plan_steps((EU_LARGER,), {"eu"}, {"eu": EU}, {"eu"}, parts("eu", 2))
    assert waits == Steps(frozenset(), (), ())


def test_what_a_new_plan_keeps_to_is_what_will_run() -> None:
    assert lanes_to_be({"eu": EU, "us": US}, {"eu"}, (EU_LARGER,)) == (US, EU_LARGER)


class World:
    """Lanes that run, end when the test says so, and start as the steps say."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running: dict[str, Lane] = {}
        self.ending: set[str] = set()
        self.later: tuple[Lane, ...] = ()
        self.starts = 0

    def arrange(self, wanted: Collection[SourcePartition]) -> None:
        current = lanes_to_be(self.running, self.ending, self.later)
        planned = plan_lanes(wanted, "auto", self.limit, current).lanes
        changed = {lane.name for lane in planned if self.running.get(lane.name) != lane}
        steps = plan_steps(planned, changed, self.running, self.ending, ())
        assert not steps.leave & self.ending
        self.ending |= steps.leave
        self.later = steps.later
        for lane in steps.start:
            assert lane.name not in self.running
            self.running[lane.name] = lane
            self.starts += 1
        held = [sp for lane in self.running.values() for sp in lane.partitions]
        assert len(held) == len(set(held)), "a partition is read by two lanes"

    def to_run(self) -> set[SourcePartition]:
        lanes = lanes_to_be(self.running, self.ending, self.later)
        return {sp for lane in lanes for sp in lane.partitions}

    def end(self, number: int) -> None:
        name = sorted(self.ending)[number % len(self.ending)]
        self.ending.remove(name)
        del self.running[name]
        self.arrange(self.to_run())


WANTED = st.sets(
    st.builds(SourcePartition, st.sampled_from(["eu", "us"]), st.just("t"), st.integers(0, 9))
)
EVENTS = st.lists(st.one_of(WANTED, st.integers(0, 5)), max_size=20)


@settings(deadline=None)
@given(EVENTS, st.integers(1, 6))
def test_whatever_is_wanted_in_whatever_order_lanes_end(
    events: list[set[SourcePartition] | int], limit: int
) -> None:
    world, wanted = World(limit), set[SourcePartition]()
    for event in events:
        if isinstance(event, set):
            wanted = event
            world.arrange(wanted)
        elif world.ending:
            world.end(event)
        assert world.to_run() == wanted
    while world.ending:
        world.end(0)
    assert world.later == ()
    assert {sp for lane in world.running.values() for sp in lane.partitions} == wanted
    starts = world.starts
    world.arrange(wanted)
    assert (world.starts, world.ending) == (starts, set()), "what is settled is left alone"
