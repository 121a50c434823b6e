"""A hub of several brokers loses one, or moves leaders: what is sent again is there once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from aggregator.api.metrics import metrics_text
from aggregator.config.schema import Config, MetricsConfig
from aggregator.datapath.connector.connector import Connector
from aggregator.extras.embedded.broker import Broker
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import (
    NewRecord,
    admin,
    create_topic,
    end_offsets,
    produce,
)
from aggregator.model.values import TopicPartition
from faults.clusters import FORGETFUL
from support.application import KILLED, application
from support.changing import create_at
from support.clusters import ClusterFactory
from support.load import THREE_DAYS_MS, load
from support.reading import SECONDS, read_topic, wait_for, wait_until_topic_has
from support.running import Run, catch_up, make_config, run_in_background, source
from support.verdict import assert_copied
from support.whole_batches import LARGE, config_of, seen, whole_part

METRIC = "aggregator_hub_producer_retries"
ELECTING = {
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
}
"""Soon after a broker is back its partitions are led by it again."""
PARKED = 500
"""Records that wait at the frozen broker before it dies: some are in requests that it has."""


def sent_again(running: Run) -> float:
    """What /metrics says of the status: records that were sent again."""
    text = metrics_text(running.status, MetricsConfig()).decode()
    (family,) = [it for it in text_string_to_metric_families(text) if it.name == METRIC]
    return sum(it.value for it in family.samples if it.name == f"{METRIC}_total")


def lag(running: Run) -> int | None:
    """The lag of the only source, by its status."""
    (found,) = running.status.sources
    return found.lag


def all_copied(running: Run, ends: dict[int, int]) -> bool:
    """Whether it has read its only topic up to these ends."""
    return {it.partition: it.position for it in running.status.partitions} == ends


def in_sync(cluster: EmbeddedCluster, topic: str) -> int:
    """How many replicas of the first partition have all that it holds."""
    listed = admin(cluster.bootstrap_servers).list_topics(topic, timeout=SECONDS)
    return len(listed.topics[topic].partitions[0].isrs)


def leader_of(cluster: EmbeddedCluster, topic: str) -> Broker:
    """The broker that leads the first partition of a topic."""
    listed = admin(cluster.bootstrap_servers).list_topics(topic, timeout=SECONDS)
    node = listed.topics[topic].partitions[0].leader
    return next(broker for broker in cluster.brokers if broker.node == node)


@pytest.fixture(scope="module")
def three(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    """Three brokers that tests kill, each in its way; no leader moves back by itself meanwhile."""
    return lasting_clusters("three", brokers=3, config={"auto.leader.rebalance.enable": "false"})


@pytest.fixture
def hub(three: EmbeddedCluster) -> EmbeddedCluster:
    """All three live: whom the test before has killed is started again."""
    for broker in three.brokers:
        broker.launch()
    for broker in three.brokers:
        broker.wait_ready(three.size)
    return three


def first_replicas_lead(cluster: EmbeddedCluster, topic: str) -> bool:
    """Whether each partition is led by the first of its replicas."""
    listed = admin(cluster.bootstrap_servers).list_topics(topic, timeout=SECONDS)
    return all(it.leader == it.replicas[0] for it in listed.topics[topic].partitions.values())


def restart_a_leader(hub: EmbeddedCluster, topic: str) -> int:
    """Stop a leader while records flow, and start it again until it leads; returns how many came.

    Records come before, while it is away, and behind that.
    """
    has = wait_until_topic_has(hub.bootstrap_servers, topic, 5_000)
    leader = leader_of(hub, topic)
    leader.stop()
    has = wait_until_topic_has(hub.bootstrap_servers, topic, has + 5_000)
    # While it is away: once it is back, the controller may be quicker than our look.
    assert not first_replicas_lead(hub, topic), "no leader has moved"
    leader.start()
    # The controller has them elected when they have all that the others have.
    wait_for(lambda: first_replicas_lead(hub, topic), "the first replicas lead")
    return wait_until_topic_has(hub.bootstrap_servers, topic, has + 5_000)


@pytest.mark.timeout(600)
def test_whole_batches_are_sent_again_when_leaders_move_and_a_broker_is_restarted(
    source_a: EmbeddedCluster, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    hub = cluster_factory("three", brokers=3, config=ELECTING)
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    create_topic(hub.bootstrap_servers, unique, partitions=3, config={"min.insync.replicas": "2"})
    config = config_of(hub, tmp_path / "state", {"eu": (source_a, unique)})
    with run_in_background(config) as running:
        with load([source_a], unique, per_second=3_000, size=200, client=LARGE):
            has = restart_a_leader(hub, unique)
            leader_of(hub, unique).kill()
            wait_until_topic_has(hub.bootstrap_servers, unique, has + 5_000)
        running.wait_for(lambda: lag(running) == 0, "all is copied")
        assert sent_again(running) > 0
        # The same producer has sent them: the hub did not have to be read.
        assert "lane_failed" not in running.kinds()
    found = read_topic(hub.bootstrap_servers, unique)
    assert seen(found) == seen(read_topic(source_a.bootstrap_servers, unique))
    assert whole_part(found) > 0.3


@pytest.mark.timeout(600)
def test_old_whole_batches_are_there_once_when_a_broker_of_the_hub_is_restarted(
    source_a: EmbeddedCluster, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    """The hub forgets their ids at once, so none of them may be sent twice."""
    hub = cluster_factory("three", brokers=3, config={**ELECTING, **FORGETFUL})
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    create_topic(hub.bootstrap_servers, unique, partitions=3, config={"min.insync.replicas": "2"})
    config = config_of(hub, tmp_path / "state", {"eu": (source_a, unique)})
    old = load([source_a], unique, per_second=3_000, size=200, client=LARGE, age_ms=THREE_DAYS_MS)
    with run_in_background(config) as running:
        with old:
            restart_a_leader(hub, unique)
        ends = end_offsets(source_a.bootstrap_servers, unique)
        running.wait_for(lambda: all_copied(running, ends), "all is copied")
        assert "lane_failed" in running.kinds()
    found = read_topic(hub.bootstrap_servers, unique)
    assert seen(found) == seen(read_topic(source_a.bootstrap_servers, unique))
    assert whole_part(found) > 0.3


@pytest.mark.timeout(600)
def test_a_broker_that_dies_with_requests_in_it_has_its_records_sent_again(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
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


def cut_off_config(
    hub: EmbeddedCluster, state: Path, on: EmbeddedCluster, topic: str, copy_as: str
) -> Config:
    """Copies a topic of a source in this way, with commits between which little is copied."""
    config = config_of(hub, state, {"eu": (on, topic)})
    return config.model_copy(
        update={
            "topics": config.topics.model_copy(update={"copy_as": copy_as}),
            "stream": config.stream.model_copy(update={"checkpoint_interval": 1.0}),
        }
    )


def cut_off_topic(hub: EmbeddedCluster, topic: str) -> None:
    """A topic of which an unclean election can cut something off: see `cut_off`."""
    unclean = {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"}
    create_at(hub, topic, [2, 3], **unclean)


def cut_off(hub: EmbeddedCluster, topic: str) -> int:
    """While records flow: a follower falls behind, and leads when the leader has died.

    Returns how many records there were before.
    """
    _, leader, follower = hub.brokers
    has = wait_until_topic_has(hub.bootstrap_servers, topic, 15_000)
    follower.kill()
    has = wait_until_topic_has(hub.bootstrap_servers, topic, has + 10_000)
    leader.kill()
    follower.start()
    wait_for(lambda: leader_of(hub, topic) is follower, "the other one leads")
    return has


def places_of(hub: EmbeddedCluster, on: EmbeddedCluster, topic: str) -> list[int]:
    """The offsets that the records of a hub topic have at their source, in the hub's order.

    Each is there once.
    """
    wanted = read_topic(on.bootstrap_servers, topic)
    offsets = {it.value: it.offset for it in wanted}
    found = [offsets[it.value] for it in read_topic(hub.bootstrap_servers, topic)]
    twice, lost = len(found) - len(set(found)), len(wanted) - len(set(found))
    assert (twice, lost) == (0, 0), f"of {len(wanted)}"
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("copy_as", ["batches", "records"])
def test_what_an_unclean_election_cuts_off_of_a_hub_partition_is_copied_again_and_more_flows(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    copy_as: str,
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    cut_off_topic(hub, unique)
    config = cut_off_config(hub, tmp_path / "state", source_a, unique, copy_as)
    with run_in_background(config) as running:
        with load([source_a], unique, per_second=3_000, size=200, client=LARGE):
            has = cut_off(hub, unique)
            wait_until_topic_has(hub.bootstrap_servers, unique, has + 10_000)
        ends = end_offsets(source_a.bootstrap_servers, unique)
        running.wait_for(lambda: all_copied(running, ends), "all is copied")
        kinds = running.kinds()
    assert {"lane_failed", "hub_lost"} <= {*kinds}
    found = places_of(hub, source_a, unique)
    # Behind what is gone the hub refuses the sequence of a batch. Of records it takes what was
    # under way: what it lacks comes behind that.
    back = sum(next_ < one for one, next_ in pairwise(found))
    assert back == (0 if copy_as == "batches" else 1)


def have_the_other_one_lead(hub: EmbeddedCluster, topic: str) -> None:
    """Of two replicas, of which neither lacks anything."""
    wait_for(lambda: in_sync(hub, topic) == 2, "the other one has all")
    leader = leader_of(hub, topic)
    leader.stop()
    wait_for(lambda: leader_of(hub, topic) is not leader, "the other one leads")
    leader.start()


@pytest.mark.timeout(600)
def test_from_which_offset_on_a_leader_has_written_is_found_by_an_offset_behind_that(
    hub: EmbeddedCluster, spark: SparkSession, unique: str
) -> None:
    create_at(hub, unique, [2, 3], min_insync_replicas="1")
    for _ in range(3):
        produce(hub.bootstrap_servers, unique, [NewRecord(b"v", b"k", 0)] * 10)
        have_the_other_one_lead(hub, unique)
    asked, settings = TopicPartition(unique, 0), {"bootstrap.servers": hub.bootstrap_servers}
    connector = Connector(spark)
    found = {
        at: connector.log_starts({asked: at}, settings, SECONDS).get(asked)
        for at in (9, 10, 15, 19, 20, 29, 30)
    }
    # Of the first one it is not known whether another was before it.
    assert found == {9: None, 10: 10, 15: 10, 19: 10, 20: 20, 29: 20, 30: 30}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("failpoint", ["before-final-commit", "after-final-commit"])
def test_a_kill_right_after_the_hub_has_lost_records_leaves_each_of_them_there_once(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    failpoint: str,
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    cut_off_topic(hub, unique)
    config = cut_off_config(hub, tmp_path / "state", source_a, unique, "records")
    with load([source_a], unique, per_second=3_000, size=200, client=LARGE):
        with application(config, tmp_path / "app", failpoint=failpoint) as running:
            has = cut_off(hub, unique)
            running.until(lambda: not running.alive, f"it dies at {failpoint}")
            assert running.exit_code == KILLED, running.text
            assert running.wait_gone()
        with run_in_background(config):
            wait_until_topic_has(hub.bootstrap_servers, unique, has + 10_000)
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    places_of(hub, source_a, unique)
