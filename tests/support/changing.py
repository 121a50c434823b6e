"""Changes a topic under its readers, and waits until it is done: the log's beginning, configs."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from aggregator.embedded.topics import SECONDS, admin


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
