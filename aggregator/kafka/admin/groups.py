"""Commits offsets of consumer groups."""

from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.client_errors import ClusterCallError, explain
from aggregator.model.values import TopicPartition


def commit_group(
    admin: ClusterAdmin,
    group: str,
    offsets: Mapping[TopicPartition, int],
    timeout: float,
    mark: str = "",
) -> None:
    """Set committed offsets of a group without an active member, with a text beside each.

    Raises ClusterCallError also for a partition that is refused.
    """
    rows = [
        ClientPartition(tp.topic, tp.partition, at, metadata=mark) for tp, at in offsets.items()
    ]
    futures = admin.client.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, rows)], request_timeout=timeout
    )
    (answer,) = admin.wait(futures, timeout).values()
    refused = [it.error for it in getattr(answer, "topic_partitions", ()) if it.error]
    if isinstance(answer, Exception) or refused:
        error = answer if isinstance(answer, Exception) else KafkaException(refused[0])
        raise ClusterCallError(explain(admin.alias, admin.path, error, (), timeout)) from error
