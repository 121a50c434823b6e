"""Consumer groups as plain clients make them: committed offsets, and logs with transactions."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from aggregator.features.groups.cutover import Outcome
from aggregator.features.groups.group_report import GroupReport
from support.reading import wait_for


def of_the_only(outcomes: Mapping[str, Outcome]) -> GroupReport:
    """What became of the only group; raises why it failed."""
    (outcome,) = outcomes.values()
    if isinstance(outcome, GroupReport):
        return outcome
    raise outcome


def consumer(servers: str, group: str, protocol: str = "classic") -> Consumer:
    """A member of a group, when it subscribes; it commits only on request."""
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )


def committed_at(servers: str, group: str, topic: str) -> dict[int, int]:
    """What a group has committed in a topic, by partition; -1001 where it has not."""
    client = consumer(servers, group)
    try:
        numbers = client.list_topics(topic, timeout=30).topics[topic].partitions
        wanted = [TopicPartition(topic, number) for number in numbers]
        return {it.partition: it.offset for it in client.committed(wanted, timeout=30)}
    finally:
        client.close()


def commit_at(servers: str, group: str, topic: str, places: Mapping[int, int]) -> None:
    """Commit at these places, by partition, without being a member."""
    offsets = [TopicPartition(topic, number, at) for number, at in places.items()]
    client = consumer(servers, group)
    try:
        wait_for(lambda: _committed(client, offsets), "the group is known")
    finally:
        client.close()


def _committed(client: Consumer, offsets: list[TopicPartition]) -> bool:
    try:
        client.commit(offsets=offsets, asynchronous=False)
    except KafkaException:
        return False
    return True


def write_transactions(
    servers: str, topic: str, records: int = 15, client: Mapping[str, str] | None = None
) -> None:
    """Transactions of `records` records each, which leave markers; one in three is aborted."""
    own = {"transactional.id": uuid.uuid4().hex, **(client or {})}
    producer = Producer({"bootstrap.servers": servers, **own})
    producer.init_transactions(30)
    for number in range(12):
        producer.begin_transaction()
        for at in range(records):
            producer.produce(topic, b"t", b"key-%d" % (at % 7))
        # What is aborted before it was sent leaves nothing in the log.
        producer.flush(30)
        if number % 3 == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
