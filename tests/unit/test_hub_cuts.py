"""What is said of hub partitions that were cut off, and what that makes of commits. Pure."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import OffsetRange, Positions, SourcePartition, TopicPartition
from aggregator.plan.positions.hub_losses import (
    LOST,
    cut_ends,
    cut_id,
    cut_ids,
    cuts_in,
    cuts_of,
    has_all,
    id_before,
    is_lost,
    least_cuts,
    limited,
    plan_cuts,
    renewed_ids,
    words_of,
)
from aggregator.store.checkpoint.rows import HUB, Checkpoint
from aggregator.store.checkpoint.start_state import CheckpointState
from support.examples import examples

ONE, TWO, THREE = (SourcePartition("eu", "orders", number) for number in range(3))
HUB0, HUB1, LOGS0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
HUB_PARTITIONS = [HUB0, HUB1, LOGS0]
IDS = {"a": "Xy-_9", "b": "b-id"}

cuts = st.dictionaries(st.sampled_from(HUB_PARTITIONS), st.integers(0, 40), min_size=1)
ends = st.dictionaries(st.sampled_from(HUB_PARTITIONS), st.integers(0, 40))


@examples(60)
@given(st.sampled_from(["", "Xy-_9", LOST]), st.lists(cuts))
def test_the_lowest_of_all_cuts_is_said_with_the_id_that_was_known(own, all_cuts):  # type: ignore[no-untyped-def]
    said, least = {"a": own, "b": "b-id"}, dict[TopicPartition, int]()
    for each in all_cuts:
        said, least = cut_ids(said, each), least_cuts(least, each)
    of_a = {tp.partition: at for tp, at in least.items() if tp.topic == "a"}
    assert (cuts_in(said["a"]), id_before(said["a"])) == (of_a, "" if own == LOST else own)
    assert is_lost(said["a"]) == (own == LOST or bool(of_a))
    assert cuts_of({ONE: said}, {ONE: {"a", "b"}}) == least
    assert cuts_of({ONE: said}, {ONE: {"b"}}).keys() == least.keys() & {LOGS0}
    lost = {tp.topic for tp in least} | ({"a"} if own == LOST else set())
    assert renewed_ids(said, {"a": own, "b": "b-id"}) == lost


def test_a_topic_that_is_lost_as_a_whole_has_no_cut() -> None:
    assert (is_lost(LOST), id_before(LOST), cuts_in(LOST)) == (True, "", {})
    assert (is_lost("lostid"), id_before("lostid"), cuts_in("lostid")) == (False, "lostid", {})
    assert cut_id("X", {0: 5, 11: 7}) == "lost X 0:5 11:7"


def test_what_ends_before_it_ended_was_cut_off() -> None:
    known = {HUB0: 10, HUB1: 20}
    assert plan_cuts(known, {HUB0: 10, HUB1: 19, LOGS0: 0}) == {HUB1: 19}
    assert plan_cuts({}, known) == {}
    assert words_of({HUB1: 19}).startswith("a-1 has lost records that were acknowledged, from")
    assert words_of({LOGS0: 1, HUB1: 19}).startswith("a-1 and 1 more partitions")


def test_a_log_is_what_it_was_up_to_where_it_was_cut_off() -> None:
    logs = {HUB0: OffsetRange(5, 50), HUB1: OffsetRange(30, 50)}
    limits = limited(logs, {HUB0: 40, HUB1: 20})
    assert limits == {HUB0: OffsetRange(5, 40), HUB1: OffsetRange(20, 20)}
    assert has_all({HUB0: 40, HUB1: 20}, {"a"}, limits)
    assert not has_all({HUB0: 41, HUB1: 20}, {"a"}, limits)


@st.composite
def states(draw: st.DrawFn) -> CheckpointState:
    found = []
    for seq in range(1, draw(st.integers(1, 5)) + 1):
        positions = draw(st.dictionaries(st.sampled_from([ONE, TWO, THREE]), st.integers(0, 9)))
        found.append(
            Checkpoint(
                lane=draw(st.sampled_from(["eu", "recovery"])),
                generation=1,
                batch=seq,
                positions=Positions(positions),
                hub_ends=draw(ends),
                snapshot_at_ms=1_000 * seq,
                cluster_ids={"eu": "E", HUB: "H"},
                topic_ids={("eu", "orders"): "T"} | {(HUB, name): it for name, it in IDS.items()},
                clean=draw(st.booleans()),
                seq=seq,
                epoch=1,
            )
        )
    return CheckpointState().apply(*found)


@examples(60)
@given(states(), cuts, st.sets(st.sampled_from([ONE, TWO, THREE])))
def test_what_may_know_of_more_than_there_is_says_so_and_all_else_stays(state, cut, but):  # type: ignore[no-untyped-def]
    again = state.cut_off(cut, but)
    assert len({(it.lane, it.generation, it.batch) for it in again}) == len(again)
    after = state.apply(*(replace(it, seq=10, epoch=1) for it in again))
    for sp, entry in after.entries.items():
        before, now = state.entries[sp].snapshot, entry.snapshot
        assert entry.position == state.entries[sp].position
        assert (now.clean, now.lane) == (before.clean, before.lane)
        assert now.snapshot_at_ms == before.snapshot_at_ms
        knows = any(before.hub_ends.get(tp, 0) > at for tp, at in cut.items()) or not before.clean
        if sp in but or not knows:
            assert now == before
            continue
        assert now.hub_ends == cut_ends(before.hub_ends, cut)
        assert cuts_of({sp: now.topic_ids}, {sp: {"a", "b"}}) == cut
        assert {name: id_before(it) for name, it in now.topic_ids.items()} == IDS
    # Carried on by a full commit, none is taken for another.
    carried = after.carried(11, 1, ())
    assert CheckpointState().apply(*carried).own_hub_ids() == after.own_hub_ids()
