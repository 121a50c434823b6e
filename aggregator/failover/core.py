"""What is behind when a source fails over, and the config of the way back. Pure.

The way back copies only what was written at the hub itself. Whatever came from a source names that
source in its origin, and the aliases of all sources are names of the cluster that is written then
(`hub.known_as`), so its loop guard leaves these records out. In the other direction the records
that were copied back name the aggregation, which is what its own loop guard looks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from aggregator.config.schema import Config
from aggregator.config.values import parse_listen
from aggregator.model import Route, SourcePartition, TopicPartition

CONNECTION = ("bootstrap_servers", "kafka")


@dataclass(frozen=True, slots=True)
class NotCopied:
    """A source partition of which `offsets` are not at the hub; None is not known."""

    partition: SourcePartition
    position: int | None
    log_end: int | None
    offsets: int | None


@dataclass(frozen=True, slots=True)
class WayBack:
    """The config of the way back as plain data; what cannot go back, and what is to be known."""

    tree: Mapping[str, Any]
    topics: tuple[str, ...]
    notes: tuple[str, ...] = ()


def behind_of(
    positions: Mapping[SourcePartition, int], ends: Mapping[SourcePartition, int | None]
) -> tuple[NotCopied, ...]:
    """Every partition of which not all is at the hub, or of which that is not known."""
    rows = []
    for sp in sorted(positions.keys() | ends.keys()):
        position, end = positions.get(sp), ends.get(sp)
        offsets = None if end is None else max(0, end - (position or 0))
        if offsets != 0:
            rows.append(NotCopied(sp, position, end, offsets))
    return tuple(rows)


def way_back(
    config: Config, raw: Mapping[str, Any], alias: str, routes: Iterable[Route]
) -> WayBack:
    """The config that copies back to a source what was written at the hub itself.

    `raw` is the config's YAML as it was written, so that references to secrets stay references.
    `routes` are those of the way there. A hub topic of several of its topics cannot go back.
    """
    own = [it for it in routes if it.cluster == alias]
    by_hub_topic: dict[str, list[Route]] = {}
    for route in own:
        by_hub_topic.setdefault(route.hub_topic, []).append(route)
    single = {topic: it[0] for topic, it in sorted(by_hub_topic.items()) if len(it) == 1}
    notes = [
        f"{topic} is not copied back: it takes from {len(it)} topics of {alias}, and where a "
        "record belongs is not known"
        for topic, it in sorted(by_hub_topic.items())
        if len(it) > 1
    ]
    renames = [
        {"match": literal(topic), "to": route.topic}
        for topic, route in single.items()
        if topic != route.topic
    ]
    kept = {topic: keeps_partitions(route) for topic, route in single.items()}
    everywhere = bool(kept) and all(kept.values())
    overrides = {
        single[topic].topic: {"partition_by": "source_partition"}
        for topic, keeps in kept.items()
        if keeps and not everywhere
    }
    hub, source = _part(raw, ("hub",)), _part(raw, ("sources", alias))
    tree: dict[str, Any] = {
        "name": f"{config.name}-back-{alias}",
        "hub": {
            **_connection(source, config.sources[alias].bootstrap_servers),
            # Records that came from a source are not copied back.
            "known_as": [it for it in config.sources if it != config.name],
        },
        "sources": {
            # The name by which its loop guard knows what was copied back.
            config.name: {
                **_connection(hub, config.hub.bootstrap_servers),
                "topics": {"include": [literal(topic) for topic in single]},
                "start": "earliest",
                **({"rename": renames} if renames else {}),
            }
        },
        "topics": {
            "sync_configs": False,
            **({"partition_by": "source_partition"} if everywhere else {}),
            **({"overrides": overrides} if overrides else {}),
        },
        "checkpoint": {
            **deepcopy(dict(_part(raw, ("checkpoint",)))),
            "path": f"{config.checkpoint.path.rstrip('/')}-back-{alias}",
        },
        "api": {"listen": next_port(config.api.listen)},
    }
    if spark := _part(raw, ("spark",)):
        tree["spark"] = deepcopy(dict(spark))
    return WayBack(tree, tuple(single), tuple(notes))


def positions_back(
    ends: Mapping[TopicPartition, int], topics: Iterable[str]
) -> dict[str, dict[int, int]]:
    """Where the way back begins: the hub's ends at the failover, of topics that go back."""
    wanted = set(topics)
    found: dict[str, dict[int, int]] = {}
    for tp, end in sorted(ends.items()):
        if tp.topic in wanted:
            found.setdefault(tp.topic, {})[tp.partition] = end
    return found


def keeps_partitions(route: Route) -> bool:
    """Whether a hub partition is the partition of the same number at the source."""
    return route.partition_by == "source_partition" and route.partitions == route.hub_partitions


def literal(topic: str) -> str:
    """A regex for this topic alone."""
    return re.sub(r"[.]", "[.]", topic)


def next_port(listen: str) -> str:
    """An address for an instance beside the one that listens here."""
    address = parse_listen(listen)
    if address is None or address[1] == 0:
        return listen
    # Beside it nobody else has a token or a certificate for it.
    return f"127.0.0.1:{address[1] + 1 if address[1] < 65_535 else address[1] - 1}"


def _connection(part: Mapping[str, Any], servers: str) -> dict[str, Any]:
    return {"bootstrap_servers": servers} | {
        name: deepcopy(part[name]) for name in CONNECTION if part.get(name)
    }


def _part(raw: Mapping[str, Any], path: Iterable[str]) -> Mapping[str, Any]:
    found: Any = raw
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
