"""Applies a plan's actions at the hub, or validates them; applying twice is the same as once."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.client_errors import code_of, text_of
from aggregator.plan.actions import Action, AlterConfigs, Applied, CreateTopic, GrowTopic

VISIBLE_SECONDS = 10.0
"""Timeout for brokers to show a created or grown topic."""
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


@dataclass(frozen=True, slots=True)
class _Way:
    """How the hub is asked: by which client, for how long, whether only if it would."""

    admin: ClusterAdmin
    timeout: float
    dry: bool
    sleep: Callable[[float], object]

    def take(self, ask: Callable[[float], Mapping[Any, Any]]) -> dict[Any, Any]:
        """The answers by key, an error as a value; when the hub takes requests again.

        What `ask` asks may be asked twice, where a broker hangs: the second answer is that it is
        so already. A hub with a quota of topic changes answers, and then leaves what comes next
        over the same connection unread for as long as its answer says.
        """
        end = time.monotonic() + self.timeout
        (futures,) = self.admin.by_controller(lambda it: (ask(it),), self.timeout, end)
        answers = self.admin.wait(futures, self.timeout, end)
        self.sleep(self.admin.throttled_seconds())
        return answers


def apply(
    actions: Sequence[Action],
    admin: ClusterAdmin,
    timeout: float,
    *,
    dry: bool = False,
    progress: Progress | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> tuple[Applied, ...]:
    """Do each action, with `timeout` seconds for each request; one that fails stops no other.

    A request has as many topics and partitions as a controller takes. One that throttles is waited
    for by `sleep`. A topic that exists already with the wanted partition count is fine: someone
    else was first. Returns after created and grown topics can be seen. With `dry` the hub only says
    whether it would do it. `progress` gets how many of how many actions are done. Raises
    ClusterCallError when the hub does not answer.
    """
    way = _Way(admin, timeout, dry, sleep)
    # A client that has just been made may be stuck with a broker that hangs; this one gets over it.
    admin.metadata(timeout)
    results: dict[int, Applied] = {}
    for kind, carry_out in ((CreateTopic, _create), (GrowTopic, _grow), (AlterConfigs, _alter)):
        own = [(at, it) for at, it in enumerate(actions) if isinstance(it, kind)]
        for group in _groups(own):
            done = carry_out([it for _, it in group], way)
            results |= {at: it for (at, _), it in zip(group, done, strict=True)}
            if progress is not None:
                progress(len(results), len(actions))
    return tuple(results[at] for at in sorted(results))


def _groups(actions: Sequence[tuple[int, Any]]) -> Iterator[list[tuple[int, Any]]]:
    """The topics of each request."""
    group: list[tuple[int, Any]] = []
    partitions = 0
    for at, action in actions:
        more = _new_partitions(action)
        if group and (len(group) == MOST_TOPICS or partitions + more > MOST_PARTITIONS):
            yield group
            group, partitions = [], 0
        group.append((at, action))
        partitions += more
    if group:
        yield group


def _new_partitions(action: Action) -> int:
    match action:
        case CreateTopic():
            return action.partitions
        case GrowTopic():
            return action.to_partitions - action.from_partitions
    return 0


def _create(actions: Sequence[CreateTopic], way: _Way) -> list[Applied]:
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
    answers = way.take(
        lambda seconds: way.admin.client.create_topics(
            new, operation_timeout=seconds, request_timeout=seconds, validate_only=way.dry
        )
    )
    errors = _errors(answers)
    made = {it.name: it.partitions for it in actions if it.name not in errors}
    seen = _when_visible(made, way)
    there = [n for n, it in errors.items() if code_of(it) == KafkaError.TOPIC_ALREADY_EXISTS]
    # Another request may have made them a moment ago.
    _when_visible(dict.fromkeys(there, 1), way)
    counts = _partitions(there, way)
    results = []
    for action in actions:
        if (error := errors.get(action.name)) is None:
            results.append(_seen(action, seen[action.name]))
        elif action.name not in there:
            results.append(_refused(action, error))
        elif (found := counts.get(action.name, 0)) == action.partitions:
            results.append(Applied(action, True, False, "exists already"))
        else:
            results.append(Applied(action, False, False, f"exists, with {found} partitions"))
    return results


def _grow(actions: Sequence[GrowTopic], way: _Way) -> list[Applied]:
    def small() -> list[GrowTopic]:
        counts = _partitions([it.name for it in actions], way)
        return [it for it in actions if counts.get(it.name, 0) < it.to_partitions]

    if not (todo := small()):
        return [Applied(it, True, False, "has as many already") for it in actions]
    new = [NewPartitions(it.name, it.to_partitions) for it in todo]
    answers = way.take(
        lambda seconds: way.admin.client.create_partitions(
            new, operation_timeout=seconds, request_timeout=seconds, validate_only=way.dry
        )
    )
    errors = _errors(answers)
    grown = {it.name: it.to_partitions for it in todo if it.name not in errors}
    seen = _when_visible(grown, way)
    # Another client may have been first.
    left = small() if errors else []
    return [
        _seen(it, seen[it.name])
        if it.name in grown
        else _refused(it, errors[it.name])
        if it in left
        else Applied(it, True, False, "has as many already")
        for it in actions
    ]


def _alter(actions: Sequence[AlterConfigs], way: _Way) -> list[Applied]:
    topics = way.admin.describe_topics([it.name for it in actions], way.timeout).topics
    wanted = {it.name: {name: new for name, (_, new) in it.changes.items()} for it in actions}
    todo = {
        name: values
        for name, values in wanted.items()
        if name not in topics or any(topics[name].configs.get(k) != it for k, it in values.items())
    }
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            name,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
                for key, value in values.items()
            ],
        )
        for name, values in todo.items()
    ]
    errors: dict[str, Exception] = {}
    if resources:
        answers = way.take(
            lambda seconds: way.admin.client.incremental_alter_configs(
                resources, request_timeout=seconds, validate_only=way.dry
            )
        )
        errors = _errors({it.name: found for it, found in answers.items()})
    return [
        Applied(it, True, False, "is like that already")
        if it.name not in todo
        else _refused(it, errors[it.name])
        if it.name in errors
        else Applied(it, True, True)
        for it in actions
    ]


def _refused(action: Action, error: Exception) -> Applied:
    return Applied(action, False, False, text_of(error), code_of(error) in JUDGED)


def _seen(action: Action, seen: bool) -> Applied:
    why = "" if seen else "done, but brokers do not show it yet; try again"
    return Applied(action, seen, True, why)


def _errors(answers: Mapping[str, Any]) -> dict[str, Exception]:
    return {name: it for name, it in answers.items() if isinstance(it, Exception)}


def _partitions(names: Collection[str], way: _Way) -> dict[str, int]:
    """How many partitions these topics have, of those that brokers show."""
    if not names:
        return {}
    answers = way.admin.descriptions(names, way.timeout)
    return {
        name: len(it.partitions) for name, it in answers.items() if not isinstance(it, Exception)
    }


def _when_visible(wanted: Mapping[str, int], way: _Way) -> dict[str, bool]:
    """Wait until brokers show them: a producer that asks too early meets an unknown partition.

    Returns which they show; with `dry` nothing has to be seen.
    """
    if way.dry:
        return dict.fromkeys(wanted, True)
    end = time.monotonic() + max(way.timeout, VISIBLE_SECONDS)
    left = dict(wanted)
    while left:
        found = _partitions(left, way)
        left = {name: count for name, count in left.items() if found.get(name, 0) < count}
        if not left or time.monotonic() >= end:
            break
        time.sleep(0.05)
    return {name: name not in left for name in wanted}
