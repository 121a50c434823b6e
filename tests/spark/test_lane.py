"""A lane's query in a real session; no one listens at the addresses of its clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aggregator.datapath.connector.connector import Connector
from aggregator.datapath.connector.reports import HELD
from aggregator.datapath.connector.spec import Clients
from aggregator.datapath.spark.frames import plan_readings
from aggregator.datapath.spark.lane import LaneQuery, LaneSettings
from aggregator.datapath.spark.scratch import PREFIX
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.values import Lane, Positions, Route, SourcePartition
from aggregator.plan.lanes.rate_limits import Pace

SECONDS = 60.0
EU0, EU1, US0 = (SourcePartition(*it) for it in (("eu", "a", 0), ("eu", "a", 1), ("us", "a", 0)))
POSITIONS = Positions({EU0: 5, EU1: 6, US0: 7})
NO_BROKER = {"bootstrap.servers": "127.0.0.1:9"}


class World:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.connector = Connector(spark)
        # The JVM may know a newer one of an instance that ran in this process before.
        self.connector.snapshot(0)
        self.started: list[LaneQuery] = []
        self._generation = 0

    def start(self, transform: str = "", **producer: str) -> LaneQuery:
        """A lane of two sources with a task each, as many as the session has slots."""
        sources = ("eu", "us")
        routes = [Route(it, "a", "a", 2, 1, transform=transform) for it in sources]
        clients = Clients(
            dict.fromkeys(sources, NO_BROKER),
            {**NO_BROKER, **producer},
            dict.fromkeys(sources, "an-id"),
        )
        settings = LaneSettings(clients, (), 1, Pace(), {"eu": 2, "us": 1})
        self._generation += 1
        query = LaneQuery.start(
            self.spark,
            self.connector,
            Lane("union", tuple(POSITIONS)),
            self._generation,
            plan_readings(routes, POSITIONS),
            settings,
            {},
            42,
        )
        self.started.append(query)
        return query

    def close(self, query: LaneQuery) -> None:
        query.stop()
        query.close()
        self.started.remove(query)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def polled() -> bool:
            self.connector.poll()
            return condition()

        wait_until(polled, seconds=SECONDS, what=what)


@pytest.fixture
def world(spark: SparkSession, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = World(spark)
    yield made
    for query in list(made.started):
        made.close(query)
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


@pytest.mark.parametrize("transform", ["", "support.transforms:only_even_in_capitals"])
def test_a_lane_reports_its_positions_gives_up_a_partition_on_demand_and_ends(
    world: World, transform: str
) -> None:
    query = world.start(transform)
    world.until(lambda: query.report.whole, "each task reports")
    assert query.report.positions == POSITIONS
    newest = {42}
    world.until(lambda: {it.snapshot for it in query.report.tasks} == newest, "the newest snapshot")
    assert (query.active, query.failure(), query.report.ended) == (True, None, False)
    query.hold([EU1])
    world.until(lambda: bool(query.report.states), "one partition is given up")
    assert query.report.states == {EU1: HELD}
    query.end()
    world.until(lambda: query.report.ended, "each task ends")
    assert query.report.positions == POSITIONS
    query.stop()
    assert (query.active, query.failure()) == (False, None)
    world.until(lambda: not world.connector.is_open(query.key, SECONDS), "its tasks are gone")
    world.close(query)
    assert not query.report.tasks


def test_a_lane_that_fails_says_why_and_nothing_of_it_is_open(world: World) -> None:
    query = world.start(acks="some")
    world.until(lambda: not query.active, "it fails")
    assert "Invalid value some for configuration acks" in str(query.failure())
    world.until(lambda: not world.connector.is_open(query.key, SECONDS), "its tasks are gone")
    # Its next life knows nothing of it.
    later = world.start()
    world.until(lambda: later.report.whole, "its next life reports")
    assert later.key != query.key
    assert later.report.positions == POSITIONS
