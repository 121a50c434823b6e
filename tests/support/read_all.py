"""Reads all that a topic of an embedded cluster holds."""

from contextlib import closing

from confluent_kafka import Consumer, Message

from aggregator.extras.embedded.topics import SECONDS, Client
from aggregator.extras.embedded.waiting import wait_until
from aggregator.kafka.reader import AssignedReader
from aggregator.model.errors import ClusterError
from aggregator.model.values import TopicPartition


def read_all(bootstrap: str, topic: str, *, client: Client | None = None) -> list[Message]:
    """Every record that is in the topic now, partition by partition in offset order.

    Committed ones only, as librdkafka does; set `isolation.level` in `client` for all.
    """
    found: list[Message] = []
    with closing(_consumer(bootstrap, client)) as consumer:
        places = [TopicPartition(topic, each) for each in _partitions(consumer, topic)]
        reader = AssignedReader(consumer, dict.fromkeys(places, 0))

        def at_end() -> bool:
            polled = reader.poll(1000, 0.05)
            found.extend(message for _, message in polled.records)
            for tp in polled.ends:
                reader.finish(tp)
            polled.check(bootstrap)
            return not reader.left

        wait_until(at_end, seconds=SECONDS, what=f"the end of {topic} is not reached")
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def _consumer(bootstrap: str, client: Client | None) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,
            # A fetch that waited this long for more shows the end of a log.
            "fetch.wait.max.ms": 20,
            "log_level": 0,
            "error_cb": lambda _error: None,
            **(client or {}),
        }
    )


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    found = consumer.list_topics(topic, timeout=SECONDS).topics[topic]
    if found.error is not None:
        raise ClusterError(f"topic {topic}: {found.error}")
    return sorted(found.partitions)
