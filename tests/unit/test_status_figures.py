"""What the reports of tasks add up to: over lives, lanes and sources, and over the last minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aggregator.datapath.connector.reports import Counted, TaskReport, bucket_bounds
from aggregator.model.values import SourcePartition
from aggregator.status.copied import Copied
from aggregator.status.figures import STEP_SECONDS, WINDOW_SECONDS, Figures, SourceFigures
from aggregator.status.schema import Latency, Percentiles
from support.reports import lane_report, task

BOUNDS = bucket_bounds()
SLOW = next(bound for bound in BOUNDS if bound > 1000)


def histogram(counts: Mapping[int, int]) -> tuple[int, ...]:
    """Counts by the upper bounds of their buckets, as tasks report them."""
    assert counts.keys() <= set(BOUNDS)
    return tuple(counts.get(bound, 0) for bound in (*BOUNDS, -1))


def reported(source: str = "eu", records: int = 0, **fields: Any) -> TaskReport:
    return task({SourcePartition(source, "orders", 0): 1}, records=records, **fields)


@pytest.fixture
def figures() -> Figures:
    return Figures()


def copied(found: SourceFigures) -> dict[str, tuple[int, int]]:
    return {it.topic: (it.records, it.bytes) for it in found.copied}


def test_before_anything_is_reported_there_are_no_figures(figures: Figures) -> None:
    assert figures.at(0) == {}
    figures.take(lane_report(expected=2))
    assert figures.at(1) == {}


def test_records_and_bytes_are_added_up_over_the_tasks_and_lanes_of_a_source(
    figures: Figures,
) -> None:
    figures.take(
        lane_report(reported(records=4), reported(records=3, number=1), reported("us", 1, number=2))
    )
    figures.take(lane_report(reported(records=2, lane="eu-2", generation=2)))
    found = figures.at(0)
    assert copied(found["eu"]) == {"orders": (9, 90)}
    assert (found["eu"].records, found["eu"].bytes_) == (9, 90)
    assert copied(found["us"]) == {"orders": (1, 10)}


def test_topics_are_separate_and_in_order() -> None:
    figures, one = Figures(), reported()
    sent = {"b": Counted(2, 20), "a": Counted(1, 5), "idle": Counted()}
    fields = {name: getattr(one, name) for name in one.__slots__}
    figures.take(lane_report(TaskReport(**{**fields, "sent": sent})))
    found = figures.at(0)["eu"]
    assert found.copied == (
        Copied(topic="a", records=1, bytes=5),
        Copied(topic="b", records=2, bytes=20),
        Copied(topic="idle", records=0, bytes=0),
    )
    assert (found.records, found.bytes_) == (3, 25)


def test_a_report_counts_once_however_often_it_is_taken(figures: Figures) -> None:
    report = lane_report(reported(records=4, skipped=1, looped=2))
    for second in range(3):
        figures.take(report)
        found = figures.at(second)["eu"]
    assert (found.records, found.skipped, found.looped) == (4, 1, 2)


def test_the_next_report_counts_with_what_it_has_more(figures: Figures) -> None:
    figures.take(lane_report(reported(records=4, skipped=3)))
    figures.at(0)
    figures.take(lane_report(reported(records=9, skipped=3, looped=1, retried=4, read_bytes=95)))
    found = figures.at(1)["eu"]
    assert (found.records, found.bytes_, found.skipped, found.looped) == (9, 90, 3, 1)
    assert (found.retried, found.read_bytes) == (4, 95)


def test_the_next_life_of_a_lane_counts_from_zero_and_is_added(figures: Figures) -> None:
    figures.take(lane_report(reported(records=4, skipped=3)))
    figures.at(0)
    figures.take(lane_report(reported(records=7, skipped=3, generation=2)))
    found = figures.at(1)["eu"]
    assert (found.records, found.skipped) == (11, 6)


def test_the_last_report_of_a_life_counts_though_the_next_one_has_begun(figures: Figures) -> None:
    figures.take(lane_report(reported(records=4)))
    figures.at(0)
    figures.take(lane_report(reported(records=6)))
    figures.take(lane_report(reported(records=1, generation=2)))
    assert figures.at(1)["eu"].records == 7


def test_tasks_that_have_reported_count_though_their_lane_is_not_whole(
    figures: Figures,
) -> None:
    figures.take(lane_report(reported(records=4), expected=2))
    assert figures.at(0)["eu"].records == 4


def test_the_same_task_of_another_life_may_be_of_another_source(figures: Figures) -> None:
    figures.take(lane_report(reported("eu", 4, lane="shared-1")))
    figures.at(0)
    figures.take(lane_report(reported("us", 3, lane="shared-1", generation=2)))
    found = figures.at(1)
    assert (found["eu"].records, found["us"].records) == (4, 3)


@pytest.mark.parametrize(
    ("point", "records", "skipped", "flight"),
    [
        (1, 50, 9, histogram({9: 50})),
        (9, 2, 9, histogram({9: 50})),
        (9, 50, 1, histogram({9: 50})),
        (9, 50, 9, histogram({9: 2})),
    ],
)
def test_a_task_that_began_again_on_another_machine_is_added_as_well(
    figures: Figures, point: int, records: int, skipped: int, flight: tuple[int, ...]
) -> None:
    before = reported(records=20, point=5, skipped=5, flight=histogram({9: 20}))
    figures.take(lane_report(before))
    figures.at(0)
    figures.take(
        lane_report(reported(records=records, point=point, skipped=skipped, flight=flight))
    )
    found = figures.at(1)["eu"]
    assert (found.records, found.skipped) == (20 + records, 5 + skipped)


def test_percentiles_are_of_all_tasks_of_a_source(figures: Figures) -> None:
    figures.take(
        lane_report(
            reported(age=histogram({9: 90, 90: 5}), flight=histogram({1: 100})),
            reported(number=1, age=histogram({90: 1, SLOW: 4})),
        )
    )
    found = figures.at(0)["eu"].latency
    assert found.age_ms == Percentiles(p50=9, p95=90, p99=SLOW)
    assert found.flight_ms == Percentiles(p50=1, p95=1, p99=1)


def test_they_are_of_the_last_minute_alone_and_none_when_nothing_came_in_it(
    figures: Figures,
) -> None:
    figures.at(0)
    figures.take(lane_report(reported(age=histogram({SLOW: 1000}), flight=histogram({9: 1000}))))
    figures.at(1)
    fast = histogram({SLOW: 1000, 9: 10})
    for second in range(2, 300):
        if second == 50:
            figures.take(lane_report(reported(age=fast, flight=histogram({9: 1010}))))
        latency = figures.at(second)["eu"].latency
        age = latency.age_ms
        if second <= WINDOW_SECONDS:
            assert age is not None and age.p99 == SLOW
        if WINDOW_SECONDS + 2 * STEP_SECONDS < second < 50 + WINDOW_SECONDS:
            assert age == Percentiles(p50=9, p95=9, p99=9)
        if second > 50 + WINDOW_SECONDS + 2 * STEP_SECONDS:
            assert latency == Latency()


def test_what_is_beyond_the_longest_that_is_counted_is_said_to_be_longer(figures: Figures) -> None:
    longest = BOUNDS[-1]
    figures.at(0)
    figures.take(lane_report(reported(age=(*([0] * 5), 90, *([0] * (len(BOUNDS) - 6)), 10))))
    age = figures.at(1)["eu"].latency.age_ms
    assert age == Percentiles(p50=BOUNDS[5], p95=longest, p99=longest, longer_from=95)
    figures.take(lane_report(reported(age=histogram({longest: 10}), lane="eu-2")))
    age = figures.at(1)["eu"].latency.age_ms
    assert age is not None and age.longer_from == 95, "what it holds up to is counted"


def test_few_of_the_older_counts_are_kept(figures: Figures) -> None:
    for second in range(1000):
        figures.take(lane_report(reported(age=histogram({9: second}))))
        figures.at(second)
    assert len(figures._kept) <= WINDOW_SECONDS / STEP_SECONDS + 2


def test_records_without_a_timestamp_have_no_age_and_a_time_in_flight(figures: Figures) -> None:
    figures.take(lane_report(reported(age=histogram({}), flight=histogram({9: 3}))))
    found = figures.at(0)["eu"].latency
    assert found == Latency(flight_ms=Percentiles(p50=9, p95=9, p99=9))


def test_what_no_bucket_is_large_enough_for_is_shown_as_the_last_bound(figures: Figures) -> None:
    figures.take(lane_report(reported(age=(0,) * len(BOUNDS) + (5,))))
    age = figures.at(0)["eu"].latency.age_ms
    assert age is not None and age.p50 == BOUNDS[-1]


def test_when_a_source_has_caught_up_the_age_of_its_history_is_forgotten(figures: Figures) -> None:
    history, flight = histogram({SLOW: 100}), histogram({9: 100})
    figures.at(0)
    figures.take(
        lane_report(reported(age=history, flight=flight), reported("us", age=history, number=1))
    )
    for second in range(1, 20):
        age = figures.at(second, {"eu"})["eu"].latency.age_ms
        assert age is not None and age.p50 == SLOW
    found = figures.at(20)
    assert found["eu"].latency.age_ms is None
    assert found["eu"].latency.flight_ms is not None
    assert found["us"].latency.age_ms is not None
    figures.take(lane_report(reported(age=histogram({SLOW: 100, 9: 4}), flight=flight)))
    age = figures.at(21)["eu"].latency.age_ms
    assert age == Percentiles(p50=9, p95=9, p99=9)
