"""Which routes copy batches as they are, up to which size, and why others do not. Pure.

The config is checked by itself (`config/copy_as.py`); here the topics decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aggregator.config.copy_as import BATCHES
from aggregator.config.schema import Config
from aggregator.model.values import ClusterFacts, Route, TopicFacts
from aggregator.plan.topics.key_samples import KeySample, SampledTopic
from aggregator.plan.topics.quarantine_topics import APPEND_TIME
from aggregator.plan.topics.source_configs import policies

BY_KEY, BY_PARTITION = "key", "source_partition"


@dataclass(frozen=True, slots=True)
class WholeBatches:
    """The routes, with the largest batch that goes as it is, and warnings of those without any.

    `unsampled` are topics whose keys decide, and whose keys have not been sampled.
    """

    routes: tuple[Route, ...]
    warnings: tuple[str, ...]
    unsampled: tuple[SampledTopic, ...]


def with_whole_batches(
    config: Config,
    routes: Sequence[Route],
    hub_topics: Mapping[str, TopicFacts],
    sources: Mapping[str, ClusterFacts],
    samples: Mapping[SampledTopic, KeySample],
) -> WholeBatches:
    """Decide for each route whether batches go as they are.

    `hub_topics` are the hub's after the plan's actions; a topic that is not there copies records.
    With `partition_by: key` a route places its records by their source partition where that is the
    same: the number of hub partitions divides the source's, and a sample shows that Kafka's own
    partitioner has placed the keys. Then a key's hash leads from its source partition to one hub
    partition.
    """
    found, warnings, unsampled = [], dict[str, None](), []
    for route in routes:
        facts = hub_topics.get(route.hub_topic)
        if config.topics.rules_for(route.hub_topic).copy_as != BATCHES or facts is None:
            found.append(route)
            continue
        why = refusal_of(route, facts)
        if not why and route.partition_by == BY_KEY:
            topic = sampled_topic(route, sources)
            if topic not in samples:
                unsampled.append(topic)
            why = _doubt(topic, samples.get(topic))
        if why:
            words = f"hub topic {route.hub_topic}: copy_as: batches has no effect: {why}"
            warnings[words] = None
            found.append(route)
        else:
            by = BY_PARTITION if route.partition_by == BY_KEY else route.partition_by
            found.append(replace(route, batch_bytes=facts.max_message_bytes, partition_by=by))
    return WholeBatches(tuple(found), tuple(warnings), tuple(unsampled))


def refusal_of(route: Route, hub_topic: TopicFacts) -> str:
    """Why no batch of a route can go as it is; "" when batches can."""
    if "compact" in policies(hub_topic.cleanup_policy):
        return "it is compacted, and each record must be checked for a key"
    if hub_topic.compression_type != "producer":
        return f"its compression.type is {hub_topic.compression_type}, so its broker unpacks them"
    if hub_topic.timestamp_type == APPEND_TIME:
        return "its timestamps are its own (LogAppendTime)"
    if route.poison.limits.behind_ms is not None:
        return "it refuses old timestamps, and each record must be checked"
    if route.partition_by == BY_KEY and route.partitions % route.hub_partitions:
        return (
            f"with partition_by: key its number of partitions, {route.hub_partitions}, must divide "
            f"that of {route.cluster}/{route.topic}, {route.partitions}"
        )
    return ""


def sampled_topic(route: Route, sources: Mapping[str, ClusterFacts]) -> SampledTopic:
    """What a sample of a route's keys belongs to."""
    topic = sources[route.cluster].topics[route.topic]
    return SampledTopic(route.cluster, route.topic, topic.topic_id, route.partitions)


def _doubt(topic: SampledTopic, sample: KeySample | None) -> str:
    name = f"{topic.cluster}/{topic.topic}"
    if sample is None:
        return f"the keys of {name} could not be sampled"
    doubt = sample.doubt(topic.partitions)
    fix = "partition_by: source_partition keeps the records of each source partition together"
    return doubt and f"of {name} {doubt}; {fix}"
