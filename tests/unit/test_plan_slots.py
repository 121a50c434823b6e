"""Slots: read from the master URL; with fewer than sources nothing starts."""

import pytest

from aggregator.plan.lanes.slots import plan_slots, slots_of

EXECUTORS = {"spark.executor.instances": "3", "spark.executor.cores": "10"}


@pytest.mark.parametrize(
    ("master", "conf", "cores", "slots"),
    [
        ("local", {}, None, 1),
        ("local[4]", {}, None, 4),
        ("local[4,1]", {}, None, 4),
        ("local[*]", {}, None, None),
        ("local[*]", {}, 2, 2),
        ("local[*, 3]", {}, 2, 2),
        ("local-cluster[2,8,1024]", {}, None, 16),
        ("yarn", {}, None, None),
        ("yarn", EXECUTORS, None, 30),
        ("spark://a:7077", EXECUTORS, None, 30),
        ("yarn", {"spark.executor.instances": "x", "spark.executor.cores": "1"}, None, None),
    ],
)
def test_slots_of(master: str, conf: dict[str, str], cores: int | None, slots: int | None) -> None:
    assert slots_of(master, conf, cores) == slots


def test_auto_leaves_room_for_growth() -> None:
    assert plan_slots("auto", 9).master == "local[256]"
    plan = plan_slots("auto", 1000)
    assert (plan.master, plan.slots, plan.required) == ("local[8000]", 8000, 1000)
    assert plan.has_room and not plan.warning and not plan.refusal


def test_too_few_slots_are_refused_with_numbers_and_fix() -> None:
    few = plan_slots("local[4]", 9)
    assert "local[4] gives 4 task slots for 9 tasks" in few.refusal
    assert "never be read" in few.refusal
    assert "local[9]" in few.refusal
    enough = plan_slots("local[9]", 9)
    assert (enough.refusal, enough.warning) == ("", "")
    assert "cores" in plan_slots("local-cluster[2,2,1024]", 9).refusal
    assert "9 slots in all" in plan_slots("local-cluster[2,2,1024]", 9).refusal
    assert "spark.executor.cores" in plan_slots("yarn", 31, conf=EXECUTORS).refusal
    assert plan_slots("local[*]", 3, cores=2).refusal
    assert not plan_slots("local[*]", 2, cores=2).refusal


def test_unknown_slots_are_a_warning() -> None:
    plan = plan_slots("yarn", 9)
    assert (plan.slots, plan.refusal) == (None, "")
    assert "9 now" in plan.warning
    # One source has a slot on whatever there is.
    assert plan_slots("yarn", 1).warning == ""


def test_no_source_needs_a_slot_all_the_same() -> None:
    assert plan_slots("local", 0).required == 1
    assert plan_slots("local", 0).refusal == ""


@pytest.mark.parametrize(
    ("master", "sources", "room"),
    [
        ("local[3]", 2, False),
        ("local[4]", 2, True),
        ("local", 1, False),
        ("yarn", 2, True),
        ("auto", 500, True),
    ],
)
def test_there_is_room_for_lanes_beside_when_each_source_may_have_a_second_task(
    master: str, sources: int, room: bool
) -> None:
    assert plan_slots(master, sources).has_room is room
