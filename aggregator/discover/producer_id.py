"""Asks the hub for a producer id: without one no idempotent producer writes there.

Ours always are. A broker that gives none (before 0.11, or 2.8 without ZooKeeper) is told at once by
librdkafka; that it was given stands in its statistics only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from aggregator.config.kafka_settings import ignore

POLL_SECONDS = 0.1
STATISTICS_MS = 100


def refused_producer_id(settings: Mapping[str, Any], timeout: float) -> str:
    """Why a cluster gives no producer id, in librdkafka's words; "" when it gives one.

    `settings` are those of a librdkafka client of it. Nothing is written.
    """
    fatal: list[str] = []
    states: list[str] = []

    def on_error(error: KafkaError) -> None:
        # Any other error is of a connection that is tried again.
        if error.fatal():
            fatal.append(str(error.str()))

    def on_statistics(text: str) -> None:
        states.append(str(json.loads(text).get("eos", {}).get("idemp_state", "")))

    asked = {
        **settings,
        "enable.idempotence": True,
        "statistics.interval.ms": STATISTICS_MS,
        "error_cb": on_error,
        "stats_cb": on_statistics,
        "throttle_cb": ignore,
    }
    try:
        producer = Producer(asked)
    except KafkaException as error:
        return str(error)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        producer.poll(POLL_SECONDS)
        if fatal:
            return fatal[0]
        if "Assigned" in states:
            return ""
    return f"none within {timeout:g} s"
