"""While a lane ends its batch, which takes minutes, all others are looked after as ever."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from aggregator.audit.document import LaneState, LaneStatus, SourceState
from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import create_topic, produce
from aggregator.engine.control import Control
from aggregator.errors import RefusedError
from support.load import records
from support.reading import SECONDS, wait_until_topic_has
from support.running import Run, catch_up, make_config, source
from support.verdict import assert_copied


def test_a_lane_that_fails_is_started_again_while_another_one_ends(
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
        # Longer than all that is to happen in one batch.
        stream={"checkpoint_interval": "4m"},
    )
    running = Run(config)

    def lane(alias: str) -> LaneStatus:
        return next(each for each in running.status.lanes if each.name == alias)

    try:
        running.start()
        produce(eu, old, records(100))
        wait_until_topic_has(to, old, 200)
        before = {alias: lane(alias).generation for alias in ("eu", "us")}
        # A topic that joins a lane: this has to end first.
        create_topic(eu, new)
        produce(eu, new, records(50))
        running.wait_for(lambda: lane("eu").state is LaneState.DRAINING, "eu ends")
        told = len(running.statuses)
        stop_queries("us-")
        running.wait_for(lambda: "lane_failed" in running.kinds(), "the failure is noticed")
        running.wait_for(
            lambda: lane("us").generation > before["us"] and lane("us").state is LaneState.RUNNING,
            "us runs again",
        )
        produce(us, old, records(60))
        wait_until_topic_has(to, old, 260)
        assert (lane("eu").state, lane("eu").generation) == (LaneState.DRAINING, before["eu"])
        assert len(running.statuses) > told
        # It copies until its batch ends.
        produce(eu, old, records(40))
        wait_until_topic_has(to, old, 300)
    finally:
        # The batches would go on for minutes: this is no clean stop.
        running._stop.set()
        stop_queries("")
        running.join()
    assert catch_up(config).exit_code == 0
    assert_copied({"eu": (eu, old), "us": (us, old)}, (to, old), at_least=300)
    assert_copied({"eu": (eu, new)}, (to, new), at_least=50)


def test_a_stop_in_the_midst_of_a_pause_and_of_a_reload(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    eu, us, to = (each.bootstrap_servers for each in (source_a, source_b, hub))
    sources = {"eu": source(eu, unique), "us": source(us, unique)}
    # One lane for both: it has to end whoever is to leave it.
    stream = {"lanes": 1, "checkpoint_interval": "15s"}
    config = make_config(hub, tmp_path, sources, stream=stream)
    without_us = make_config(hub, tmp_path, {"eu": sources["eu"]}, stream=stream)
    for servers in (eu, us):
        create_topic(servers, unique, partitions=2)
        produce(servers, unique, records(100))

    def stop_while(command: Callable[[Control], object], paused: bool) -> None:
        control = Control(config, lambda: without_us)
        running = Run(config, control=control).start()
        states = {it.alias: it.state for it in running.status.sources}
        assert (states["us"] is SourceState.PAUSED) == paused
        if paused:
            control.resume("us")
            running.wait_for(
                lambda: any(
                    set(it.clusters) == {"eu", "us"} and it.state is LaneState.RUNNING
                    for it in running.status.lanes
                ),
                "us runs",
            )
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(command, control)
            running.wait_for(
                lambda: any(it.state is LaneState.DRAINING for it in running.status.lanes),
                "the lane ends",
            )
            assert not asked.done()
            result = running.stop()
            with pytest.raises(RefusedError, match=r"stopping: .* holds when it starts"):
                asked.result(SECONDS)
        assert (result.exit_code, result.problems) == (0, ())

    stop_while(lambda control: control.pause("us"), paused=False)
    for servers in (eu, us):
        produce(servers, unique, records(50))
    # The pause was noted before its lane was told to end.
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
