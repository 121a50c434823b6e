"""Asks the hub for a producer id: without one no idempotent producer writes there.

Ours always are. librdkafka reports at once a broker that gives none (before 0.11, or 2.8 without
ZooKeeper); that an id was given shows only in its statistics.
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


def refused_producer_id(settings: Mapping[str, Any], timeout: float) -> str | None:
    """Why the brokers of a cluster cannot give a producer id, in librdkafka's words.

    "" when they have given one, None when that is not known: a right may be missing, which the
    checks of rights report. `settings` are those of a librdkafka client of it. Nothing is written.
    """
    states: list[str] = []

    def on_statistics(text: str) -> None:
        states.append(str(json.loads(text).get("eos", {}).get("idemp_state", "")))

    asked = {
        **settings,
        "enable.idempotence": True,
        "statistics.interval.ms": STATISTICS_MS,
        "error_cb": ignore,
        "stats_cb": on_statistics,
        "log_level": 0,
    }
    deadline = time.monotonic() + timeout
    try:
        producer = Producer(asked)
        while "Assigned" not in states and time.monotonic() < deadline:
            producer.poll(POLL_SECONDS)
    except KafkaException as error:
        # What is fatal is raised by whatever the producer is asked next.
        found: KafkaError = error.args[0]
        return str(found.str()) if found.code() == KafkaError._UNSUPPORTED_FEATURE else None
    return "" if "Assigned" in states else None
