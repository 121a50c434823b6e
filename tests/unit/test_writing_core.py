"""Who may write: the whole table of what a start does, and what a late writer does."""

from __future__ import annotations

import itertools

import pytest

from aggregator.plan.lease import (
    FIRST_PROCESS_TABLE,
    ClaimMove,
    Earlier,
    Life,
    Locality,
    Moment,
    ProcessPlace,
    RenewalOutcome,
    Verdict,
    locality_of,
    plan_lease,
    plan_start,
    renewal_due,
)

HERE = ProcessPlace("here", "boot-1", "pid:[7]")


def test_a_moment_counts_what_either_clock_has_seen() -> None:
    start = Moment(100.0, 1_000.0)
    assert start.until(Moment(103.0, 1_003.0)) == 3.0
    # The machine slept, so only the wall clock moved; or someone set it back by an hour.
    assert start.until(Moment(101.0, 1_600.0)) == 600.0
    assert start.until(Moment(105.0, -2_600.0)) == 5.0
    assert start.until(Moment(99.0, 999.0)) == 0.0


@pytest.mark.parametrize(
    ("earlier", "own", "kin"),
    [
        (HERE, HERE, Locality.PROCESSES),
        (ProcessPlace("renamed", "boot-1", "pid:[7]"), HERE, Locality.PROCESSES),
        (ProcessPlace("here", "boot-1", "pid:[8]"), HERE, Locality.KERNEL),
        (ProcessPlace("here", "boot-0", "pid:[7]"), HERE, Locality.ELSEWHERE),
        (
            ProcessPlace("here", "boot-0", FIRST_PROCESS_TABLE),
            ProcessPlace("here", "boot-1", FIRST_PROCESS_TABLE),
            Locality.RESTARTED,
        ),
        (
            ProcessPlace("there", "boot-0", FIRST_PROCESS_TABLE),
            ProcessPlace("here", "boot-1", FIRST_PROCESS_TABLE),
            Locality.ELSEWHERE,
        ),
        # No Linux, on one side or on both.
        (ProcessPlace("here"), HERE, Locality.KERNEL),
        (ProcessPlace("there"), HERE, Locality.ELSEWHERE),
        (ProcessPlace("here"), ProcessPlace("here"), Locality.PROCESSES),
        (ProcessPlace("there"), ProcessPlace("here"), Locality.ELSEWHERE),
    ],
)
def test_how_near_an_earlier_writer_is(
    earlier: ProcessPlace, own: ProcessPlace, kin: Locality
) -> None:
    assert locality_of(earlier, own) is kin


def test_without_an_earlier_writer_it_starts() -> None:
    assert plan_start(None, take_over=False) is ClaimMove.TAKE
    assert plan_start(None, take_over=True) is ClaimMove.TAKE


@pytest.mark.parametrize(
    ("kin", "life", "locked", "plain", "take_over"),
    [
        # The lock is another's.
        (Locality.PROCESSES, Life.RUNS, True, ClaimMove.REFUSE, ClaimMove.END),
        (Locality.PROCESSES, Life.FROZEN, True, ClaimMove.REFUSE, ClaimMove.END),
        (Locality.KERNEL, Life.UNKNOWN, True, ClaimMove.REFUSE, ClaimMove.OVERRULE),
        (Locality.ELSEWHERE, Life.UNKNOWN, True, ClaimMove.REFUSE, ClaimMove.OVERRULE),
        # The lock is ours by now: the kernel that freed it knows that the holder is gone.
        (Locality.PROCESSES, Life.GONE, False, ClaimMove.TAKE, ClaimMove.TAKE),
        (Locality.PROCESSES, Life.RUNS, False, ClaimMove.TAKE, ClaimMove.TAKE),
        (Locality.KERNEL, Life.UNKNOWN, False, ClaimMove.TAKE, ClaimMove.TAKE),
        (Locality.RESTARTED, Life.UNKNOWN, False, ClaimMove.TAKE, ClaimMove.TAKE),
        # Another kernel had it: not every shared file system hands locks on.
        (Locality.ELSEWHERE, Life.UNKNOWN, False, ClaimMove.WATCH, ClaimMove.OVERRULE),
        # An object store.
        (Locality.PROCESSES, Life.RUNS, None, ClaimMove.REFUSE, ClaimMove.END),
        (Locality.PROCESSES, Life.FROZEN, None, ClaimMove.REFUSE, ClaimMove.END),
        (Locality.PROCESSES, Life.GONE, None, ClaimMove.TAKE, ClaimMove.TAKE),
        (Locality.RESTARTED, Life.UNKNOWN, None, ClaimMove.TAKE, ClaimMove.TAKE),
        (Locality.KERNEL, Life.UNKNOWN, None, ClaimMove.WATCH, ClaimMove.OVERRULE),
        (Locality.ELSEWHERE, Life.UNKNOWN, None, ClaimMove.WATCH, ClaimMove.OVERRULE),
    ],
)
def test_what_a_start_does(
    kin: Locality, life: Life, locked: bool | None, plain: ClaimMove, take_over: ClaimMove
) -> None:
    earlier = Earlier(kin, life, locked)
    assert plan_start(earlier, take_over=False) is plain
    assert plan_start(earlier, take_over=True) is take_over


def test_no_writer_that_may_live_is_passed_over_without_a_word() -> None:
    """In every combination, a start without `--take-over` never ends or overrules another."""
    for kin, life, locked in itertools.product(Locality, Life, (True, False, None)):
        earlier = Earlier(kin, life, locked)
        move = plan_start(earlier, take_over=False)
        assert move in (ClaimMove.TAKE, ClaimMove.REFUSE, ClaimMove.WATCH)
        if locked:
            assert move is ClaimMove.REFUSE
        if move is ClaimMove.TAKE:
            assert locked is False or kin is Locality.RESTARTED or life is Life.GONE
        # Only a process of this table can be ended by its id.
        if plan_start(earlier, take_over=True) is ClaimMove.END:
            assert kin is Locality.PROCESSES


def test_a_lease_is_renewed_in_time() -> None:
    assert not renewal_due(9.9, 30.0)
    assert renewal_due(10.0, 30.0)


@pytest.mark.parametrize("age", [0.0, 26.0, 28.0, 3_600.0])
def test_one_that_was_frozen_and_not_replaced_continues(age: float) -> None:
    for guarded in (True, False):
        assert plan_lease(RenewalOutcome.RENEWED, age, 30.0, guarded=guarded) is Verdict.WRITE
        assert plan_lease(RenewalOutcome.REFUSED, age, 30.0, guarded=guarded) is Verdict.FENCE


def test_one_that_cannot_renew_writes_to_the_end_of_its_lease_and_not_beyond() -> None:
    assert plan_lease(RenewalOutcome.FAILED, 26.9, 30.0, guarded=True) is Verdict.WRITE
    assert plan_lease(RenewalOutcome.FAILED, 27.0, 30.0, guarded=True) is Verdict.WAIT
    # Producers on executors do not wait by themselves.
    assert plan_lease(RenewalOutcome.FAILED, 26.9, 30.0, guarded=False) is Verdict.WRITE
    assert plan_lease(RenewalOutcome.FAILED, 27.0, 30.0, guarded=False) is Verdict.FENCE
