"""Reads the newest records of source topics, to find how their keys are placed."""

from collections.abc import Collection, Mapping

from aggregator.config.schema import Config
from aggregator.kafka.admin import AdminPool, ClusterAdmin, each_cluster
from aggregator.kafka.admin.parallel import seconds_for
from aggregator.kafka.credentials import reader_settings
from aggregator.kafka.reader import open_consumer, read_ranges
from aggregator.model.values import OffsetRange, TopicPartition
from aggregator.plan.topics.key_samples import KeySample, SampledTopic, sample_of

PARTITIONS = 2
"""Partitions of a topic that are sampled."""
OFFSETS = 40
"""Newest offsets of each that are read."""
SMALL = {"queued.max.messages.kbytes": 4096, "fetch.message.max.bytes": 65_536}
"""Limits of what a consumer fetches ahead; by default 64 MB."""


def read_key_samples(
    config: Config, wanted: Collection[SampledTopic], clients: AdminPool | None = None
) -> dict[SampledTopic, KeySample]:
    """A sample of each topic; topics of a source that does not answer in time are absent."""
    own = {alias: [it for it in wanted if it.cluster == alias] for alias, *_ in wanted}
    timeout = config.supervision.connect_timeout

    def sample(admin: ClusterAdmin) -> Mapping[SampledTopic, KeySample]:
        return _sample_of_source(config, admin, own[admin.alias], timeout)

    most = max((sum(it.partitions for it in topics) for topics in own.values()), default=0)
    seconds = 2 * seconds_for(timeout, partitions=most)
    found = each_cluster(config, own, sample, clients=clients, seconds=seconds).ok
    return {topic: it for samples in found.values() for topic, it in samples.items()}


def _sample_of_source(
    config: Config, admin: ClusterAdmin, topics: Collection[SampledTopic], timeout: float
) -> dict[SampledTopic, KeySample]:
    all_of = [TopicPartition(it.topic, number) for it in topics for number in range(it.partitions)]
    newest = newest_of_longest(admin.offsets(all_of, timeout).ranges)
    settings = reader_settings(config.sources[admin.alias], "aggregator-sample")
    consumer = open_consumer(admin.alias, {**settings, **SMALL})
    found: dict[str, list[tuple[int, bytes | None]]] = {it.topic: [] for it in topics}
    try:
        for tp, raw in read_ranges(consumer, admin.alias, newest, timeout):
            found[tp.topic].append((tp.partition, raw.key))
    finally:
        consumer.close()
    return {it: sample_of(found[it.topic], it.partitions) for it in topics}


def newest_of_longest(
    logs: Mapping[TopicPartition, OffsetRange],
) -> dict[TopicPartition, OffsetRange]:
    """The ranges of a sample: the newest offsets of the longest logs of each topic. Pure."""
    longest: dict[str, list[TopicPartition]] = {}
    for tp in sorted(logs, key=lambda it: logs[it].earliest - logs[it].latest):
        longest.setdefault(tp.topic, []).append(tp)
    return {
        tp: OffsetRange(max(logs[tp].earliest, logs[tp].latest - OFFSETS), logs[tp].latest)
        for of_topic in longest.values()
        for tp in of_topic[:PARTITIONS]
    }
