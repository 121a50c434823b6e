"""Hub topics: which to create, to grow, to reconfigure, and what is refused.

The actions are values; an edge carries them out. A topic that cannot be taken as it is, is left
out, and all others are planned; what is wrong with the config as a whole is a refusal.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.config.topics import TopicRules, TopicsConfig
from aggregator.model.values import ClusterFacts, Route, TopicFacts
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic, GrowTopic
from aggregator.plan.refusals import NOTHING_REFUSED, LeftOutConfig, Refusals
from aggregator.plan.topics.hub_configs import changes_of, configs_at_creation
from aggregator.plan.topics.naming import colliding_names, topic_name_problem
from aggregator.plan.topics.selection import RESERVED
from aggregator.plan.topics.source_configs import (
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

    `contributions` are those that flow: what is in `refused` does not. `without` are configs that
    the hub does not take.
    """

    topics: Mapping[str, HubTopic]
    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    refused: tuple[LeftOutTopic, ...] = ()
    contributions: Mapping[str, tuple[Contribution, ...]] = field(default_factory=dict)
    without: tuple[LeftOutConfig, ...] = ()


@dataclass(slots=True)
class _Notes:
    actions: list[Action] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Taken:
    """A hub topic that is planned, with what flows into it."""

    topic: HubTopic
    sources: tuple[Contribution, ...]
    notes: _Notes
    without: list[LeftOutConfig]


Flowing = tuple[str, str, str]
"""Alias, topic, and the hub topic that it flows into."""


def plan_hub_topics(
    topics: TopicsConfig,
    contributions: Mapping[str, Sequence[Contribution]],
    hub: ClusterFacts,
    flowing: Collection[Flowing] = (),
    *,
    refusals: Refusals = NOTHING_REFUSED,
    aside: Collection[str] = (),
) -> HubTopicsPlan:
    """Compare what the sources need (hub topic -> its contributions) with what the hub has.

    `flowing` are copied already. One of these alone continues when another source comes to a
    compacted topic, and of two names that clash it keeps its own. `refusals` are what the hub does
    not take, `aside` hub topics that are ours.
    """
    taken: dict[str, _Taken] = {}
    refused: list[LeftOutTopic] = []
    if problem := _too_many_copies(topics, contributions, hub):
        return HubTopicsPlan({}, refusals=(problem,))
    for name, sources in contributions.items():
        kept, rules = tuple(sources), topics.rules_for(name)
        if why := _why_not(name, kept, rules, hub):
            refused.append(_refused(name, kept, why))
            continue
        if _overwrite(name, kept, rules, hub):
            first = [it for it in kept if (it.cluster, it.topic.name, name) in flowing]
            kept = tuple(first) if len(first) == 1 else ()
            others = [it for it in sources if it not in kept]
            names = ", ".join(str(source) for source in sources)
            why = (
                f"it is compacted and fed by {names}: equal keys would overwrite each other; use "
                "topics.rename with ${cluster}, or confirm with topics.merge_compacted: true"
            )
            refused.append(_refused(name, others, why))
            if not kept:
                continue
        found = _take(name, kept, rules, hub, refusals)
        if isinstance(found, str):
            refused.append(_refused(name, kept, found))
        else:
            taken[name] = found
    clashes = _clashes({name: it.sources for name, it in taken.items()}, hub, flowing, aside)
    for name, why in clashes.items():
        refused.append(_refused(name, taken.pop(name).sources, why))
    without = [each for it in taken.values() for each in it.without]
    return HubTopicsPlan(
        {name: it.topic for name, it in taken.items()},
        tuple(action for it in taken.values() for action in it.notes.actions),
        (
            *(words for it in taken.values() for words in it.notes.warnings),
            *_look_alike(taken, hub),
        ),
        refused=tuple(refused),
        contributions={name: it.sources for name, it in taken.items()},
        without=tuple(without),
    )


def flowing_of(routes: Iterable[Route]) -> frozenset[Flowing]:
    """What these routes copy."""
    return frozenset((route.cluster, route.topic, route.hub_topic) for route in routes)


def _refused(name: str, sources: Sequence[Contribution], why: str) -> LeftOutTopic:
    return LeftOutTopic(name, tuple((it.cluster, it.topic.name) for it in sources), why)


def _too_many_copies(
    topics: TopicsConfig, contributions: Mapping[str, Sequence[Contribution]], hub: ClusterFacts
) -> str:
    """What is wrong where no topic at all could be created, "" when some may flow.

    Beside topics that are there, those that are missing wait for the hub to have its brokers.
    """
    copies = topics.replication_factor
    if copies is None or copies <= hub.brokers or any(it in hub.topics for it in contributions):
        return ""
    missing = [it for it in contributions if topics.rules_for(it).replication_factor == copies]
    if not missing or len(missing) < len(contributions):
        return ""
    return (
        f"hub topic {missing[0]}: topics.replication_factor = {copies}, but the hub has "
        f"{_brokers(hub)}; lower it"
    )


def _brokers(hub: ClusterFacts) -> str:
    return f"{hub.brokers} broker{'s' if hub.brokers != 1 else ''}"


def _why_not(
    name: str, sources: Sequence[Contribution], rules: TopicRules, hub: ClusterFacts
) -> str:
    """Why a hub topic cannot be had whatever the hub says of it, and what would help; or ""."""
    if (problem := topic_name_problem(name)) is not None:
        return f"{problem}; change topics.rename"
    if name in RESERVED:
        return "Kafka alone writes a topic of this name; give it another one by topics.rename"
    if rules.dedup.is_on and "compact" in policies(
        _planned(name, sources, rules, hub, _Notes(), NOTHING_REFUSED).cleanup_policy
    ):
        return (
            "it is compacted, and dedup would drop later values of a key: set "
            f"topics.overrides.{name}.dedup: off, or {CLEANUP_POLICY}: delete in its configs"
        )
    if name in hub.topics:
        return ""
    if not rules.create:
        return (
            "it does not exist and topics.create is false; create it with "
            f"{wanted_partitions(sources, rules)} partitions, or set topics.create: true"
        )
    copies = rules.replication_factor
    if copies is not None and copies > hub.brokers:
        return f"replication_factor is {copies}, and the hub has {_brokers(hub)} now"
    return ""


def _take(
    name: str,
    sources: tuple[Contribution, ...],
    rules: TopicRules,
    hub: ClusterFacts,
    refusals: Refusals,
) -> _Taken | str:
    """The hub topic, as far as the hub lets it be; why not, when it refuses the topic itself."""
    notes, without = _Notes(), list[LeftOutConfig]()
    planned = _planned(name, sources, rules, hub, notes, refusals)
    actions: list[Action] = []
    for action in notes.actions:
        adapted = refusals.adapted(action, hub.topics, without)
        why = "" if adapted is None else refusals.why_not(adapted)
        if isinstance(adapted, CreateTopic) and why:
            return f"the hub refuses to create it: {why}"
        if why:
            notes.warnings.append(f"hub topic {name}: the hub refuses to {adapted}: {why}")
        elif adapted is not None:
            actions.append(adapted)
    notes.actions = actions
    _check_keys(planned, sources, rules, notes)
    return _Taken(planned, sources, notes, without)


def _planned(
    name: str,
    sources: Sequence[Contribution],
    rules: TopicRules,
    hub: ClusterFacts,
    notes: _Notes,
    refusals: Refusals,
) -> HubTopic:
    existing = hub.topics.get(name)
    if existing is None:
        partitions = wanted_partitions(sources, rules)
        configs = configs_at_creation(name, sources, rules, notes.warnings)
        notes.actions.append(
            CreateTopic(name, partitions, rules.replication_factor, dict(sorted(configs.items())))
        )
        retention = int(configs.get(RETENTION_MS, DEFAULT_RETENTION_MS))
        return HubTopic(name, partitions, retention, configs.get(CLEANUP_POLICY, "delete"))
    partitions = _growth(existing, sources, rules, notes, refusals)
    changes = changes_of(existing, sources, rules, notes.warnings)
    if changes:
        notes.actions.append(AlterConfigs(name, changes))
    retention = int(changes.get(RETENTION_MS, (None, str(existing.retention_ms)))[1])
    policy = rules.configs.get(CLEANUP_POLICY, existing.cleanup_policy)
    return HubTopic(name, partitions, retention, policy)


def _overwrite(
    name: str,
    sources: Sequence[Contribution],
    rules: TopicRules,
    hub: ClusterFacts,
) -> bool:
    """Whether equal keys of several sources would overwrite each other, unconfirmed."""
    if len(sources) < 2 or rules.merge_compacted:
        return False
    found = _planned(name, sources, rules, hub, _Notes(), NOTHING_REFUSED)
    return "compact" in policies(found.cleanup_policy)


def wanted_partitions(sources: Sequence[Contribution], rules: TopicRules) -> int:
    """The partition count a hub topic should have: the setting, or the largest source's."""
    if rules.partitions == "source":
        return max(source.topic.partitions for source in sources)
    return rules.partitions


def _growth(
    hub: TopicFacts,
    sources: Sequence[Contribution],
    rules: TopicRules,
    notes: _Notes,
    refusals: Refusals,
) -> int:
    """The partition count after the plan. More than wanted is fine: the hub's count is used."""
    wanted = wanted_partitions(sources, rules)
    if hub.partitions >= wanted:
        return hub.partitions
    moved = "the key -> partition map changes, so order per key is broken once"
    grows = GrowTopic(hub.name, hub.partitions, wanted)
    if rules.grow and (why := refusals.why_not(grows)):
        notes.warnings.append(f"hub topic {hub.name}: the hub refuses to {grows}: {why}")
        return hub.partitions
    if rules.grow:
        notes.actions.append(grows)
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


def _clashes(
    planned: Mapping[str, Sequence[Contribution]],
    hub: ClusterFacts,
    flowing: Collection[Flowing],
    aside: Collection[str],
) -> dict[str, str]:
    """Names that differ from another one by '.' and '_' only, which a broker refuses to create.

    What is at the hub stays; of two that are not, what flows already, else what comes first in the
    config and the alphabet. So the next plan decides the same.
    """
    found: dict[str, str] = {}
    for group in colliding_names({*planned, *hub.topics, *aside}):
        there = [name for name in group if name in hub.topics or name in aside]
        new = [name for name in planned if name in group and name not in there]
        flows = [
            name
            for name in new
            if any((it.cluster, it.topic.name, name) in flowing for it in planned[name])
        ]
        wins = [*there, *flows, *new][0]
        found |= {
            name: f"it differs from hub topic {wins} only by '.' and '_', and a broker takes one "
            f"of such a pair; give it another name by topics.overrides.{name}.rename"
            for name in new
            if name != wins
        }
    return found


def _look_alike(planned: Collection[str], hub: ClusterFacts) -> list[str]:
    """Warnings of names at the hub that differ by '.' and '_' only."""
    return [
        f"hub topics {' and '.join(group)} differ only by '.' and '_': their metrics cannot be "
        "distinguished"
        for group in colliding_names({*planned, *hub.topics})
        if any(name in planned for name in group)
    ]
