"""What becomes of gaps: truth tables, and that any gap is recorded once and settled once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.model.values import LogId, OffsetRange, Positions, Route, SourcePartition
from aggregator.plan.positions.gaps import (
    Decision,
    GapPlan,
    GapRecord,
    GapSight,
    Policy,
    decide,
    gap_id,
    plan_gaps,
    resume_at,
)
from aggregator.plan.positions.start import (
    Damage,
    Gap,
    GapKind,
    Observed,
    Remembered,
    StartPlan,
    plan_positions,
)

SP = SourcePartition("eu", "orders", 0)
NEW = SP._replace(partition=1)
KEY = ("eu", "orders")
LOG = OffsetRange(10, 20)
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
FOREIGN = GapKind.FOREIGN_ORIGIN
BELOW, BEYOND, RECREATED, GONE, CHANGED = (
    GapKind.BELOW_EARLIEST,
    GapKind.BEYOND_END,
    GapKind.TOPIC_RECREATED,
    GapKind.TOPIC_GONE,
    GapKind.CLUSTER_CHANGED,
)


def known(at: int, topic: str = "T", cluster: str = "C", snapshot: int = 1) -> Remembered:
    return Remembered(Positions({SP: at}), {SP: LogId(cluster, topic)}, {}, {SP: snapshot})


def observed(
    log: OffsetRange | None = LOG, topic: str | None = "T", cluster: str = "C"
) -> Observed:
    topics = {KEY: topic} if topic is not None else {}
    offsets = {SP: log, NEW: LOG} if log is not None else {}
    return Observed({"eu": cluster}, topics, offsets)


def settle(
    before: Remembered,
    now: Observed,
    policy: Policy = "stop",
    records: dict[str, GapRecord] | None = None,
    busy: frozenset[SourcePartition] = frozenset(),
    partitions: int = 1,
) -> GapPlan:
    routes = [Route("eu", "orders", "orders", partitions, 4)] if KEY in now.topic_ids else []
    start = plan_positions(routes, before, now, {"eu": "earliest"})
    selected = {sp for route in routes for sp in route.source_partitions()}
    sight = GapSight(before, now, {"eu": policy}, selected, busy, NOW, 7)
    return plan_gaps(start, (records or {}).values(), sight)


def folded(*plans: GapPlan) -> dict[str, GapRecord]:
    return {record.id: record for plan in plans for record in plan.records}


@pytest.mark.parametrize(
    ("kind", "stop", "skip", "restart"),
    [
        (BELOW, "stop", "skip", "stop"),
        (BEYOND, "stop", "skip", "stop"),
        (RECREATED, "stop", "skip", "restart"),
        (GONE, "stop", "skip", "restart"),
        (CHANGED, "stop", "skip", "restart"),
    ],
)
def test_what_a_policy_means(kind: GapKind, stop: str, skip: str, restart: str) -> None:
    assert [decide(kind, policy) for policy in get_args(Policy)] == [stop, skip, restart]
    assert all(decide(kind, policy, True) is Decision.ACCEPT for policy in get_args(Policy))


@pytest.mark.parametrize(
    ("before", "now", "kind", "at"),
    [
        (known(4), observed(), BELOW, 10),
        (known(33), observed(), BEYOND, 20),
        (known(15), observed(topic="U"), RECREATED, 10),
        (known(15), observed(cluster="D"), CHANGED, 10),
        (known(15), observed(topic=None, log=None), GONE, None),
    ],
)
def test_stop_quarantines_and_skip_continues(
    before: Remembered, now: Observed, kind: GapKind, at: int | None
) -> None:
    stopped = settle(before, now)
    (record,) = stopped.records
    assert (record.gap.kind, record.decision, record.resolved) == (kind, Decision.STOP, False)
    assert (record.found_at, record.epoch) == (NOW, 7)
    assert dict(stopped.quarantined) == dict(stopped.held) == {SP: record.gap.reason}
    assert stopped.positions == stopped.moves == Positions()
    skipped = settle(before, now, "skip", folded(stopped))
    (record,) = skipped.records
    assert (record.id, record.resolved, record.resumes_at) == (stopped.records[0].id, True, at)
    assert not skipped.held and not skipped.quarantined
    assert skipped.positions == skipped.moves == Positions({SP: at} if at is not None else {})


@pytest.mark.parametrize("policy", get_args(Policy))
def test_a_gap_that_a_person_accepted_is_settled_whatever_the_policy_says(policy: Policy) -> None:
    found = folded(settle(known(4), observed()))
    accepted = {name: record.accepted(NOW) for name, record in found.items()}
    plan = settle(known(4), observed(), policy, accepted)
    assert plan.moves == Positions({SP: 10})
    assert [record.decision for record in plan.records] == [Decision.ACCEPT]


def test_restart_is_for_new_topics_only() -> None:
    assert settle(known(15), observed(topic="U"), "restart").moves == Positions({SP: 10})
    assert settle(known(4), observed(), "restart").quarantined.keys() == {SP}


def test_a_gap_keeps_its_name_while_retention_continues_and_its_end_when_it_is_settled() -> None:
    first = settle(known(4), observed())
    later = observed(OffsetRange(17, 40))
    assert settle(known(4), later, records=folded(first)).records == ()
    (settled,) = settle(known(4), later, "skip", folded(first)).records
    assert (settled.gap.start, settled.gap.end, settled.gap.lost) == (4, 17, 13)
    assert settled.resumes_at == 17


def test_what_a_recovery_could_not_replay_stays_in_the_record() -> None:
    """It reached 4, and of 0 to 3 the hub lacks two."""
    lost = Gap(SP, BELOW, 0, 10, "up to 8 of the offsets", 4, 8, LogId("C", "T"), LogId("C", "T"))
    record = GapRecord(gap_id(lost), lost, NOW, 6)
    found = {record.id: record}
    assert settle(known(4), observed(), records=found).records == ()
    (settled,) = settle(known(4), observed(OffsetRange(12, 20)), "skip", found).records
    assert (settled.id, settled.found_at, settled.epoch) == (record.id, NOW, 6)
    assert (settled.gap.start, settled.gap.end, settled.gap.lost) == (0, 12, 10)
    # Reached beyond what is deleted: no log shows it, only the record does.
    inside = replace(lost, position=14)
    record = GapRecord(gap_id(inside), inside, NOW, 6)
    assert settle(known(14), observed(), records={record.id: record}).quarantined.keys() == {SP}
    continued = settle(known(14), observed(), "skip", {record.id: record})
    # Where it is committed already, by the recovery.
    assert (continued.positions, continued.moves) == (Positions({SP: 14}), Positions())


def test_a_log_that_was_cut_off_and_has_grown_beyond_the_position_is_still_a_gap() -> None:
    found = folded(settle(known(33), observed()))
    grown = observed(OffsetRange(10, 50))
    assert settle(known(33), grown).positions == Positions({SP: 33})
    held = settle(known(33), grown, records=found)
    assert held.quarantined.keys() == {SP} and held.records == () and not held.positions
    skipped = settle(known(33), grown, "skip", found)
    # Everything from the end that was seen on is new.
    assert skipped.moves == Positions({SP: 20})


def test_a_decision_that_no_log_shows_any_more_is_carried_out_after_a_crash_and_only_then() -> None:
    found = folded(settle(known(33), observed()))
    grown = observed(OffsetRange(10, 50))
    decided = found | folded(settle(known(33), grown, "skip", found))
    crashed = settle(known(33), grown, "skip", decided)
    assert crashed.moves == Positions({SP: 20}) and crashed.records == ()
    # Moved, and read on until there: the same position is another commit now.
    again = settle(known(33, snapshot=2), grown, "skip", decided)
    assert again.moves == Positions() and again.positions == Positions({SP: 33})


@pytest.mark.parametrize(
    ("found", "now", "before", "note"),
    [
        ((known(15), observed(topic=None, log=None)), observed(), known(15), "back"),
        ((known(15), observed(cluster="D")), observed(), known(15), "back"),
        ((known(4), observed()), observed(), known(12), "position is now 12"),
        ((known(33), observed()), observed(), known(12), "position is now 12"),
    ],
)
def test_a_gap_that_is_none_any_more_is_closed(
    found: tuple[Remembered, Observed], now: Observed, before: Remembered, note: str
) -> None:
    recorded = folded(settle(*found))
    plan = settle(before, now, records=recorded)
    (record,) = plan.records
    assert record.resolved and note in record.note and record.resumes_at is None
    assert plan.positions == before.positions and not plan.held
    assert settle(before, now, records=recorded | folded(plan)).records == ()


def test_nothing_is_concluded_from_silence() -> None:
    recorded = folded(settle(known(15), observed(topic="U")))
    for now in (Observed({}, {}, {}), observed(topic=""), observed(topic="U", log=None)):
        plan = settle(known(15), now, "skip" if now.cluster_ids == {} else "stop", recorded)
        assert plan.records == () and plan.moves == Positions()
        assert SP not in plan.positions
    unknown = Observed({"eu": "C"}, {KEY: "U"}, {})
    assert settle(known(15), unknown, "skip").records == ()


def test_about_a_busy_partition_nothing_is_decided_and_nothing_recorded() -> None:
    plan = settle(known(15), observed(topic="U"), "skip", busy=frozenset({SP}))
    assert plan.records == () and plan.moves == Positions() and plan.held.keys() == {SP}
    assert not plan.quarantined
    recorded = folded(settle(known(4), observed()))
    assert settle(known(12), observed(), records=recorded, busy=frozenset({SP})).records == ()


@pytest.mark.parametrize("now", [observed(topic="U"), observed(cluster="D")])
def test_new_partitions_wait_with_the_others_of_a_topic_or_cluster_that_changed(
    now: Observed,
) -> None:
    stopped = settle(known(15), now, partitions=2)
    assert stopped.quarantined.keys() == {SP}
    assert "waits for the decision" in stopped.held[NEW]
    assert stopped.positions == Positions()
    assert settle(known(15), now, "restart", partitions=2).positions == Positions({SP: 10, NEW: 10})


def test_new_partitions_do_not_wait_for_a_loss() -> None:
    assert settle(known(4), observed(), partitions=2).positions == Positions({NEW: 10})


@pytest.mark.parametrize("kind", list(GapKind))
def test_a_start_lies_inside_the_log(kind: GapKind) -> None:
    for position in range(0, 40, 3):
        gap = Gap(SP, kind, position, None, "", position)
        at = resume_at(gap, LOG)
        if kind in (FOREIGN, GapKind.HUB_LOST):
            # What the log has lost meanwhile is a gap of its own.
            assert at == position
        else:
            assert at is None if kind is GONE else at is not None and 10 <= at <= 20


def foreign_gap(at: int = 15) -> Gap:
    log = LogId("C", "T")
    return Gap(SP, FOREIGN, 0, 100, "others are there", at, None, log, log)


def settle_foreign(
    before: Remembered, *records: GapRecord, policy: Policy = "stop", busy: bool = False
) -> GapPlan:
    """Decide while it is not certain what the hub holds of the partition."""
    start = StartPlan(Positions({SP: before.positions[SP]}))
    sight = GapSight(
        before, observed(), {"eu": policy}, {SP}, {SP} if busy else set(), NOW, 7, {SP}
    )
    return plan_gaps(start, records, sight)


def test_what_is_foreign_at_the_hub_waits_for_a_person_and_then_continues_where_it_is() -> None:
    record = GapRecord("an id", foreign_gap(), NOW, 7)
    waits = settle_foreign(known(15), record)
    assert waits.quarantined.keys() == {SP}
    assert (waits.moves, waits.records) == (Positions(), ())
    goes = settle_foreign(known(15), record.accepted(NOW))
    # Committed, though the number is the same: with the hub's ends of now.
    assert goes.moves == goes.positions == Positions({SP: 15})
    assert [(it.resolved, it.resumes_at, it.decided_on) for it in goes.records] == [(True, 15, 1)]
    assert settle_foreign(known(15), record.accepted(NOW), busy=True).moves == Positions()


@pytest.mark.parametrize("policy", ["skip", "restart"])
def test_what_is_foreign_is_decided_by_policy_as_a_new_topic_is(policy: Policy) -> None:
    record = GapRecord("an id", foreign_gap(), NOW, 7)
    assert settle_foreign(known(15), record, policy=policy).moves == Positions({SP: 15})


def test_a_decision_about_what_is_foreign_is_carried_out_after_a_crash_and_only_then() -> None:
    (decided,) = settle_foreign(
        known(15), GapRecord("an id", foreign_gap(), NOW, 7).accepted(NOW)
    ).records
    assert settle_foreign(known(15), decided).moves == Positions({SP: 15})
    for other in (known(15, snapshot=2), known(16)):
        assert settle_foreign(other, decided).moves == Positions()


@pytest.mark.parametrize("order", [1, -1])
def test_nothing_moves_for_an_accepted_gap_while_another_one_is_undecided(order: int) -> None:
    cut = GapRecord("a", Gap(SP, BEYOND, 12, 15, "cut off", 15), NOW, 7)
    foreign = GapRecord("b", foreign_gap(), NOW, 7)
    for one, other in ((cut, foreign), (foreign, cut)):
        records = [one.accepted(NOW), other][::order]
        plan = settle_clean(*records)
        assert plan.quarantined.keys() == plan.held.keys() == {SP}
        assert (plan.positions, plan.moves, plan.records) == (Positions(), Positions(), ())
    both = settle_clean(*[cut.accepted(NOW), foreign.accepted(NOW)][::order])
    # Where the log was cut off: what came behind that is new.
    assert both.moves == both.positions == Positions({SP: 12})
    assert not both.held and all(it.resolved for it in both.records)


def settle_clean(*records: GapRecord) -> GapPlan:
    sight = GapSight(known(15), observed(), {"eu": "stop"}, {SP}, set(), NOW, 7)
    return plan_gaps(StartPlan(Positions({SP: 15})), records, sight)


def test_in_a_topic_that_was_created_again_nothing_continues_at_the_position_in_the_old_one() -> (
    None
):
    record = GapRecord("an id", foreign_gap(), NOW, 7).accepted(NOW)
    recreated = Gap(SP, RECREATED, 15, None, "created again", 15)
    start = StartPlan(Positions(), (recreated,), {SP: recreated.reason})
    sight = GapSight(known(15), observed(topic="U"), {"eu": "stop"}, {SP}, set(), NOW, 7, {SP})
    plan = plan_gaps(start, [record], sight)
    # What the hub holds of the old one is looked for first.
    assert (plan.positions, plan.moves, plan.quarantined) == (Positions(), Positions(), {})
    assert plan.held.keys() == {SP}


def test_what_was_foreign_is_settled_when_the_position_is_another_one() -> None:
    record = GapRecord("an id", foreign_gap(), NOW, 7)
    done = settle_foreign(known(3), record)
    assert [it.resolved for it in done.records] == [True]
    assert (done.quarantined, done.moves) == ({}, Positions())


offsets = st.integers(0, 30)
logs = st.tuples(offsets, offsets).map(lambda pair: OffsetRange(*sorted(pair)))
ids = st.sampled_from(["T", "U"])


# A log that was truncated, which a person accepts; by the next look more of it is deleted.
@example(5, "T", "T", OffsetRange(0, 3), OffsetRange(7, 9), True, ["stop", "stop"], True, False)
# A log that was truncated, and by the next look has grown up to the position again.
@example(1, "T", "T", OffsetRange(0, 0), OffsetRange(1, 1), True, ["stop", "skip"], False, False)
@given(
    at=offsets,
    topic=ids,
    cluster=ids,
    log=st.none() | logs,
    later=logs,
    there=st.booleans(),
    policies=st.lists(st.sampled_from(get_args(Policy)), min_size=2, max_size=4),
    accepted=st.booleans(),
    crash=st.booleans(),
)
def test_any_gap_is_recorded_once_and_settled_once(
    at: int,
    topic: str,
    cluster: str,
    log: OffsetRange | None,
    later: OffsetRange,
    there: bool,
    policies: list[Policy],
    accepted: bool,
    crash: bool,
) -> None:
    """Looks one after the other, with a crash between the record and the position."""
    before = known(at, "T", "T")
    recorded: dict[str, GapRecord] = {}
    rows = 0
    for number, policy in enumerate(policies):
        now = Observed(
            {"eu": cluster},
            {KEY: topic} if there else {},
            {SP: log} if there and log is not None else {},
        )
        plan = settle(before, now, policy, recorded)
        assert not plan.positions.keys() & plan.held.keys()
        assert plan.quarantined.keys() <= plan.held.keys()
        assert plan.moves.items() <= plan.positions.items()
        assert there is False or {SP} == plan.positions.keys() | plan.held.keys()
        if log is not None and there:
            assert all(log.earliest <= start <= log.latest for start in plan.moves.values())
        recorded |= folded(plan)
        rows += len(plan.records)
        again = settle(before, now, policy, recorded)
        # A crash before the positions were committed finds the same, and writes no row again.
        assert again.records == () and again.moves == plan.moves
        if crash and number == 0:
            continue
        if plan.moves:
            before = known(plan.moves[SP], topic, cluster, snapshot=2 + number)
            assert settle(before, now, policy, recorded).moves == Positions()
        if accepted and number == 0:
            recorded = {
                name: record if record.resolved else record.accepted(NOW + timedelta(1))
                for name, record in recorded.items()
            }
        if log is not None:
            log = OffsetRange(max(log.earliest, later.earliest), max(log.latest, later.latest))
    if len(set(policies)) == 1 and not accepted and (not crash or policies[0] == "stop"):
        assert rows == len(recorded)


def test_without_gaps_nothing_is_changed() -> None:
    empty = plan_gaps(
        StartPlan(Positions({SP: 5})), [], GapSight(known(5), observed(), {}, {SP}, (), NOW, 1)
    )
    assert empty == GapPlan(Positions({SP: 5}))


def damaged(end: int | None) -> Observed:
    return replace(observed(), damages={SP: Damage(12, end, "bad sum" if end != 12 else "")})


def test_damage_stops_until_somebody_accepts_it_and_then_ends_behind_it() -> None:
    found = settle(known(12), damaged(15))
    assert set(found.quarantined) == {SP}
    # A look that could not try it again changes nothing.
    later = settle(known(12), observed(), records=folded(found))
    assert (set(later.quarantined), later.records) == ({SP}, ())
    (record,) = found.records
    accepted = settle(known(12), damaged(15), records={record.id: record.accepted(NOW)})
    assert dict(accepted.moves) == {SP: 15}
    assert dict(settle(known(12), damaged(15), "skip").moves) == {SP: 15}


def test_damage_that_is_mended_closes_its_gap_and_nothing_is_left_out() -> None:
    found = settle(known(12), damaged(15))
    mended = settle(known(12), damaged(12), records=folded(found))
    assert dict(mended.positions) == {SP: 12}
    (record,) = mended.records
    assert (record.resolved, record.resumes_at, record.note) == (True, None, "it can be read again")


def test_what_was_cut_off_behind_an_open_transaction_continues_where_the_log_ended() -> None:
    now = replace(observed(), stable=frozenset({"eu"}), highs={SP: 22})
    assert dict(settle(known(25), now, "skip").moves) == {SP: 22}
