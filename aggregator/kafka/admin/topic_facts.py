"""Kafka's topic descriptions and config entries -> `TopicFacts`."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka.admin import (
    ClusterMetadata,
    ConfigResource,
    ConfigSource,
    ResourceType,
    TopicDescription,
)

from aggregator.kafka.admin.client_errors import text_of
from aggregator.model.values import ClusterFacts, TopicFacts
from aggregator.plan.topics.source_configs import facts_in

CONFIGS_AT_ONCE = 500
"""Topics whose configs are known and are asked for again by one description."""


@dataclass(frozen=True, slots=True)
class Described:
    """Topics by name; why some could not be described; and what we may do with each.

    `operations` is empty when the broker does not report them. `effective` are all configs.
    """

    topics: Mapping[str, TopicFacts]
    failed: Mapping[str, str] = field(default_factory=dict)
    operations: Mapping[str, frozenset[str]] = field(default_factory=dict)
    effective: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def configs_of(names: Iterable[str]) -> list[ConfigResource]:
    """What to ask for to get the configs of these topics."""
    return [ConfigResource(ResourceType.TOPIC, name) for name in names]


class ConfigTurns:
    """Of which topics of a cluster the configs are asked for by one description of many.

    Of a few topics it is all. Their answer is the dearest part of a description, so of thousands it
    is, each time, those that are new, and some others in turn: a config that changes is seen by one
    of the next descriptions.
    """

    def __init__(self) -> None:
        self._known: dict[str, TopicFacts] = {}
        """In the order in which their configs were asked for."""

    def due(self, names: Collection[str]) -> frozenset[str]:
        """Those of these topics whose configs are due to be asked for now."""
        wanted = set(names)
        old = [name for name in self._known if name in wanted]
        return frozenset(wanted - set(old) | set(old[:CONFIGS_AT_ONCE]))

    def others(self, described: Mapping[str, Any], asked: Collection[str]) -> list[str]:
        """Topics that were not `asked` about, and are other ones than those of before."""
        return [
            name
            for name, it in described.items()
            if name not in asked
            and not isinstance(it, Exception)
            and self._known[name].topic_id != str(it.topic_id)
        ]

    def take(self, found: Described, asked: Collection[str]) -> Described:
        """The description with what was known of topics that were not `asked` about; kept here."""
        topics = {
            name: it if name in asked else _with_configs_of(self._known[name], it)
            for name, it in found.topics.items()
        }
        waiting = [name for name in self._known if name in topics and name not in asked]
        # Whose configs were not answered is asked about again by the next one.
        answered = [name for name in topics if name in asked and found.effective.get(name)]
        self._known = {name: topics[name] for name in [*waiting, *answered]}
        return replace(found, topics=topics)


def _with_configs_of(known: TopicFacts, facts: TopicFacts) -> TopicFacts:
    return replace(known, partitions=facts.partitions, replication_factor=facts.replication_factor)


def facts_of(
    described: Mapping[str, TopicDescription | Exception],
    configs: Mapping[str, Mapping[str, Any] | Exception],
) -> Described:
    """Put descriptions and configs together; without its configs a topic has Kafka's defaults."""
    topics: dict[str, TopicFacts] = {}
    failed: dict[str, str] = {}
    operations: dict[str, frozenset[str]] = {}
    effective: dict[str, Mapping[str, str]] = {}
    unknown: dict[str, str] = {}
    for name, description in described.items():
        if isinstance(description, Exception):
            failed[name] = text_of(description)
            continue
        entries = configs.get(name, {})
        if isinstance(entries, Exception):
            unknown[name] = text_of(entries)
            entries = {}
        values = {key: it.value for key, it in entries.items() if it.value is not None}
        own = {
            key: value
            for key, value in values.items()
            if _source(entries[key].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
            and not entries[key].is_sensitive
        }
        effective[name] = values
        operations[name] = frozenset(it.name for it in description.authorized_operations or ())
        topics[name] = _facts(description, own, values)
    return Described(topics, failed, operations, effective, _notes(unknown))


def _facts(
    description: TopicDescription, own: Mapping[str, str], values: Mapping[str, str]
) -> TopicFacts:
    replicas = [len(partition.replicas) for partition in description.partitions]
    return TopicFacts(
        name=description.name,
        topic_id=str(description.topic_id),
        partitions=len(description.partitions),
        replication_factor=min(replicas, default=0),
        internal=bool(description.is_internal),
        configs=dict(sorted(own.items())),
        **facts_in(values),
    )


def _source(source: ConfigSource | int) -> ConfigSource:
    """The client gives the number, not the enum that its documentation names."""
    return source if isinstance(source, ConfigSource) else ConfigSource(source)


def _notes(unknown: Mapping[str, str]) -> tuple[str, ...]:
    if not unknown:
        return ()
    names = ", ".join(sorted(unknown))
    reason = next(iter(unknown.values()))
    return (
        f"the configs of {names} cannot be read ({reason}), so Kafka's defaults are taken for "
        "them; allow DescribeConfigs",
    )


def cluster_facts(alias: str, cluster: ClusterMetadata, described: Described) -> ClusterFacts:
    """A cluster with all its topics: in full those that were described."""
    counts = counts_of(cluster)
    topics = {
        name: described.topics.get(name, TopicFacts(name, "", count, 0))
        for name, count in counts.items()
        if name not in described.failed
    }
    # Selected, but not to be described: the plan names it as such.
    topics |= {name: TopicFacts(name, "", 0, 0) for name in described.failed if name in counts}
    return ClusterFacts(
        alias,
        str(cluster.cluster_id),
        len(cluster.brokers),
        topics,
        described.notes,
        addresses=frozenset(f"{it.host}:{it.port}" for it in cluster.brokers.values()),
    )


def counts_of(metadata: ClusterMetadata) -> dict[str, int]:
    """Every topic of a cluster's metadata -> its number of partitions."""
    return {
        name: len(topic.partitions)
        for name, topic in sorted(metadata.topics.items())
        if topic.error is None or topic.partitions
    }
