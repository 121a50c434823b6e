"""Source topics -> routes: what is taken from each source, and under which name at the hub."""

import difflib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from aggregator.config.dedup import DedupRule
from aggregator.config.schema import Config
from aggregator.model.record_rules import EventRule
from aggregator.model.values import HEARTBEATS_TOPIC, ClusterFacts, Discovery, Route
from aggregator.plan.identities import check_identities
from aggregator.plan.topics.feeders import feeders_of
from aggregator.plan.topics.hub_topics import Flowing, HubTopic, LeftOutTopic
from aggregator.plan.topics.naming import HubName, Naming, naming_of, topic_name_problem
from aggregator.plan.topics.quarantine_topics import (
    aside_topics,
    duplicates_topic,
    quarantine_topic,
)
from aggregator.plan.topics.selection import Selection, selection_of
from aggregator.plan.topics.source_configs import Contribution


@dataclass(frozen=True, slots=True)
class SkippedTopic:
    """A source topic that is not taken, and why."""

    cluster: str
    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class Matching:
    """Hub topic name -> the source topics that flow into it, and what was left out."""

    contributions: Mapping[str, tuple[Contribution, ...]]
    skipped: tuple[SkippedTopic, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    refused: tuple[LeftOutTopic, ...] = ()


@dataclass(slots=True)
class _Found:
    taken: dict[str, list[Contribution]] = field(default_factory=lambda: defaultdict(list))
    skipped: list[SkippedTopic] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    refused: list[LeftOutTopic] = field(default_factory=list)


def match_topics(
    config: Config, discovery: Discovery, hub: ClusterFacts, flowing: Collection[Flowing]
) -> Matching:
    """Apply each source's include and exclude, and the rename, to what was discovered.

    Sources come in config order. A source that failed is a warning: it is left out until it can
    be reached. Of two topics of a source that clash, what is `flowing` keeps its place.
    """
    found, ours = _Found(), _ours(config)
    found.warnings.extend(f"hub: {note}" for note in hub.notes)
    for alias in config.sources:
        if (failure := discovery.failed.get(alias)) is not None:
            found.warnings.append(f"source {failure}; left out until it can be reached")
        elif (facts := discovery.ok.get(alias)) is not None:
            selection, naming = selection_of(config, alias), naming_of(config, alias)
            _match_source(facts, selection, naming, ours, flowing, found)
    check_identities(config, discovery, hub, found.taken, found.warnings, found.refusals)
    return Matching(
        {name: tuple(sources) for name, sources in found.taken.items()},
        tuple(found.skipped),
        tuple(found.warnings),
        tuple(found.refusals),
        tuple(found.refused),
    )


def _ours(config: Config) -> dict[str, tuple[str, bool]]:
    """Hub topics that are ours: what each is called, and whether it has this aggregation's name.

    What has it at a source is what another aggregation of that name keeps for itself.
    """
    topics = config.topics
    ours = {
        quarantine_topic(config): ("quarantine topic", "${name}" in topics.quarantine),
        duplicates_topic(config): ("duplicates topic", "${name}" in topics.duplicates),
    }
    if config.heartbeats:
        ours[HEARTBEATS_TOPIC] = ("topic of the heartbeats", False)
    return ours


def plan_routes(
    config: Config, matching: Matching, hub_topics: Mapping[str, HubTopic]
) -> tuple[Route, ...]:
    """A route per source topic whose hub topic is planned, in config order of the sources."""
    routes = []
    with_registry = {it for it, own in config.sources.items() if own.schemas.registry is not None}
    for hub_topic, sources in matching.contributions.items():
        if (target := hub_topics.get(hub_topic)) is None:
            continue
        rules = config.topics.rules_for(hub_topic)
        routes += [
            Route(
                cluster=source.cluster,
                topic=source.topic.name,
                hub_topic=hub_topic,
                partitions=source.topic.partitions,
                hub_partitions=target.partitions,
                partition_by=rules.partition_by,
                transform=rules.transform,
                origin=rules.origin,
                dedup=_events(config, rules.dedup),
                schemas=rules.schemas if source.cluster in with_registry else "pass",
            )
            for source in sources
        ]
    order = {alias: index for index, alias in enumerate(config.sources)}
    return tuple(sorted(routes, key=lambda route: (order[route.cluster], route.topic)))


def _events(config: Config, rule: DedupRule) -> EventRule | None:
    if rule.by is None:
        return None
    return EventRule(rule.by, round(rule.window * 1000), duplicates_topic(config))


def _match_source(
    facts: ClusterFacts,
    selection: Selection,
    naming: Naming,
    ours: Mapping[str, tuple[str, bool]],
    flowing: Collection[Flowing],
    found: _Found,
) -> None:
    alias, literals = naming.cluster, selection.literals()
    found.warnings.extend(f"source {alias}: {note}" for note in facts.notes)
    own: dict[str, dict[str, HubName]] = defaultdict(dict)
    for name, topic in sorted(facts.topics.items()):
        if (reason := selection.reason_not(name, topic.internal)) is not None:
            found.skipped.append(SkippedTopic(alias, name, reason))
            continue
        hub_name = naming.of(name)
        called, named = ours.get(hub_name.name, ("", False))
        if called and name not in literals:
            reason = f"it would flow into the {called} {hub_name.name}"
            if named:
                found.skipped.append(SkippedTopic(alias, name, reason))
            else:
                _leave_out(alias, name, hub_name, f"{reason}; {_other_name(hub_name)}", found)
        elif topic.partitions < 1:
            found.skipped.append(SkippedTopic(alias, name, "its partitions cannot be described"))
            found.warnings.append(
                f"source {alias}: topic {name} is selected but cannot be described; allow "
                "Describe and Read on it"
            )
        elif (problem := topic_name_problem(hub_name.name)) is not None:
            _leave_out(alias, name, hub_name, f"{problem}; {_other_name(hub_name)}", found)
        else:
            own[hub_name.name][name] = hub_name
    for hub_topic, topics in own.items():
        kept = topics if len(topics) == 1 else _together(alias, hub_topic, topics, flowing, found)
        found.taken[hub_topic] += [Contribution(alias, facts.topics[name]) for name in kept]
    left_out = any(source[0] == alias for it in found.refused for source in it.sources)
    _check_names(alias, facts, selection, bool(own) or left_out, found)


def _check_names(
    alias: str, facts: ClusterFacts, selection: Selection, any_matches: bool, found: _Found
) -> None:
    """Warn where nothing is selected, and of a topic that is named and not there."""
    if not any_matches:
        found.warnings.append(
            f"source {alias}: no topic matches sources.{alias}.topics now; new ones may come"
        )
    for name in selection.literals():
        if name not in facts.topics and selection.matches(name):
            close = difflib.get_close_matches(name, list(facts.topics), n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            found.warnings.append(
                f"source {alias}: topic {name} does not exist, or we may not see it{hint}"
            )


def _leave_out(alias: str, topic: str, hub_name: HubName, why: str, found: _Found) -> None:
    found.refused.append(LeftOutTopic(hub_name.name, ((alias, topic),), why))


def _other_name(hub_name: HubName) -> str:
    """What to set so that a topic is called otherwise."""
    own = f"topics.overrides.{hub_name.name}.rename"
    if not hub_name.name or hub_name.by == own or hub_name.by.startswith("topics.overrides."):
        return f"change {hub_name.by}"
    also = f", or change {hub_name.by}" if hub_name.by else ""
    return f"give it another name by {own}{also}"


def _together(
    alias: str,
    hub_topic: str,
    topics: Mapping[str, HubName],
    flowing: Collection[Flowing],
    found: _Found,
) -> Collection[str]:
    """Those of several topics of a source that flow into one hub topic.

    All of them where one setting means it. Otherwise it is a mishap, and one keeps its place: what
    flows already, else the first by its name, so that the next plan decides the same.
    """
    settings = sorted({it.by for it in topics.values()})
    words = f"source {alias}: topics {', '.join(topics)} all flow into hub topic {hub_topic}"
    if len(settings) == 1 and all(it.merges for it in topics.values()):
        found.warnings.append(words)
        return topics
    flows = [name for name in topics if (alias, name, hub_topic) in flowing]
    wins = (flows or list(topics))[0]
    why = (
        f"{alias}/{wins} has that name at the hub, by {' and '.join(settings)}; let these give "
        "them different names, or bring them together by one rule without a group in its `to`"
    )
    others = tuple((alias, name) for name in topics if name != wins)
    found.refused.append(LeftOutTopic(hub_topic, others, why))
    return [wins]


def hub_topic_selected(config: Config, hub_topic: str) -> bool:
    """Whether records may flow into `hub_topic`: of any source, or set aside."""
    return hub_topic in aside_topics(config) or bool(feeders_of(config).of(hub_topic))
