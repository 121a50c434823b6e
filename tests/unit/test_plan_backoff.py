"""Back-off of failed lanes, and partitions whose log moves without them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from aggregator.config.schema import Config
from aggregator.connector.driver import Connector
from aggregator.engine.orphans import MARGIN_SECONDS, Orphans, orphans_of
from aggregator.model import SourcePartition
from aggregator.plan.backoff import BackOff
from aggregator.plan.lease import EXECUTOR_SECONDS
from aggregator.plan.stuck import follow, stuck

EU0 = SourcePartition("eu", "orders", 0)
US0 = SourcePartition("us", "orders", 0)


def test_the_delay_grows_with_each_failure_and_is_forgotten_after_a_good_while() -> None:
    backoff = BackOff()
    delays = [backoff.failed("eu", frozenset({EU0}), now=float(i)) for i in range(7)]
    assert delays == [2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 60.0]
    assert backoff.failed("eu", frozenset({EU0}), now=1000.0) == 2.0


def test_partitions_rest_until_their_time_has_come() -> None:
    backoff = BackOff()
    backoff.failed("eu", frozenset({EU0}), now=0.0)
    assert backoff.resting(1.9) == {EU0}
    assert not backoff.due(1.9)
    assert backoff.due(2.0)
    assert backoff.waiting()
    assert backoff.resting(2.0) == set()
    # To look changes nothing; that they are tried does, when nothing holds them any more.
    assert backoff.waiting()
    backoff.tried(1.9)
    backoff.tried(2.0, held={EU0})
    assert backoff.due(2.0)
    backoff.tried(2.0, held={US0})
    assert not backoff.waiting()
    assert not backoff.due(2.0)


def test_a_lane_that_failed_too_often_is_waited_for_no_more() -> None:
    backoff = BackOff()
    for now in (0.0, 1.0, 2.0):
        backoff.failed("eu", frozenset({EU0}), now)
    assert backoff.waiting()
    assert backoff.waiting(limit=4)
    assert not backoff.waiting(limit=3)
    assert backoff.failures("eu") == 3
    assert backoff.failures("us") == 0


def test_a_lane_that_failed_holds_its_partitions_until_its_tasks_are_gone() -> None:
    opened = {"key-1", "key-2"}
    orphans = Orphans(lambda key: key in opened)
    orphans.add("key-1", frozenset({EU0}))
    orphans.add("key-2", frozenset({US0}))
    assert orphans.partitions() == {EU0, US0}
    opened.remove("key-1")
    assert orphans.partitions() == {US0}
    opened.clear()
    assert orphans.partitions() == set()
    # What was gone once sends nothing any more.
    opened.add("key-1")
    assert orphans.partitions() == set()


@pytest.mark.parametrize(("settings", "seconds"), [({}, 120), ({"delivery.timeout.ms": 7000}, 7)])
def test_an_executor_that_is_silent_is_waited_for_as_long_as_it_could_deliver(
    settings: dict[str, int], seconds: int
) -> None:
    asked: list[tuple[str, float]] = []

    def is_open(key: str, lost_seconds: float) -> bool:
        asked.append((key, lost_seconds))
        return True

    config = Config.model_validate(
        {
            "hub": {"bootstrap_servers": "h:1", "producer": settings},
            "sources": {"eu": {"bootstrap_servers": "e:1", "topics": {"include": "x"}}},
            "checkpoint": {"lease": "20s"},
        }
    )
    orphans = orphans_of(config, cast(Connector, SimpleNamespace(is_open=is_open)))
    orphans.add("key-1", frozenset({EU0}))
    assert orphans.partitions() == {EU0}
    assert asked == [("key-1", EXECUTOR_SECONDS + seconds + MARGIN_SECONDS)]


def test_a_partition_whose_log_goes_on_without_it_is_stuck() -> None:
    seen = follow({}, {EU0: 5, US0: 5}, {EU0: 5, US0: 5}, now=0.0)
    seen = follow(seen, {EU0: 5, US0: 5}, {EU0: 9, US0: 9}, now=10.0)
    seen = follow(seen, {EU0: 5, US0: 9}, {EU0: 12, US0: 12}, now=60.0)
    assert stuck(seen, 69.9, after_seconds=60.0) == {}
    found = stuck(seen, 70.0, after_seconds=60.0)
    assert list(found) == [EU0]
    assert "stayed at 5 for 60 s" in found[EU0]


def test_a_position_short_of_the_end_is_not_stuck_while_the_log_stands_still() -> None:
    """Behind the last record there may be transaction markers, which are never read."""
    seen = follow({}, {EU0: 49}, {EU0: 50}, now=0.0)
    seen = follow(seen, {EU0: 49}, {EU0: 50}, now=1000.0)
    assert stuck(seen, 1000.0, after_seconds=60.0) == {}


def test_an_unknown_log_end_changes_nothing() -> None:
    seen = follow({}, {EU0: 5}, {EU0: 5}, now=0.0)
    assert follow(seen, {EU0: 6}, {}, now=1.0) == seen
