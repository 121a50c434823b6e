"""How far a log cannot be read from a position on, tried by a plain consumer that checks sums.

A second opinion, by another client than the one that met it. Whole batches are damaged: the
client leaves each out, says so, and hands out what lies behind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.config.schema import ClusterConfig
from aggregator.credentials import reader_settings
from aggregator.discover.errors import text_of
from aggregator.model import TopicPartition
from aggregator.plan.positions import Damage

SMALL = {"check.crcs": True, "queued.max.messages.kbytes": 4_096}
POLL_SECONDS = 0.1
POLL_RECORDS = 100


def read_on(
    cluster: ClusterConfig, positions: Mapping[TopicPartition, int], seconds: float
) -> dict[TopicPartition, Damage]:
    """What is met from these positions on, of each partition that gave an answer in time.

    Raises CredentialsError, and KafkaException for settings that make no client.
    """
    reasons: dict[TopicPartition, str] = {}
    found: dict[TopicPartition, Damage] = {}
    consumer = Consumer({**reader_settings(cluster, "aggregator-damage"), **SMALL})
    try:
        consumer.assign([ClientPartition(*tp, at) for tp, at in positions.items()])
        deadline = time.monotonic() + seconds
        while len(found) < len(positions) and time.monotonic() < deadline:
            for message in consumer.consume(POLL_RECORDS, timeout=POLL_SECONDS):
                tp = TopicPartition(str(message.topic()), int(message.partition() or 0))
                error, offset = message.error(), message.offset()
                if tp not in positions or tp in found or offset is None:
                    continue
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    if not error.retriable():
                        reasons.setdefault(tp, text_of(error))
                elif offset >= positions[tp]:
                    # Offsets that are no records lie before one that can be read.
                    reason = reasons.get(tp, "")
                    end = offset if reason else positions[tp]
                    found[tp] = Damage(positions[tp], end, reason)
                    consumer.incremental_unassign([ClientPartition(*tp)])
    finally:
        consumer.close()
    late = {tp: reason for tp, reason in reasons.items() if tp not in found}
    return {**found, **{tp: Damage(positions[tp], None, why) for tp, why in late.items()}}
