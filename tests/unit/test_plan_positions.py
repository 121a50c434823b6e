"""Start positions and gaps: a truth table per partition."""

import pytest

from aggregator.model.values import LogId, OffsetRange, Positions, Route, SourcePartition
from aggregator.plan.positions.start import (
    Damage,
    Gap,
    GapKind,
    Observed,
    Remembered,
    StartPlan,
    is_same_log,
    plan_positions,
)

SP = SourcePartition("eu", "orders", 0)
KEY = ("eu", "orders")
LOG = OffsetRange(10, 20)


def start(
    known: int | None = None,
    log: OffsetRange | None = LOG,
    policy: str = "earliest",
    by_time: int | None = None,
    appeared: bool = False,
    ids: tuple[str, str] = ("T", "T"),
    clusters: tuple[str, str] = ("C", "C"),
    partitions: int = 1,
    siblings: dict[int, int] | None = None,
    log_end: int | None = None,
    unsure: bool = False,
) -> StartPlan:
    positions = {SP: known} if known is not None else {}
    positions |= {SP._replace(partition=number): at for number, at in (siblings or {}).items()}
    offsets = {SP._replace(partition=number): log for number in range(partitions)}
    return plan_positions(
        [Route("eu", "orders", "orders", partitions, 4)],
        Remembered(
            Positions(positions),
            dict.fromkeys(positions, LogId(clusters[0], ids[0])),
            {SP: log_end} if log_end is not None else {},
            unsure=frozenset({SP}) if unsure else frozenset(),
        ),
        Observed({"eu": clusters[1]}, {KEY: ids[1]}, {sp: at for sp, at in offsets.items() if at}),
        {"eu": policy},
        {SP: by_time} if by_time is not None else {},
        frozenset({KEY}) if appeared else frozenset(),
    )


@pytest.mark.parametrize(
    ("known", "policy", "by_time", "appeared", "expected"),
    [
        (15, "earliest", None, False, 15),
        (15, "latest", None, True, 15),
        (10, "latest", None, False, 10),
        (20, "earliest", None, False, 20),
        (None, "earliest", None, False, 10),
        (None, "latest", None, False, 20),
        (None, "latest", None, True, 10),
        (None, "1767225600000", 14, False, 14),
        (None, "1767225600000", 14, True, 10),
        (None, "1767225600000", 5, False, 10),
        (None, "1767225600000", 25, False, 20),
    ],
)
def test_where_a_partition_starts(
    known: int | None, policy: str, by_time: int | None, appeared: bool, expected: int
) -> None:
    plan = start(known, policy=policy, by_time=by_time, appeared=appeared)
    assert plan == StartPlan(Positions({SP: expected}))


def test_a_new_partition_of_a_known_topic_starts_at_earliest() -> None:
    plan = start(15, policy="latest", partitions=2)
    assert plan.positions == Positions({SP: 15, SP._replace(partition=1): 10})


@pytest.mark.parametrize(
    ("known", "kind", "first", "end"),
    [(7, GapKind.BELOW_EARLIEST, 7, 10), (21, GapKind.BEYOND_END, 20, 21)],
)
def test_a_position_outside_the_log_is_a_gap(
    known: int, kind: GapKind, first: int, end: int
) -> None:
    plan = start(known, partitions=2)
    (gap,) = plan.gaps
    assert (gap.partition, gap.kind, gap.start, gap.end) == (SP, kind, first, end)
    assert dict(plan.held) == {SP: gap.reason}
    assert plan.positions == Positions({SP._replace(partition=1): 10})


def test_a_recreated_topic() -> None:
    plan = start(15, ids=("T", "U"))
    assert plan.positions == Positions()
    assert [(gap.kind, gap.start, gap.end) for gap in plan.gaps] == [
        (GapKind.TOPIC_RECREATED, 15, None)
    ]
    assert "id T, now U" in plan.held[SP]


def test_a_recreated_topic_of_which_the_hub_holds_more_than_the_position_says() -> None:
    known = Remembered(
        Positions({SP: 15}),
        {SP: LogId("", "T")},
        log_ends={SP: 18},
        copied={SP: [(16, 17), (18, 20)]},
    )
    observed = Observed({}, {(SP.cluster, SP.topic): "U"}, {SP: OffsetRange(0, 3)})
    (gap,) = plan_positions(
        [Route("eu", "orders", "orders", 1, 1)], known, observed, {"eu": "earliest"}
    ).gaps
    # It was found beyond the last end that was reported, so it did not end there.
    assert (gap.kind, gap.start, gap.end, gap.lost) == (GapKind.TOPIC_RECREATED, 15, 20, 2)
    assert "at least 2 of the offsets 15 to 19 were not copied" in gap.reason


@pytest.mark.parametrize("ids", [("", "U"), ("T", ""), ("", "")])
def test_an_unknown_topic_id_proves_nothing(ids: tuple[str, str]) -> None:
    assert start(15, ids=ids).positions == Positions({SP: 15})


def test_a_recreated_topic_with_fewer_partitions() -> None:
    gone = SP._replace(partition=3)
    plan = start(15, siblings={3: 9})
    assert plan.positions == Positions({SP: 15})
    assert [(gap.partition, gap.kind) for gap in plan.gaps] == [(gone, GapKind.TOPIC_RECREATED)]
    both = start(15, siblings={3: 9}, ids=("T", "U"))
    assert [gap.partition for gap in both.gaps] == [SP, gone]


def test_another_cluster_behind_the_alias() -> None:
    plan = start(15, clusters=("C", "D"), siblings={1: 3})
    assert {gap.kind for gap in plan.gaps} == {GapKind.CLUSTER_CHANGED}
    assert len(plan.gaps) == 2
    assert plan.positions == Positions()
    assert "cluster D" in plan.held[SP]


@pytest.mark.parametrize(
    ("log_end", "end", "lost"), [(None, None, None), (15, 15, 0), (3, 15, 0), (40, 40, 25)]
)
def test_of_a_log_that_is_gone_the_last_end_that_was_seen_is_reported(
    log_end: int | None, end: int | None, lost: int | None
) -> None:
    (gap,) = start(15, clusters=("C", "D"), log_end=log_end).gaps
    assert (gap.start, gap.end, gap.lost, gap.position) == (15, end, lost, 15)
    assert str(gap).startswith(f"eu/orders-0: CLUSTER_CHANGED [15, {'?' if end is None else end})")
    assert ("offsets 15 to 39 were not copied" in str(gap)) is (lost == 25)


@pytest.mark.parametrize("known", [7, 15, 21])
def test_a_log_is_not_compared_with_a_position_that_may_be_behind_the_truth(known: int) -> None:
    assert start(known, unsure=True) == StartPlan(Positions({SP: known}))
    assert start(known, unsure=True, ids=("T", "U")).gaps[0].kind is GapKind.TOPIC_RECREATED


def test_partitions_of_one_topic_may_belong_to_different_lives_of_it() -> None:
    """One was decided about after the topic was created again, the other not yet."""
    other = SP._replace(partition=1)
    logs = {SP: LogId("C", "U"), other: LogId("C", "T")}
    known = Remembered(Positions({SP: 12, other: 12}), logs)
    plan = plan_positions(
        [Route("eu", "orders", "orders", 2, 4)],
        known,
        Observed({"eu": "C"}, {KEY: "U"}, {SP: LOG, other: LOG}),
        {"eu": "earliest"},
    )
    assert plan.positions == Positions({SP: 12})
    assert [gap.partition for gap in plan.gaps] == [other]
    assert is_same_log(SP, known, Observed({"eu": "C"}, {KEY: "U"}, {}))
    assert not is_same_log(other, known, Observed({"eu": "C"}, {KEY: "U"}, {}))


def test_unknown_offsets_hold_the_partition_without_a_gap() -> None:
    plan = start(15, log=None)
    assert plan.positions == Positions() and plan.gaps == ()
    assert "could not be read" in plan.held[SP]
    untimed = start(None, policy="1767225600000")
    assert untimed.positions == Positions() and "no offset" in untimed.held[SP]


def vanished(observed: Observed, selected: bool = True) -> StartPlan:
    return plan_positions(
        [],
        Remembered(Positions({SP: 5}), {SP: LogId("", "T")}),
        observed,
        {},
        is_selected=lambda key: selected and key == KEY,
    )


def test_a_topic_that_is_gone() -> None:
    plan = vanished(Observed({"eu": "C"}, {}, {}))
    reason = "topic orders does not exist any more"
    gap = Gap(SP, GapKind.TOPIC_GONE, 5, None, reason, 5, None, LogId("", "T"), LogId("C"))
    assert plan.gaps == (gap,)
    assert SP in plan.held


def test_a_topic_that_is_gone_and_that_no_one_asks_for_is_no_finding() -> None:
    assert vanished(Observed({"eu": "C"}, {}, {}), selected=False) == StartPlan(Positions())
    assert vanished(Observed({"eu": "D"}, {}, {}), selected=False) == StartPlan(Positions())


def test_a_silent_cluster_or_an_unselected_topic_is_no_finding() -> None:
    assert vanished(Observed({}, {}, {})) == StartPlan(Positions())
    assert vanished(Observed({"eu": "C"}, {KEY: "T"}, {})) == StartPlan(Positions())
    assert vanished(Observed({"eu": "C"}, {KEY: "U"}, {})) == StartPlan(Positions())


def judged(
    known: int,
    *,
    stable: bool = False,
    high: int | None = None,
    cut: int | None = None,
    damage: Damage | None = None,
    unsure: bool = False,
) -> StartPlan:
    """A partition of LOG of which its reader, or a closer look, has found more."""
    seen = Observed(
        {"eu": "C"},
        {KEY: "T"},
        {SP: LOG},
        frozenset({"eu"}) if stable else frozenset(),
        {SP: high} if high is not None else {},
        {SP: damage} if damage is not None else {},
    )
    remembered = Remembered(
        Positions({SP: known}),
        {SP: LogId("C", "T")},
        cuts={SP: cut} if cut is not None else {},
        unsure=frozenset({SP}) if unsure else frozenset(),
    )
    route = Route("eu", "orders", "orders", 1, 4)
    return plan_positions([route], remembered, seen, {"eu": "earliest"})


def ranges(plan: StartPlan) -> list[tuple[GapKind, int, int | None, int | None]]:
    return [(gap.kind, gap.start, gap.end, gap.lost) for gap in plan.gaps]


@pytest.mark.parametrize("high", [25, 26])
def test_a_position_that_only_a_transaction_holds_back_is_kept(high: int) -> None:
    plan = judged(25, stable=True, high=high)
    assert (plan.gaps, dict(plan.positions)) == ((), {SP: 25})


def test_beyond_a_last_stable_offset_it_is_asked_first_where_the_log_ends() -> None:
    plan = judged(25, stable=True)
    assert (plan.gaps, plan.unread) == ((), frozenset({SP}))
    assert SP not in plan.positions
    assert "last stable offset 20" in plan.held[SP]
    assert ranges(judged(25, stable=True, high=22)) == [(GapKind.BEYOND_END, 22, 25, None)]
    # An answer that is older than the other one says no less.
    assert ranges(judged(25, stable=True, high=15)) == [(GapKind.BEYOND_END, 20, 25, None)]
    assert judged(20, stable=True).positions[SP] == 20


@pytest.mark.parametrize(("known", "cut", "start"), [(18, 12, 12), (25, 12, 12), (25, 30, 20)])
def test_a_log_that_was_cut_off_lacks_all_from_there_however_long_it_is_by_now(
    known: int, cut: int, start: int
) -> None:
    assert ranges(judged(known, cut=cut)) == [(GapKind.BEYOND_END, start, known, None)]


def test_where_it_was_cut_off_says_nothing_of_what_is_not_behind_it_or_not_certain() -> None:
    assert judged(18, cut=18).positions[SP] == 18
    assert judged(18, cut=12, unsure=True).gaps == ()


def test_what_no_one_can_read_is_a_gap_that_ends_where_something_can_be_read() -> None:
    plan = judged(12, damage=Damage(12, 15, "bad sum"))
    assert ranges(plan) == [(GapKind.DAMAGED, 12, 15, 3)]
    assert plan.held[SP] == "offsets 12 to 14 cannot be read: bad sum"


def test_what_can_be_read_by_now_or_was_met_elsewhere_is_no_gap() -> None:
    assert judged(12, damage=Damage(12, 12)).positions[SP] == 12
    assert judged(14, damage=Damage(12, 15, "bad sum")).positions[SP] == 14


def test_damage_without_an_end_is_held_and_looked_at_again() -> None:
    plan = judged(12, damage=Damage(12, None, "bad sum"))
    assert (plan.gaps, plan.unread) == ((), frozenset({SP}))
    assert SP not in plan.positions
    assert "aggregator positions set" in plan.held[SP]
