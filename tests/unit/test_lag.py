from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import OffsetRange, SourcePartition
from aggregator.status.lag import (
    ALL,
    LagReport,
    LagRow,
    Sample,
    make_report,
    measured,
    only,
    only_into,
    report_of,
    with_bytes,
)
from aggregator.status.rates import (
    CAUGHT_UP,
    GROWING,
    NOT_MOVING,
    NOT_RUNNING,
    UNKNOWN,
    LagSample,
    Rates,
    eta,
    rates,
)
from aggregator.status.schema import PartitionState, PartitionStatus, Phase, Status
from support.statuses import status_with, whole_status

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def row(cluster: str = "eu", partition: int = 0, **more: object) -> LagRow:
    return LagRow.model_validate(
        {"cluster": cluster, "topic": "orders", "partition": partition, **more}
    )


def report(*rows: LagRow, running: bool = True) -> LagReport:
    return make_report("central", rows, running=running, at=NOW)


def sp(cluster: str = "eu", partition: int = 0) -> SourcePartition:
    return SourcePartition(cluster, "orders", partition)


@pytest.mark.parametrize(
    ("lag", "consumed", "produced", "expected"),
    [
        (None, 100.0, 0.0, UNKNOWN),
        (0, None, None, CAUGHT_UP),
        (0, 0.0, 500.0, CAUGHT_UP),
        (1800, 10.0, 0.0, "about 3 min"),
        (1800, 10.0, None, "about 3 min"),
        (1800, 20.0, 10.0, "about 3 min"),
        (1800, 10.0, 20.0, GROWING),
        (1800, 0.0, 1.0, GROWING),
        (1800, 0.0, 0.0, NOT_MOVING),
        (1800, 0.0, None, NOT_MOVING),
        (1800, 5.0, 5.0, NOT_MOVING),
        (1800, None, 5.0, UNKNOWN),
    ],
)
def test_eta(
    lag: int | None, consumed: float | None, produced: float | None, expected: str
) -> None:
    assert eta(lag, consumed, produced).text == expected


def test_eta_in_seconds_only_where_it_can_be_said() -> None:
    assert eta(0, None, None).seconds == 0
    assert eta(1800, 20.0, 10.0).seconds == 180
    assert eta(1800, 10.0, 20.0).seconds is None


@given(
    st.integers(0, 10**12),
    st.floats(0, 1e9, allow_nan=False),
    st.none() | st.floats(0, 1e9, allow_nan=False),
)
def test_eta_never_fails_and_is_never_negative(
    lag: int, consumed: float, produced: float | None
) -> None:
    found = eta(lag, consumed, produced)
    assert found.text
    assert found.seconds is None or found.seconds >= 0


def test_the_lag_of_one_source_or_topic_has_its_own_totals() -> None:
    whole = report(
        row("eu", lag=5), row("eu", 1, topic="payments", lag=7), row("us", lag=100), running=False
    )
    eu = only(whole, "eu", None)
    assert [it.cluster for it in eu.totals] == ["eu"]
    assert (eu.totals[0].lag, eu.totals[0].eta, eu.running) == (12, NOT_RUNNING, False)
    orders = only(whole, None, "orders")
    assert [(it.cluster, it.lag) for it in orders.totals] == [("eu", 5), ("us", 100), (ALL, 105)]
    assert only(whole, "eu", "payments").rows == (whole.rows[1],)
    assert only(whole, "nix", None).rows == ()
    assert only(whole, None, None) is whole


def test_the_lag_of_a_hub_topic_is_that_of_what_is_copied_to_it() -> None:
    status = whole_status(sources=2, topics=2, partitions=3)
    whole = report_of(status)
    into = only_into(whole, status, "hub.t1")
    assert [(it.cluster, it.topic) for it in into.rows] == [("s0", "t1")] * 3 + [("s1", "t1")] * 3
    assert into.totals[-1].partitions == 6
    assert only_into(whole, status, "absent").rows == ()


def test_rates_between_two_readings() -> None:
    found = rates(LagSample(10, 100, 1000), LagSample(20, 150, 1200))
    assert found == Rates(5.0, 20.0)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (LagSample(10, 150, 1200), Rates()),
        (LagSample(5, 150, 1200), Rates()),
        (LagSample(20, 50, 1000), Rates(None, 0.0)),
        (LagSample(20, None, 1000), Rates(None, 0.0)),
        (LagSample(20, 100, None), Rates(0.0, None)),
    ],
)
def test_rates_that_cannot_be_known(second: LagSample, expected: Rates) -> None:
    assert rates(LagSample(10, 100, 1000), second) == expected


def test_readings_too_close_give_no_rate() -> None:
    assert rates(LagSample(10, 100), LagSample(20, 150), shortest=15) == Rates()


def test_totals_per_source_and_over_all() -> None:
    found = report(
        row("us", 0, lag=5, lag_bytes=50, consumed_per_second=1.0),
        row("eu", 1, lag=20, lag_bytes=200, consumed_per_second=2.0, produced_per_second=1.0),
        row("eu", 0, lag=10, lag_bytes=100, consumed_per_second=2.0),
    )
    assert [str(it.source_partition) for it in found.rows] == [
        "eu/orders-0",
        "eu/orders-1",
        "us/orders-0",
    ]
    assert [(it.cluster, it.lag, it.lag_bytes, it.eta_seconds) for it in found.totals] == [
        ("eu", 30, 300, 10.0),
        ("us", 5, 50, 5.0),
        (ALL, 35, 350, 35 / 4),
    ]


def test_one_source_has_no_second_sum() -> None:
    assert [it.cluster for it in report(row()).totals] == ["eu"]


def test_an_unknown_lag_makes_the_eta_unknown_but_not_the_known_part() -> None:
    (total,) = report(row(partition=0, lag=10, consumed_per_second=5.0), row(partition=1)).totals
    assert (total.lag, total.unknown, total.eta) == (10, 1, UNKNOWN)


def test_bytes_of_a_total_are_unknown_when_a_lagging_part_is() -> None:
    (total,) = report(row(partition=0, lag=10, lag_bytes=100), row(partition=1, lag=5)).totals
    assert total.lag_bytes is None


def test_not_running_has_no_eta_unless_it_is_caught_up() -> None:
    (behind,) = report(row(lag=10, consumed_per_second=5.0), running=False).totals
    assert (behind.eta, behind.eta_seconds) == (NOT_RUNNING, None)
    (done,) = report(row(lag=0), running=False).totals
    assert done.eta == CAUGHT_UP
    (unknown,) = report(row(), running=False).totals
    assert unknown.eta == UNKNOWN


def test_measured_puts_in_live_log_ends() -> None:
    (found,) = measured(
        report(row(position=30, log_end=40, lag=10)), {sp(): OffsetRange(0, 100)}, {}, NOW
    ).rows
    assert (found.position, found.log_end, found.lag, found.reason) == (30, 100, 70, "")


def test_measured_says_what_failed_and_knows_nothing_then() -> None:
    stale = report(row(position=30, log_end=40, lag=10, lag_bytes=5))
    (found,) = measured(stale, {}, {sp(): "eu: unreachable"}, NOW).rows
    assert (found.log_end, found.lag, found.lag_bytes) == (None, None, None)
    assert found.reason == "eu: unreachable"
    (unasked,) = measured(stale, {}, {}, NOW).rows
    assert unasked.reason == "its log end is not known"


def test_measured_names_deleted_records() -> None:
    (found,) = measured(report(row(position=30)), {sp(): OffsetRange(50, 100)}, {}, NOW).rows
    assert (found.lag, found.reason) == (70, "offsets 30 to 49 are deleted")


def test_measured_of_a_position_beyond_the_end() -> None:
    (found,) = measured(report(row(position=30)), {sp(): OffsetRange(0, 5)}, {}, NOW).rows
    assert found.lag is None
    assert "beyond the log's end" in found.reason


def test_measured_of_an_unknown_position() -> None:
    (found,) = measured(report(row()), {sp(): OffsetRange(0, 5)}, {}, NOW).rows
    assert (found.log_end, found.lag) == (5, None)


def test_bytes_come_from_the_partition_else_from_its_topic() -> None:
    found = with_bytes(
        report(
            row(partition=0, lag=10),
            row(partition=1, lag=10),
            row(partition=2, lag=10),
            row("us", 0, lag=10),
            row(partition=3, lag=0),
        ),
        {sp(partition=0): Sample(100.0), sp(partition=1): Sample(200.0)},
    )
    by = {it.source_partition: it.lag_bytes for it in found.rows}
    assert by == {
        sp(partition=0): 1000,
        sp(partition=1): 2000,
        sp(partition=2): 1500,
        sp(partition=3): 0,
        sp("us", 0): None,
    }


def test_a_lag_without_records_is_no_lag() -> None:
    found = with_bytes(report(row(lag=1)), {sp(): Sample(empty=True)})
    assert (found.rows[0].lag, found.rows[0].lag_bytes) == (0, 0)
    assert found.rows[0].reason == "the last 1 offsets hold no records"
    assert found.totals[0].eta == CAUGHT_UP


def test_behind_markers_alone_nothing_is_late_unless_that_is_unknown_anyway() -> None:
    late = row(lag=1, seconds_behind=90.0, seconds_behind_at_least=True)
    found = with_bytes(report(late, row(partition=1, lag=1)), {sp(): Sample(empty=True)})
    assert [(it.seconds_behind, it.seconds_behind_at_least) for it in found.rows] == [
        (0.0, False),
        (None, False),
    ]


def test_a_total_is_as_long_behind_as_the_longest_of_what_is_known() -> None:
    found = report(
        row(partition=0, seconds_behind=3.5),
        row(partition=1, seconds_behind=0.0),
        row(partition=2),
        row("us", 0, seconds_behind=1.0, seconds_behind_at_least=True),
        row("cn", 0),
    )
    totals = {
        it.cluster: (it.seconds_behind, it.seconds_behind_at_least, it.unknown)
        for it in found.totals
    }
    assert totals == {
        "eu": (3.5, False, 3),
        "us": (1.0, True, 1),
        "cn": (None, False, 1),
        ALL: (3.5, True, 5),
    }


def test_live_log_ends_leave_the_time_that_the_instance_reported() -> None:
    late = report(row(position=30, log_end=40, lag=10, seconds_behind=2.5))
    (found,) = measured(late, {sp(): OffsetRange(0, 100)}, {}, NOW).rows
    assert (found.lag, found.seconds_behind) == (70, 2.5)


def status(seconds: float, position: int | None, log_end: int | None) -> Status:
    part = PartitionStatus(
        cluster="eu",
        topic="orders",
        partition=0,
        hub_topic="orders",
        lane="eu",
        state=PartitionState.STUCK,
        position=position,
        log_end=log_end,
        seconds_behind=4.5,
        seconds_behind_at_least=True,
        reason="why",
    )
    return status_with(
        at=NOW + timedelta(seconds=seconds), checkpoint_interval_seconds=10, partitions=(part,)
    )


def test_report_of_a_running_instance() -> None:
    found = report_of(status(60, 700, 1000), status(0, 100, 1000))
    (only,) = found.rows
    assert only.model_dump() == {
        "cluster": "eu",
        "topic": "orders",
        "partition": 0,
        "position": 700,
        "log_end": 1000,
        "lag": 300,
        "lag_bytes": None,
        "seconds_behind": 4.5,
        "seconds_behind_at_least": True,
        "consumed_per_second": 10.0,
        "produced_per_second": 0.0,
        "lane": "eu",
        "state": "STUCK",
        "reason": "why",
    }
    assert found.totals[0].eta == "about 30 s"
    assert found.running


def test_a_report_without_rows_says_that_the_instance_is_still_starting() -> None:
    starting = status_with(at=NOW, checkpoint_interval_seconds=10, phase=Phase.STARTING)
    assert "It is STARTING." in report_of(starting).notes[0]
    assert not report_of(status(60, 700, 1000)).notes


def test_report_without_an_earlier_status_knows_no_rate() -> None:
    assert report_of(status(60, 700, 1000)).totals[0].eta == UNKNOWN


def test_positions_are_reported_once_a_second_so_a_shorter_window_gives_no_rate() -> None:
    found = report_of(status(1.9, 100, 1000), status(0, 100, 1000))
    assert found.rows[0].consumed_per_second is None
    assert report_of(status(2, 120, 1000), status(0, 100, 1000)).rows[0].consumed_per_second == 10


def test_the_report_survives_json() -> None:
    found = report_of(status(60, 700, 1000), status(0, 100, 1000))
    assert LagReport.model_validate_json(found.model_dump_json()) == found
