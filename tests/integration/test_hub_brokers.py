"""A hub of several brokers loses one under load: what is sent again is counted, and there once."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.api.metrics import metrics_text
from aggregator.config.schema import MetricsConfig
from aggregator.extras.embedded.broker import Broker
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import admin, create_topic
from support.clusters import ClusterFactory
from support.load import load
from support.reading import SECONDS, wait_until_topic_has
from support.running import Run, make_config, run_in_background, source
from support.verdict import assert_copied

METRIC = "aggregator_hub_producer_retries"
PARKED = 500
"""So many records wait at the frozen broker before it dies: some are in requests that it has."""


def sent_again(running: Run) -> float:
    """What /metrics says of the status: records that were sent again."""
    text = metrics_text(running.status, MetricsConfig()).decode()
    (family,) = [it for it in text_string_to_metric_families(text) if it.name == METRIC]
    return sum(it.value for it in family.samples if it.name == f"{METRIC}_total")


def lag(running: Run) -> int | None:
    """Of the only source, as its status tells it."""
    (found,) = running.status.sources
    return found.lag


def leader_of(cluster: EmbeddedCluster, topic: str) -> Broker:
    """The broker that leads the first partition of a topic."""
    told = admin(cluster.bootstrap_servers).list_topics(topic, timeout=SECONDS)
    node = told.topics[topic].partitions[0].leader
    return next(broker for broker in cluster.brokers if broker.node == node)


@pytest.mark.timeout(600)
def test_a_broker_that_dies_with_requests_in_it_has_its_records_sent_again(
    source_a: EmbeddedCluster, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    hub = cluster_factory("three", brokers=3)
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    create_topic(hub.bootstrap_servers, unique, partitions=3, config={"min.insync.replicas": "2"})
    config = make_config(
        hub, tmp_path / "state", {"eu": source(source_a, unique)}, api={"listen": "off"}
    )
    with run_in_background(config) as running:
        with load([source_a], unique):
            wait_until_topic_has(hub.bootstrap_servers, unique, 2_000)
            assert sent_again(running) == 0
            leader = leader_of(hub, unique)
            leader.pause()
            try:
                running.wait_for(lambda: (lag(running) or 0) > PARKED, "records wait at it")
            finally:
                leader.kill()
            running.wait_for(lambda: sent_again(running) > 0, "records are sent again")
        leader.start()
        running.wait_for(lambda: lag(running) == 0, "all is copied")
        # A broker that is gone for a while ends no lane.
        assert "lane_failed" not in running.kinds()
    assert_copied(
        {"eu": (source_a.bootstrap_servers, unique)}, (hub.bootstrap_servers, unique), 2_000
    )
