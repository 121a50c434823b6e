"""Changes topics under their readers, and waits until it is done."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import SECONDS, admin, end_offsets
from aggregator.model.errors import ClusterError
from support.reading import wait_for


def delete_records(servers: str, topic: str, before: Mapping[int, int]) -> None:
    """Delete all records below an offset, of each partition (partition -> offset)."""
    kafka = admin(servers)  # Its futures end with it.
    asked = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in kafka.delete_records(asked).values():
        future.result(SECONDS)


def alter_topic(servers: str, topic: str, configs: Mapping[str, str]) -> None:
    """Set some configs of a topic; the others stay."""
    kafka = admin(servers)  # Its futures end with it.
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in kafka.incremental_alter_configs([resource]).values():
        future.result(SECONDS)


def create_at(cluster: EmbeddedCluster, topic: str, brokers: list[int], **config: str) -> None:
    """A topic of one partition with replicas at these brokers, the first of which leads."""
    new = NewTopic(
        topic,
        1,
        replica_assignment=[brokers],
        config={name.replace("_", "."): value for name, value in config.items()},
    )
    kafka = admin(cluster.admin_servers)  # Its futures end with it.
    kafka.create_topics([new])[topic].result(SECONDS)

    def has_leader() -> bool:
        # Another broker than the one that made it answers, and may hear of it later.
        with suppress(ClusterError):
            return bool(end_offsets(cluster.admin_servers, topic))
        return False

    wait_for(has_leader, f"{topic} has a leader")
