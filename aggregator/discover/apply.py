"""Carry out a plan's actions at the hub; to do it twice is the same as once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from aggregator.discover.admin import ClusterAdmin
from aggregator.discover.errors import code_of, text_of
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic, GrowTopic

VISIBLE_SECONDS = 10.0
"""How long a created or grown topic may take until brokers tell of it."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one action. `changed` is False when the hub was like that already."""

    action: Action
    ok: bool
    changed: bool
    reason: str = ""


def apply(actions: Sequence[Action], admin: ClusterAdmin, timeout: float) -> tuple[Applied, ...]:
    """Do each action, with `timeout` seconds for each; one that fails does not stop the others.

    A topic that exists already with the wanted partition count is fine: someone else was first.
    Returns after created and grown topics can be seen. Raises ClusterCallError when the hub does
    not answer.
    """
    results = []
    for action in actions:
        match action:
            case CreateTopic():
                results.append(_create(action, admin, timeout))
            case GrowTopic():
                results.append(_grow(action, admin, timeout))
            case AlterConfigs():
                results.append(_alter(action, admin, timeout))
    return tuple(results)


def _create(action: CreateTopic, admin: ClusterAdmin, timeout: float) -> Applied:
    # -1 is Kafka's word for the broker's default.
    copies = -1 if action.replication_factor is None else action.replication_factor
    new = NewTopic(
        action.name,
        num_partitions=action.partitions,
        replication_factor=copies,
        config=dict(action.configs),
    )
    futures = admin.client.create_topics([new], operation_timeout=timeout, request_timeout=timeout)
    error = _error(admin, futures, timeout)
    if error is None:
        return _when_visible(action, action.name, action.partitions, admin, timeout)
    if code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
        return Applied(action, False, False, text_of(error))
    found = _partitions(action.name, admin, timeout)
    if found == action.partitions:
        return Applied(action, True, False, "exists already")
    return Applied(action, False, False, f"exists already, with {found} partitions")


def _grow(action: GrowTopic, admin: ClusterAdmin, timeout: float) -> Applied:
    if _partitions(action.name, admin, timeout) >= action.to_partitions:
        return Applied(action, True, False, "has as many already")
    futures = admin.client.create_partitions(
        [NewPartitions(action.name, action.to_partitions)],
        operation_timeout=timeout,
        request_timeout=timeout,
    )
    error = _error(admin, futures, timeout)
    if error is None:
        return _when_visible(action, action.name, action.to_partitions, admin, timeout)
    if _partitions(action.name, admin, timeout) >= action.to_partitions:
        return Applied(action, True, False, "has as many already")
    return Applied(action, False, False, text_of(error))


def _alter(action: AlterConfigs, admin: ClusterAdmin, timeout: float) -> Applied:
    found = admin.describe_topics([action.name], timeout).topics.get(action.name)
    wanted = {name: new for name, (_, new) in action.changes.items()}
    if found is not None and all(found.configs.get(name) == it for name, it in wanted.items()):
        return Applied(action, True, False, "is like that already")
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, action.name, incremental_configs=entries)
    futures = admin.client.incremental_alter_configs([resource], request_timeout=timeout)
    error = _error(admin, futures, timeout)
    return Applied(action, error is None, error is None, text_of(error) if error else "")


def _error(
    admin: ClusterAdmin, futures: dict[Any, Future[Any]], timeout: float
) -> Exception | None:
    (result,) = admin.wait(futures, timeout).values()
    return result if isinstance(result, Exception) else None


def _partitions(name: str, admin: ClusterAdmin, timeout: float) -> int:
    facts = admin.describe_topics([name], timeout).topics.get(name)
    return facts.partitions if facts is not None else 0


def _when_visible(
    action: Action, name: str, partitions: int, admin: ClusterAdmin, timeout: float
) -> Applied:
    """Wait until brokers tell of it: a producer that asks too early meets an unknown partition."""
    end = time.monotonic() + max(timeout, VISIBLE_SECONDS)
    while time.monotonic() < end:
        if _partitions(name, admin, timeout) >= partitions:
            return Applied(action, True, True)
        time.sleep(0.05)
    return Applied(action, False, True, "done, but brokers do not show it yet; try again")
