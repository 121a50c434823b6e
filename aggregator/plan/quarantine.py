"""The hub topic for records that the hub refuses: which it is, and what it takes to have it. Pure.

It keeps what it gets: no retention, no compaction, and the time of arrival as its timestamps, so
that it refuses no record for its timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.config.schema import Config
from aggregator.model import ClusterFacts, TopicFacts
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic
from aggregator.plan.hub_topics import HubTopic
from aggregator.plan.naming import topic_name_problem
from aggregator.plan.topic_configs import (
    CLEANUP_POLICY,
    HEADER_SLACK_BYTES,
    MAX_MESSAGE_BYTES,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_TYPE,
    UNLIMITED,
    Contribution,
    policies,
    wanted_message_bytes,
)

QUARANTINE_PARTITION = 0
"""Everything goes to one partition: so what became of a record later stands behind it."""
APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class QuarantinePlan:
    """The quarantine topic, "" when no route asks for one, and what leads there."""

    name: str = ""
    topics: Mapping[str, HubTopic] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


def quarantine_topic(config: Config) -> str:
    """The name of the quarantine topic of an aggregation."""
    return config.topics.quarantine.replace("${name}", config.name)


def plan_quarantine(
    config: Config, contributions: Mapping[str, Sequence[Contribution]], hub: ClusterFacts
) -> QuarantinePlan:
    """What to do at the hub, so that records into these hub topics can be quarantined."""
    sources = [
        source
        for hub_topic, found in contributions.items()
        if config.topics.rules_for(hub_topic).on_poison == "quarantine"
        for source in found
    ]
    if not sources:
        return QuarantinePlan()
    name = quarantine_topic(config)
    existing = hub.topics.get(name)
    if problem := _problem(name, existing, contributions, config):
        return QuarantinePlan(name, refusals=(problem,))
    # Room for what a source takes, for the origin headers, and for ours.
    size = wanted_message_bytes(sources) + HEADER_SLACK_BYTES
    if existing is None:
        return _missing(name, size, config)
    return _existing(existing, size, config)


def _problem(
    name: str,
    existing: TopicFacts | None,
    contributions: Mapping[str, Sequence[Contribution]],
    config: Config,
) -> str:
    if problem := topic_name_problem(name):
        return f"quarantine topic '{name}': {problem}; change topics.quarantine"
    if name in contributions:
        return (
            f"quarantine topic {name} is also the hub topic of {contributions[name][0]}; change "
            "topics.quarantine, or exclude that topic"
        )
    if existing is None and not config.topics.create:
        return (
            f"quarantine topic {name} does not exist and topics.create is false; create it with "
            f"{RETENTION_MS}=-1 and {TIMESTAMP_TYPE}={APPEND_TIME}, or set topics.on_poison: stop"
        )
    if existing is not None and "compact" in policies(existing.cleanup_policy):
        return (
            f"quarantine topic {name} is compacted: it would refuse records without a key and "
            f"delete others; set {CLEANUP_POLICY}=delete on it, or change topics.quarantine"
        )
    return ""


def _missing(name: str, size: int, config: Config) -> QuarantinePlan:
    configs = {
        CLEANUP_POLICY: "delete",
        MAX_MESSAGE_BYTES: str(size),
        TIMESTAMP_TYPE: APPEND_TIME,
        RETENTION_BYTES: str(UNLIMITED),
        RETENTION_MS: str(UNLIMITED),
    }
    action = CreateTopic(name, 1, config.topics.replication_factor, configs)
    topic = HubTopic(name, 1, UNLIMITED, "delete")
    return QuarantinePlan(name, {name: topic}, (action,))


def _existing(hub: TopicFacts, size: int, config: Config) -> QuarantinePlan:
    changes: dict[str, tuple[str | None, str]] = {}
    warnings = []
    fix = "it is altered" if config.topics.sync_configs else "alter it"
    if hub.timestamp_type != APPEND_TIME:
        changes[TIMESTAMP_TYPE] = (hub.configs.get(TIMESTAMP_TYPE), APPEND_TIME)
        warnings.append(
            f"quarantine topic {hub.name}: {TIMESTAMP_TYPE} is {hub.timestamp_type}, so it may "
            f"refuse a record that is there for its timestamp; {fix}"
        )
    if hub.max_message_bytes < size:
        changes[MAX_MESSAGE_BYTES] = (hub.configs.get(MAX_MESSAGE_BYTES), str(size))
    actions = (AlterConfigs(hub.name, dict(sorted(changes.items()))),) if changes else ()
    topic = HubTopic(hub.name, hub.partitions, hub.retention_ms, hub.cleanup_policy)
    return QuarantinePlan(
        hub.name,
        {hub.name: topic},
        actions if config.topics.sync_configs else (),
        tuple(warnings),
    )
