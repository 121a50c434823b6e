"""Hub topics: which to create, to grow, to reconfigure, and what is refused.

The actions are values; an edge carries them out. Nothing here lowers a limit or
changes the cleanup policy of a hub topic that exists, because both delete records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.config.topics import TopicRules, TopicsConfig
from aggregator.model import ClusterFacts, TopicFacts
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic, GrowTopic
from aggregator.plan.naming import colliding_names, topic_name_problem
from aggregator.plan.selection import first_match
from aggregator.plan.topic_configs import (
    CLEANUP_POLICY,
    DEFAULT_RETENTION_MS,
    HEADER_SLACK_BYTES,
    MAX_MESSAGE_BYTES,
    RAISE_ONLY,
    RETENTION_MS,
    TIMESTAMP_AFTER_MAX,
    TIMESTAMP_BEFORE_MAX,
    TIMESTAMP_TYPE,
    UNLIMITED_MS,
    Contribution,
    longer,
    needed_message_bytes,
    policies,
    wanted_configs,
)


@dataclass(frozen=True, slots=True)
class HubTopic:
    """A hub topic as it will be once the actions are applied."""

    name: str
    partitions: int
    retention_ms: int
    cleanup_policy: str


@dataclass(frozen=True, slots=True)
class HubTopicsPlan:
    """Hub topics by name, the actions that lead there, warnings, refusals."""

    topics: Mapping[str, HubTopic]
    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


@dataclass(slots=True)
class _Notes:
    actions: list[Action] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def plan_hub_topics(
    topics: TopicsConfig, contributions: Mapping[str, Sequence[Contribution]], hub: ClusterFacts
) -> HubTopicsPlan:
    """Compare what the sources need (hub topic -> its contributions) with what the hub has."""
    notes = _Notes()
    planned: dict[str, HubTopic] = {}
    for name, sources in contributions.items():
        if (problem := topic_name_problem(name)) is not None:
            notes.refusals.append(
                f"hub topic '{name}' (from {sources[0]}): {problem}; change topics.rename, "
                "or the rename of that source"
            )
            continue
        rules = topics.rules_for(name)
        existing = hub.topics.get(name)
        if existing is None:
            planned[name] = _missing(name, sources, rules, topics, hub, notes)
        else:
            planned[name] = _existing(existing, sources, rules, topics, notes)
        _check_compaction(planned[name], sources, rules, notes)
    _check_collisions(planned, hub, notes)
    return HubTopicsPlan(
        planned, tuple(notes.actions), tuple(notes.warnings), tuple(notes.refusals)
    )


def wanted_partitions(sources: Sequence[Contribution], rules: TopicRules) -> int:
    """The partition count a hub topic should have: the setting, or the largest source's."""
    if rules.partitions == "source":
        return max(source.topic.partitions for source in sources)
    return rules.partitions


def _missing(
    name: str,
    sources: Sequence[Contribution],
    rules: TopicRules,
    topics: TopicsConfig,
    hub: ClusterFacts,
    notes: _Notes,
) -> HubTopic:
    partitions = wanted_partitions(sources, rules)
    configs = _configs_to_take(name, sources, rules, topics, notes)
    # A source accepted these timestamps, so the hub must not refuse or overwrite them.
    bounds = dict.fromkeys((TIMESTAMP_AFTER_MAX, TIMESTAMP_BEFORE_MAX), str(UNLIMITED_MS))
    configs |= {TIMESTAMP_TYPE: "CreateTime", **bounds}
    if not rules.create:
        notes.refusals.append(
            f"hub topic {name} (from {sources[0]}) does not exist and topics.create is false; "
            f"create it with {partitions} partitions, or set topics.create: true"
        )
    elif rules.replication_factor is not None and rules.replication_factor > hub.brokers:
        notes.refusals.append(
            f"hub topic {name}: topics.replication_factor = {rules.replication_factor}, but the "
            f"hub has {hub.brokers} broker{'s' if hub.brokers != 1 else ''}; lower it"
        )
    else:
        notes.actions.append(
            CreateTopic(name, partitions, rules.replication_factor, dict(sorted(configs.items())))
        )
    retention = int(configs.get(RETENTION_MS, DEFAULT_RETENTION_MS))
    return HubTopic(name, partitions, retention, configs.get(CLEANUP_POLICY, "delete"))


def _existing(
    hub: TopicFacts,
    sources: Sequence[Contribution],
    rules: TopicRules,
    topics: TopicsConfig,
    notes: _Notes,
) -> HubTopic:
    partitions = _growth(hub, sources, rules, notes)
    configs = _configs_to_take(hub.name, sources, rules, topics, notes)
    changes: dict[str, tuple[str | None, str]] = {}
    if rules.sync_configs:
        changes = _config_changes(hub, configs)
        _check_policy(hub, configs, topics, notes)
    limits = _limit_changes(hub, sources, configs, notes, synced=rules.sync_configs)
    if rules.sync_configs:
        changes |= limits
    if changes:
        notes.actions.append(AlterConfigs(hub.name, dict(sorted(changes.items()))))
    retention = int(changes.get(RETENTION_MS, (None, str(hub.retention_ms)))[1])
    return HubTopic(hub.name, partitions, retention, hub.cleanup_policy)


def _configs_to_take(
    name: str,
    sources: Sequence[Contribution],
    rules: TopicRules,
    topics: TopicsConfig,
    notes: _Notes,
) -> dict[str, str]:
    """Configs from the sources; without `sync_configs` only the size that we cannot do without."""
    wanted = wanted_configs(name, sources, topics.config_exclude)
    if not rules.sync_configs:
        return {key: value for key, value in wanted.configs.items() if key == MAX_MESSAGE_BYTES}
    notes.warnings.extend(wanted.warnings)
    return wanted.configs


def _check_policy(
    hub: TopicFacts, configs: Mapping[str, str], topics: TopicsConfig, notes: _Notes
) -> None:
    wanted = configs.get(CLEANUP_POLICY, "delete")
    excluded = first_match(tuple(topics.config_exclude), CLEANUP_POLICY) is not None
    if not excluded and policies(wanted) != policies(hub.cleanup_policy):
        notes.warnings.append(
            f"hub topic {hub.name}: cleanup.policy is {hub.cleanup_policy}, the sources ask for "
            f"{wanted}; it is left as it is, because to change it deletes records: alter it "
            "yourself if that is meant"
        )


def _config_changes(
    hub: TopicFacts, configs: Mapping[str, str]
) -> dict[str, tuple[str | None, str]]:
    """What differs at the hub, apart from limits that are checked on their own."""
    changes: dict[str, tuple[str | None, str]] = {}
    for name, new in configs.items():
        old = hub.configs.get(name)
        if name in (MAX_MESSAGE_BYTES, CLEANUP_POLICY) or old == new:
            continue
        if name in RAISE_ONLY:
            now = hub.retention_ms if name == RETENTION_MS else int(old or -1)
            if longer(now, int(new)) == now:
                continue
        changes[name] = (old, new)
    return changes


def _limit_changes(
    hub: TopicFacts,
    sources: Sequence[Contribution],
    configs: Mapping[str, str],
    notes: _Notes,
    synced: bool,
) -> dict[str, tuple[str | None, str]]:
    """Limits of an existing hub topic that would refuse or change records, each with a warning."""
    changes: dict[str, tuple[str | None, str]] = {}
    by_hand = "set topics.sync_configs: true, or alter the topic"
    fix = "it is altered" if synced else by_hand
    size = needed_message_bytes(sources)
    if hub.max_message_bytes < size:
        if taken := MAX_MESSAGE_BYTES in configs:
            changes[MAX_MESSAGE_BYTES] = (
                hub.configs.get(MAX_MESSAGE_BYTES),
                configs[MAX_MESSAGE_BYTES],
            )
        notes.warnings.append(
            f"hub topic {hub.name}: max.message.bytes is {hub.max_message_bytes}, but a source "
            f"accepts {size - HEADER_SLACK_BYTES} and the origin headers come on top ({size}): "
            f"large records would be refused; {fix if taken else by_hand}"
        )
    ahead = max(source.topic.timestamp_after_max_ms for source in sources)
    if hub.timestamp_after_max_ms < ahead:
        old = hub.configs.get(TIMESTAMP_AFTER_MAX)
        changes[TIMESTAMP_AFTER_MAX] = (old, str(UNLIMITED_MS))
        notes.warnings.append(
            f"hub topic {hub.name}: {TIMESTAMP_AFTER_MAX} is {hub.timestamp_after_max_ms}, a "
            f"source allows {ahead}: records from the future would be refused; {fix}"
        )
    if hub.timestamp_before_max_ms < UNLIMITED_MS:
        old = hub.configs.get(TIMESTAMP_BEFORE_MAX)
        changes[TIMESTAMP_BEFORE_MAX] = (old, str(UNLIMITED_MS))
        notes.warnings.append(
            f"hub topic {hub.name}: {TIMESTAMP_BEFORE_MAX} is {hub.timestamp_before_max_ms}: older "
            f"records would be refused; {fix}"
        )
    if hub.timestamp_type != "CreateTime":
        changes[TIMESTAMP_TYPE] = (hub.configs.get(TIMESTAMP_TYPE), "CreateTime")
        notes.warnings.append(
            f"hub topic {hub.name}: {TIMESTAMP_TYPE} is {hub.timestamp_type}, so the sources' "
            f"timestamps would be lost; {fix}"
        )
    return changes


def _growth(
    hub: TopicFacts, sources: Sequence[Contribution], rules: TopicRules, notes: _Notes
) -> int:
    """The partition count after the plan. More than wanted is fine: the hub's count is used."""
    wanted = wanted_partitions(sources, rules)
    if hub.partitions >= wanted:
        return hub.partitions
    moved = "the key -> partition map changes, so order per key is broken once"
    if rules.grow:
        notes.actions.append(GrowTopic(hub.name, hub.partitions, wanted))
        notes.warnings.append(
            f"hub topic {hub.name} grows from {hub.partitions} to {wanted} partitions: {moved}"
        )
        return wanted
    notes.warnings.append(
        f"hub topic {hub.name} has {hub.partitions} partitions, {wanted} are wanted; it is used "
        f"as it is. topics.grow: true would grow it: {moved}"
    )
    return hub.partitions


def _check_compaction(
    hub: HubTopic, sources: Sequence[Contribution], rules: TopicRules, notes: _Notes
) -> None:
    if "compact" not in policies(hub.cleanup_policy):
        return
    if len(sources) > 1 and not rules.merge_compacted:
        names = ", ".join(str(source) for source in sources)
        notes.refusals.append(
            f"hub topic {hub.name} is compacted and fed by {names}: equal keys would overwrite "
            "each other; use topics.rename with ${cluster}, or confirm with "
            "topics.merge_compacted: true"
        )
    for source in sources:
        if "compact" not in policies(source.topic.cleanup_policy):
            notes.warnings.append(
                f"hub topic {hub.name} is compacted, {source} is not: the hub refuses records "
                f"without a key (topics.on_poison: {rules.on_poison}); check that all have keys"
            )


def _check_collisions(planned: Mapping[str, HubTopic], hub: ClusterFacts, notes: _Notes) -> None:
    """Names that differ by '.' and '_' only. Brokers refuse to create the second of such a pair."""
    for group in colliding_names({*planned, *hub.topics}):
        ours = [name for name in group if name in planned]
        new = [name for name in ours if name not in hub.topics]
        names = " and ".join(group)
        if new:
            notes.refusals.append(
                f"hub topics {names} differ only by '.' and '_': a broker refuses to create "
                f"{' or '.join(new)}; change topics.rename"
            )
        elif ours:
            notes.warnings.append(
                f"hub topics {names} differ only by '.' and '_': their metrics cannot be told apart"
            )
