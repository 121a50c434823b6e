"""Goes on behind a look: each record of a topic as it comes."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.config.mask import mask_text
from aggregator.config.schema import Config
from aggregator.features.peek.interpret import Interpreter
from aggregator.features.peek.topic_report import PeekedRecord, TopicLook
from aggregator.features.quarantine.reader import to_raw
from aggregator.kafka.admin.client_errors import text_of
from aggregator.kafka.credentials import reader_settings
from aggregator.model.errors import ClusterError

POLL_SECONDS = 0.2
POLL_RECORDS = 100


def follow(config: Config, look: TopicLook, most: int | None) -> Iterator[PeekedRecord]:
    """The records that come to these partitions after the look, without an end.

    A cluster that is away for a while is waited for. Raises ClusterError when it refuses.
    """
    cluster = config.hub if look.source is None else config.sources[look.source]
    consumer = Consumer(reader_settings(cluster, "aggregator-look"))
    try:
        consumer.assign(
            [ClientPartition(look.topic, it.partition, it.latest) for it in look.partitions]
        )
        while True:
            messages = consumer.consume(POLL_RECORDS, timeout=POLL_SECONDS)
            # The registry may be slow each time anew.
            interpreter = Interpreter(config, look.source, look.topic, most)
            for message in messages:
                error = message.error()
                if error is None:
                    yield interpreter.told(int(message.partition() or 0), to_raw(message))
                elif error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                    why = mask_text(text_of(error), config)
                    raise ClusterError(f"{look.source or 'hub'}: {look.topic}: {why}")
    finally:
        consumer.close()
