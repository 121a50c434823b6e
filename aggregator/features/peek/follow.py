"""Follows a topic after a first look: each record as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from aggregator.config.mask import mask_text
from aggregator.config.schema import Config
from aggregator.features.peek.interpret import Interpreter
from aggregator.features.peek.topic_report import PeekedRecord, TopicLook
from aggregator.kafka.admin.client_errors import text_of
from aggregator.kafka.credentials import reader_settings
from aggregator.kafka.reader import AssignedReader, open_consumer, to_raw
from aggregator.model.errors import ClusterError
from aggregator.model.values import TopicPartition

POLL_RECORDS = 100


def follow(config: Config, look: TopicLook, most: int | None) -> Iterator[PeekedRecord]:
    """The records that come to these partitions after the look, without an end.

    A cluster that is away for a while is waited for. Raises ClusterError when it refuses.
    """
    cluster = config.hub if look.source is None else config.sources[look.source]
    alias = look.source or "hub"
    with closing(open_consumer(alias, reader_settings(cluster, "aggregator-look"))) as consumer:
        starts = {TopicPartition(look.topic, it.partition): it.latest for it in look.partitions}
        reader = AssignedReader(consumer, starts)
        while True:
            polled = reader.poll(POLL_RECORDS)
            # The registry may be slow each time.
            interpreter = Interpreter(config, look.source, look.topic, most)
            for tp, message in polled.records:
                yield interpreter.show(tp.partition, to_raw(message))
            for _, error in polled.errors:
                if not error.retriable():
                    why = mask_text(text_of(error), config)
                    raise ClusterError(f"{alias}: {look.topic}: {why}")
