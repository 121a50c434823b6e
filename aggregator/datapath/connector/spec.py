"""The spec of a lane for the connector: what each task reads, from where, and where to. Pure.

The shape is that of `TaskSpec.java`. It holds logins, so it is never shown: it goes to the JVM
by a call, never by the options of a source, which Spark shows.
"""

import base64
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from aggregator.model.record_rules import EventRule
from aggregator.model.values import (
    ORIGIN_HEADER,
    ORIGIN_HEADERS,
    QUARANTINE_HEADERS,
    QUARANTINE_TIMESTAMP,
    Limits,
    Positions,
    Route,
    Skip,
    SourcePartition,
)
from aggregator.plan.lanes.murmur2 import partition_for_key
from aggregator.plan.topics.quarantine_topics import QUARANTINE_PARTITION


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source of a query reads: partitions of one cluster that share a transform."""

    cluster: str
    transform: str
    routes: tuple[Route, ...]
    positions: Positions


@dataclass(frozen=True, slots=True)
class Clients:
    """Kafka settings: of the consumers of each source, and of the hub's producers.

    `cluster_ids` say which cluster the consumers of a source have to find, by its alias: nothing is
    read of another one. `careful` are the settings of the producer for records that are older than
    `fresh_ms` when they are sent; without one there are none. `numbered` are those of the producer
    for batches that are copied as they are and are not that old. `path` is how records that no
    transform reads are copied: from batch to batch as bytes, or as objects. `recompressed` are the
    hub topics whose brokers compress again what they are sent, and weigh what comes of that.
    """

    consumers: Mapping[str, Mapping[str, str]]
    producer: Mapping[str, str]
    cluster_ids: Mapping[str, str]
    careful: Mapping[str, str] = field(default_factory=dict)
    numbered: Mapping[str, str] = field(default_factory=dict)
    fresh_ms: int | None = None
    path: Literal["bytes", "objects"] = "objects"
    recompressed: frozenset[str] = frozenset()


def render_spec(
    key: str,
    lane: str,
    generation: int,
    readings: Sequence[Reading],
    tasks: Sequence[Sequence[Sequence[SourcePartition]]],
    clients: Clients,
    hub_names: Collection[str],
    until: Mapping[SourcePartition, int],
    skips: Mapping[SourcePartition, Skip],
    snapshot: int,
) -> str:
    """The spec as JSON; `key` names this life of the lane, and is given to no other one.

    `tasks` deals the partitions of each reading out to its tasks. `until` says where a partition
    ends, for a lane with an end; `skips` what is left out of it. `snapshot` is the number of the
    newest hub snapshot.
    """
    routes = list(dict.fromkeys(route for reading in readings for route in reading.routes))
    number = {(route.cluster, route.topic): at for at, route in enumerate(routes)}
    quarantine = next((it.poison.quarantine for it in routes if it.poison.quarantine), "")
    spec = {
        "key": key,
        "lane": lane,
        "generation": generation,
        "snapshot": snapshot,
        **_producers(clients),
        "origin": {**origin_names(), "hub_names": sorted(set(hub_names))},
        "quarantine": {
            "topic": quarantine,
            "partition": QUARANTINE_PARTITION,
            "headers": QUARANTINE_HEADERS,
            "timestamp": QUARANTINE_TIMESTAMP,
        },
        "duplicates": next((it.dedup.duplicates for it in routes if it.dedup), ""),
        "routes": [_route(route) for route in routes],
        "readings": [
            {
                **_reader(reading, clients),
                "tasks": _numbered(dealt),
                "partitions": [
                    _partition(
                        sp,
                        reading.positions[sp],
                        number[sp.cluster, sp.topic],
                        until.get(sp),
                        skips.get(sp),
                    )
                    for task in dealt
                    for sp in task
                ],
            }
            for reading, dealt in zip(readings, tasks, strict=True)
        ],
    }
    return json.dumps(spec)


def _reader(reading: Reading, clients: Clients) -> dict[str, Any]:
    return {
        "cluster": reading.cluster,
        "cluster_id": clients.cluster_ids[reading.cluster],
        "plain": not reading.transform,
        "consumer": {
            **clients.consumers[reading.cluster],
            # Lost data is never skipped silently: the reader names the partition.
            "auto.offset.reset": "none",
            "enable.auto.commit": "false",
        },
    }


def _producers(clients: Clients) -> dict[str, Any]:
    found: dict[str, Any] = {
        "path": clients.path,
        "producer": dict(clients.producer),
        "recompressed": sorted(clients.recompressed),
    }
    if clients.fresh_ms is not None:
        found |= {
            "careful": dict(clients.careful),
            "numbered": dict(clients.numbered),
            "fresh_ms": clients.fresh_ms,
        }
    return found


def origin_names() -> dict[str, Any]:
    """The headers of an origin, for their readers: five, or one."""
    return {"names": ORIGIN_HEADERS, "compact": ORIGIN_HEADER}


def origins_of_batches(partitions: Iterable[SourcePartition]) -> dict[str, Any]:
    """What readers of batches that were copied as they are have to know: of whom they may be."""
    counts: dict[tuple[str, str], int] = {}
    for sp in partitions:
        key = (sp.cluster, sp.topic)
        counts[key] = max(counts.get(key, 0), sp.partition + 1)
    topics = [[*key, count] for key, count in sorted(counts.items())]
    return {"header": ORIGIN_HEADER, "topics": topics}


def _numbered(dealt: Sequence[Sequence[SourcePartition]]) -> list[list[int]]:
    tasks, first = [], 0
    for task in dealt:
        tasks.append(list(range(first, first + len(task))))
        first += len(task)
    return tasks


def _partition(
    sp: SourcePartition, position: int, route: int, until: int | None, skip: Skip | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "topic": sp.topic,
        "partition": sp.partition,
        "route": route,
        "position": position,
    }
    if until is not None:
        found["until"] = until
    if skip is not None:
        found["skip"] = [list(each) for each in skip.ranges]
        found["later"] = [
            [*tp, [[base64.b64encode(key).decode(), offset] for key, offset in keys.items()]]
            for tp, keys in skip.later.items()
        ]
    return found


def _route(route: Route) -> dict[str, Any]:
    rule = route.poison
    return {
        "hub_topic": route.hub_topic,
        "hub_partitions": route.hub_partitions,
        "by": route.partition_by,
        "fixed": partition_for_key(route.cluster.encode(), route.hub_partitions),
        "limits": _limits(rule.limits),
        "quarantine": rule.quarantine,
        "quarantine_bytes": rule.quarantine_bytes,
        "compact": route.origin == "header",
        "schemas": route.schemas,
        "dedup": _dedup(route.dedup),
        "batch_bytes": route.batch_bytes,
    }


def _dedup(rule: EventRule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    return {"by": rule.by, "window_ms": rule.window_ms, "bytes": rule.duplicate_bytes}


def _limits(limits: Limits) -> dict[str, Any]:
    found = {
        "max_bytes": limits.max_bytes,
        "ahead_ms": limits.ahead_ms,
        "behind_ms": limits.behind_ms,
        "key_required": limits.key_required or None,
    }
    return {name: value for name, value in found.items() if value is not None}
