"""The fold over checkpoints: any interleaving of lanes, full commits, rows there and back."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import Positions, SourcePartition, TopicPartition
from aggregator.store.checkpoint.rows import (
    HUB,
    SCHEMA,
    Checkpoint,
    epoch_row,
    from_table,
    to_millis,
    to_moment,
    to_table,
)
from aggregator.store.checkpoint.start_state import CheckpointState, latest_rows, state_from
from support.examples import examples
from support.hub_ends import hub_ends_for

PARTITIONS = [
    SourcePartition(cluster, topic, partition)
    for cluster in ("eu", "us")
    for topic in ("orders", "payments")
    for partition in range(2)
]
HUB_PARTITIONS = [TopicPartition("orders", partition) for partition in range(3)]
IDS = {"eu": "id-eu", "us": "id-us", HUB: "id-hub"}
TOPIC_IDS = {(alias, "orders"): f"{alias}-o" for alias in IDS} | {("eu", "payments"): "eu-p"}

offsets = st.integers(0, 2**62)


@st.composite
def commits(draw: st.DrawFn) -> list[Checkpoint]:
    """Commits of two lanes that may exchange partitions, rewind, and know few hub partitions."""
    found = []
    for seq in range(1, draw(st.integers(1, 12)) + 1):
        positions = draw(st.dictionaries(st.sampled_from(PARTITIONS), offsets, min_size=1))
        found.append(
            Checkpoint(
                lane=draw(st.sampled_from(["a", "b"])),
                generation=draw(st.integers(1, 2)),
                batch=draw(st.integers(0, 3)),
                positions=Positions(positions),
                hub_ends=draw(st.dictionaries(st.sampled_from(HUB_PARTITIONS), offsets)),
                snapshot_at_ms=draw(st.integers(1_700_000_000_000, 1_700_000_000_003)),
                cluster_ids=IDS,
                topic_ids=TOPIC_IDS,
                log_ends={sp: at for sp, at in positions.items() if draw(st.booleans())},
                clean=draw(st.booleans()),
                seq=seq,
                epoch=draw(st.integers(1, 3)),
            )
        )
    return found


def what_counts(state: CheckpointState) -> dict[SourcePartition, object]:
    """All that a start reads of a partition, whatever commit says it."""
    return {
        sp: (
            entry.position,
            entry.log_end,
            entry.cluster_id,
            entry.topic_id,
            entry.snapshot.clean,
            entry.snapshot.lane,
        )
        for sp, entry in state.entries.items()
    }


@examples(60)
@given(commits(), st.randoms())
def test_the_latest_commit_of_each_partition_counts_in_any_order(found, random):  # type: ignore[no-untyped-def]
    shuffled = list(found)
    random.shuffle(shuffled)
    state = CheckpointState().apply(*shuffled)
    for sp in PARTITIONS:
        of_it = [commit for commit in found if sp in commit.positions]
        if not of_it:
            assert sp not in state.entries
            continue
        assert state.positions[sp] == of_it[-1].positions[sp]
        assert hub_ends_for(state, [sp]) == of_it[-1].hub_ends
        assert (sp in state.unclean) is (not of_it[-1].clean)
    assert state.seq == len(found)
    assert state.epoch == max(commit.epoch for commit in found)
    assert state.clean == (not state.unclean)


@examples(60)
@given(commits(), commits())
def test_applying_one_by_one_is_applying_all(first, second):  # type: ignore[no-untyped-def]
    state = CheckpointState()
    for commit in [*first, *second]:
        state = state.apply(commit)
    assert state == CheckpointState().apply(*first, *second)


@examples(60)
@given(commits())
def test_rows_and_back(found):  # type: ignore[no-untyped-def]
    table = pa.concat_tables([to_table([commit], 1_700_000_000_000) for commit in found])
    for commit, back in zip(found, from_table(table), strict=True):
        assert back.positions == commit.positions
        assert back.hub_ends == commit.hub_ends
        assert back.log_ends == commit.log_ends
        assert (back.seq, back.epoch, back.lane) == (commit.seq, commit.epoch, commit.lane)
        assert (back.generation, back.batch) == (commit.generation, commit.batch)
        assert (back.clean, back.full) == (commit.clean, commit.full)
        assert back.snapshot_at_ms == commit.snapshot_at_ms
        assert all(commit.cluster_ids[alias] == value for alias, value in back.cluster_ids.items())


def plain_rows(checkpoints: list[Checkpoint], committed_at_ms: int) -> pa.Table:
    """The rows of a commit, one by one."""
    rows: list[dict[str, object]] = []
    for it in checkpoints:
        common = {
            "seq": it.seq,
            "epoch": it.epoch,
            "generation": it.generation,
            "lane": it.lane,
            "batch": it.batch,
            "full": it.full,
            "clean": it.clean,
            "snapshot_at": to_moment(it.snapshot_at_ms),
            "committed_at": to_moment(committed_at_ms),
        }
        for sp, offset in it.positions.items():
            rows.append(
                {
                    **common,
                    "kind": "position",
                    "cluster": sp.cluster,
                    "cluster_id": it.cluster_ids.get(sp.cluster, ""),
                    "topic": sp.topic,
                    "topic_id": it.topic_ids.get((sp.cluster, sp.topic), ""),
                    "partition": sp.partition,
                    "offset": offset,
                    "log_end": it.log_ends.get(sp),
                }
            )
        for tp, offset in sorted(it.hub_ends.items()):
            rows.append(
                {
                    **common,
                    "kind": "hub_end",
                    "cluster": HUB,
                    "cluster_id": it.cluster_ids.get(HUB, ""),
                    "topic": tp.topic,
                    "topic_id": it.topic_ids.get((HUB, tp.topic), ""),
                    "partition": tp.partition,
                    "offset": offset,
                }
            )
        rows += [{**common, "kind": "doubt", "cluster": it} for it in sorted(it.doubted)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@examples(60)
@given(commits(), st.sets(st.sampled_from(["eu", "us"])), st.booleans())
def test_rows_made_by_columns_are_those_made_one_by_one(found, doubted, full):  # type: ignore[no-untyped-def]
    found[0] = replace(found[0], doubted=frozenset(doubted), full=full)
    for count in (0, 1, len(found)):
        table = to_table(found[:count], 1_700_000_000_123)
        assert table.schema.equals(SCHEMA)
        assert table.equals(plain_rows(found[:count], 1_700_000_000_123))


@examples(60)
@given(commits())
def test_only_the_latest_rows_are_needed(found):  # type: ignore[no-untyped-def]
    table = pa.concat_tables([to_table([commit], 0) for commit in found])
    whole = CheckpointState().apply(*from_table(table))
    assert CheckpointState().apply(*from_table(latest_rows(table))).entries == whole.entries
    assert state_from(table) == whole


@examples(60)
@given(commits(), st.sets(st.sampled_from(PARTITIONS)))
def test_a_full_commit_says_what_all_before_it_say(found, without):  # type: ignore[no-untyped-def]
    state = CheckpointState().apply(*found)
    seq = state.seq + 1
    carried = state.carried(seq, state.epoch, without)
    full = CheckpointState().apply(*from_table(to_table(carried, 0)))
    expected = {sp: was for sp, was in what_counts(state).items() if sp not in without}
    assert what_counts(full) == expected
    for sp in expected:
        own, kept = hub_ends_for(state, [sp]), hub_ends_for(full, [sp])
        # A lower bound may go down, or become unknown; never up.
        assert set(kept) <= set(own)
        assert all(kept[tp] <= own[tp] for tp in kept)
    assert all(entry.seq == seq for entry in full.entries.values())


def test_a_full_commit_keeps_each_lanes_own_hub_ends() -> None:
    eu, us = PARTITIONS[0], PARTITIONS[4]
    hub = HUB_PARTITIONS[0]
    state = CheckpointState().apply(
        Checkpoint("a", 1, 1, Positions({eu: 5}), {hub: 100}, 1, seq=1),
        Checkpoint("b", 1, 1, Positions({us: 6}), {hub: 900, HUB_PARTITIONS[1]: 7}, 2, seq=2),
    )
    full = state_from(to_table(state.carried(3, 1, ()), 0))
    assert hub_ends_for(full, [eu]) == {hub: 100}
    assert hub_ends_for(full, [us]) == {hub: 900, HUB_PARTITIONS[1]: 7}
    # Together: the smaller one; what one of them does not know has no bound.
    assert hub_ends_for(full) == {hub: 100}


def test_ids_are_those_of_the_newest_entry() -> None:
    sp = PARTITIONS[0]
    old = Checkpoint(
        "a",
        1,
        1,
        Positions({sp: 1}),
        {},
        1,
        {"eu": "x", HUB: "h"},
        {(HUB, "o"): "t1", (HUB, "p"): "t1"},
        seq=1,
    )
    other = SourcePartition("eu", "orders", 1)
    new = Checkpoint(
        "a", 1, 2, Positions({other: 1}), {}, 2, {"eu": "y"}, {(HUB, "o"): "t2"}, seq=2
    )
    state = CheckpointState().apply(old, new)
    assert state.cluster_ids == {"eu": "y", HUB: "h"}
    assert state.hub_ids == {"o": "t2", "p": "t1"}


def test_an_empty_table_is_an_empty_clean_state() -> None:
    empty = state_from(to_table([], 0))
    assert empty == CheckpointState()
    assert empty.clean
    assert hub_ends_for(empty) == {}


def test_an_epoch_row_counts_for_the_numbers_only() -> None:
    state = state_from(epoch_row(seq=4, epoch=2, owner="host h, pid 1", committed_at_ms=0))
    assert state == CheckpointState(seq=4, epoch=2, full_seq=4)


@given(st.integers(0, 4_000_000_000_000))
def test_moments_and_back(millis: int) -> None:
    assert to_millis(to_moment(millis)) == millis
