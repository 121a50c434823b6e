"""From the lanes that run to those that are planned: nothing waits, nothing is read twice."""

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import Lane, SourcePartition
from aggregator.plan.lanes.changes import Steps, plan_steps
from aggregator.plan.lanes.lanes import plan_lanes


def parts(cluster: str, *numbers: int) -> tuple[SourcePartition, ...]:
    return tuple(SourcePartition(cluster, "t", number) for number in numbers)


EU, EU_LARGER = Lane("eu", parts("eu", 0, 1)), Lane("eu", parts("eu", 0, 1, 2))
US = Lane("us", parts("us", 0))
UNION = Lane("union", (*parts("eu", 0, 1), *parts("us", 0)))


def test_what_is_new_starts_at_once_and_what_runs_as_planned_is_left_alone() -> None:
    steps = plan_steps((EU, US), {"us"}, {"eu": EU}, ())
    assert steps == Steps(frozenset(), {}, (US,), ())


def test_a_lane_that_changes_ends_first_and_nothing_else_waits_for_it() -> None:
    steps = plan_steps((EU_LARGER, US), {"eu", "us"}, {"eu": EU}, ())
    assert steps == Steps(frozenset({"eu"}), {}, (US,), (EU_LARGER,))


def test_a_lane_that_ends_already_is_not_asked_again_and_begins_again_as_it_is_planned_now() -> (
    None
):
    assert plan_steps((EU_LARGER,), {"eu"}, {"eu": EU}, {"eu"}) == Steps(
        frozenset(), {}, (), (EU_LARGER,)
    )
    # Also when it is planned as it was: it ends all the same.
    assert plan_steps((EU,), (), {"eu": EU}, {"eu"}) == Steps(frozenset(), {}, (), (EU,))


def test_a_lane_that_is_no_longer_planned_ends() -> None:
    steps = plan_steps((US,), (), {"eu": EU, "us": US}, ())
    assert steps == Steps(frozenset({"eu"}), {}, (), ())


def test_a_lane_that_only_has_to_read_less_continues() -> None:
    less = Lane("union", parts("eu", 0, 1))
    steps = plan_steps((less,), (), {"union": UNION}, ())
    assert steps == Steps(frozenset(), {"union": frozenset(parts("us", 0))}, (), ())


def test_what_a_lane_gives_up_starts_elsewhere_when_it_has() -> None:
    less = Lane("union", parts("eu", 0, 1))
    asia = Lane("asia", parts("asia", 0))
    steps = plan_steps((less, US, asia), {"us", "asia"}, {"union": UNION}, ())
    assert steps == Steps(frozenset(), {"union": frozenset(parts("us", 0))}, (asia,), (US,))
    # Once it has, the lane that continues is one with fewer partitions.
    done = plan_steps((less, US), {"us"}, {"union": less}, ())
    assert done == Steps(frozenset(), {}, (US,), ())


def test_a_lane_that_has_to_start_again_holds_nothing_back() -> None:
    less = Lane("union", parts("eu", 0, 1))
    steps = plan_steps((less,), {"union"}, {"union": UNION}, ())
    assert steps == Steps(frozenset({"union"}), {}, (), (less,))
    ends = plan_steps((less,), (), {"union": UNION}, {"union"})
    assert ends == Steps(frozenset(), {}, (), (less,))


def test_partitions_wait_for_the_lane_that_reads_them_whatever_their_new_one_is_called() -> None:
    moved = Lane("eu-2", parts("eu", 1))
    left = Lane("eu", parts("eu", 0))
    steps = plan_steps((left, moved), {"eu", "eu-2"}, {"eu": EU}, ())
    assert steps == Steps(frozenset({"eu"}), {}, (), (left, moved))
    # The name is free only when the lane that has it has ended.
    other = Lane("eu", parts("eu", 5))
    assert plan_steps((other,), {"eu"}, {"eu": EU}, {"eu"}).later == (other,)


class World:
    """Lanes that run, end or give something up when the test says so, and start as steps say."""

    def __init__(self, *, room: bool) -> None:
        self.room = room
        self.alone: set[str] = set()
        self.running: dict[str, Lane] = {}
        self.ending: set[str] = set()
        self.holding: dict[str, set[SourcePartition]] = {}
        self.planned: tuple[Lane, ...] = ()
        self.later: tuple[Lane, ...] = ()
        self.starts = 0

    def arrange(self, wanted: Collection[SourcePartition]) -> None:
        planned = plan_lanes(wanted, "auto", self.planned, self.alone, room=self.room)
        self.planned = planned
        changed = {lane.name for lane in planned if self.is_changed(lane)}
        steps = plan_steps(planned, changed, self.running, self.ending)
        assert not steps.leave & self.ending
        self.ending |= steps.leave
        for name, less in steps.hold.items():
            assert name not in self.ending
            assert less < set(self.running[name].partitions)
            self.holding.setdefault(name, set()).update(less)
        self.later = steps.later
        for lane in steps.start:
            assert lane.name not in self.running
            self.running[lane.name] = lane
            self.starts += 1
        read = [sp for lane in self.running.values() for sp in lane.partitions]
        assert len(read) == len(set(read)), "a partition is read by two lanes"

    def is_changed(self, lane: Lane) -> bool:
        """As a decision finds out."""
        running = self.running.get(lane.name)
        if running is None or set(lane.partitions) - set(running.partitions):
            return True
        return not self.holding.get(lane.name, set()).isdisjoint(lane.partitions)

    def to_run(self) -> set[SourcePartition]:
        return {sp for lane in self.planned for sp in lane.partitions}

    @property
    def awaited(self) -> list[str]:
        return sorted({*self.ending, *self.holding})

    def proceed(self, number: int) -> None:
        """One of the lanes has ended, or has given up what it was to give up."""
        name = self.awaited[number % len(self.awaited)]
        less = self.holding.pop(name, set())
        lane = self.running.pop(name)
        if name in self.ending:
            self.ending.remove(name)
        else:
            left = tuple(sp for sp in lane.partitions if sp not in less)
            self.running[name] = Lane(name, left)
        self.arrange(self.to_run())


WANTED = st.sets(
    st.builds(
        SourcePartition, st.sampled_from(["eu", "us", "asia"]), st.just("t"), st.integers(0, 6)
    )
)
APART = st.sampled_from(["eu", "us"])
EVENTS = st.lists(st.one_of(WANTED, APART, st.integers(0, 5)), max_size=20)


@given(EVENTS, st.booleans())
def test_whatever_is_wanted_in_whatever_order_lanes_end(
    events: list[set[SourcePartition] | str | int], room: bool
) -> None:
    world, wanted = World(room=room), set[SourcePartition]()
    for event in events:
        if isinstance(event, set):
            wanted = event
            world.arrange(wanted)
        elif isinstance(event, str):
            world.alone.add(event)
            world.arrange(wanted)
        elif world.awaited:
            world.proceed(event)
        assert world.to_run() == wanted
    while world.awaited:
        world.proceed(0)
    assert world.later == ()
    assert {sp for lane in world.running.values() for sp in lane.partitions} == wanted
    for lane in world.running.values():
        assert len(lane.clusters) == 1 or world.alone.isdisjoint(lane.clusters)
    starts = world.starts
    world.arrange(wanted)
    assert (world.starts, world.awaited) == (starts, []), "what is settled is left alone"
