"""Which source topics feed a hub topic, and which may do so later. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.config.schema import Config
from aggregator.model.values import Route, SourcePartition
from aggregator.plan.plan import Plan
from aggregator.plan.topics.feeders import feeders_of, selects
from aggregator.plan.topics.naming import naming_of
from aggregator.plan.topics.selection import selection_of

Key = tuple[str, str]
"""A source (alias) and a hub topic."""


@dataclass(frozen=True, slots=True)
class Feeding:
    """What claims are about, by the plan in use.

    `feeds` are the routes of each source into a hub topic. Of those in `untaken` (-> why) a topic
    exists and does not flow. `may_feed` are the sources of which any topic may flow into a hub
    topic, by the config alone; topics that have the same sources share one set. To what is in
    `listed` and feeds already, and to all else in `may_feed`, a topic may come that no probe knows
    of: the listing of the source's topics is the bound. `unseen` are sources that have not listed
    their topics since the start. `selects` says of each source what it selects, and as what.
    """

    feeds: Mapping[Key, tuple[Route, ...]] = field(default_factory=dict)
    untaken: Mapping[Key, str] = field(default_factory=dict)
    may_feed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()
    listed: frozenset[Key] = frozenset()
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    selects: Mapping[str, str] = field(default_factory=dict)
    hub_id: str = ""
    partitions: Mapping[Key, tuple[SourcePartition, ...]] = field(init=False, compare=False)
    by_topic: Mapping[str, tuple[str, ...]] = field(init=False, compare=False)
    """Each hub topic with claims, and the sources of which a topic feeds it, or should."""
    _topics: Mapping[Key, frozenset[str]] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Needed every two seconds, for thousands of partitions, while a plan stays the same.
        partitions = {
            key: tuple(sp for it in routes for sp in it.source_partitions())
            for key, routes in self.feeds.items()
        }
        topics = {key: frozenset(it.topic for it in routes) for key, routes in self.feeds.items()}
        sources: dict[str, list[str]] = {}
        for alias, topic in sorted({*self.feeds, *self.untaken}):
            sources.setdefault(topic, []).append(alias)
        by_topic = {topic: tuple(aliases) for topic, aliases in sorted(sources.items())}
        object.__setattr__(self, "partitions", partitions)
        object.__setattr__(self, "by_topic", by_topic)
        object.__setattr__(self, "_topics", topics)

    def topics(self, key: Key) -> frozenset[str]:
        """The topics of the source that flow into the hub topic."""
        return self._topics.get(key, frozenset())

    def may(self, key: Key) -> bool:
        """Whether any topic of the source may flow into the hub topic."""
        alias, hub_topic = key
        return alias in self.may_feed.get(hub_topic, ())

    def may_get(self, key: Key) -> bool:
        """Whether another topic may come to the hub topic that no probe knows of."""
        if key in self.feeds or key in self.untaken:
            return key in self.listed
        return self.may(key)


def scope_of(config: Config, plan: Plan) -> Feeding:
    """What the claims of a run are about; made once for each plan."""
    feeds: dict[Key, list[Route]] = {}
    for route in plan.routes:
        if route.cluster in config.sources:
            feeds.setdefault((route.cluster, route.hub_topic), []).append(route)
    untaken = _untaken(config, plan)
    known, feeders = {*feeds, *untaken}, feeders_of(config)
    return Feeding(
        {key: tuple(routes) for key, routes in feeds.items()},
        untaken,
        {topic: feeders.of(topic) for topic in {topic for _, topic in known}},
        frozenset(alias for alias in config.sources if alias not in plan.sources),
        frozenset(key for key in known if key[0] in plan.sources and _may_get_more(config, key)),
        {alias: facts.cluster_id for alias, facts in plan.sources.items()},
        {alias: selects(config, alias) for alias in config.sources},
        plan.hub.cluster_id,
    )


def _untaken(config: Config, plan: Plan) -> dict[Key, str]:
    """Where a topic that is selected does not flow, and why."""
    flowing = {(route.cluster, route.topic) for route in plan.routes}
    reasons = {source: it.reason for it in plan.refused for source in it.sources}
    found: dict[Key, str] = {}
    for alias, facts in plan.sources.items():
        if alias not in config.sources:
            continue
        selection, naming = selection_of(config, alias), naming_of(config, alias)
        for name, topic in facts.topics.items():
            if (alias, name) in flowing or not selection.matches(name, topic.internal):
                continue
            why = reasons.get((alias, name), f"topic {name} is selected and not taken")
            found.setdefault((alias, naming.of(name).name), why)
    return found


def _may_get_more(config: Config, key: Key) -> bool:
    """Whether more than one topic of the source may have this name at the hub."""
    alias, hub_topic = key
    candidates = list(naming_of(config, alias).may_be(hub_topic))
    return len(candidates) != 1 or not candidates[0]
