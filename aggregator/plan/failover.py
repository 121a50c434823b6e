"""What is not copied yet when a source fails over, and the config of the failback. Pure.

The way back copies only what was written at the hub itself. Every record from a source has an
origin, in its headers or in that of its batch, and the loop guard leaves out records with one
(`hub.known_as`). In the other direction the records that were copied back name the aggregation,
which is what its own loop guard looks for.

It begins before the last record of the source that came to the hub, so also before what was written
there by producers that did not wait for the failover. It begins at the earliest failover of which
nothing went back yet: a source may fail over several times before a failback.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from aggregator.config.schema import Config
from aggregator.config.topics import TopicRules
from aggregator.config.values import map_at, parse_listen
from aggregator.model.record_rules import ANY_ORIGIN
from aggregator.model.values import OffsetRange, Pause, Route, SourcePartition, TopicPartition

CONNECTION = ("bootstrap_servers", "kafka", "schemas")
"""How to reach a cluster, and what its schema ids mean: it keeps these in either direction."""
LINE = ("max_records_per_second", "max_bytes_per_second", "shared_cluster_id")
"""Settings of a source that apply to the two clusters, in either direction."""
LOGIN = ("bootstrap.", "security.", "sasl.", "ssl.")
"""Prefixes of client settings that belong to one cluster."""
RULES = ("on_poison", "origin", "schemas")
"""Topic settings that are the same in both directions."""


@dataclass(frozen=True, slots=True)
class Failover:
    """A failover of a source. Its failback begins at `hub_ends` of the hub's topics.

    `pause` is since when the source was paused for it, as the table of controls says. `returned` is
    the way back that has its positions, "" while there is none. `alive`: the source had answered,
    so its groups came along. `at` is for people: no decision rests on a clock.
    """

    at: datetime
    hub_cluster_id: str
    hub_ends: Mapping[TopicPartition, int]
    id: str = ""
    pause: datetime | None = None
    returned: str = ""
    alive: bool = False

    def is_of(self, pause: Pause | None) -> bool:
        """Whether this pause was made or taken for it: then the source has failed over."""
        return pause is not None and self.pause == pause.since


@dataclass(frozen=True, slots=True)
class NotCopied:
    """A source partition of which `offsets` are not at the hub; None is not known."""

    partition: SourcePartition
    position: int | None
    log_end: int | None
    offsets: int | None


@dataclass(frozen=True, slots=True)
class FailbackPlan:
    """The failback config as plain data; what cannot go back, and notes for the operator."""

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


def ends_of(
    logs: Mapping[TopicPartition, OffsetRange], bounds: Iterable[Mapping[TopicPartition, int]]
) -> dict[TopicPartition, int]:
    """Where the way back of a failover of now begins.

    `bounds` has, of each source partition, hub ends before the last record that came of it. All
    that was written at the hub since the newest of these goes back.
    """
    known = list(bounds)
    return {
        tp: max(log.earliest, min(log.latest, max((it.get(tp, 0) for it in known), default=0)))
        for tp, log in logs.items()
    }


def to_bring_back(failovers: Sequence[Failover], hub_id: str) -> tuple[Failover, ...]:
    """The failovers at this hub of which nothing went back yet; if there is none, the last ones."""
    own = [it for it in failovers if it.hub_cluster_id == hub_id]
    waiting = tuple(it for it in own if not it.returned)
    return waiting or tuple(it for it in own if it.returned == own[-1].returned)


class NativeCount:
    """Counts the records of a hub partition before `until` that were written there itself.

    Of the newest `most` offsets there. It is a `Scan` of the commands of groups: it takes the
    records from `start` to `end`, and needs nothing more when it is `done`.
    """

    def __init__(self, log: OffsetRange, until: int, most: int) -> None:
        self.end = min(until, log.latest)
        self.start = max(log.earliest, self.end - most)
        self.done = self.start >= self.end
        self.read = 0
        self.found = 0

    def take(self, offset: int, origin: SourcePartition | None, _: int, records: int = 1) -> None:
        """The next records: the hub offset of the first, and the partition that they come from."""
        taken = max(0, min(records, self.end - offset))
        self.read += taken
        self.found += taken if origin is None else 0
        self.done = offset + records >= self.end


def plan_failback(
    config: Config, raw: Mapping[str, Any], alias: str, routes: Iterable[Route], here: Path
) -> FailbackPlan:
    """The config that copies back to a source what was written at the hub itself.

    `raw` is the config's YAML as it was written, so that references to secrets stay references.
    `routes` are those of the way there. A hub topic of several of its topics cannot go back.
    Relative folders are taken from `here`, as the aggregation does.
    """
    own = [it for it in routes if it.cluster == alias]
    by_hub_topic: dict[str, list[Route]] = {}
    for route in own:
        by_hub_topic.setdefault(route.hub_topic, []).append(route)
    single = {topic: it[0] for topic, it in sorted(by_hub_topic.items()) if len(it) == 1}
    renames = [
        {"match": literal(topic), "to": route.topic}
        for topic, route in single.items()
        if topic != route.topic
    ]
    hub, source = map_at(raw, "hub"), map_at(map_at(raw, "sources"), alias)
    producer, consumer = _tuning(hub, "producer"), _tuning(source, "consumer")
    tree: dict[str, Any] = {
        "name": f"{config.name}-back-{alias}",
        "hub": {
            **_connection(source, config.sources[alias].bootstrap_servers),
            **producer[0],
            # Records that came from a source are not copied back, also of one that is added later.
            "known_as": [ANY_ORIGIN],
        },
        "sources": {
            # The name by which its loop guard knows what was copied back.
            config.name: {
                **_connection(hub, config.hub.bootstrap_servers),
                **consumer[0],
                **{name: source[name] for name in LINE if name in source},
                "topics": {"include": [literal(topic) for topic in single]},
                "start": "earliest",
                **({"rename": renames} if renames else {}),
            }
        },
        "topics": {"sync_configs": False, **_rules(config, alias, single)},
        "checkpoint": {
            **deepcopy(map_at(raw, "checkpoint")),
            "path": f"{_from(here, config.checkpoint.path).rstrip('/')}-back-{alias}",
        },
        "api": {"listen": next_port(config.api.listen)},
    }
    for name in ("spark", "supervision"):
        if part := map_at(raw, name):
            tree[name] = deepcopy(part)
    if config.spark.jars:
        tree.setdefault("spark", {})["jars"] = _from(here, config.spark.jars)
    notes = (*_irreversible(alias, by_hub_topic), *_logins("hub.producer", producer[1]))
    return FailbackPlan(
        tree, tuple(single), (*notes, *_logins(f"sources.{alias}.consumer", consumer[1]))
    )


def _irreversible(alias: str, by_hub_topic: Mapping[str, Sequence[Route]]) -> Iterable[str]:
    """What of the forward direction cannot be reversed."""
    for topic, routes in sorted(by_hub_topic.items()):
        if len(routes) > 1:
            yield (
                f"{topic} is not copied back: it takes from {len(routes)} topics of {alias}, and "
                "where a record belongs is not known"
            )
        elif routes[0].transform:
            yield f"{topic} has a transform, which has no way back: records go back as they are"


def _logins(path: str, names: Iterable[str]) -> Iterable[str]:
    """What is left out of the settings of another cluster."""
    for name in names:
        yield f"{path}.{name} is for logging in at one cluster, and not taken over"


def _rules(config: Config, alias: str, single: Mapping[str, Route]) -> dict[str, Any]:
    """What the two directions have in common, of all topics or topic by topic."""
    plain, rules = TopicRules(), dict[str, dict[str, Any]]()
    registries = (config.sources[alias].schemas.registry, config.hub.schemas.registry)
    names = RULES if all(registries) else tuple(it for it in RULES if it != "schemas")
    for hub_topic, route in single.items():
        there = config.topics.rules_for(hub_topic)
        own = {name: getattr(there, name) for name in names}
        if keeps_partitions(route):
            own["partition_by"] = "source_partition"
        rules[route.topic] = {
            name: value for name, value in own.items() if value != getattr(plain, name)
        }
    first, *others = list(rules.values()) or [{}]
    if all(it == first for it in others):
        return first
    return {"overrides": {topic: it for topic, it in rules.items() if it}}


def positions_back(
    ends: Mapping[TopicPartition, int], topics: Iterable[str]
) -> dict[str, dict[int, int]]:
    """The places where the way back begins, of topics that go back."""
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
    # No other config beside it has a token or a certificate for it.
    return f"127.0.0.1:{address[1] + 1 if address[1] < 65_535 else address[1] - 1}"


def _connection(part: Mapping[str, Any], servers: str) -> dict[str, Any]:
    return {"bootstrap_servers": servers} | {
        name: deepcopy(part[name]) for name in CONNECTION if part.get(name)
    }


def _tuning(part: Mapping[str, Any], name: str) -> tuple[dict[str, Any], list[str]]:
    """Client settings that hold for any cluster; and the names of those that do not."""
    given = map_at(part, name)
    kept = {key: value for key, value in given.items() if not key.startswith(LOGIN)}
    return ({name: kept} if kept else {}), sorted(given.keys() - kept.keys())


def _from(here: Path, folder: str) -> str:
    """A folder as it is found from everywhere; the URI of a store is."""
    return folder if "://" in folder or folder.startswith("file:") else str(here / folder)
