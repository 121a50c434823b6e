"""The ids that positions belong to: of the clusters and topics that discovery found. Pure.

A position says nothing without the topic that it counts in. So a lane's positions are committed
with the ids that were known when it began, whatever a later look finds behind the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aggregator.model.values import Positions, SourcePartition, TopicPartition
from aggregator.plan.health.suspects import Seen
from aggregator.plan.plan import Plan
from aggregator.plan.positions.hub_losses import cut_ids
from aggregator.store.checkpoint.rows import HUB
from aggregator.store.checkpoint.start_state import CheckpointState, Entry


@dataclass(frozen=True, slots=True)
class Identity:
    """The ids that positions belong to: alias -> cluster id, (alias, topic) -> topic id.

    And the hub topics of all routes with their partition counts: each snapshot holds all of them,
    because a hub partition that a snapshot does not know would be scanned from its beginning.
    `hub_ids` are the ids of those (hub topic -> id) that are known.
    """

    cluster_ids: Mapping[str, str]
    topic_ids: Mapping[tuple[str, str], str]
    hub_topics: Mapping[str, int]
    hub_ids: Mapping[str, str] = field(default_factory=dict)

    def cut_off(self, cuts: Mapping[TopicPartition, int]) -> Identity:
        """The same, where these partitions of hub topics were cut off."""
        return replace(self, hub_ids=cut_ids(self.hub_ids, cuts))

    def of(self, positions: Positions) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
        """The cluster ids and topic ids that belong to these positions, and the hub's."""
        topics = {(sp.cluster, sp.topic) for sp in positions}
        clusters = {sp.cluster for sp in positions} | {HUB}
        return (
            {alias: it for alias, it in self.cluster_ids.items() if alias in clusters},
            {key: it for key, it in self.topic_ids.items() if key in topics}
            | {(HUB, name): it for name, it in self.hub_ids.items()},
        )


def identity_of(plan: Plan) -> Identity:
    """The ids that positions of this plan's sources belong to, and its hub topics."""
    return Identity(
        {"hub": plan.hub.cluster_id}
        | {alias: facts.cluster_id for alias, facts in plan.sources.items()},
        {
            (alias, name): topic.topic_id
            for alias, facts in plan.sources.items()
            for name, topic in facts.topics.items()
        },
        {name: topic.partitions for name, topic in plan.hub_topics.items()},
        {name: it for name, it in plan.hub_ids.items() if name in plan.hub_topics},
    )


def own_ends(state: CheckpointState, seen: Mapping[str, Seen]) -> dict[SourcePartition, int]:
    """The log ends without those of logs that are not what the checkpoint's positions are of.

    Ids never come back, and are asked for after the ends: so an id that is the same is certain.
    """
    found = {}
    for it in seen.values():
        for sp, end in it.ends.items():
            entry = state.entries.get(sp)
            if entry is None or not entry.is_of_other(
                it.cluster_id, it.topic_ids.get(sp.topic, "")
            ):
                found[sp] = end
    return found


def known_ends(
    positions: Positions,
    identity: Identity,
    reported: Mapping[SourcePartition, int],
    entries: Mapping[SourcePartition, Entry],
) -> dict[SourcePartition, int]:
    """The log ends of these positions: as reported now, else as stored by the last commit."""
    ends = {sp: reported[sp] for sp in positions if sp in reported}
    for sp in positions if len(ends) < len(positions) else ():
        if sp in ends or (entry := entries.get(sp)) is None:
            continue
        same = entry.topic_id == identity.topic_ids.get((sp.cluster, sp.topic), "")
        if same and entry.log_end is not None:
            ends[sp] = entry.log_end
    return ends


def by_identity(
    positions: Positions,
    entries: Mapping[SourcePartition, Entry],
    now: Identity,
    hub_ids: Mapping[str, str] | None = None,
) -> list[tuple[Positions, Identity]]:
    """Positions in groups that can be one commit each, with the ids that they were read under.

    Those are the ids of the last commit of each partition (`entries`): a partition that was read
    from a topic that is no longer there keeps that topic's id. So it is with hub topics, unless
    those with `hub_ids` were read to find out what they hold. One group is the rule.
    """
    groups: list[_Group] = []
    for sp, at in positions.items():
        entry = entries.get(sp)
        cluster = (entry.cluster_id if entry else "") or now.cluster_ids.get(sp.cluster, "")
        topic = (entry.topic_id if entry else "") or now.topic_ids.get((sp.cluster, sp.topic), "")
        hub = entry.snapshot.topic_ids if entry else now.hub_ids
        hub = hub if hub_ids is None else hub_ids
        group = next((it for it in groups if it.takes(sp, cluster, topic, hub)), None)
        if group is None:
            groups.append(group := _Group(hub))
        group.add(sp, at, cluster, topic)
    own = {HUB: now.cluster_ids[HUB]} if HUB in now.cluster_ids else {}
    return [
        (
            Positions(group.positions),
            Identity({**group.cluster_ids, **own}, group.topic_ids, now.hub_topics, group.hub_ids),
        )
        for group in groups
    ]


@dataclass(slots=True)
class _Group:
    hub_ids: Mapping[str, str]
    positions: dict[SourcePartition, int] = field(default_factory=dict)
    cluster_ids: dict[str, str] = field(default_factory=dict)
    topic_ids: dict[tuple[str, str], str] = field(default_factory=dict)

    def takes(self, sp: SourcePartition, cluster: str, topic: str, hub: Mapping[str, str]) -> bool:
        """Whether nothing in the group belongs to another cluster or topic of these names."""
        return (self.hub_ids is hub or self.hub_ids == hub) and (
            self.cluster_ids.get(sp.cluster, cluster) == cluster
            and self.topic_ids.get((sp.cluster, sp.topic), topic) == topic
        )

    def add(self, sp: SourcePartition, at: int, cluster: str, topic: str) -> None:
        self.positions[sp] = at
        self.cluster_ids[sp.cluster] = cluster
        self.topic_ids[sp.cluster, sp.topic] = topic
