"""Slots: read from the master URL; with too few real-time mode becomes micro-batches."""

import pytest

from aggregator.plan.slots import fitting_trigger, plan_slots, slots_of

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
    assert plan_slots("auto", 9).master == "local[1024]"
    plan = plan_slots("auto", 1000)
    assert (plan.master, plan.slots, plan.required) == ("local[4000]", 4000, 1000)
    assert plan.trigger == "realtime" and not plan.warning


def test_too_few_slots_mean_micro_batches_with_numbers_and_fix() -> None:
    few = plan_slots("local[4]", 9)
    assert few.trigger == "microbatch"
    assert "local[4] gives 4 task slots for 9 source partitions" in few.warning
    assert "read nothing" in few.warning
    assert "local[9]" in few.warning
    enough = plan_slots("local[9]", 9)
    assert (enough.trigger, enough.warning) == ("realtime", "")
    assert "cores" in plan_slots("local-cluster[2,2,1024]", 9).warning
    assert "spark.executor.cores" in plan_slots("yarn", 31, conf=EXECUTORS).warning


def test_only_real_time_mode_gives_way_and_only_to_a_known_number() -> None:
    assert fitting_trigger("realtime", 4, 5) == "microbatch"
    assert fitting_trigger("realtime", 5, 5) == "realtime"
    assert fitting_trigger("realtime", None, 5) == "realtime"
    assert fitting_trigger("available-now", 4, 5) == "available-now"


@pytest.mark.parametrize("trigger", ["microbatch", "available-now"])
def test_other_triggers_have_no_bound(trigger: str) -> None:
    plan = plan_slots("local[1]", 500, trigger)
    assert plan.trigger == trigger and not plan.warning
    assert not plan_slots("yarn", 500, trigger).warning


def test_unknown_slots_are_a_warning() -> None:
    plan = plan_slots("yarn", 9)
    assert (plan.slots, plan.trigger) == (None, "realtime")
    assert "9 now" in plan.warning
