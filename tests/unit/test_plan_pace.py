"""Sources with a limit: which lanes read in micro-batches, and how much a batch may take."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.model import Lane, Route, SourcePartition
from aggregator.plan.pace import (
    STEADY,
    Pace,
    Sizes,
    is_held_back,
    offsets_per_batch,
    pace_warnings,
    partitions_of,
    plan_pace,
    weighed,
)

EU, US = SourcePartition("eu", "t", 0), SourcePartition("us", "t", 0)
OWN, SHARED = Lane("eu", (EU,)), Lane("shared-1", (EU, US))


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


def limits(made: Config, **arguments: Any) -> dict[str, int]:
    return dict(plan_pace(made, "realtime", **arguments).limits)


def test_only_a_lane_with_a_limited_source_leaves_real_time_mode() -> None:
    assert Pace("realtime").trigger_of(OWN) == "realtime"
    assert Pace("realtime", {"us": 5}).trigger_of(OWN) == "realtime"
    assert Pace("realtime", {"eu": 5}).trigger_of(OWN) == "microbatch"
    assert Pace("available-now", {"eu": 5}).trigger_of(OWN) == "available-now"


def test_a_lane_is_only_concerned_by_its_own_sources() -> None:
    both = Pace("realtime", {"eu": 5, "us": 6})
    assert both.of(OWN) == Pace("microbatch", {"eu": 5})
    assert both.of(OWN) == Pace("realtime", {"eu": 5, "us": 7}).of(OWN)
    assert both.of(SHARED) != Pace("realtime", {"eu": 5, "us": 7}).of(SHARED)
    assert Pace("realtime").of(OWN) != Pace("microbatch").of(OWN)


def test_without_a_setting_there_is_no_limit() -> None:
    assert limits(config()) == {}
    assert limits(config(), behind={"eu"}) == {}


def test_the_smallest_of_all_limits_holds() -> None:
    eu = {"max_records_per_second": 500, "max_bytes_per_second": "100kB"}
    assert limits(config(eu)) == {"eu": 100}
    assert limits(config(eu), sizes={"eu": 100.0}) == {"eu": 500}
    assert limits(config(eu), sizes={"eu": 1e9}) == {"eu": 1}
    assert limits(config({**eu, "catch_up_records_per_second": 20})) == {"eu": 100}
    assert limits(config({**eu, "catch_up_records_per_second": 20}), behind={"eu"}) == {"eu": 20}


def test_what_all_may_read_is_shared_by_weight() -> None:
    stream = {"max_records_per_second": 1000}
    assert limits(config(stream=stream)) == {"eu": 500, "us": 500}
    assert limits(config({"weight": 3}, stream=stream)) == {"eu": 750, "us": 250}
    assert limits(config({"max_records_per_second": 9}, stream=stream)) == {"eu": 9, "us": 500}
    in_bytes = {"max_bytes_per_second": "1MB"}
    assert limits(config({"weight": 3}, stream=in_bytes), sizes={"eu": 100.0, "us": 50.0}) == {
        "eu": 7_500,
        "us": 5_000,
    }


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(2, 10**9), st.floats(1, 10**6))
def test_shares_never_exceed_the_whole_but_by_the_one_record_that_each_may_read(
    first: int, second: int, whole: int, size: float
) -> None:
    made = config(
        {"weight": first},
        {"weight": second},
        {"max_records_per_second": whole, "max_bytes_per_second": whole},
    )
    found = limits(made, sizes={"eu": size, "us": size})
    assert min(found.values()) >= 1
    assert sum(found.values()) <= whole / size + 2


def test_what_ends_by_itself_knows_no_limit_and_says_so() -> None:
    made = config({"max_records_per_second": 5})
    assert plan_pace(made, "available-now").limits == {}
    (said,) = pace_warnings(made, [OWN], Pace("available-now"), {})
    assert "eu (5 records/s): no limit is kept" in said
    assert pace_warnings(config(), [OWN], Pace("available-now"), {}) == []
    behind = config({"catch_up_records_per_second": 7})
    assert "eu (7 records/s)" in pace_warnings(behind, [OWN], Pace("available-now"), {})[0]


def test_who_shares_a_lane_with_a_limited_source_is_told_so() -> None:
    made, slow = config(), Pace("realtime", {"eu": 5})
    assert pace_warnings(made, [OWN, SHARED], Pace("realtime"), {}) == []
    assert pace_warnings(made, [OWN], slow, {}) == []
    (said,) = pace_warnings(made, [OWN, SHARED], slow, {})
    assert "lane shared-1: us is read in batches of a second, as eu" in said
    assert pace_warnings(made, [SHARED], Pace("microbatch", {"eu": 5}), {}) == []


def test_a_size_that_is_not_known_is_told() -> None:
    made = config({"max_bytes_per_second": "1MB"})
    (said,) = pace_warnings(made, [], Pace("realtime"), {})
    assert "eu: the size of its records is not known yet, 1000 bytes are assumed" in said
    assert pace_warnings(made, [], Pace("realtime"), {"eu": 5.0}) == []


def test_only_sources_with_a_limit_in_bytes_are_weighed() -> None:
    assert weighed(config({"max_records_per_second": 5})) == []
    assert weighed(config(us={"max_bytes_per_second": 5})) == ["us"]
    assert weighed(config(stream={"max_bytes_per_second": 5})) == ["eu", "us"]


def test_a_size_is_a_running_mean_and_one_odd_sample_changes_no_limit() -> None:
    sizes = Sizes().sampled({"eu": 100.0})
    assert sizes.used == {"eu": 100.0}
    odd = sizes.sampled({"eu": 200.0, "us": 5.0})
    assert (odd.running["eu"], odd.used) == (120.0, {"eu": 100.0, "us": 5.0})
    assert odd.sampled({}) == odd
    again = odd.sampled({"eu": 200.0})
    assert again.used["eu"] == again.running["eu"] == pytest.approx(136.0)


@given(st.lists(st.floats(50.0, 150.0), max_size=50))
def test_what_is_gone_by_is_never_far_from_the_running_mean(samples: list[float]) -> None:
    sizes = Sizes()
    for sample in samples:
        sizes = sizes.sampled({"eu": sample})
        assert abs(sizes.running["eu"] - sizes.used["eu"]) <= STEADY * sizes.used["eu"]


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


@given(st.integers(1, 10**7), st.lists(st.integers(1, 200), min_size=1, max_size=20))
def test_the_lanes_of_a_source_take_its_limit_together(limit: int, lanes: list[int]) -> None:
    shares = [offsets_per_batch(limit, own, sum(lanes)) for own in lanes]
    assert all(share >= 1 for share in shares)
    # Each is rounded down, but a lane that gets nothing would stand still.
    assert limit - len(lanes) < sum(shares) <= max(limit, len(lanes)) + len(lanes) - 1
    assert offsets_per_batch(limit, 1, 0) == limit
