"""Percentiles of histograms, and lengths of time and sizes in words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.datapath.connector.reports import bucket_bounds
from aggregator.status.percentiles import (
    duration,
    exact_duration,
    longer_from,
    percentile,
    short_duration,
    size_text,
)

BOUNDS = (1, 2, 5, 10)


@pytest.mark.parametrize(
    ("counts", "percent", "expected"),
    [
        ((), 50, None),
        ((0, 0, 0, 0, 0), 99, None),
        ((1, 0, 0, 0, 0), 50, 1),
        ((1, 0, 0, 0, 0), 99, 1),
        ((1, 1, 0, 0, 0), 50, 1),
        ((1, 1, 0, 0, 0), 51, 2),
        ((50, 45, 4, 1, 0), 50, 1),
        ((50, 45, 4, 1, 0), 95, 2),
        ((50, 45, 4, 1, 0), 99, 5),
        ((50, 45, 4, 1, 0), 100, 10),
        ((0, 0, 0, 1, 0), 1, 10),
    ],
)
def test_a_percentile_is_the_upper_bound_of_its_bucket(
    counts: tuple[int, ...], percent: int, expected: int | None
) -> None:
    assert percentile(counts, BOUNDS, percent) == expected


def test_what_is_beyond_the_last_bound_is_shown_as_the_last_bound() -> None:
    assert percentile((0, 0, 0, 0, 7), BOUNDS, 50) == 10


@given(st.lists(st.integers(0, 20_000_000), min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_is_a_quarter_above_the_true_one_at_most(
    values: list[int], percent: int
) -> None:
    bounds = bucket_bounds()
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[sum(bound < value for bound in bounds)] += 1
    true = sorted(values)[math.ceil(len(values) * percent / 100) - 1]
    found = percentile(counts, bounds, percent)
    assert found is not None
    assert min(true, bounds[-1]) <= found <= max(1, true * 1.25 + 1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.01, "1 s"),
        (20, "20 s"),
        (89, "89 s"),
        (90, "2 min"),
        (180, "3 min"),
        (5400, "2 h"),
        (7200, "2 h"),
        (200_000, "2 d"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.0001, "1 ms"),
        (0.085, "85 ms"),
        (0.999, "999 ms"),
        (0.9996, "1.0 s"),
        (1.24, "1.2 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (300, "5 min"),
    ],
)
def test_a_short_duration(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_550, "1.6 kB"),
        (999_900, "999.9 kB"),
        (999_990, "1.0 MB"),
        (3_000_000_000, "3.0 GB"),
        (4_560_000_000_000_000, "4560.0 TB"),
    ],
)
def test_a_size(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((), None),
        ((9, 0, 0, 9, 0), None),
        ((99, 0, 0, 0, 1), None),
        ((98, 0, 0, 0, 2), 99),
        ((9, 0, 0, 0, 1), 95),
        ((0, 0, 0, 0, 1), 50),
    ],
)
def test_the_first_percentile_without_a_bound_is_named(
    counts: tuple[int, ...], expected: int | None
) -> None:
    assert longer_from(counts, BOUNDS, (50, 95, 99)) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.085, "85 ms"),
        (1.24, "1.2 s"),
        (42.4, "42 s"),
        (180, "3 min"),
        (200, "3 min 20 s"),
        (15_557.538, "4 h 19 min"),
        (90_000, "1 d 1 h"),
        (1_040_000, "12 d"),
    ],
)
def test_a_duration_by_its_two_largest_units(seconds: float, text: str) -> None:
    assert exact_duration(seconds) == text
