"""Finds one cluster under two names, and two clusters with one id. Pure.

A cluster id is no proof: images that have a fixed one, and disks that were cloned, give it to
several clusters. Brokers at the same addresses are one cluster.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

from aggregator.config.schema import Config
from aggregator.model.values import ClusterFacts, Discovery
from aggregator.plan.topics.source_configs import Contribution

NO_IDS = ("", "A" * 22)
"""Used in place of a topic's id where none is reported."""
MOST_NAMED = 5
"""Aliases that a warning names."""
ALIKE = (
    "several clusters have one id where an image sets a fixed CLUSTER_ID, or where disks were "
    "cloned"
)


def check_identities(
    config: Config,
    discovery: Discovery,
    hub: ClusterFacts,
    taken: Mapping[str, Sequence[Contribution]],
    warnings: list[str],
    refusals: list[str],
) -> None:
    """Add what is wrong, or to be known, of clusters with the same id."""
    by_id: dict[str, list[str]] = defaultdict(list)
    for alias in config.sources:
        if (facts := discovery.ok.get(alias)) is not None:
            by_id[facts.cluster_id].append(alias)
    for alias in by_id.get(hub.cluster_id, []):
        if problem := _as_hub(config, alias, discovery.ok[alias], hub):
            refusals.append(problem)
    topics: dict[str, set[str]] = defaultdict(set)
    for sources in taken.values():
        for source in sources:
            topics[source.cluster].add(source.topic.name)
    for aliases in by_id.values():
        same: list[list[str]] = []
        apart: dict[str, None] = {}
        for pair in combinations(aliases, 2):
            proof = _same_brokers(discovery.ok[pair[0]], discovery.ok[pair[1]])
            if proof is None and any(config.sources[alias].shared_cluster_id for alias in pair):
                continue
            if both := topics[pair[0]] & topics[pair[1]]:
                refusals.append(_refusal(discovery, pair, both))
            elif proof is None:
                apart |= dict.fromkeys(pair)
            else:
                _join(same, pair)
        # One for all of them: a hundred aliases of a cluster are 4,950 pairs.
        for found in (*same, *([list(apart)] if apart else ())):
            warnings.append(f"{_as_sources(discovery, found)}; their topics do not overlap now")


def shares_id_with_hub(config: Config, sources: Mapping[str, ClusterFacts], hub_id: str) -> bool:
    """Whether the hub's id names another cluster as well, which the config says."""
    return any(
        facts.cluster_id == hub_id and config.sources[alias].shared_cluster_id
        for alias, facts in sources.items()
        if alias in config.sources
    )


def _as_hub(config: Config, alias: str, facts: ClusterFacts, hub: ClusterFacts) -> str:
    """What is wrong with a source that has the hub's id; "" where the config says it is another."""
    proof = _same_brokers(facts, hub)
    if proof is None and (topic := _same_topic(facts, hub)):
        proof = f", topic {topic} has the same id"
    if proof is not None:
        return (
            f"source {alias} is the hub itself (cluster id {hub.cluster_id}{proof}): it would copy "
            f"its own records for ever; mend sources.{alias}.bootstrap_servers"
        )
    if config.sources[alias].shared_cluster_id:
        return ""
    return (
        f"source {alias} has the cluster id of the hub, {hub.cluster_id}, and other brokers "
        f"({_names(facts)}; the hub: {_names(hub)}). {ALIKE[0].upper()}{ALIKE[1:]}: if it is "
        f"another cluster, set sources.{alias}.shared_cluster_id: true; if it is the hub by other "
        f"addresses, mend sources.{alias}.bootstrap_servers"
    )


def _join(groups: list[list[str]], pair: tuple[str, str]) -> None:
    """Add a pair to the group that has one of them, or begin one."""
    group = next((it for it in groups if pair[0] in it or pair[1] in it), None)
    if group is None:
        groups.append(list(pair))
    else:
        group.extend(alias for alias in pair if alias not in group)


def _refusal(discovery: Discovery, pair: tuple[str, str], both: set[str]) -> str:
    """Why two sources that take these topics cannot be copied."""
    first, second = pair
    words, names = _as_sources(discovery, pair), ", ".join(sorted(both))
    if _same_brokers(discovery.ok[first], discovery.ok[second]) is not None:
        return (
            f"{words} and both take {names}: every record would arrive twice; remove one of them, "
            "or give them topics that do not overlap"
        )
    return (
        f"{words}, and both take {names}. {ALIKE[0].upper()}{ALIKE[1:]}: if they are two "
        f"clusters, set sources.{second}.shared_cluster_id: true; if they are one, remove one of "
        "them, or give them topics that do not overlap"
    )


def _as_sources(discovery: Discovery, aliases: Sequence[str]) -> str:
    """What sources with one cluster id are, by the first two of them."""
    one, other = discovery.ok[aliases[0]], discovery.ok[aliases[1]]
    more = len(aliases) - MOST_NAMED
    named = aliases if more <= 0 else [*aliases[:MOST_NAMED], f"{more} more"]
    names = f"{', '.join(named[:-1])} and {named[-1]}"
    if (proof := _same_brokers(one, other)) is not None:
        return f"sources {names} are one cluster (cluster id {one.cluster_id}{proof})"
    brokers = f"{_names(one)}; {_names(other)}"
    return f"sources {names} have one cluster id, {one.cluster_id}, and other brokers ({brokers})"


def _same_brokers(first: ClusterFacts, second: ClusterFacts) -> str | None:
    """A broker that both have, in words; "" where no addresses are known; None where there is none.

    Without addresses the id is all that there is.
    """
    if not first.addresses or not second.addresses:
        return ""
    common = sorted(first.addresses & second.addresses)
    return f", broker {common[0]}" if common else None


def _same_topic(first: ClusterFacts, second: ClusterFacts) -> str:
    """A topic that is the same one in both: the hub reached by other addresses, or its clone."""
    ids = {name: it.topic_id for name, it in second.topics.items() if it.topic_id not in NO_IDS}
    for name, topic in sorted(first.topics.items()):
        if ids.get(name) == topic.topic_id:
            return name
    return ""


def _names(facts: ClusterFacts) -> str:
    return ", ".join(sorted(facts.addresses)[:3])
