"""Start positions and gaps: a truth table per partition."""

import pytest

from aggregator.model import OffsetRange, Positions, Route, SourcePartition
from aggregator.plan.positions import (
    Gap,
    GapKind,
    Observed,
    Remembered,
    StartPlan,
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
) -> StartPlan:
    positions = {SP: known} if known is not None else {}
    positions |= {SP._replace(partition=number): at for number, at in (siblings or {}).items()}
    offsets = {SP._replace(partition=number): log for number in range(partitions)}
    return plan_positions(
        [Route("eu", "orders", "orders", partitions, 4)],
        Remembered(Positions(positions), {KEY: ids[0]}, {"eu": clusters[0]}),
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


def test_another_cluster_without_a_known_position_is_held_too() -> None:
    (gap,) = start(None, clusters=("C", "D")).gaps
    assert gap.start is None
    assert str(gap).startswith("eu/orders-0: CLUSTER_CHANGED [?, ?)")


def test_unknown_offsets_hold_the_partition_without_a_gap() -> None:
    plan = start(15, log=None)
    assert plan.positions == Positions() and plan.gaps == ()
    assert "could not be read" in plan.held[SP]
    untimed = start(None, policy="1767225600000")
    assert untimed.positions == Positions() and "no offset" in untimed.held[SP]


def vanished(observed: Observed) -> StartPlan:
    return plan_positions([], Remembered(Positions({SP: 5}), {KEY: "T"}), observed, {})


def test_a_topic_that_is_gone() -> None:
    plan = vanished(Observed({"eu": "C"}, {}, {}))
    assert plan.gaps == (
        Gap(SP, GapKind.TOPIC_GONE, 5, None, "topic orders does not exist any more"),
    )
    assert SP in plan.held


def test_a_silent_cluster_or_an_unselected_topic_is_no_finding() -> None:
    assert vanished(Observed({}, {}, {})) == StartPlan(Positions())
    assert vanished(Observed({"eu": "C"}, {KEY: "T"}, {})) == StartPlan(Positions())
    assert vanished(Observed({"eu": "C"}, {KEY: "U"}, {})) == StartPlan(Positions())
