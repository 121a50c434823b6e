"""What is committed is seen as a consumer group at the source, by Kafka's own tools' means."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, produce
from support.load import records
from support.reading import wait_for
from support.running import make_config, run_in_background, source

NOT_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._TIMED_OUT,
)


def committed(cluster: EmbeddedCluster, group: str, topic: str) -> list[int]:
    """The offsets of a group of two partitions, as its consumers see them; -1001 is none.

    Not by the admin client: confluent-kafka (2.16.0) ends the process when it lists the offsets of
    a group before any group's coordinator is known.
    """
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        wanted = [TopicPartition(topic, partition) for partition in range(2)]
        return [it.offset for it in consumer.committed(wanted, timeout=30)]
    except KafkaException as error:
        # The first group of a cluster: who coordinates it is not known yet.
        assert error.args[0].code() in NOT_YET, error
        return []
    finally:
        consumer.close()


def test_positions_are_seen_as_a_group_after_their_commit(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    for cluster in (source_a, source_b):
        create_topic(cluster.bootstrap_servers, unique, partitions=2)
        produce(cluster.bootstrap_servers, unique, records(100, partition=1))
    sources = {
        "eu": source(source_a, unique, publish_group=True),
        "us": source(source_b, unique),
    }
    name = f"name-{unique}"
    config = make_config(hub, tmp_path / "state", sources, name=name)
    with run_in_background(config) as run:
        group = f"aggregator-{name}"
        wait_for(lambda: committed(source_a, group, unique)[1:] == [100], "it is committed")
        produce(source_a.bootstrap_servers, unique, records(50, partition=1))
        run.wait_for(
            lambda: any(it.position == 150 for it in run.status.partitions), "more is copied"
        )
    # The stop commits the last position.
    assert committed(source_a, group, unique)[1] == 150
    wait_for(lambda: committed(source_b, group, unique) == [OFFSET_INVALID] * 2, "us answers")
    assert [it.group_error for it in run.status.sources] == ["", ""]
