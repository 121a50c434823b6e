"""Reads what another tool has stored: an offsets topic at the hub, or a group at a source.

By plain consumers that join no group and commit nothing. An admin client is not asked for the
offsets of a group: librdkafka 2.16.0 ends the process when it does not know who coordinates it.
"""

import time
from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.config.schema import Config
from aggregator.extras.importers.configs import Stored
from aggregator.extras.importers.stored_positions import StoredPositions, offset_of
from aggregator.kafka.admin import HUB, discover, hub_facts, open_admin
from aggregator.kafka.admin.client_errors import text_of
from aggregator.kafka.credentials import reader_settings
from aggregator.kafka.discovery.prepare import plan_with
from aggregator.kafka.reader import WHOLE_LOG, open_consumer, read_ranges
from aggregator.model.errors import ClusterError
from aggregator.model.values import TopicPartition

SILENT_SECONDS = 30.0
"""A topic of offsets is small; a broker that is silent for this long does not answer."""
READER = "aggregator-import"
RETRY_SECONDS = 0.2
NO_COORDINATOR_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""The first group of a cluster: it is not known yet who coordinates it."""


def stored_positions(config: Config, stored: Stored) -> StoredPositions:
    """What is stored of a source of this config; ClusterError when a cluster gives no answer."""
    if stored.alias not in config.sources:
        return StoredPositions(stored.alias, refused="the config has no source of this name")
    if stored.refused:
        return StoredPositions(stored.alias, refused=stored.refused)
    if stored.group:
        return _of_group(config, stored)
    return _of_topic(config, stored)


def _of_topic(config: Config, stored: Stored) -> StoredPositions:
    with open_admin(config, HUB) as admin:
        counts = admin.partition_counts(config.supervision.connect_timeout)
    if stored.topic not in counts:
        return StoredPositions(stored.alias, refused=f"the hub has no topic {stored.topic}")
    settings = {
        **reader_settings(config.hub, READER),
        # With exactly-once support these are written in transactions.
        "isolation.level": "read_committed",
    }
    found: dict[TopicPartition, int] = {}
    newest = 0
    ranges = {TopicPartition(stored.topic, it): WHOLE_LOG for it in range(counts[stored.topic])}
    with closing(open_consumer("hub", settings)) as consumer:
        for _, raw in read_ranges(consumer, "hub", ranges, SILENT_SECONDS):
            stored_offset = offset_of(raw.key, raw.value, stored.connector, stored.cluster)
            if stored_offset is None:
                continue
            tp, position = stored_offset
            # All about one partition is in one partition of the topic, in order.
            if position is None:
                found.pop(tp, None)
            else:
                found[tp] = position
            newest = max(newest, raw.at_ms)
    if not found:
        reason = f"{stored.topic} has nothing of connector {stored.connector}, {stored.cluster}"
        return StoredPositions(stored.alias, refused=reason)
    return StoredPositions(stored.alias, found, newest)


def _of_group(config: Config, stored: Stored) -> StoredPositions:
    """What the group has committed of the topics that are selected: NEXT offsets already."""
    alias, timeout = stored.alias, config.supervision.connect_timeout
    wanted = _selected(config, alias)
    settings = reader_settings(config.sources[alias], stored.group)
    rows = [ClientPartition(tp.topic, tp.partition) for tp in wanted]
    with closing(open_consumer(alias, settings)) as consumer:
        committed = _committed(consumer, rows, stored, timeout) if rows else []
    if errors := [it.error for it in committed if it.error is not None]:
        raise ClusterError(f"{alias}: group {stored.group}: {text_of(errors[0])}")
    found = {
        TopicPartition(it.topic, it.partition): it.offset for it in committed if it.offset >= 0
    }
    if not found:
        reason = f"group {stored.group} has committed nothing of the topics that are selected"
        return StoredPositions(alias, refused=reason)
    return StoredPositions(alias, found)


def _committed(
    consumer: Consumer, rows: list[ClientPartition], stored: Stored, timeout: float
) -> list[ClientPartition]:
    deadline = time.monotonic() + timeout
    while True:
        try:
            return consumer.committed(rows, timeout=max(0.1, deadline - time.monotonic()))
        except KafkaException as error:
            again = error.args[0].code() in NO_COORDINATOR_YET and time.monotonic() < deadline
            if not again:
                reason = f"{stored.alias}: what group {stored.group} has committed"
                raise ClusterError(f"{reason}: {text_of(error)}") from error
        time.sleep(RETRY_SECONDS)


def _selected(config: Config, alias: str) -> Sequence[TopicPartition]:
    discovered = discover(config, aliases=[HUB, alias])
    hub = hub_facts(discovered)
    if discovered.failed:
        raise ClusterError("\n".join(str(it) for it in discovered.failed.values()))
    plan = plan_with(config, discovered, hub)
    return [
        sp.topic_partition
        for route in plan.routes
        for sp in route.source_partitions()
        if sp.cluster == alias
    ]
