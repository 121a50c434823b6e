"""What a hub's leader holds above its high watermark when the instance dies: it comes once."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.embedded.broker import Broker
from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import admin, create_topic
from support.application import application
from support.clusters import ClusterFactory
from support.load import load
from support.reading import SECONDS, wait_until_topic_has
from support.running import make_config, source
from support.verdict import assert_copied

ASIDE = "aside"
UNSEEN = 1_000
"""So many records come after the replica has died: those that were sent are not acknowledged."""


def idle_of(cluster: EmbeddedCluster, *topics: str) -> Broker:
    """A broker that leads nothing of these topics, of one partition each."""
    told = admin(cluster.bootstrap_servers).list_topics(timeout=SECONDS).topics
    leaders = {told[topic].partitions[0].leader for topic in topics}
    return next(broker for broker in cluster.brokers if broker.node not in leaders)


@pytest.mark.timeout(600)
def test_what_a_leader_holds_that_a_replica_lacks_is_waited_for_and_not_written_again(
    source_a: EmbeddedCluster, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    # Longer than all of it takes: the dead replica is not given up by itself.
    hub = cluster_factory("three", brokers=3, config={"broker.session.timeout.ms": "60000"})
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    for topic in (unique, ASIDE):
        create_topic(hub.bootstrap_servers, topic)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        topics={"quarantine": ASIDE},
        api={"listen": "off"},
    )
    follower = idle_of(hub, unique, ASIDE)
    with load([source_a], unique), application(config, tmp_path) as first:
        copied = wait_until_topic_has(hub.bootstrap_servers, unique, 2_000)
        follower.kill()
        wait_until_topic_has(source_a.bootstrap_servers, unique, copied + UNSEEN)
        first.kill()
        first.wait_gone()
    with application(config, tmp_path, arguments=["--until-caught-up"]) as second:
        second.until(
            lambda: second.has_logged("hub_not_replicated") or second.has_logged("lane_started"),
            "it waits for the hub, or has begun without",
        )
        follower.start()
        assert second.wait(SECONDS), second.text
        assert second.exit_code == 0, second.text
        assert second.has_logged("hub_not_replicated")
        (recovered,) = [it for it in second.events() if it["event"] == "recovered"]
    assert_copied(
        {"eu": (source_a.bootstrap_servers, unique)}, (hub.bootstrap_servers, unique), 2_000
    )
    print(recovered)
