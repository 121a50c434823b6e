"""The result of one discovery of all clusters, and which topics are new since. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from aggregator.config.schema import ClusterConfig, Config
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition
from aggregator.plan.plan import Plan
from aggregator.plan.positions.start import Damage, Observed, TopicKey
from aggregator.plan.topics.selection import selection_of

ReadOn = Callable[
    [ClusterConfig, Mapping[TopicPartition, OffsetRange], float], Mapping[TopicPartition, Damage]
]
"""What is in logs of a source, from a position to an end of each, within a time in seconds."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """What discovery must examine more closely than usual.

    A log that seems to end before its position may only be held back by a transaction; where the
    positions are not known yet, any may. What a reader could not read, in `damaged`, is read again
    by `read_on`.
    """

    positions: Mapping[SourcePartition, int] | None = None
    damaged: frozenset[SourcePartition] = frozenset()
    read_on: ReadOn | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The plan from a snapshot, log ranges, and offsets for timestamp starts.

    `began` is when discovery began, by the monotonic clock: since then the clusters were asked for
    their ids, and later for the log ranges. `unreachable` are the sources (alias -> why) that gave
    no answer. `listed_ms` is when those that did were asked for their topics, by the clock of the
    day.
    """

    plan: Plan
    observed: Observed
    by_time: Mapping[SourcePartition, int]
    began: float
    unreachable: Mapping[str, str] = field(default_factory=dict)
    listed_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def ends(self) -> dict[SourcePartition, int]:
        """The log ends of the partitions that answered."""
        return {sp: log.latest for sp, log in self.observed.offsets.items()}


def is_selected(config: Config, key: TopicKey) -> bool:
    """Whether the config asks for a topic, be it there or not."""
    alias, topic = key
    return alias in config.sources and selection_of(config, alias).matches(topic)


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The topics of each source as it last listed them; those that `came` since the first listing.

    What came is new as a whole. For good, because several snapshots may follow before it is read
    from its beginning: its source is paused, say.
    """

    topics: Mapping[str, frozenset[str]] = field(default_factory=dict)
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    came: frozenset[TopicKey] = frozenset()

    def beyond(self, kept: TopicsSeen, done: Collection[TopicKey]) -> TopicsSeen:
        """What is not `kept` yet. What came only when it is `done`: when its positions are known.

        Else a restart would take it for a topic that was there before.
        """
        found = {}
        for alias, names in self.topics.items():
            if not (cluster_id := self.cluster_ids.get(alias)):
                continue
            same = kept.cluster_ids.get(alias) == cluster_id
            before = kept.topics.get(alias, frozenset()) if same else frozenset()
            if new := {
                it for it in names - before if (alias, it) in done or (alias, it) not in self.came
            }:
                found[alias] = frozenset(new)
        return TopicsSeen(found, {alias: self.cluster_ids[alias] for alias in found})

    def plus(self, more: TopicsSeen) -> TopicsSeen:
        """The same with what was seen besides."""
        topics = dict(self.topics)
        for alias, names in more.topics.items():
            same = self.cluster_ids.get(alias) == more.cluster_ids[alias]
            topics[alias] = names | (topics.get(alias, frozenset()) if same else frozenset())
        return TopicsSeen(topics, {**self.cluster_ids, **more.cluster_ids}, self.came)

    def after(self, snapshot: ClusterSnapshot, config: Config) -> TopicsSeen:
        """The same after one snapshot more, by the config in force."""
        sources = snapshot.plan.sources
        # Behind an alias that leads to another cluster now nothing came.
        before = {
            alias: names
            for alias, names in self.topics.items()
            if alias in config.sources
            and (alias not in sources or self.cluster_ids.get(alias) == sources[alias].cluster_id)
        }
        new = {
            (alias, topic)
            for alias, facts in sources.items()
            if alias in before
            for topic in facts.topics
            if topic not in before[alias]
        }
        return TopicsSeen(
            {**before, **{alias: frozenset(facts.topics) for alias, facts in sources.items()}},
            {**self.cluster_ids, **{alias: it.cluster_id for alias, it in sources.items()}},
            frozenset(
                key for key in new | self.came if key[0] in before and is_selected(config, key)
            ),
        )
