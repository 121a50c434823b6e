"""What a start does not believe of its checkpoint is looked for first, whenever its source comes.

The world asserts at each start of a partition that the hub holds nothing beyond its position, and
at each record that it is not there yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from aggregator.model.errors import ClusterError
from aggregator.plan.lifecycle import commands as c
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.step import step
from aggregator.plan.snapshot import ClusterSnapshot
from support.flow_world import (
    EU,
    EU0,
    OTHER,
    PARTITIONS,
    US,
    US0,
    Backup,
    World,
    running,
)


def backup_of(world: World) -> Backup:
    return Backup(world.checkpoint, dict(world.table), world.kept)


def stop(world: World) -> None:
    """Everything ends cleanly."""
    world.paused = {"eu", "us"}
    world.until_all(Stage.OUT)
    world.paused = set()


def copy(world: World, count: int) -> None:
    for log in world.logs.values():
        log.end += count
    world.until(lambda: not world.missing() and world.state.in_lanes == set(PARTITIONS))


def restored() -> World:
    """Of ten records each, and all ended cleanly, the checkpoint knows the first five."""
    world = running()
    copy(world, 5)
    stop(world)
    before = backup_of(world)
    world.restart()
    copy(world, 5)
    stop(world)
    world._restore(before)
    return world


def continues(world: World) -> None:
    """Everything comes back, and nothing is written twice."""
    world.away, world.paused, world.leaderless = set(), set(), set()
    world.until_all(Stage.READING)
    copy(world, 3)


def away(world: World) -> None:
    world.away = {"us"}


def paused(world: World) -> None:
    world.paused = {"us"}


def leaderless(world: World) -> None:
    world.leaderless = {US0}


REST = pytest.mark.parametrize("rest", [away, paused, leaderless])
CRASHES = pytest.mark.parametrize("crashes", [0, 1])


@REST
@CRASHES
@pytest.mark.parametrize("lost", ["gone", "old"])
def test_what_cannot_be_looked_for_at_that_start_is_when_it_comes(
    rest: Callable[[World], None], crashes: int, lost: str
) -> None:
    world = restored()
    if lost == "gone":
        world._restore(Backup())
    rest(world)
    for _ in range(crashes + 1):
        world.restart()
        world.until_all(Stage.READING, *EU)
    continues(world)
    world.until(lambda: not world.checkpoint.doubts)


@CRASHES
def test_a_gap_that_is_decided_in_that_start_does_not_vouch_for_the_others(crashes: int) -> None:
    world = restored()
    # Deleted beyond the old position; `on_gap: skip`.
    log = world.logs[EU0]
    log.earliest = log.end = log.end + 4
    for _ in range(crashes + 1):
        world.restart()
        world.until_all(Stage.READING, *US)
    assert [it for it in world.given if isinstance(it, c.Move) and it.why == "gaps"]
    continues(world)


def test_positions_that_people_set_before_do_not_vouch_for_the_others() -> None:
    world = restored()
    world._set_by_hand(EU0)
    assert world.entries[EU0].snapshot.by_hand
    world.restart()
    continues(world)


def test_what_is_recovered_does_not_vouch_for_what_was_clean() -> None:
    world = running()
    copy(world, 5)
    world.paused = {"us"}
    world.until_all(Stage.OUT, *US)
    before = backup_of(world)
    assert world.checkpoint.unclean == set(EU)
    world.paused = set()
    copy(world, 5)
    stop(world)
    world._restore(before)
    world.restart()
    continues(world)


def test_a_source_that_is_new_beside_a_sound_checkpoint_is_not_looked_for() -> None:
    world = World(Random(7))
    both = world.config
    world.calm, world.only = True, {"eu"}
    world.config = both.model_copy(update={"sources": {"eu": both.sources["eu"]}})
    world.restart()
    world.until_all(Stage.READING, *EU)
    for crash in (False, True):
        stop(world)
        if crash:
            # The hub is further than the checkpoint knows, and only behind that it is looked for.
            world.hub.append((OTHER, "", 0))
        world.restart()
        world.until_all(Stage.READING, *EU)
    world.config, world.only = both, {"eu", "us"}
    world.until_all(Stage.READING)
    assert not [it for it in world.given if isinstance(it, c.Recover) and set(US) & it.partitions]
    assert not world.checkpoint.doubts
    copy(world, 3)


def test_a_clean_start_reads_nothing_and_commits_nothing_more() -> None:
    world = running()
    stop(world)
    seq = world.checkpoint.seq
    world.given.clear()
    world.restart()
    world.until(lambda: world.state.begun)
    kinds = [type(it) for it in world.given if not isinstance(it, (c.Emit, c.SetPace, c.Remember))]
    assert kinds == [c.Prepare, c.AskHub, c.Start]
    assert world.checkpoint.seq >= seq + 1


def test_a_hub_that_does_not_say_what_it_holds_is_asked_again_after_the_next_snapshot() -> None:
    world = running()
    stop(world)
    world.restart()
    state = world.state

    def commands(*outcomes: c.Outcome, snapshot: ClusterSnapshot | None = None) -> list[c.Command]:
        nonlocal state
        inputs = replace(world._inputs(turn=False), outcomes=outcomes, snapshot=snapshot)
        state, given = step(state, inputs, world.now)
        return [it for it in given if not isinstance(it, (c.SetPace, c.Remember))]

    for _ in range(2):
        world.now += 1
        (prepare,) = commands(snapshot=world._discover())
        (asks,) = commands(c.Outcome(prepare, world._do(prepare)))
        assert isinstance(asks, c.AskHub)
        emitted, again = commands(c.Outcome(asks, error=ClusterError("hub: no answer in 10 s")))
        assert isinstance(emitted, c.Emit)
        assert emitted.event.kind == "hub_silent"
        assert "no answer in 10 s" in emitted.event.message
        assert isinstance(again, c.RequestDiscovery)
        assert commands() == []


def test_after_a_crash_the_hub_is_asked_for_its_ends_and_read() -> None:
    world = running()
    world.given.clear()
    world.restart()
    world.until(lambda: world.state.begun)
    kinds = [type(it) for it in world.given if not isinstance(it, (c.Emit, c.SetPace, c.Remember))]
    assert kinds == [c.Prepare, c.AskHub, c.Recover, c.Start]


def test_what_rests_is_looked_for_with_the_others_after_a_crash() -> None:
    """Else the hub would be read from there on, when it comes back after a long time."""
    world = running()
    world.paused = {"us"}
    world.until_all(Stage.OUT, *US)
    world.logs[EU0].end += 5
    world.restart()
    world.until_all(Stage.READING, *EU)
    assert world.checkpoint.unclean == set(EU)
    (recover,) = [it for it in world.given if isinstance(it, c.Recover)]
    assert recover.partitions == set(PARTITIONS)
    continues(world)


def test_a_fresh_start_ends_doubts() -> None:
    world = restored()
    world._restore(Backup())
    away(world)
    world.restart()
    world.until_all(Stage.READING, *EU)
    assert world.checkpoint.doubts.keys() == {"us"}
    stop(world)
    world.hub = [it for it in world.hub if it[0] not in US]
    world.restart()
    world.state = type(world.state)(world.config, fresh=True)
    continues(world)
    assert not world.checkpoint.doubts


def test_what_somebody_else_writes_is_looked_at_and_nothing_follows() -> None:
    world = running()
    stop(world)
    world.hub.append((OTHER, "", 0))
    world.restart()
    continues(world)
    assert world.messages("doubt")
