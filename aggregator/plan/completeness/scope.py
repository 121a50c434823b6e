"""Which source topics feed a hub topic, and which may do so later. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.config.schema import Config
from aggregator.model.values import Route, SourcePartition
from aggregator.plan.plan import Plan
from aggregator.plan.topics.naming import naming_of
from aggregator.plan.topics.selection import selection_of

Key = tuple[str, str]
"""A source (alias) and a hub topic."""


@dataclass(frozen=True, slots=True)
class Feeding:
    """What claims are about, by the plan in use.

    `feeds` are the routes of each source into a hub topic. Of those in `untaken` (-> why) a topic
    exists and does not flow. `unseen` are sources that have not listed their topics since the
    start. To what is in `listed` a topic may come that no probe knows of: the listing of the
    source's topics is the bound.
    """

    feeds: Mapping[Key, tuple[Route, ...]] = field(default_factory=dict)
    untaken: Mapping[Key, str] = field(default_factory=dict)
    unseen: frozenset[Key] = frozenset()
    listed: frozenset[Key] = frozenset()
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    hub_id: str = ""
    partitions: Mapping[Key, tuple[SourcePartition, ...]] = field(init=False, compare=False)
    _topics: Mapping[Key, frozenset[str]] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Needed every two seconds, for thousands of partitions, while a plan stays the same.
        partitions = {
            key: tuple(sp for it in routes for sp in it.source_partitions())
            for key, routes in self.feeds.items()
        }
        topics = {key: frozenset(it.topic for it in routes) for key, routes in self.feeds.items()}
        object.__setattr__(self, "partitions", partitions)
        object.__setattr__(self, "_topics", topics)

    def topics(self, key: Key) -> frozenset[str]:
        """The topics of the source that flow into the hub topic."""
        return self._topics.get(key, frozenset())

    def sources(self, hub_topic: str) -> list[str]:
        """The sources that feed, or may feed, a hub topic."""
        return self.by_topic().get(hub_topic, [])

    def by_topic(self) -> dict[str, list[str]]:
        """Each hub topic with claims, and the sources that feed it."""
        found: dict[str, list[str]] = {topic: [] for topic in self.hub_topics}
        for alias, topic in sorted({*self.feeds, *self.untaken, *self.unseen, *self.listed}):
            if topic in found:
                found[topic].append(alias)
        return found

    @property
    def hub_topics(self) -> list[str]:
        """The hub topics with claims."""
        return sorted({topic for _, topic in (*self.feeds, *self.untaken)})


def scope_of(config: Config, plan: Plan) -> Feeding:
    """What the claims of a run are about; made once for each plan."""
    feeds: dict[Key, list[Route]] = {}
    for route in plan.routes:
        if route.cluster in config.sources:
            feeds.setdefault((route.cluster, route.hub_topic), []).append(route)
    untaken = _untaken(config, plan)
    unseen, listed = set(), set()
    for hub_topic in {topic for _, topic in (*feeds, *untaken)}:
        for alias in config.sources:
            key = (alias, hub_topic)
            known = key in feeds or key in untaken
            if alias not in plan.sources:
                if _may_feed(config, key):
                    unseen.add(key)
            elif _may_get_more(config, key) if known else _may_feed(config, key):
                listed.add(key)
    return Feeding(
        {key: tuple(routes) for key, routes in feeds.items()},
        untaken,
        frozenset(unseen),
        frozenset(listed),
        {alias: facts.cluster_id for alias, facts in plan.sources.items()},
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


def _may_feed(config: Config, key: Key) -> bool:
    """Whether a topic of the source may flow into the hub topic, as it is selected and named."""
    alias, hub_topic = key
    selection = selection_of(config, alias)
    return any(not it or selection.matches(it) for it in naming_of(config, alias).may_be(hub_topic))


def _may_get_more(config: Config, key: Key) -> bool:
    """Whether more than one topic of the source may have this name at the hub."""
    alias, hub_topic = key
    candidates = list(naming_of(config, alias).may_be(hub_topic))
    return len(candidates) != 1 or not candidates[0]
