"""Partitions whose log moves without them."""

from __future__ import annotations

from aggregator.model.values import SourcePartition
from aggregator.plan.health.stuck import follow, stuck

EU0 = SourcePartition("eu", "orders", 0)
US0 = SourcePartition("us", "orders", 0)


def test_a_partition_whose_log_continues_without_it_is_stuck() -> None:
    seen = follow({}, {EU0: 5, US0: 5}, {EU0: 5, US0: 5}, now=0.0)
    seen = follow(seen, {EU0: 5, US0: 5}, {EU0: 9, US0: 9}, now=10.0)
    seen = follow(seen, {EU0: 5, US0: 9}, {EU0: 12, US0: 12}, now=60.0)
    assert stuck(seen, 69.9, after_seconds=60.0) == {}
    found = stuck(seen, 70.0, after_seconds=60.0)
    assert list(found) == [EU0]
    assert "stayed at 5 for 60 s" in found[EU0]


def test_a_position_short_of_the_end_is_not_stuck_while_the_log_does_not_grow() -> None:
    """Behind the last record there may be transaction markers, which are never read."""
    seen = follow({}, {EU0: 49}, {EU0: 50}, now=0.0)
    seen = follow(seen, {EU0: 49}, {EU0: 50}, now=1000.0)
    assert stuck(seen, 1000.0, after_seconds=60.0) == {}


def test_an_unknown_log_end_changes_nothing() -> None:
    seen = follow({}, {EU0: 5}, {EU0: 5}, now=0.0)
    assert follow(seen, {EU0: 6}, {}, now=1.0) == seen


def test_a_position_at_the_end_is_not_stuck_however_old_the_end_was_that_was_known_first() -> None:
    """A task has read further than the log's end of the last look; then nothing more comes."""
    seen = follow({}, {EU0: 40}, {EU0: 30}, now=0.0)
    seen = follow(seen, {EU0: 40}, {EU0: 40}, now=5.0)
    assert stuck(follow(seen, {EU0: 40}, {EU0: 40}, now=99.0), 99.0, after_seconds=60.0) == {}
    seen = follow(seen, {EU0: 40}, {EU0: 41}, now=100.0)
    assert list(stuck(seen, 160.0, after_seconds=60.0)) == [EU0]
