"""Carry out a plan's actions at the hub, or ask whether it would; twice is the same as once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
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

from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.client_errors import code_of, text_of
from aggregator.plan.actions import Action, AlterConfigs, Applied, CreateTopic, GrowTopic

VISIBLE_SECONDS = 10.0
"""How long a created or grown topic may take until brokers tell of it."""
MOST_TOPICS, MOST_PARTITIONS = 50, 1_000
"""Of one request. A controller refuses one of ten thousand partitions, and a large
one may take longer than its deadline."""

JUDGED = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REQUEST,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
    }
)
"""What a hub says that has understood a request and does not want it; all else may pass."""

Progress = Callable[[int, int], None]


def apply(
    actions: Sequence[Action],
    admin: ClusterAdmin,
    timeout: float,
    *,
    dry: bool = False,
    progress: Progress | None = None,
) -> tuple[Applied, ...]:
    """Do each action, with `timeout` seconds for each request; one that fails stops no other.

    A topic that exists already with the wanted partition count is fine: someone else was first.
    Returns after created and grown topics can be seen. With `dry` the hub only says whether it
    would do it. `progress` gets how many of how many actions are done. Raises ClusterCallError when
    the hub does not answer.
    """
    results: dict[int, Applied] = {}
    creates = [(at, it) for at, it in enumerate(actions) if isinstance(it, CreateTopic)]
    for group in _groups(creates):
        made = _create([it for _, it in group], admin, timeout, dry=dry)
        results |= {at: done for (at, _), done in zip(group, made, strict=True)}
        if progress is not None:
            progress(len(results), len(actions))
    for at, action in enumerate(actions):
        match action:
            case GrowTopic():
                results[at] = _grow(action, admin, timeout, dry=dry)
            case AlterConfigs():
                results[at] = _alter(action, admin, timeout, dry=dry)
    return tuple(results[at] for at in sorted(results))


def _groups(
    creates: Sequence[tuple[int, CreateTopic]],
) -> Iterator[list[tuple[int, CreateTopic]]]:
    """The topics of each request."""
    group: list[tuple[int, CreateTopic]] = []
    for each in creates:
        partitions = sum(it.partitions for _, it in [*group, each])
        if group and (len(group) == MOST_TOPICS or partitions > MOST_PARTITIONS):
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _create(
    actions: Sequence[CreateTopic], admin: ClusterAdmin, timeout: float, *, dry: bool
) -> list[Applied]:
    new = [
        NewTopic(
            it.name,
            num_partitions=it.partitions,
            # -1 is Kafka's word for the broker's default.
            replication_factor=-1 if it.replication_factor is None else it.replication_factor,
            config=dict(it.configs),
        )
        for it in actions
    ]
    futures = admin.client.create_topics(
        new, operation_timeout=timeout, request_timeout=timeout, validate_only=dry
    )
    answers = admin.wait(futures, timeout)
    errors = {name: it for name, it in answers.items() if isinstance(it, Exception)}
    made = [it for it in actions if it.name not in errors]
    seen = {} if dry else _when_visible({it.name: it.partitions for it in made}, admin, timeout)
    results = []
    for action in actions:
        if (error := errors.get(action.name)) is None:
            results.append(_seen(action, dry or seen[action.name]))
        elif code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
            results.append(_refused(action, error))
        elif (found := _partitions([action.name], admin, timeout)[action.name]) == (
            action.partitions
        ):
            results.append(Applied(action, True, False, "exists already"))
        else:
            results.append(Applied(action, False, False, f"exists, with {found} partitions"))
    return results


def _grow(action: GrowTopic, admin: ClusterAdmin, timeout: float, *, dry: bool) -> Applied:
    def has_as_many() -> bool:
        return _partitions([action.name], admin, timeout)[action.name] >= action.to_partitions

    if has_as_many():
        return Applied(action, True, False, "has as many already")
    futures = admin.client.create_partitions(
        [NewPartitions(action.name, action.to_partitions)],
        operation_timeout=timeout,
        request_timeout=timeout,
        validate_only=dry,
    )
    error = _error(admin, futures, timeout)
    if error is None:
        wanted = {action.name: action.to_partitions}
        return _seen(action, dry or _when_visible(wanted, admin, timeout)[action.name])
    if has_as_many():
        return Applied(action, True, False, "has as many already")
    return _refused(action, error)


def _alter(action: AlterConfigs, admin: ClusterAdmin, timeout: float, *, dry: bool) -> Applied:
    found = admin.describe_topics([action.name], timeout).topics.get(action.name)
    wanted = {name: new for name, (_, new) in action.changes.items()}
    if found is not None and all(found.configs.get(name) == it for name, it in wanted.items()):
        return Applied(action, True, False, "is like that already")
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, action.name, incremental_configs=entries)
    futures = admin.client.incremental_alter_configs(
        [resource], request_timeout=timeout, validate_only=dry
    )
    error = _error(admin, futures, timeout)
    return Applied(action, True, True) if error is None else _refused(action, error)


def _refused(action: Action, error: Exception) -> Applied:
    return Applied(action, False, False, text_of(error), code_of(error) in JUDGED)


def _seen(action: Action, seen: bool) -> Applied:
    why = "" if seen else "done, but brokers do not show it yet; try again"
    return Applied(action, seen, True, why)


def _error(
    admin: ClusterAdmin, futures: dict[Any, Future[Any]], timeout: float
) -> Exception | None:
    (result,) = admin.wait(futures, timeout).values()
    return result if isinstance(result, Exception) else None


def _partitions(names: Sequence[str], admin: ClusterAdmin, timeout: float) -> dict[str, int]:
    topics = admin.describe_topics(names, timeout).topics
    return {name: topics[name].partitions if name in topics else 0 for name in names}


def _when_visible(
    wanted: Mapping[str, int], admin: ClusterAdmin, timeout: float
) -> dict[str, bool]:
    """Wait until brokers tell of them: a producer that asks too early meets an unknown partition.

    Returns which they tell of.
    """
    end = time.monotonic() + max(timeout, VISIBLE_SECONDS)
    left = dict(wanted)
    while left:
        found = _partitions([*left], admin, timeout)
        left = {name: count for name, count in left.items() if found[name] < count}
        if not left or time.monotonic() >= end:
            break
        time.sleep(0.05)
    return {name: name not in left for name in wanted}
