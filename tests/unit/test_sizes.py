"""A lag in bytes: by the mean size of what was copied, and unknown where that is not known."""

from __future__ import annotations

import pytest

from aggregator.status.copied import Copied
from aggregator.status.hub_topics import hub_topics
from aggregator.status.lag import report_of
from aggregator.status.overview import overview, source_page
from aggregator.status.schema import Status
from aggregator.status.sizes import in_bytes, lag_bytes_of, sum_sized
from support.statuses import whole_status


def copied(*rows: tuple[str, int, int]) -> Status:
    """A status of two topics, each 10 offsets behind, of which these records and bytes came."""
    status = whole_status(topics=2)
    parts = tuple(Copied(topic=topic, records=count, bytes=size) for topic, count, size in rows)
    (source,) = status.sources
    return status.model_copy(update={"sources": (source.model_copy(update={"copied": parts}),)})


@pytest.mark.parametrize(
    ("lag", "mean", "size"),
    [(10, 2.5, 25), (0, None, 0), (0, 9.0, 0), (None, 9.0, None), (10, None, None)],
)
def test_what_is_not_known_is_not_reported_and_nothing_is_0(
    lag: int | None, mean: float | None, size: int | None
) -> None:
    assert in_bytes(lag, mean) == size


@pytest.mark.parametrize(
    ("lags", "size"),
    [
        ([(10, 100), (0, None), (None, None)], 100),
        # Without the second it would be far too little.
        ([(10, 100), (10, None)], None),
        ([(None, None)], None),
        ([], None),
    ],
)
def test_a_sum_is_reported_when_all_that_is_behind_has_a_size(
    lags: list[tuple[int | None, int | None]], size: int | None
) -> None:
    assert sum_sized(lags) == size


def test_each_topic_has_a_mean_of_its_own() -> None:
    status = copied(("t0", 10, 1_000), ("t1", 5, 10))
    assert lag_bytes_of(status) == {"s0": 10 * 100 + 10 * 2}
    (source,) = overview(status, None, {}).sources
    assert source.lag_bytes == 1_020
    page = source_page(status, None, {}, "s0")
    assert page is not None
    assert [it.lag_bytes for it in page.topics] == [1_000, 20]
    assert [it.lag_bytes for it in hub_topics(status, None, {}).topics] == [1_000, 20]
    (total,) = report_of(status).totals
    assert total.lag_bytes == 1_020


def test_a_topic_of_which_nothing_came_yet_leaves_the_whole_unknown() -> None:
    status = copied(("t0", 10, 1_000), ("t1", 0, 0))
    assert lag_bytes_of(status) == {"s0": None}
    page = source_page(status, None, {}, "s0")
    assert page is not None
    assert [it.lag_bytes for it in page.topics] == [1_000, None]
