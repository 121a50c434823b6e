"""The hub topics for quarantined and dropped records: which, and how they are set up.

One is for records that the hub refuses, one for those that dedup drops. They keep what they get: no
compaction, and the time of arrival as their timestamps, so that they refuse no record for its
timestamp. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.config.schema import Config
from aggregator.config.topics import TopicRules
from aggregator.model.values import ClusterFacts, TopicFacts
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic
from aggregator.plan.topics.hub_topics import HubTopic
from aggregator.plan.topics.naming import topic_name_problem
from aggregator.plan.topics.source_configs import (
    CLEANUP_POLICY,
    HEADER_SLACK_BYTES,
    MAX_MESSAGE_BYTES,
    MOST_BYTES,
    RETENTION_BYTES,
    RETENTION_MS,
    TIMESTAMP_TYPE,
    UNLIMITED,
    Contribution,
    policies,
    wanted_message_bytes,
)

QUARANTINE_PARTITION = 0
"""Everything goes to one partition: so a later outcome of a record follows behind it."""
APPEND_TIME = "LogAppendTime"


DUPLICATES_MS = 7 * 86_400_000
"""How long what was dropped is kept: it may be a third of all that flows."""


@dataclass(frozen=True, slots=True)
class Aside:
    """One of these topics: its name, what it is called, and the settings that are about it."""

    name: str
    called: str
    setting: str
    without: str
    retention_ms: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class AsidePlan:
    """Such a topic, "" when no route asks for one, and what leads there."""

    name: str = ""
    topics: Mapping[str, HubTopic] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


def quarantine_topic(config: Config) -> str:
    """The name of the quarantine topic of an aggregation."""
    return config.topics.quarantine.replace("${name}", config.name)


def duplicates_topic(config: Config) -> str:
    """The name of the topic for records that dedup drops."""
    return config.topics.duplicates.replace("${name}", config.name)


def aside_topics(config: Config) -> tuple[str, ...]:
    """Hub topics that hold records of others, and are no topics of users'."""
    return quarantine_topic(config), duplicates_topic(config)


def plan_quarantine(
    config: Config, contributions: Mapping[str, Sequence[Contribution]], hub: ClusterFacts
) -> AsidePlan:
    """What to do at the hub, so that records into these hub topics can be quarantined."""
    aside = Aside(
        quarantine_topic(config), "quarantine topic", "topics.quarantine", "topics.on_poison: stop"
    )
    return _plan(aside, lambda it: it.on_poison == "quarantine", config, contributions, hub)


def plan_duplicates(
    config: Config, contributions: Mapping[str, Sequence[Contribution]], hub: ClusterFacts
) -> AsidePlan:
    """What to do at the hub, so that duplicates of records into these hub topics can be dropped."""
    aside = Aside(
        name=duplicates_topic(config),
        called="duplicates topic",
        setting="topics.duplicates",
        without="topics.dedup: off",
        retention_ms=DUPLICATES_MS,
    )
    return _plan(aside, lambda it: it.dedup.is_on, config, contributions, hub)


def _plan(
    aside: Aside,
    asks_for_it: Callable[[TopicRules], bool],
    config: Config,
    contributions: Mapping[str, Sequence[Contribution]],
    hub: ClusterFacts,
) -> AsidePlan:
    sources = [
        source
        for hub_topic, found in contributions.items()
        if asks_for_it(config.topics.rules_for(hub_topic))
        for source in found
    ]
    if not sources:
        return AsidePlan()
    existing = hub.topics.get(aside.name)
    if problem := _problem(aside, existing, contributions, config):
        return AsidePlan(aside.name, refusals=(problem,))
    # Room for what a source takes, for the origin headers, and for ours.
    size = min(wanted_message_bytes(sources) + HEADER_SLACK_BYTES, MOST_BYTES)
    if existing is None:
        return _missing(aside, size, config)
    return _existing(aside, existing, size, config)


def _problem(
    aside: Aside,
    existing: TopicFacts | None,
    contributions: Mapping[str, Sequence[Contribution]],
    config: Config,
) -> str:
    name, called, setting = aside.name, aside.called, aside.setting
    if problem := topic_name_problem(name):
        return f"{called} '{name}': {problem}; change {setting}"
    if name in contributions:
        return (
            f"{called} {name} is also the hub topic of {contributions[name][0]}; change "
            f"{setting}, or exclude that topic"
        )
    if existing is None and not config.topics.create:
        return (
            f"{called} {name} does not exist and topics.create is false; create it with "
            f"{RETENTION_MS}={aside.retention_ms} and {TIMESTAMP_TYPE}={APPEND_TIME}, or set "
            f"{aside.without}"
        )
    if existing is not None and "compact" in policies(existing.cleanup_policy):
        return (
            f"{called} {name} is compacted: it would refuse records without a key and "
            f"delete others; set {CLEANUP_POLICY}=delete on it, or change {setting}"
        )
    return ""


def _missing(aside: Aside, size: int, config: Config) -> AsidePlan:
    configs = {
        CLEANUP_POLICY: "delete",
        MAX_MESSAGE_BYTES: str(size),
        TIMESTAMP_TYPE: APPEND_TIME,
        RETENTION_BYTES: str(UNLIMITED),
        RETENTION_MS: str(aside.retention_ms),
    }
    action = CreateTopic(aside.name, 1, config.topics.replication_factor, configs)
    topic = HubTopic(aside.name, 1, aside.retention_ms, "delete")
    return AsidePlan(aside.name, {aside.name: topic}, (action,))


def _existing(aside: Aside, hub: TopicFacts, size: int, config: Config) -> AsidePlan:
    changes: dict[str, tuple[str | None, str]] = {}
    warnings = []
    fix = "it is altered" if config.topics.sync_configs else "alter it"
    if hub.timestamp_type != APPEND_TIME:
        changes[TIMESTAMP_TYPE] = (hub.configs.get(TIMESTAMP_TYPE), APPEND_TIME)
        warnings.append(
            f"{aside.called} {hub.name}: {TIMESTAMP_TYPE} is {hub.timestamp_type}, so it may "
            f"refuse a record that is there for its timestamp; {fix}"
        )
    if hub.max_message_bytes < size:
        changes[MAX_MESSAGE_BYTES] = (hub.configs.get(MAX_MESSAGE_BYTES), str(size))
    actions = (AlterConfigs(hub.name, dict(sorted(changes.items()))),) if changes else ()
    topic = HubTopic(hub.name, hub.partitions, hub.retention_ms, hub.cleanup_policy)
    return AsidePlan(
        hub.name,
        {hub.name: topic},
        actions if config.topics.sync_configs else (),
        tuple(warnings),
    )
