"""Asks the hub's brokers how long they remember a producer: `producer.id.expiration.ms`."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka.admin import ConfigResource, ResourceType

from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.client_errors import ClusterCallError
from aggregator.plan.lanes.producer import EXPIRY

SECONDS = 2.0
"""Discovery can do without it, so a broker that hangs does not hold it up for longer."""


def producer_expiry(admin: ClusterAdmin, timeout: float) -> int | None:
    """The shortest time (ms) that any broker reports; None when none does."""
    asked: dict[int, Future[Mapping[str, Any]]] = {}
    try:
        for broker in admin.metadata(timeout).brokers:
            # Each broker reports its own, and librdkafka asks one at a time.
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            found = admin.client.describe_configs([resource], request_timeout=SECONDS)
            asked[broker] = found[resource]
        answers = admin.wait(asked, SECONDS).values()
    except ClusterCallError:
        return None
    entries = [it[EXPIRY] for it in answers if not isinstance(it, Exception) and EXPIRY in it]
    return min((int(it.value) for it in entries if it.value is not None), default=None)
