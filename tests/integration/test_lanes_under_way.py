"""Lanes that fail, and stops in the midst of a command: the others continue, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from aggregator.engine.control.commands import Control
from aggregator.engine.running_lanes import Lanes
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, produce
from aggregator.model.errors import RefusedError
from aggregator.model.values import SourceState
from aggregator.plan.lifecycle.inputs import LaneSeen
from aggregator.status.schema import LaneState, LaneStatus
from support.load import records
from support.reading import SECONDS, wait_until_topic_has
from support.running import Run, catch_up, make_config, run_in_background, source
from support.verdict import assert_copied


def test_a_lane_that_fails_is_started_again_and_the_others_run_on(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    eu, us, to = (each.bootstrap_servers for each in (source_a, source_b, hub))
    old, new = f"old.{unique}", f"new.{unique}"
    for servers in (eu, us):
        create_topic(servers, old, partitions=2)
    produce(us, old, records(100))
    config = make_config(
        hub,
        tmp_path,
        # What comes later is read from its beginning all the same.
        {"eu": source(eu, f".*{unique}", start="latest"), "us": source(us, f".*{unique}")},
        stream={"lanes": "source"},
    )

    def lane(alias: str) -> LaneStatus:
        return next(each for each in running.status.lanes if each.name == alias)

    with run_in_background(config) as running:
        produce(eu, old, records(100))
        wait_until_topic_has(to, old, 200)
        before = {alias: lane(alias).generation for alias in ("eu", "us")}
        stop_queries("us-")
        running.wait_for(lambda: "lane_failed" in running.kinds(), "the failure is noticed")
        # A topic that joins the other lane meanwhile.
        create_topic(eu, new)
        produce(eu, new, records(50))
        running.wait_for(
            lambda: lane("us").generation > before["us"] and lane("us").state is LaneState.RUNNING,
            "us runs again",
        )
        wait_until_topic_has(to, new, 50)
        produce(us, old, records(60))
        produce(eu, old, records(40))
        wait_until_topic_has(to, old, 300)
    assert catch_up(config).exit_code == 0
    assert_copied({"eu": (eu, old), "us": (us, old)}, (to, old), at_least=300)
    assert_copied({"eu": (eu, new)}, (to, new), at_least=50)


def test_a_stop_in_the_midst_of_a_pause_and_of_a_reload(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    eu, us, to = (each.bootstrap_servers for each in (source_a, source_b, hub))
    sources = {"eu": source(eu, unique), "us": source(us, unique)}
    config = make_config(hub, tmp_path, sources)
    without_us = make_config(hub, tmp_path, {"eu": sources["eu"]})
    for servers in (eu, us):
        create_topic(servers, unique, partitions=2)
        produce(servers, unique, records(100))
    # Positions that tasks report go unnoticed until the test allows it; otherwise it takes no time.
    may_notice = Event()
    seen = Lanes.seen

    def noticed(lanes: Lanes) -> dict[str, LaneSeen]:
        found = seen(lanes)
        if may_notice.is_set():
            return found
        return {name: replace(it, ended=False, states={}) for name, it in found.items()}

    monkeypatch.setattr(Lanes, "seen", noticed)

    def stop_while(command: Callable[[Control], object], paused: bool) -> None:
        # A start reads the config, too: it changes once this one runs.
        on_disk = [config]
        control = Control(config, lambda _: on_disk[-1])
        may_notice.set()
        running = Run(config, control=control).start()
        on_disk.append(without_us)
        states = {it.alias: it.state for it in running.status.sources}
        assert (states["us"] is SourceState.PAUSED) == paused
        if paused:
            control.resume("us")
            running.wait_for(
                lambda: any(
                    "us" in it.clusters and it.state is LaneState.RUNNING
                    for it in running.status.lanes
                ),
                "us runs",
            )
        may_notice.clear()
        with ThreadPoolExecutor(2) as pool:
            asked = pool.submit(command, control)
            running.wait_for(
                lambda: any(
                    it.state is LaneState.DRAINING or "us" in it.leaving
                    for it in running.status.lanes
                ),
                "us is to leave",
            )
            assert not asked.done()
            stopping = pool.submit(running.stop)
            with pytest.raises(RefusedError, match=r"stopping: .* holds when it starts"):
                asked.result(SECONDS)
            may_notice.set()
            result = stopping.result(SECONDS)
        assert (result.exit_code, result.problems) == (0, ())

    stop_while(lambda control: control.pause("us"), paused=False)
    for servers in (eu, us):
        produce(servers, unique, records(50))
    # The pause was noted before the lane was asked to leave its partitions out.
    stop_while(lambda control: control.reload(), paused=True)
    assert catch_up(config).exit_code == 0
    assert_copied({"eu": (eu, unique), "us": (us, unique)}, (to, unique), at_least=300)


def stop_queries(prefix: str) -> None:
    """Stop the queries of lanes as Spark stops one, in the middle of a batch."""
    spark = SparkSession.builder.getOrCreate()
    stopped = [query for query in spark.streams.active if str(query.name).startswith(prefix)]
    assert stopped
    for query in stopped:
        query.stop()
