"""Thousands of histories, with a failure at any command, through the one step: its promise holds.

The world asserts at each start that no one else may send, that the position is committed, and that
the hub holds nothing beyond it but what the lane leaves out; at each record that it is not there
yet; after each step that no partition is in two lanes. In the end all runs, and each offset is at
the hub or in a recorded gap.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.events_world import EventsWorld
from support.examples import examples
from support.flow_world import PARTITIONS, World

RESTARTS = 0.01


def play(world: World) -> None:
    """Let things happen for a while, and then no more."""
    for _ in range(120):
        world.turn()
        if world.rng.random() < RESTARTS:
            world.restart()
    world.until_quiet()


def play_with_stops(world: World) -> None:
    """The same with more starts, most of them after lanes have ended cleanly."""
    for _ in range(120):
        world.turn()
        if world.rng.random() < 0.04:
            if world.rng.random() < 0.7:
                world.stop_some()
            world.restart()
    world.until_quiet()


@examples(60)
@given(seed=st.integers(0, 1 << 32), lanes=st.sampled_from(["auto", "source"]))
def test_whatever_happens_each_record_arrives_once_or_is_recorded_as_lost(
    seed: int, lanes: str
) -> None:
    settings: dict[str, Any] = {"stream.lanes": lanes}
    world = World(Random(seed), **settings)
    play(world)


@examples(30)
@given(seed=st.integers(0, 1 << 32), lanes=st.sampled_from(["auto", "source"]))
def test_what_a_hub_partition_refuses_ends_a_lane_of_others_once_where_no_task_can_give_it_up(
    seed: int, lanes: str
) -> None:
    settings: dict[str, Any] = {"stream.lanes": lanes}
    world = World(Random(seed), **settings)
    world.ends_whole = True
    play(world)


@examples(30)
@given(seed=st.integers(0, 1 << 32))
@example(seed=50)
def test_with_dedup_each_event_arrives_once_and_what_is_refused_ends_no_other_lane_twice(
    seed: int,
) -> None:
    """Records whose event is that of a lost one wait until the hub was read, and no longer."""
    world = EventsWorld(Random(seed))
    play(world)
    there = [(sp.partition, at) for sp, _, at in set(world.hub) - world.dropped]
    assert len(there) == len(set(there))


@examples(60)
@given(seed=st.integers(0, 1 << 32), start=st.sampled_from(["earliest", "latest"]))
def test_whatever_is_paused_by_itself_nothing_is_lost_or_doubled(seed: int, start: str) -> None:
    settings: dict[str, Any] = {"sources.eu.start": start}
    world = World(Random(seed), **settings)
    world.by_parts = True
    play(world)


@examples(30)
@given(seed=st.integers(0, 1 << 32))
def test_a_run_that_is_to_end_ends(seed: int) -> None:
    world = World(Random(seed), until_done=True)
    for _ in range(40):
        world.turn()
    world.calm, world.away, world.paused, world.backfilled = True, set(), set(), {}
    world.until(lambda: world.state.begun and world.state.is_over, turns=2000)


@examples(60)
@given(seed=st.integers(0, 1 << 32), by_parts=st.booleans())
def test_whatever_becomes_of_the_checkpoint_nothing_is_copied_twice(
    seed: int, by_parts: bool
) -> None:
    """It is lost or restored, while sources are away or paused, leaders are missing, and people
    set positions; and the instance dies between any two commits.
    """
    world = World(Random(seed))
    world.losable, world.by_parts = True, by_parts
    play_with_stops(world)


@examples(30)
@given(seed=st.integers(0, 1 << 32), losable=st.booleans())
@example(seed=791, losable=False)
@example(seed=882, losable=False)
def test_whatever_the_hub_loses_is_copied_again_or_recorded_as_lost(
    seed: int, losable: bool
) -> None:
    """It is restored from a backup, and topics of it are created again, also while lanes run."""
    world = World(Random(seed))
    world.hub_losable, world.losable = True, losable
    play_with_stops(world)


@pytest.mark.parametrize("seed", [82, 288, 938])
def test_histories_that_once_went_wrong(seed: int) -> None:
    """Holes whose source deletes or whose topic is recreated; tasks that read on after a look."""
    settings: dict[str, Any] = {"stream.lanes": "source"} if seed % 3 == 0 else {}
    world = World(Random(seed), **settings)
    play(world)
    assert set(PARTITIONS) == world.state.in_lanes
