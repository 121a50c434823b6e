"""Tasks: about one for each core over all sources, and partitions dealt so that topics spread."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import SourcePartition
from aggregator.plan.lanes.slots import deal_tasks, tasks_per_source


@pytest.mark.parametrize(
    ("cores", "sources", "slots", "tasks"),
    [
        (8, 1, None, 8),
        (8, 2, None, 4),
        (8, 4, None, 2),
        (8, 16, None, 1),
        (8, 100, None, 1),
        (2, 3, None, 1),
        (1, 1, None, 1),
        # No more than half of the slots, for what comes beside.
        (8, 2, 256, 4),
        (8, 2, 8, 2),
        (8, 2, 4, 1),
        (8, 2, 2, 1),
        # Before anything is known.
        (8, 0, None, 8),
        (8, 0, 4, 2),
    ],
)
def test_tasks_are_a_matter_of_cores(
    cores: int, sources: int, slots: int | None, tasks: int
) -> None:
    assert tasks_per_source(cores, sources, slots) == tasks


@given(st.integers(1, 128), st.integers(1, 1000), st.none() | st.integers(1, 5000))
def test_all_sources_together_stay_within_the_cores_and_half_of_the_slots(
    cores: int, sources: int, slots: int | None
) -> None:
    tasks = tasks_per_source(cores, sources, slots)
    assert tasks >= 1
    if tasks > 1:
        assert tasks * sources <= cores
        assert tasks <= cores
        assert slots is None or tasks * sources <= slots / 2


def parts(topic: str, count: int) -> list[SourcePartition]:
    return [SourcePartition("eu", topic, number) for number in range(count)]


def test_each_topic_is_spread_over_the_tasks() -> None:
    dealt = deal_tasks([*parts("a", 6), *parts("b", 3)], 3)
    assert [Counter(sp.topic for sp in hand) for hand in dealt] == [{"a": 2, "b": 1}] * 3


def test_no_task_is_without_a_partition() -> None:
    assert deal_tasks(parts("a", 2), 5) == [[sp] for sp in parts("a", 2)]
    assert deal_tasks(parts("a", 2), 0) == [parts("a", 2)]


@given(
    st.sets(st.builds(SourcePartition, st.just("eu"), st.sampled_from("abc"), st.integers(0, 20))),
    st.integers(1, 12),
)
def test_every_partition_is_dealt_to_one_task_and_none_has_two_more_than_another(
    partitions: set[SourcePartition], tasks: int
) -> None:
    dealt = deal_tasks(list(partitions), tasks)
    assert sorted(sp for hand in dealt for sp in hand) == sorted(partitions)
    sizes = [len(hand) for hand in dealt]
    assert max(sizes) - min(sizes) <= 1
    assert len(dealt) == max(1, min(tasks, len(partitions)))
    assert deal_tasks(sorted(partitions, reverse=True), tasks) == dealt
