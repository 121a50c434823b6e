"""Sources as Kafka Connect shows connectors: info, status, tasks, topics and offsets. Pure.

A source is a connector. Its topics in order, dealt to `tasks.max` hands, are its tasks: what holds
one topic up then shows as one failed task, with the reasons as its trace. What a person has paused,
or what has not begun, has not failed: programs restart what has, and page people.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

from aggregator.features.connectors import config_keys as words
from aggregator.features.positions.targets import OFFSETS, MoveRequest
from aggregator.model.values import SourceState
from aggregator.status.schema import (
    NOT_BEGUN,
    PartitionState,
    PartitionStatus,
    SourceStatus,
    Status,
)

TYPE = "source"
TRACED = 20
"""The most reasons in a trace."""


class ConnectState(StrEnum):
    """Connect's states of a connector, and of a task."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True)
class SourceConnector:
    """A source under its name: its config, without secrets, and what is known of it by now.

    `stopped` is what only users of Connect say; to all others such a source is paused. `starts`
    while the instance does.
    """

    name: str
    config: Mapping[str, str]
    source: SourceStatus | None = None
    partitions: tuple[PartitionStatus, ...] = ()
    stopped: bool = False
    starts: bool = False


def connector_of(
    name: str, config: Mapping[str, str], status: Status | None, *, stopped: bool
) -> SourceConnector:
    """The connector of this name, with what a status (None before the first) says of it."""
    if status is None:
        return SourceConnector(name, config, stopped=stopped)
    return SourceConnector(
        name,
        config,
        next((it for it in status.sources if it.alias == name), None),
        tuple(it for it in status.partitions if it.cluster == name),
        stopped,
        status.phase in NOT_BEGUN,
    )


def info(connector: SourceConnector) -> dict[str, Any]:
    """As `GET /connectors/{name}` answers."""
    return {
        "name": connector.name,
        "config": dict(connector.config),
        "tasks": [_id(connector, number) for number, _ in enumerate(_task_topics(connector))],
        "type": TYPE,
    }


def status_of(connector: SourceConnector, worker: str) -> dict[str, Any]:
    """As `GET /connectors/{name}/status` answers; `worker` is the address of the API."""
    state, trace = _state(connector)
    return {
        "name": connector.name,
        "connector": _state_of(state, worker, trace),
        "tasks": task_states(connector, worker),
        "type": TYPE,
    }


def restarted(status: Mapping[str, Any]) -> dict[str, Any]:
    """A status as in the answer to a restart of all."""
    again = {"state": ConnectState.RESTARTING}
    return {
        **status,
        "connector": {**status["connector"], **again},
        "tasks": [{**task, **again} for task in status["tasks"]],
    }


def ends_lanes(connector: SourceConnector, number: int | None = None) -> bool:
    """Whether a restart of what has failed, of all tasks or of one, must end a source's lanes.

    That ends what flows as well, so only where it can help: for what is stuck, or if a task that is
    named has not failed. What waits for a person, or will pass, is looked at again.
    """
    hands = _task_topics(connector)
    own = set(hands[number]) if number is not None else {it.topic for it in connector.partitions}
    parts = [it for it in connector.partitions if it.topic in own]
    if any(it.state is PartitionState.STUCK for it in parts):
        return True
    return number is not None and _task_state(connector, parts)[0] is not ConnectState.FAILED


def tasks_of(connector: SourceConnector) -> list[dict[str, Any]]:
    """As `GET /connectors/{name}/tasks` answers."""
    found = []
    for number, topics in enumerate(_task_topics(connector)):
        config = {"connector.class": words.OWN_CLASS, "task.assigned.topics": ",".join(topics)}
        found.append({"id": _id(connector, number), "config": config})
    return found


def task_states(connector: SourceConnector, worker: str) -> list[dict[str, Any]]:
    """The states of the tasks, in their order."""
    found = []
    for number, topics in enumerate(_task_topics(connector)):
        own = set(topics)
        parts = [it for it in connector.partitions if it.topic in own]
        state, trace = _task_state(connector, parts)
        found.append({"id": number, **_state_of(state, worker, trace)})
    return found


def topics_of(connector: SourceConnector) -> dict[str, Any]:
    """As `GET /connectors/{name}/topics` answers: the hub topics that it writes."""
    topics = sorted({it.hub_topic for it in connector.partitions if it.hub_topic})
    return {connector.name: {"topics": topics}}


def offsets_of(connector: SourceConnector) -> dict[str, Any]:
    """As `GET /connectors/{name}/offsets` answers, in the words of MirrorMaker 2.

    There the offset is that of the last record; a partition of which nothing was copied has none.
    """
    return {
        "offsets": [
            {
                "partition": {
                    "cluster": it.cluster,
                    "partition": it.partition,
                    "topic": it.topic,
                },
                "offset": {"offset": it.position - 1},
            }
            for it in connector.partitions
            if it.position
        ]
    }


def reset(name: str, start: str) -> MoveRequest:
    """Where a connector's partitions go when their offsets are deleted: where `start` says."""
    if start == "earliest":
        return MoveRequest(source=name, to="earliest")
    if start == "latest":
        return MoveRequest(source=name, to="latest")
    return MoveRequest(source=name, to_time_ms=int(start))


def altered(name: str, offsets: Sequence[Mapping[str, Any]]) -> MoveRequest:
    """The positions from the offsets of a PATCH, each the last one that counts as copied.

    ValueError says what is wrong with them, by their number.
    """
    wanted: dict[str, dict[int, int | None]] = {}
    for number, row in enumerate(offsets):
        place, offset = row.get("partition"), row.get("offset")
        if not isinstance(place, Mapping) or place.keys() != {"cluster", "partition", "topic"}:
            raise ValueError(f"offsets[{number}].partition has to name cluster, topic, partition")
        if place["cluster"] != name:
            raise ValueError(f"offsets[{number}].partition is of cluster {place['cluster']}")
        if not (isinstance(place["topic"], str) and _is_number(place["partition"])):
            raise ValueError(
                f"offsets[{number}].partition has a topic that is no text, or a "
                "partition that is no number"
            )
        last = offset.get("offset") if isinstance(offset, Mapping) else None
        if offset is not None and not _is_number(last):
            raise ValueError(
                f"offsets[{number}].offset has no offset of 0 or more, and is not null"
            )
        topic = wanted.setdefault(place["topic"], {})
        topic[place["partition"]] = None if last is None else last + 1
    if not wanted:
        raise ValueError("offsets is empty")
    return MoveRequest(source=name, to_offsets=wanted)


def _is_number(value: Any) -> TypeGuard[int]:
    """Whether a value of JSON is a whole number that can be an offset, or a partition."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < OFFSETS


def _task_topics(connector: SourceConnector) -> list[Sequence[str]]:
    if connector.stopped:
        return []
    topics = sorted({it.topic for it in connector.partitions})
    most = int(connector.config.get(words.TASKS) or 1)
    return [topics[number::most] for number in range(min(most, len(topics)))]


def _id(connector: SourceConnector, number: int) -> dict[str, Any]:
    return {"connector": connector.name, "task": number}


def _state_of(state: ConnectState, worker: str, trace: str) -> dict[str, Any]:
    return {"state": state, "worker_id": worker} | ({"trace": trace} if trace else {})


def _state(connector: SourceConnector) -> tuple[ConnectState, str]:
    source = connector.source
    if connector.stopped:
        return ConnectState.STOPPED, ""
    if source is None:
        return ConnectState.UNASSIGNED, ""
    match source.state:
        case SourceState.PAUSED:
            return ConnectState.PAUSED, ""
        case SourceState.FAILED | SourceState.UNREACHABLE:
            return ConnectState.FAILED, source.reason or str(source.state).lower()
        case _:
            return ConnectState.RUNNING, ""


def _task_state(
    connector: SourceConnector, partitions: Iterable[PartitionStatus]
) -> tuple[ConnectState, str]:
    state, trace = _state(connector)
    if state is not ConnectState.RUNNING:
        return state, trace
    unwell = [it for it in partitions if it.state is not PartitionState.RUNNING]
    waits = PartitionState.HELD if connector.starts else None
    wrong = [it for it in unwell if it.state not in (PartitionState.PAUSED, waits)]
    reasons = [f"{it.topic}-{it.partition}: {it.reason or it.state}" for it in wrong]
    if len(reasons) > TRACED:
        reasons = [*reasons[:TRACED], f"and {len(reasons) - TRACED} more"]
    if wrong:
        return ConnectState.FAILED, "\n".join(reasons)
    if any(it.state is waits for it in unwell):
        return ConnectState.UNASSIGNED, ""
    return (ConnectState.PAUSED if unwell else ConnectState.RUNNING), ""
