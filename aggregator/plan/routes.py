"""Source topics -> routes: what is taken from each source, and under which name at the hub."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.config.dedup import DedupRule
from aggregator.config.schema import Config
from aggregator.model import ClusterFacts, Discovery, Route
from aggregator.plan.hub_topics import HubTopic
from aggregator.plan.naming import HubName, Naming, naming_of, topic_name_problem
from aggregator.plan.quarantine import aside_topics, duplicates_topic, quarantine_topic
from aggregator.plan.selection import Selection, selection_of
from aggregator.plan.topic_configs import Contribution
from aggregator.rules import EventRule


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


@dataclass(slots=True)
class _Found:
    taken: dict[str, list[Contribution]] = field(default_factory=lambda: defaultdict(list))
    skipped: list[SkippedTopic] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def match_topics(config: Config, discovery: Discovery, hub: ClusterFacts) -> Matching:
    """Apply each source's include and exclude, and the rename, to what was discovered.

    Sources come in config order. A source that failed is a warning: it is left out until it can
    be reached.
    """
    found = _Found()
    found.warnings.extend(f"hub: {note}" for note in hub.notes)
    for alias in config.sources:
        if (failure := discovery.failed.get(alias)) is not None:
            found.warnings.append(f"source {failure}; left out until it can be reached")
        elif (facts := discovery.ok.get(alias)) is not None:
            selection, naming = selection_of(config, alias), naming_of(config, alias)
            # Named after the aggregation, they are what another one of that name keeps for itself.
            topics = config.topics
            aside = {
                name: called
                for called, form, name in (
                    ("quarantine", topics.quarantine, quarantine_topic(config)),
                    ("duplicates", topics.duplicates, duplicates_topic(config)),
                )
                if "${name}" in form
            }
            _match_source(facts, selection, naming, aside, found)
    _check_identities(config, discovery, hub, found)
    return Matching(
        {name: tuple(sources) for name, sources in found.taken.items()},
        tuple(found.skipped),
        tuple(found.warnings),
        tuple(found.refusals),
    )


def plan_routes(
    config: Config, matching: Matching, hub_topics: Mapping[str, HubTopic]
) -> tuple[Route, ...]:
    """A route per source topic whose hub topic is planned, in config order of the sources."""
    routes = []
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
                schemas=rules.schemas if _has_registry(config, source.cluster) else "pass",
            )
            for source in sources
        ]
    order = {alias: index for index, alias in enumerate(config.sources)}
    return tuple(sorted(routes, key=lambda route: (order[route.cluster], route.topic)))


def _events(config: Config, rule: DedupRule) -> EventRule | None:
    if rule.by is None:
        return None
    return EventRule(rule.by, round(rule.window * 1000), duplicates_topic(config))


def _has_registry(config: Config, alias: str) -> bool:
    return config.sources[alias].schemas.registry is not None


def _match_source(
    facts: ClusterFacts,
    selection: Selection,
    naming: Naming,
    aside: Mapping[str, str],
    found: _Found,
) -> None:
    alias = naming.cluster
    found.warnings.extend(f"source {alias}: {note}" for note in facts.notes)
    own: dict[str, dict[str, HubName]] = defaultdict(dict)
    for name, topic in sorted(facts.topics.items()):
        if (reason := selection.reason_not(name, topic.internal)) is not None:
            found.skipped.append(SkippedTopic(alias, name, reason))
            continue
        hub_name = naming.of(name)
        if hub_name.name in aside and name not in selection.literals():
            reason = f"it would flow into the {aside[hub_name.name]} topic {hub_name.name}"
            found.skipped.append(SkippedTopic(alias, name, reason))
        elif topic.partitions < 1:
            found.skipped.append(SkippedTopic(alias, name, "its partitions cannot be described"))
            found.warnings.append(
                f"source {alias}: topic {name} is selected but cannot be described; allow "
                "Describe and Read on it"
            )
        elif (problem := topic_name_problem(hub_name.name)) is not None:
            found.refusals.append(
                f"hub topic '{hub_name.name}' (from {alias}/{name}): {problem}; change "
                f"{hub_name.by}"
            )
        else:
            own[hub_name.name][name] = hub_name
            found.taken[hub_name.name].append(Contribution(alias, topic))
    for hub_topic, topics in own.items():
        if len(topics) > 1:
            _check_together(alias, hub_topic, topics, found)
    if not own:
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


def _check_together(
    alias: str, hub_topic: str, topics: Mapping[str, HubName], found: _Found
) -> None:
    """Several topics of a source in one hub topic: meant by one setting, or a mishap of several."""
    settings = sorted({it.by for it in topics.values()})
    words = f"source {alias}: topics {', '.join(topics)} all flow into hub topic {hub_topic}"
    if len(settings) == 1 and all(it.merges for it in topics.values()):
        found.warnings.append(words)
    else:
        found.refusals.append(
            f"{words}, by {' and '.join(settings)}; let these give them different names, or bring "
            "them together by one rule without a group in its `to`"
        )


def hub_topic_selected(config: Config, hub_topic: str) -> bool:
    """Whether records may flow into `hub_topic`: of any source, or set aside."""
    if hub_topic in aside_topics(config):
        return True
    for alias in config.sources:
        selection = selection_of(config, alias)
        for topic in naming_of(config, alias).may_be(hub_topic):
            if not topic or selection.matches(topic):
                return True
    return False


def _check_identities(
    config: Config, discovery: Discovery, hub: ClusterFacts, found: _Found
) -> None:
    """The same cluster under two names: as hub and source, or as two sources."""
    by_id: dict[str, list[str]] = defaultdict(list)
    for alias in config.sources:
        if (facts := discovery.ok.get(alias)) is not None:
            by_id[facts.cluster_id].append(alias)
    for alias in by_id.get(hub.cluster_id, []):
        found.refusals.append(
            f"source {alias} is the hub itself (cluster id {hub.cluster_id}): it would copy its "
            f"own records for ever; mend sources.{alias}.bootstrap_servers"
        )
    topics: dict[str, set[str]] = defaultdict(set)
    for sources in found.taken.values():
        for source in sources:
            topics[source.cluster].add(source.topic.name)
    for cluster_id, aliases in by_id.items():
        for index, first in enumerate(aliases):
            for second in aliases[index + 1 :]:
                same = f"sources {first} and {second} are one cluster (cluster id {cluster_id})"
                both = sorted(topics[first] & topics[second])
                if both:
                    found.refusals.append(
                        f"{same} and both take {', '.join(both)}: every record would arrive "
                        "twice; remove one of them, or give them topics that do not overlap"
                    )
                else:
                    found.warnings.append(f"{same}; their topics do not overlap now")
