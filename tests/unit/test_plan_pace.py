"""Sources with a limit: which holds, and what each task of a source may read of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.model.values import Route, SourcePartition
from aggregator.plan.lanes.rate_limits import (
    Limit,
    Pace,
    is_held_back,
    partitions_of,
    plan_pace,
    rate_shares,
)


def parts(cluster: str, count: int, first: int = 0) -> list[SourcePartition]:
    return [SourcePartition(cluster, "t", number) for number in range(first, first + count)]


def config(
    eu: dict[str, Any] | None = None,
    us: dict[str, Any] | None = None,
    stream: dict[str, Any] | None = None,
) -> Config:
    common = {"bootstrap_servers": "a:1", "topics": {"include": "t"}}
    tree = {
        "hub": {"bootstrap_servers": "h:1"},
        "sources": {"eu": {**common, **(eu or {})}, "us": {**common, **(us or {})}},
        "stream": stream or {},
    }
    return load_text(yaml.safe_dump(tree))


def limits(made: Config, **arguments: Any) -> dict[str, Limit]:
    return dict(plan_pace(made, **arguments).limits)


def test_without_a_setting_there_is_no_limit() -> None:
    assert limits(config()) == {}
    assert limits(config(), behind={"eu"}) == {}
    assert rate_shares(Pace(), parts("eu", 1), {"eu": 1}) == (None, None)


def test_the_smallest_of_all_limits_in_records_holds_and_bytes_are_a_limit_beside_it() -> None:
    eu = {"max_records_per_second": 500, "max_bytes_per_second": "100kB"}
    assert limits(config(eu)) == {"eu": Limit(500, 100_000)}
    both = config(eu, stream={"max_records_per_second": 100, "max_bytes_per_second": "1MB"})
    assert limits(both) == {"eu": Limit(50, 100_000), "us": Limit(50, 500_000)}
    assert limits(config({"max_bytes_per_second": 5})) == {"eu": Limit(None, 5)}


def test_the_limit_for_catching_up_holds_while_a_source_is_behind() -> None:
    eu = {"max_records_per_second": 500, "catch_up_records_per_second": 20}
    assert limits(config(eu)) == {"eu": Limit(500)}
    assert limits(config(eu), behind={"eu"}) == {"eu": Limit(20)}
    assert limits(config(eu), behind={"us"}) == {"eu": Limit(500)}
    # It is never a reason to read faster.
    slow = {"max_records_per_second": 5, "catch_up_records_per_second": 20}
    assert limits(config(slow), behind={"eu"}) == {"eu": Limit(5)}
    only = config({"catch_up_records_per_second": 20})
    assert (limits(only), limits(only, behind={"eu"})) == ({}, {"eu": Limit(20)})


def test_what_all_may_read_is_shared_by_weight() -> None:
    stream = {"max_records_per_second": 1000}
    assert limits(config(stream=stream)) == {"eu": Limit(500), "us": Limit(500)}
    assert limits(config({"weight": 3}, stream=stream)) == {"eu": Limit(750), "us": Limit(250)}
    assert limits(config({"max_records_per_second": 9}, stream=stream)) == {
        "eu": Limit(9),
        "us": Limit(500),
    }
    in_bytes = {"max_bytes_per_second": "1MB"}
    assert limits(config({"weight": 3}, stream=in_bytes)) == {
        "eu": Limit(None, 750_000),
        "us": Limit(None, 250_000),
    }


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(2, 10**9))
def test_shares_never_exceed_the_whole_but_by_the_one_record_that_each_may_read(
    first: int, second: int, whole: int
) -> None:
    made = config(
        {"weight": first},
        {"weight": second},
        {"max_records_per_second": whole, "max_bytes_per_second": whole},
    )
    found = limits(made)
    for name in ("records", "bytes_"):
        shares = [getattr(limit, name) for limit in found.values()]
        assert len(shares) == 2
        assert min(shares) >= 1
        assert sum(shares) <= whole + 2


def test_a_task_gets_its_share_by_the_partitions_that_it_has() -> None:
    pace = Pace({"eu": Limit(100, 1_000)})
    assert rate_shares(pace, parts("eu", 1), {"eu": 4, "us": 9}) == (25, 250)
    assert rate_shares(pace, parts("eu", 3), {"eu": 4, "us": 9}) == (75, 750)
    assert rate_shares(pace, parts("us", 3), {"eu": 4, "us": 9}) == (None, None)
    assert rate_shares(Pace({"eu": Limit(None, 1_000)}), parts("eu", 1), {"eu": 2}) == (None, 500)
    assert rate_shares(Pace({"eu": Limit(100)}), parts("eu", 1), {"eu": 2}) == (50, None)


def test_a_task_with_more_partitions_than_were_planned_has_the_whole_limit_and_no_more() -> None:
    pace = Pace({"eu": Limit(100)})
    assert rate_shares(pace, parts("eu", 3), {"eu": 2}) == (100, None)
    assert rate_shares(pace, parts("eu", 3), {}) == (100, None)


@given(st.integers(1, 10**7), st.lists(st.integers(1, 200), min_size=1, max_size=20))
def test_the_tasks_of_a_source_take_its_limit_together(limit: int, tasks: list[int]) -> None:
    of_all = {"eu": sum(tasks)}
    pace = Pace({"eu": Limit(limit, 1_000 * limit)})
    shares = [rate_shares(pace, parts("eu", own), of_all) for own in tasks]
    assert sum(records or 0 for records, _ in shares) == pytest.approx(limit)
    assert sum(bytes_ or 0 for _, bytes_ in shares) == pytest.approx(1_000 * limit)
    assert all(records and bytes_ for records, bytes_ in shares)


@pytest.mark.parametrize(
    ("backlog", "held", "expected"),
    [(1_000, False, False), (1_001, False, True), (501, True, True), (500, True, False)],
)
def test_who_is_behind_stays_so_until_half_of_that(
    backlog: int, held: bool, expected: bool
) -> None:
    made = config({"catch_up_records_per_second": 100})
    assert is_held_back(made, "eu", backlog, held=held) is expected
    assert not is_held_back(made, "us", backlog, held=held)


def test_partitions_are_counted_over_all_topics_of_a_source() -> None:
    routes = [Route("eu", "a", "a", 2, 1), Route("eu", "b", "b", 3, 1), Route("us", "a", "a", 4, 1)]
    assert partitions_of(routes) == {"eu": 5, "us": 4}
