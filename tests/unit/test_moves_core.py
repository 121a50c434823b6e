"""Positions set by hand: where each partition goes, what becomes of its records, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aggregator.features.positions.targets import (
    BeforeMove,
    MoveKind,
    MovePlan,
    MoveRequest,
    PositionMove,
    plan_moves,
)
from aggregator.model.values import OffsetRange, SourcePartition

SP = SourcePartition("eu", "orders", 0)
LOG = OffsetRange(10, 100)


def place(position: int | None = 50, **more: Any) -> BeforeMove:
    known = {"log": LOG, "furthest": position, **more}
    return BeforeMove(SP, position=position, **known)


def one(request: MoveRequest, where: BeforeMove) -> PositionMove:
    plan = plan_moves(request, [where])
    assert not plan.problems, plan.problems
    (move,) = plan.moves
    return move


def problem(request: MoveRequest, where: BeforeMove) -> str:
    plan = plan_moves(request, [where])
    assert not plan.moves
    (text,) = plan.problems
    return text


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "give one of"),
        ({"to": "earliest", "to_offset": 1}, "give one of"),
        ({"by_offsets": 5}, "by_offsets is for a rewind"),
        ({"by_seconds": 5}, "by_seconds is for a rewind"),
        ({"to": "middle"}, "earliest"),
        ({"to_offset": -1}, "greater than or equal to 0"),
        ({"to_offset": 2**63}, "less than or equal to"),
        ({"to_time_ms": 10**30}, "less than or equal to"),
        ({"by_seconds": float("inf"), "rewind": True}, "less than or equal to"),
        ({"to_offset": 1, "nix": 2}, "Extra inputs"),
    ],
)
def test_a_request_has_one_target(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        MoveRequest(**fields)


def test_a_request_names_partitions() -> None:
    everything = MoveRequest(to="earliest")
    assert everything.names(SP)
    assert str(everything) == "*/*/*"
    some = MoveRequest(to="earliest", source="eu", partition=0)
    assert some.names(SP)
    assert not some.names(SP._replace(partition=1))
    assert not some.names(SP._replace(cluster="us"))
    assert str(some) == "eu/*/0"


def test_a_request_of_offsets_one_by_one() -> None:
    request = MoveRequest(source="eu", to_offsets={"orders": {0: 40, 7: None}})
    assert request.names(SP) and not request.names(SP._replace(partition=1))
    assert not request.names(SP._replace(topic="other"))
    assert not request.names(SP._replace(cluster="us"))
    assert request.absent([SP]) == ["eu/orders/7"]
    assert MoveRequest(to="latest").absent([SP]) == []
    assert one(request, place(50)) == PositionMove(SP, 50, 40, MoveKind.REPLAY, clean=False)
    beginning = MoveRequest(source="eu", to_offsets={"orders": {0: None}})
    assert one(beginning, place(50)).new == LOG.earliest
    with pytest.raises(ValidationError, match="is for one source"):
        MoveRequest(to_offsets={"orders": {0: 1}})


def test_a_request_by_time() -> None:
    assert MoveRequest(to="latest").time_ms(1_000) is None
    assert MoveRequest(to_time_ms=7).time_ms(1_000) == 7
    assert MoveRequest(by_seconds=0.5, rewind=True).time_ms(1_000) == 500
    assert MoveRequest(by_seconds=5, rewind=True).time_ms(1_000) == 0


def test_back_writes_what_the_hub_lacks() -> None:
    move = one(MoveRequest(to_offset=20), place())
    assert (move.kind, move.new, move.difference, move.clean) == (MoveKind.REPLAY, 20, -30, False)
    assert str(move) == "what the hub lacks from 20 on is written"


def test_back_again_writes_everything() -> None:
    move = one(MoveRequest(to="earliest", again=True), place())
    assert (move.kind, move.new, move.clean, move.skipped) == (MoveKind.AGAIN, 10, True, None)
    assert "AGAIN" in str(move)


def test_forward_skips_and_says_which() -> None:
    move = one(MoveRequest(to="latest"), place())
    assert (move.kind, move.new, move.clean) == (MoveKind.SKIP, 100, True)
    assert move.skipped == OffsetRange(50, 100)
    assert str(move) == "50 to 99 are SKIPPED, never copied"


def test_forward_of_an_unclean_partition_is_looked_at_in_the_hub() -> None:
    assert not one(MoveRequest(to="latest"), place(clean=False)).clean


def test_forward_to_where_it_was_before_skips_nothing() -> None:
    back = place(20, furthest=50, clean=False)
    move = one(MoveRequest(to_offset=50), back)
    assert (move.kind, move.skipped, move.clean) == (MoveKind.REPLAY, None, False)
    beyond = one(MoveRequest(to_offset=60), back)
    assert (beyond.kind, beyond.skipped, beyond.clean) == (
        MoveKind.SKIP,
        OffsetRange(50, 60),
        False,
    )


def test_forward_out_of_what_the_source_has_deleted() -> None:
    move = one(MoveRequest(to="earliest"), place(5))
    assert (move.kind, move.new, move.skipped) == (MoveKind.SKIP, 10, None)
    assert "gone at the source" in str(move)
    assert one(MoveRequest(to_offset=15), place(5)).skipped == OffsetRange(10, 15)


def test_where_it_is_already_nothing_changes() -> None:
    plan = plan_moves(MoveRequest(to_offset=50), [place()])
    assert plan.moves[0].kind is MoveKind.STAY
    assert plan.changes == ()
    assert one(MoveRequest(to_offset=50, again=True), place()).kind is MoveKind.STAY
    # Rewound before, and now to be written again after all.
    assert one(MoveRequest(to_offset=50, again=True), place(furthest=60)).kind is MoveKind.AGAIN


def test_a_rewind_never_goes_forward() -> None:
    assert one(MoveRequest(to="latest", rewind=True), place()).kind is MoveKind.STAY
    assert one(MoveRequest(to_offset=1_000, rewind=True), place()).kind is MoveKind.STAY
    move = one(MoveRequest(by_offsets=15, rewind=True), place())
    assert (move.kind, move.new) == (MoveKind.REPLAY, 35)


def test_without_a_position_it_begins_where_the_request_says() -> None:
    move = one(MoveRequest(to_offset=30), place(None))
    assert (move.kind, move.difference, move.clean) == (MoveKind.REPLAY, None, False)
    assert one(MoveRequest(to_offset=30, again=True), place(None)).clean
    plan = plan_moves(MoveRequest(to_offset=30, rewind=True), [place(None)])
    assert plan == MovePlan(notes=("eu/orders-0 has no position yet: left alone",))


@pytest.mark.parametrize("new", [0, 9, 101])
def test_outside_the_log_is_a_problem_that_names_the_range(new: int) -> None:
    text = problem(MoveRequest(to_offset=new), place())
    assert text == f"eu/orders-0: {new} is outside its log, which goes from 10 to 100"


def test_by_time_and_version() -> None:
    assert one(MoveRequest(to_time_ms=1), place(aimed=30)).new == 30
    # The log has moved on since the time was looked up.
    assert one(MoveRequest(to_time_ms=1), place(aimed=3)).new == 10
    assert "no offset is known" in problem(MoveRequest(to_time_ms=1), place())
    assert one(MoveRequest(to_version=4), place(aimed=30)).new == 30
    assert "outside its log" in problem(MoveRequest(to_version=4), place(aimed=3))
    assert "left alone" in plan_moves(MoveRequest(to_version=4), [place()]).notes[0]


def test_all_problems_at_once() -> None:
    places = [
        place(),
        BeforeMove(SP._replace(partition=1), log=None),
        BeforeMove(SP._replace(partition=2), OffsetRange(0, 5), 3),
        BeforeMove(SP._replace(partition=3), OffsetRange(0, 60), 3),
    ]
    plan = plan_moves(MoveRequest(to_offset=55), places)
    assert [text.split(":")[0] for text in plan.problems] == ["eu/orders-1", "eu/orders-2"]


def test_another_log_is_copied_as_a_new_one_and_never_compared() -> None:
    recreated = place(80, furthest=None, other_log="it was created again")
    move = one(MoveRequest(to_offset=30), recreated)
    assert (move.kind, move.clean, move.skipped) == (MoveKind.ANEW, True, OffsetRange(10, 30))
    assert one(MoveRequest(to="earliest"), recreated).skipped is None
    truncated = one(MoveRequest(to="latest"), place(120))
    assert (truncated.kind, truncated.new, truncated.skipped) == (MoveKind.ANEW, 100, None)
    for other in (recreated, place(120)):
        plan = plan_moves(MoveRequest(to="earliest", rewind=True), [other])
        assert (len(plan.moves), len(plan.problems)) == (0, 0)
        assert "left alone" in plan.notes[0]


def test_below_a_cut_only_again_is_possible() -> None:
    cut = place(95, furthest=100, cut=98)
    assert "use --again" in problem(MoveRequest(to_offset=20), cut)
    assert one(MoveRequest(to_offset=20, again=True), cut).kind is MoveKind.AGAIN
    # Its offsets of before the cut say nothing about how far this log was copied.
    assert one(MoveRequest(to_offset=97), cut).skipped == OffsetRange(95, 97)
    assert one(MoveRequest(to_offset=105), place(110, cut=98, log=OffsetRange(0, 120))).new == 105


def test_what_a_person_has_to_know_is_said() -> None:
    assert (
        "old records come after newer" in plan_moves(MoveRequest(to_offset=20), [place()]).notes[0]
    )
    again = plan_moves(MoveRequest(to_offset=20, again=True), [place()])
    assert "a second time, on purpose" in again.notes[0]
    recreated = plan_moves(MoveRequest(to_offset=20), [place(other_log="it was created again")])
    assert "not compared" in recreated.notes[0]


@given(
    position=st.none() | st.integers(0, 40),
    furthest=st.integers(0, 40),
    low=st.integers(0, 40),
    size=st.integers(0, 40),
    new=st.integers(0, 80),
    clean=st.booleans(),
    again=st.booleans(),
    rewind=st.booleans(),
    other=st.booleans(),
)
def test_nothing_is_skipped_unsaid_and_nothing_is_doubled_unasked(
    position: int | None,
    furthest: int,
    low: int,
    size: int,
    new: int,
    clean: bool,
    again: bool,
    rewind: bool,
    other: bool,
) -> None:
    highest = None if position is None or other else max(furthest, position)
    where = place(
        position,
        furthest=highest,
        log=OffsetRange(low, low + size),
        clean=clean,
        other_log="it is another" if other and position is not None else "",
    )
    plan = plan_moves(MoveRequest(to_offset=new, again=again, rewind=rewind), [where])
    for move in plan.changes:
        assert low <= move.new <= low + size
        if rewind:
            assert position is not None
            assert move.new < position
        if move.kind in (MoveKind.REPLAY, MoveKind.SKIP) and move.clean:
            # Nothing beyond the new position was ever written.
            assert clean and position is not None and move.new >= max(position, highest or 0)
        if move.kind is MoveKind.AGAIN:
            assert again
        copied = low if highest is None else max(highest, low)
        if position is not None and move.new > copied and move.kind is not MoveKind.AGAIN:
            assert move.skipped == OffsetRange(copied, move.new)
        else:
            assert move.skipped is None
