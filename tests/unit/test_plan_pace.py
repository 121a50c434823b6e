"""Sources with a limit: which lanes read in micro-batches, and how much a batch may take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aggregator.model import Lane, Route, SourcePartition
from aggregator.plan.pace import lane_trigger, offsets_per_batch, pace_warnings, partitions_of

EU, US = SourcePartition("eu", "t", 0), SourcePartition("us", "t", 0)
OWN, SHARED = Lane("eu", (EU,)), Lane("shared-1", (EU, US))


def test_only_a_lane_with_a_limited_source_leaves_real_time_mode() -> None:
    assert lane_trigger(OWN, "realtime", {}) == "realtime"
    assert lane_trigger(OWN, "realtime", {"us": 5}) == "realtime"
    assert lane_trigger(OWN, "realtime", {"eu": 5}) == "microbatch"
    assert lane_trigger(OWN, "available-now", {"eu": 5}) == "available-now"


def test_who_shares_a_lane_with_a_limited_source_is_told_so() -> None:
    assert pace_warnings([OWN, SHARED], "realtime", {}) == []
    assert pace_warnings([OWN], "realtime", {"eu": 5}) == []
    (said,) = pace_warnings([OWN, SHARED], "realtime", {"eu": 5})
    assert "lane shared-1: us is read in batches of a second, as eu" in said
    assert pace_warnings([SHARED], "microbatch", {"eu": 5}) == []
    (said,) = pace_warnings([OWN], "available-now", {"eu": 5})
    assert "not kept" in said


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
