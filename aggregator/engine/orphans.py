"""Producers of lanes that did not end cleanly, and the partitions that have to wait for them.

A stopped or failed query leaves its unsent records to its producer, which goes on delivering them.
Only when it is closed can the hub be scanned: what it has not delivered then, it never will.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.model import SourcePartition
from aggregator.stream.producers import producer_is_open

MARGIN_SECONDS = 5.0
DELIVERY_TIMEOUT_MS = 120_000
"""Kafka's default for delivery.timeout.ms (ProducerConfig, kafka-clients 3.9.2)."""


@dataclass(frozen=True, slots=True)
class _Orphan:
    partitions: frozenset[SourcePartition]
    gone_at: float


class Orphans:
    """Partitions by the producer they wait for.

    `is_open` tells of a client id whether its producer is open in this JVM; None when producers
    are in other JVMs, where nothing tells: then the wait is `limit_seconds`, the time after which
    a producer gives up what it holds (delivery.timeout.ms), and a margin.
    """

    def __init__(self, is_open: Callable[[str], bool] | None, limit_seconds: float) -> None:
        self._is_open = is_open
        self._limit = limit_seconds + MARGIN_SECONDS
        self._orphans: dict[str, _Orphan] = {}

    def add(self, client_id: str, partitions: frozenset[SourcePartition], now: float) -> None:
        """A lane with this producer did not end cleanly."""
        self._orphans[client_id] = _Orphan(partitions, now + self._limit)

    def partitions(self, now: float) -> set[SourcePartition]:
        """Partitions whose old producer may still deliver."""
        waiting = {
            client_id: orphan
            for client_id, orphan in self._orphans.items()
            if (self._is_open(client_id) if self._is_open else now < orphan.gone_at)
        }
        self._orphans = waiting
        return {sp for orphan in waiting.values() for sp in orphan.partitions}


def delivery_seconds(config: Config) -> float:
    """How long a producer may go on delivering a record after it was handed over."""
    settings = jvm_settings(config.hub, "producer")
    return int(settings.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)) / 1000


def orphans_of(config: Config, spark: SparkSession) -> Orphans:
    """The wait for old producers: with a local master they are in this JVM and can be asked for."""
    limit = delivery_seconds(config)
    if (spark.sparkContext.master or "").startswith("local["):
        return Orphans(lambda client_id: producer_is_open(spark, client_id), limit)
    return Orphans(None, limit)
