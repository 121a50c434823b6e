"""What a checkpoint's history says about going back, from real tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aggregator.model.values import LogId, Positions, SourcePartition, TopicPartition
from aggregator.store.checkpoint import past_commits as past_module
from aggregator.store.checkpoint import rows as rows_module
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.past_commits import AGAIN, REWOUND, SET, Past, ProvenBound
from aggregator.store.checkpoint.rows import HUB, OLDER, Checkpoint

ONE = SourcePartition("eu", "orders", 0)
TWO = SourcePartition("eu", "orders", 1)
THREE = SourcePartition("eu", "orders", 2)
HUB_PARTITION = TopicPartition("orders", 0)
NOW = LogId("cluster-1", "topic-1")


class World:
    """A table; each commit has hub ends ten times the number of the commit, or of an older one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.table = CheckpointTable.create(path)
        self.table.claim_epoch("me")

    def commit(
        self,
        positions: Mapping[SourcePartition, int],
        ids: LogId = NOW,
        lane: str = "eu",
        like: int = 0,
        clean: bool = False,
        older: int = 0,
    ) -> None:
        """Commit positions, with a bound of now or with that of an earlier commit."""
        at = like or self.table.load().seq + 1
        self.table.append(
            Checkpoint(
                lane=lane,
                generation=1,
                batch=OLDER if older else at,
                positions=Positions(positions),
                hub_ends={HUB_PARTITION: 10 * (older or at)},
                snapshot_at_ms=1_000 * at,
                cluster_ids={"eu": ids.cluster, HUB: "hub-1"},
                topic_ids={("eu", "orders"): ids.topic},
                clean=clean,
            )
        )

    def past(self, *partitions: SourcePartition, ids: LogId = NOW) -> Past:
        return Past(self.path, {}, dict.fromkeys(partitions or (ONE, TWO), ids))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(str(tmp_path))


def bound(commit: int) -> ProvenBound:
    return ProvenBound({HUB_PARTITION: 10 * commit}, 1_000 * commit, "hub-1")


def test_the_newest_commit_at_or_below_the_target_gives_the_bound(world: World) -> None:
    world.commit({ONE: 100, TWO: 7})  # commit 2: the first is the epoch's
    world.commit({ONE: 200})
    world.commit({ONE: 300, TWO: 8})
    past = world.past()
    assert past.furthest() == {ONE: 300, TWO: 8}
    assert past.bounds({ONE: 300, TWO: 8}) == {ONE: bound(4), TWO: bound(4)}
    assert past.bounds({ONE: 299, TWO: 7}) == {ONE: bound(3), TWO: bound(2)}
    assert past.bounds({ONE: 100}) == {ONE: bound(2)}
    assert past.bounds({ONE: 99}) == {ONE: ProvenBound()}
    assert past.bounds({}) == {}


def test_a_partition_that_is_not_known_has_no_bound(world: World) -> None:
    world.commit({TWO: 7})
    past = world.past()
    assert past.furthest() == {TWO: 7}
    assert past.bounds({ONE: 5}) == {ONE: ProvenBound()}


def test_without_a_table_nothing_is_known(tmp_path: Path) -> None:
    past = Past(str(tmp_path / "none"), {}, {ONE: NOW})
    assert past.furthest() == {}
    assert past.bounds({ONE: 5}) == {ONE: ProvenBound()}
    assert World(str(tmp_path)).past().bounds({ONE: 5}) == {ONE: ProvenBound()}


def test_after_a_rewind_the_lower_bound_still_holds(world: World) -> None:
    world.commit({ONE: 100})
    world.commit({ONE: 200})
    world.commit({ONE: 100}, lane="positions set", like=2)
    past = world.past()
    assert past.furthest() == {ONE: 200}
    assert past.bounds({ONE: 150, TWO: 1}) == {ONE: bound(2), TWO: ProvenBound()}
    # Read last, though it was not committed last.
    assert past.bounds({ONE: 200}) == {ONE: bound(3)}


def test_commits_since_an_again_do_not_count(world: World) -> None:
    world.commit({ONE: 100, TWO: 100})
    world.commit({ONE: 200, TWO: 200})
    world.commit({ONE: 50}, lane=AGAIN)
    world.commit({ONE: 60, TWO: 300})
    past = world.past()
    assert past.bounds({ONE: 150, TWO: 300}) == {ONE: bound(2), TWO: bound(5)}
    assert past.bounds({ONE: 60}) == {ONE: ProvenBound()}


def test_a_topic_that_was_created_again_is_bounded_by_its_own_commits(world: World) -> None:
    world.commit({ONE: 100, TWO: 5}, LogId("cluster-1", "topic-0"))
    world.commit({ONE: 900}, LogId("cluster-0", "topic-1"))
    world.commit({ONE: 40})
    world.commit({ONE: 60})
    past = world.past()
    assert past.furthest() == {ONE: 60}
    assert past.bounds({ONE: 50}) == {ONE: bound(4)}
    # None of its own is so low: yet all its records are behind the first of them.
    assert past.bounds({ONE: 10, TWO: 10}) == {ONE: bound(4), TWO: ProvenBound()}


def test_an_id_that_is_not_known_is_taken_for_the_same(world: World) -> None:
    world.commit({ONE: 100}, LogId("cluster-1", ""))
    assert world.past().furthest() == {ONE: 100}
    world.commit({ONE: 110})
    assert world.past(ids=LogId("", "")).furthest() == {ONE: 110}


def test_a_full_commit_repeats_each_with_its_own_bound(world: World) -> None:
    world.commit({ONE: 100})
    world.commit({TWO: 7})
    world.table.claim_epoch("the next")
    assert world.past().bounds({ONE: 100, TWO: 7}) == {ONE: bound(2), TWO: bound(3)}


def test_of_a_commit_of_several_lanes_only_what_is_asked_for_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = (("eu", {ONE: 100}, 10), ("other", {TWO: 100, THREE: 7}, 20))
    world.table.append(
        *(
            Checkpoint(
                lane=lane,
                generation=1,
                batch=0,
                positions=Positions(positions),
                hub_ends={HUB_PARTITION: end},
                snapshot_at_ms=1_000,
                cluster_ids={"eu": NOW.cluster, HUB: "hub-1"},
                topic_ids={("eu", "orders"): NOW.topic},
            )
            for lane, positions, end in lanes
        )
    )
    made: list[str] = []

    def from_table(rows: Any) -> list[Checkpoint]:
        found = rows_module.from_table(rows)
        made.extend(it.lane for it in found)
        return found

    monkeypatch.setattr(past_module, "from_table", from_table)
    past = world.past(ONE, TWO, THREE)
    first, second = (ProvenBound({HUB_PARTITION: end}, 1_000, "hub-1") for end in (10, 20))
    assert past.bounds({ONE: 100}) == {ONE: first}
    assert made == ["eu"]
    found = past.bounds({TWO: 100, THREE: 8})
    assert found == {TWO: second, THREE: second}
    # The ends of a hub may be thousands: they are there once.
    assert found[TWO] is found[THREE]
    assert made == ["eu", "other"]
    assert past.bounds({ONE: 100, THREE: 7}) == {ONE: first, THREE: second}


def test_what_is_said_of_a_partition_depends_on_no_other_that_is_asked_about(world: World) -> None:
    world.table._clock_ms = lambda: 1_000 * (world.table.load().seq + 1)
    for at in (100, 200, 300, 400):
        world.commit({ONE: at, TWO: at // 2})
        world.commit({TWO: at // 2 + 10})
    past = world.past()
    for one in (0, 99, 100, 250, 400, 999):
        for two in (0, 50, 105, 210, 999):
            both = {ONE: one, TWO: two}
            assert past.bounds(both) == {**past.bounds({ONE: one}), **past.bounds({TWO: two})}
            assert past.tops(both) == {**past.tops({ONE: one}), **past.tops({TWO: two})}


def test_hub_ends_behind_all_below_a_position_come_from_a_later_snapshot(tmp_path: Path) -> None:
    table = CheckpointTable.create(str(tmp_path), None)
    table._clock_ms = lambda: clock
    clock = 0
    table.claim_epoch("me")

    def commit(at: int, position: int, snapshot: int, lane: str = "eu", life: int = 1) -> None:
        nonlocal clock
        clock = at
        table.append(
            Checkpoint(
                lane=lane,
                generation=life,
                batch=at,
                positions=Positions({ONE: position}),
                hub_ends={HUB_PARTITION: at},
                snapshot_at_ms=snapshot,
                cluster_ids={"eu": NOW.cluster, HUB: "hub-1"},
                topic_ids={("eu", "orders"): NOW.topic},
            )
        )

    commit(1_000, 100, 900)
    commit(2_000, 200, 999)  # its snapshot is older than the commit before
    commit(3_000, 300, 2_500)
    commit(4_000, 400, 3_900)
    commit(5_000, 500, 4_990, life=2)  # another life: the last report before it may be missing
    past = Past(str(tmp_path), {}, {ONE: NOW})
    assert {at: past.tops({ONE: at})[ONE].hub_ends for at in (50, 100, 101, 201)} == {
        50: {HUB_PARTITION: 3_000},
        100: {HUB_PARTITION: 3_000},
        101: {HUB_PARTITION: 3_000},
        201: {HUB_PARTITION: 4_000},
    }
    assert past.tops({ONE: 301}) == past.tops({ONE: 501}) == past.tops({}) == {}
    assert past.lowest() == {ONE: 100}
    assert past.set_back() == frozenset()
    commit(6_000, 150, 900, lane=SET)
    # What was read before is not read again.
    later = Past(str(tmp_path), {}, {ONE: NOW}, past)
    assert later.furthest() == {ONE: 500}
    assert later.set_back() == {ONE}
    assert later.tops({ONE: 50}) == {}


def test_what_was_reached_long_ago_is_bounded_by_a_commit_of_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_module, "RECENT", 3)
    world.table._clock_ms = lambda: 1_000 * (world.table.load().seq + 1)
    for position in (100, 200, 300, 400, 500, 600):
        world.commit({ONE: position, TWO: 7})
    past = world.past()
    # Commits 2 to 7; those that are recent are 5 to 7. A snapshot is as old as its commit.
    assert past.tops({ONE: 500, TWO: 7}) == {ONE: bound(7), TWO: bound(3)}
    assert past.tops({ONE: 150, TWO: 7}, recent=True) == {}
    assert past.tops({ONE: 450}, recent=True) == {ONE: bound(7)}
    assert past.bounds({ONE: 150, TWO: 7}) == {ONE: bound(2), TWO: bound(7)}
    assert past.bounds({ONE: 150, TWO: 7}, recent=True) == {ONE: ProvenBound(), TWO: bound(7)}


def test_how_much_the_hub_still_holds_is_proven_by_a_later_commit_of_a_life_or_its_end(
    world: World,
) -> None:
    world.table._clock_ms = lambda: 1_000 * (world.table.load().seq + 1)
    for at in (100, 200, 300, 400):  # commits 2 to 5
        world.commit({ONE: at})

    def held(end: int) -> int | None:
        found = world.past().held({ONE: 400}, lambda _, it: it.hub_ends[HUB_PARTITION] <= end)
        return found.get(ONE)

    # What commit 3 says is in a snapshot that was made later: of commit 4.
    assert [held(end) for end in (50, 40, 30)] == [300, 200, 100]
    assert held(29) is None
    world.commit({ONE: 400}, clean=True)
    assert held(60) == 400
    assert held(59) == 300
    assert world.past().is_whole
    # What was set back is in another order.
    world.commit({ONE: 350}, lane=REWOUND)
    assert held(60) is None


def test_what_was_set_back_by_a_recovery_is_proven_by_what_was_committed_since(
    world: World,
) -> None:
    world.table._clock_ms = lambda: 1_000 * (world.table.load().seq + 1)

    def held(end: int) -> dict[SourcePartition, int]:
        everything = {ONE: 20, TWO: 20}
        return world.past().held(everything, lambda _, it: it.hub_ends[HUB_PARTITION] <= end)

    for at in (2, 4, 6, 8):  # commits 2 to 5
        world.commit({ONE: at, TWO: at})
    assert held(50) == {ONE: 6, TWO: 6}
    world.commit({ONE: 3}, lane=REWOUND)
    # What was below 6 may have come again, and later.
    assert held(1_000) == {TWO: 6}
    for at in (5, 7, 9):  # commits 7 to 9
        world.commit({ONE: at})
    assert [held(end) for end in (90, 80, 70)] == [
        {ONE: 7, TWO: 6},
        {ONE: 5, TWO: 6},
        {TWO: 6},
    ]
    # To others an order counts that is gone.
    assert world.past().tops({ONE: 4}) == {}
    world.commit({ONE: 3}, lane=REWOUND, clean=True)
    assert [held(end) for end in (100, 99)] == [{ONE: 3, TWO: 6}, {TWO: 6}]
    world.commit({ONE: 2}, lane=SET)
    assert held(1_000) == {TWO: 6}


def test_what_is_committed_by_older_ends_does_not_prove_that_the_hub_holds_it(
    world: World,
) -> None:
    """As of a lane that leaves out what a recovery has found: it keeps the bound of before."""
    world.table._clock_ms = lambda: 1_000 * (world.table.load().seq + 1)
    world.commit({ONE: 100})  # commit 2
    world.commit({ONE: 200}, lane="recovery", older=2)
    world.commit({ONE: 200}, lane="us", older=2)
    world.commit({ONE: 210}, lane="us", older=2)
    world.commit({ONE: 200}, lane="recovery", older=2)
    assert world.past().tops({ONE: 200}) == {}
    # As a bound of what is beyond the position it holds.
    assert world.past().bounds({ONE: 200})[ONE].hub_ends == {HUB_PARTITION: 20}
    world.commit({ONE: 220}, lane="us")  # commit 7
    assert world.past().tops({ONE: 200}) == {ONE: bound(7)}
