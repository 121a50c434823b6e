"""Hub topics: which to create, to grow, to reconfigure, and what is refused.

The actions are values; an edge carries them out. A topic that cannot be taken as it is, is left
out, and all others are planned; what is wrong with the config as a whole is a refusal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.config.topics import TopicRules, TopicsConfig
from aggregator.model import ClusterFacts, TopicFacts
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic, GrowTopic
from aggregator.plan.hub_configs import changes_of, configs_at_creation
from aggregator.plan.internal_topics import RESERVED
from aggregator.plan.naming import colliding_names, topic_name_problem
from aggregator.plan.topic_configs import (
    CLEANUP_POLICY,
    DEFAULT_RETENTION_MS,
    RETENTION_MS,
    Contribution,
    policies,
)


@dataclass(frozen=True, slots=True)
class HubTopic:
    """A hub topic as it will be once the actions are applied."""

    name: str
    partitions: int
    retention_ms: int
    cleanup_policy: str


@dataclass(frozen=True, slots=True)
class LeftOutTopic:
    """Source topics that do not flow into a hub topic, why, and what would let them: all else runs.

    `sources` are (alias, topic).
    """

    hub_topic: str
    sources: tuple[tuple[str, str], ...]
    reason: str

    def __str__(self) -> str:
        names = ", ".join(f"{alias}/{topic}" for alias, topic in self.sources)
        return f"{names} into hub topic {self.hub_topic}: {self.reason}"


@dataclass(frozen=True, slots=True)
class HubTopicsPlan:
    """Hub topics by name, the actions that lead there, warnings, refusals.

    `contributions` are those that flow: what is in `refused` does not.
    """

    topics: Mapping[str, HubTopic]
    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    refused: tuple[LeftOutTopic, ...] = ()
    contributions: Mapping[str, tuple[Contribution, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class _Notes:
    actions: list[Action] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def plan_hub_topics(
    topics: TopicsConfig,
    contributions: Mapping[str, Sequence[Contribution]],
    hub: ClusterFacts,
    flowing: Collection[tuple[str, str, str]] = (),
) -> HubTopicsPlan:
    """Compare what the sources need (hub topic -> its contributions) with what the hub has.

    `flowing` are (alias, topic, hub topic) that are copied already. One of these alone goes on when
    another source comes to a compacted topic; at a start nobody knows who was first.
    """
    notes = _Notes()
    planned: dict[str, HubTopic] = {}
    taken: dict[str, tuple[Contribution, ...]] = {}
    refused: list[LeftOutTopic] = []
    for name, sources in contributions.items():
        if (problem := topic_name_problem(name)) is not None:
            notes.refusals.append(
                f"hub topic '{name}' (from {sources[0]}): {problem}; change topics.rename, "
                "or the rename of that source"
            )
            continue
        kept = tuple(sources)
        if name in RESERVED:
            why = "Kafka alone writes a topic of this name; give it another one by topics.rename"
            refused.append(_refused(name, kept, why))
            continue
        rules = topics.rules_for(name)
        if _overwrite(name, kept, rules, hub):
            first = [it for it in kept if (it.cluster, it.topic.name, name) in flowing]
            kept = tuple(first) if len(first) == 1 else ()
            others = [it for it in sources if it not in kept]
            refused.append(_refused(name, others, _would_overwrite(sources)))
            if not kept:
                continue
        planned[name] = _planned(name, kept, rules, hub, notes)
        taken[name] = kept
        _check_keys(planned[name], kept, rules, notes)
    _check_collisions(planned, hub, notes)
    return HubTopicsPlan(
        planned,
        tuple(notes.actions),
        tuple(notes.warnings),
        tuple(notes.refusals),
        tuple(refused),
        taken,
    )


def _refused(name: str, sources: Sequence[Contribution], why: str) -> LeftOutTopic:
    return LeftOutTopic(name, tuple((it.cluster, it.topic.name) for it in sources), why)


def _planned(
    name: str,
    sources: Sequence[Contribution],
    rules: TopicRules,
    hub: ClusterFacts,
    notes: _Notes,
) -> HubTopic:
    existing = hub.topics.get(name)
    if existing is None:
        return _missing(name, sources, rules, hub, notes)
    return _existing(existing, sources, rules, notes)


def _overwrite(
    name: str,
    sources: Sequence[Contribution],
    rules: TopicRules,
    hub: ClusterFacts,
) -> bool:
    """Whether equal keys of several sources would overwrite each other, and nobody confirmed it."""
    if len(sources) < 2 or rules.merge_compacted:
        return False
    found = _planned(name, sources, rules, hub, _Notes())
    return "compact" in policies(found.cleanup_policy)


def _would_overwrite(sources: Sequence[Contribution]) -> str:
    names = ", ".join(str(source) for source in sources)
    return (
        f"it is compacted and fed by {names}: equal keys would overwrite each other; use "
        "topics.rename with ${cluster}, or confirm with topics.merge_compacted: true"
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
    hub: ClusterFacts,
    notes: _Notes,
) -> HubTopic:
    partitions = wanted_partitions(sources, rules)
    configs = configs_at_creation(name, sources, rules, notes.warnings)
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
    notes: _Notes,
) -> HubTopic:
    partitions = _growth(hub, sources, rules, notes)
    changes = changes_of(hub, sources, rules, notes.warnings)
    if changes:
        notes.actions.append(AlterConfigs(hub.name, changes))
    retention = int(changes.get(RETENTION_MS, (None, str(hub.retention_ms)))[1])
    policy = rules.configs.get(CLEANUP_POLICY, hub.cleanup_policy)
    return HubTopic(hub.name, partitions, retention, policy)


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


def _check_keys(
    hub: HubTopic, sources: Sequence[Contribution], rules: TopicRules, notes: _Notes
) -> None:
    if "compact" not in policies(hub.cleanup_policy):
        return
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
