"""Writes lineage events to a Kafka topic, and knows whether they arrived.

The transport of openlineage-python only logs a record that was not delivered, and waits without a
limit for a cluster that does not answer (`openlineage.client.transport.kafka`, 1.54).
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, Producer

from aggregator.config.kafka_settings import ignore
from aggregator.config.schema import HubConfig
from aggregator.kafka.admin.client_errors import text_of
from aggregator.kafka.credentials import client_settings
from aggregator.model.errors import ClusterError, ConfigError, Problem

TRANSPORT = "lineage.transport"
KIND = "kafka"
NAMES = frozenset({"type", "topic", "config", "messageKey", "message_key", "flush"})
"""The settings of openlineage-python for this transport; an event is always waited for here."""
DELIVERY_SECONDS = 10.0


class LineageTopic:
    """Writes events to the topic of `settings`: at the cluster of its `config`, else at the hub.

    `key` is the key of all events, unless the settings have one: so they stay in order. For one
    thread. ConfigError for settings that no producer can have.
    """

    def __init__(self, settings: Mapping[str, Any], hub: HubConfig, key: str) -> None:
        self._topic = str(settings.get("topic") or "")
        self._key = str(settings.get("messageKey") or settings.get("message_key") or key)
        known = f"known: {', '.join(sorted(NAMES))}"
        unknown = sorted(settings.keys() - NAMES)
        problems = [Problem(f"{TRANSPORT}.{it}", "is not known", known) for it in unknown]
        if not self._topic:
            problems.append(Problem(f"{TRANSPORT}.topic", "is missing", "name the topic"))
        if problems:
            raise ConfigError(problems)
        own = settings.get("config") or {}
        self._producer = Producer(
            {
                "client.id": "aggregator-lineage",
                "message.timeout.ms": int(DELIVERY_SECONDS * 1000),
                **(own if "bootstrap.servers" in own else {**client_settings(hub), **own}),
                "log_level": 0,
                "error_cb": ignore,
            }
        )

    def emit(self, event: Any) -> None:
        """Write an event and wait until it has arrived. ClusterError if it does not."""
        from openlineage.client.serde import Serde

        answers: list[KafkaError | None] = []
        self._producer.produce(
            self._topic,
            Serde.to_json(event).encode(),
            self._key,
            on_delivery=lambda error, _: answers.append(error),
        )
        self._producer.flush(2 * DELIVERY_SECONDS)
        error = answers[0] if answers else KafkaError(KafkaError._MSG_TIMED_OUT)
        if error is not None:
            self._producer.purge()
            is_late = error.code() == KafkaError._MSG_TIMED_OUT
            raise ClusterError(f"topic {self._topic}: {'no answer' if is_late else text_of(error)}")

    def close(self) -> None:
        """Nothing is on its way any more: each event was waited for."""
