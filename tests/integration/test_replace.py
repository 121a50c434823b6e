"""A lane that is replaced while the hub does not answer: what its old producer holds comes once."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic
from support.clusters import ClusterFactory
from support.load import load
from support.reading import read_topic, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import judge


@pytest.fixture(scope="module")
def away(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    """A hub that each test freezes for a while."""
    return lasting_clusters("away")


@pytest.fixture(scope="module")
def mute(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    """A source that each test freezes for a while."""
    return lasting_clusters("mute")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("gives_up", [False, True], ids=["it waits", "it gives up"])
def test_a_lane_is_replaced_while_the_hub_is_away_and_the_buffer_is_full(
    source_a: EmbeddedCluster,
    away: EmbeddedCluster,
    mute: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    gives_up: bool,
) -> None:
    """A producer that gives up, as it does only when configured to, may break the order."""
    topic = unique.replace(" ", "-")
    create_topic(source_a.bootstrap_servers, topic, partitions=3)
    create_topic(mute.bootstrap_servers, topic, partitions=2)
    config = make_config(
        away,
        tmp_path / "state",
        {"eu": source(source_a, topic), "us": source(mute, topic)},
        hub={
            "producer": {
                # Full after some hundred records.
                "buffer.memory": "65536",
                "batch.size": "4096",
                "request.timeout.ms": "4000",
                **({"delivery.timeout.ms": "8000"} if gives_up else {}),
            }
        },
        api={"listen": "off"},
    )
    with load([source_a, mute], topic), run_in_background(config) as running:
        wait_until_topic_has(away.bootstrap_servers, topic, 4_000)
        away.brokers[0].pause()
        try:
            mute.brokers[0].pause()
            try:
                running.wait_for(
                    lambda: any(it.state == "UNREACHABLE" for it in running.status.sources),
                    "a source is away",
                )
                if gives_up:
                    running.wait_for(lambda: "lane_failed" in running.kinds(), "the lane fails")
            finally:
                mute.brokers[0].resume()
        finally:
            away.brokers[0].resume()
        copied = wait_until_topic_has(away.bootstrap_servers, topic, 1)
        running.wait_for(
            lambda: all(it.state != "UNREACHABLE" for it in running.status.sources),
            "the source is back",
        )
        wait_until_topic_has(away.bootstrap_servers, topic, copied + 4_000)
    assert catch_up(config).exit_code == 0
    written = {
        alias: read_topic(cluster.bootstrap_servers, topic)
        for alias, cluster in {"eu": source_a, "us": mute}.items()
    }
    verdict = judge(written, read_topic(away.bootstrap_servers, topic))
    assert verdict.copied > 8_000
    assert set(verdict.problems) <= ({"out_of_order"} if gives_up else set()), verdict.problems
