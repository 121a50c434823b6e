"""Deletes the beginning of a log, as a retention would, and waits until it is gone."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import TopicPartition

from aggregator.embedded.topics import SECONDS, admin


def delete_records(servers: str, topic: str, before: Mapping[int, int]) -> None:
    """Delete all records below an offset, of each partition (partition -> offset)."""
    kafka = admin(servers)  # Its futures end with it.
    asked = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in kafka.delete_records(asked).values():
        future.result(SECONDS)
