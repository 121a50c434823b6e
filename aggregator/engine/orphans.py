"""Lanes that did not end cleanly, and the partitions that wait until their tasks are gone.

A task that fails or is stopped closes its producer at once, so nothing of it is sent later. Only
when that is done can the hub be looked at: what has not been sent then, never will be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.connector.driver import Connector
from aggregator.model import SourcePartition
from aggregator.plan.lease import EXECUTOR_SECONDS

MARGIN_SECONDS = 5.0
DELIVERY_TIMEOUT_MS = 120_000
"""Kafka's default for delivery.timeout.ms (ProducerConfig, kafka-clients 3.9.2)."""


class Orphans:
    """Partitions by the life of a lane that they wait for.

    `is_open` tells of a lane's key whether one of its tasks may still send. `read_until` is told
    when that was over, by the monotonic clock.
    """

    def __init__(
        self,
        is_open: Callable[[str], bool],
        read_until: MutableMapping[SourcePartition, float] | None = None,
    ) -> None:
        self._is_open = is_open
        self._read_until = {} if read_until is None else read_until
        self._orphans: dict[str, frozenset[SourcePartition]] = {}

    def add(self, key: str, partitions: frozenset[SourcePartition]) -> None:
        """A lane did not end cleanly."""
        self._orphans[key] = partitions

    def partitions(self) -> set[SourcePartition]:
        """Partitions of which something may still be sent."""
        for key in [key for key in self._orphans if not self._is_open(key)]:
            # Until now they may have read on: a look that began before knows too little.
            self._read_until.update(dict.fromkeys(self._orphans.pop(key), time.monotonic()))
        return {sp for its in self._orphans.values() for sp in its}


def delivery_seconds(config: Config) -> float:
    """How long a producer may go on delivering a record after it was handed over."""
    settings = jvm_settings(config.hub, "producer")
    return int(settings.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)) / 1000


def orphans_of(
    config: Config,
    connector: Connector,
    read_until: MutableMapping[SourcePartition, float] | None = None,
) -> Orphans:
    """The wait for the tasks of lanes that failed.

    An executor that hears nothing of us sends nothing new after a few seconds, and what its
    producers had been handed before they give up after `delivery.timeout.ms`.
    """
    lost = EXECUTOR_SECONDS + delivery_seconds(config) + MARGIN_SECONDS
    return Orphans(lambda key: connector.is_open(key, lost), read_until)
