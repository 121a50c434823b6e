"""What follows when a lane fails: who waits for its tasks, and who shares no lane any more."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.engine.orphans import MARGIN_SECONDS, Orphans, delivery_seconds, orphans_of
from aggregator.engine.supervision import Supervision
from aggregator.model import Lane, SourcePartition
from aggregator.plan.lease import EXECUTOR_SECONDS

EU, US, ASIA = (SourcePartition(alias, "orders", 0) for alias in ("eu", "us", "asia"))


def config(*sets: str) -> Config:
    return load_text(
        "",
        [
            "hub.bootstrap_servers=127.0.0.1:9",
            "sources.eu.bootstrap_servers=127.0.0.1:10",
            "sources.eu.topics.include=orders",
            *sets,
        ],
    )


def test_partitions_wait_until_no_task_of_their_lane_may_send() -> None:
    opened = {"a#1", "b#2"}
    read_until: dict[SourcePartition, float] = {}
    orphans = Orphans(lambda key: key in opened, read_until)
    assert orphans.partitions() == set()
    orphans.add("a#1", frozenset({EU, US}))
    orphans.add("b#2", frozenset({ASIA}))
    assert orphans.partitions() == {EU, US, ASIA}
    opened.remove("a#1")
    before = time.monotonic()
    assert orphans.partitions() == {ASIA}
    # A look that began before does not tell how far they have read.
    assert read_until.keys() == {EU, US}
    assert min(read_until.values()) >= before
    # A life of a lane that is gone does not come back.
    opened.add("a#1")
    assert orphans.partitions() == {ASIA}
    opened.remove("b#2")
    assert orphans.partitions() == set()


def test_tasks_of_an_executor_that_is_lost_are_waited_for_as_long_as_they_could_deliver() -> None:
    asked: list[tuple[str, float]] = []

    def is_open(key: str, lost_seconds: float) -> bool:
        asked.append((key, lost_seconds))
        return True

    connector: Any = SimpleNamespace(is_open=is_open)
    given = config("checkpoint.lease=30s", "hub.producer.delivery.timeout.ms=8000")
    assert (delivery_seconds(given), delivery_seconds(config())) == (8.0, 120.0)
    orphans = orphans_of(given, connector)
    orphans.add("a#1", frozenset({EU}))
    assert orphans.partitions() == {EU}
    # Not for its lease: what it may send after an answer is less than any.
    assert asked == [("a#1", EXECUTOR_SECONDS + 8.0 + MARGIN_SECONDS)]


def test_sources_whose_lane_has_failed_share_none_any_more() -> None:
    supervision = Supervision()
    supervision.failed(Lane("union", (EU, US)), explained=False)
    assert supervision.apart == {"eu", "us"}
    supervision.failed(Lane("union", (ASIA, EU)), explained=False)
    assert supervision.apart == {"eu", "us", "asia"}


def test_a_failure_of_one_source_alone_or_one_that_is_explained_separates_nobody() -> None:
    supervision = Supervision()
    supervision.failed(Lane("eu", (EU,)), explained=False)
    supervision.failed(Lane("union", (EU, US)), explained=True)
    assert supervision.apart == frozenset()
