"""The keys of a connector's config, and what each one means here. Pure.

They are those of four connectors: EMR's and Confluent's replicators, MirrorMaker 2's source
connector, and our own. The documentation of each has the meaning of its keys.
"""

from collections.abc import Mapping

OWN_CLASS = "aggregator.SourceConnector"
MIRROR_CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CLASSES = (
    OWN_CLASS,
    "EMRReplicatorSourceConnector",
    "io.confluent.connect.replicator.ReplicatorSourceConnector",
    MIRROR_CLASS,
)
"""Classes that are understood; the words of each are understood for all."""

ADDRESS = (
    "src.kafka.bootstrap.servers",
    "source.cluster.bootstrap.servers",
    "bootstrap.servers",
)
INCLUDE_NAMES = ("topic.whitelist", "topics.whitelist")
"""Names of topics, comma separated; no regexes."""
INCLUDE_PATTERNS = ("topics", "topic.regex", "topics.regex")
EXCLUDE_NAMES = ("topic.blacklist",)
EXCLUDE_PATTERNS = ("topics.exclude", "topics.blacklist")
RENAME = "topic.rename.format"
TASKS = "tasks.max"
OFFSET_RESET = "auto.offset.reset"
POLICY, SEPARATOR, ALIAS = (
    "replication.policy.class",
    "replication.policy.separator",
    "source.cluster.alias",
)
IDENTITY_POLICY = "IdentityReplicationPolicy"
DEFAULT_POLICY = "DefaultReplicationPolicy"

CLIENTS = ("src.kafka.", "source.cluster.", "source.admin.")
"""What begins so is a setting of all our clients of the source."""
CONSUMERS = ("src.consumer.", "source.consumer.", "consumer.override.")
"""What begins so is one of its consumers."""
OWN = "aggregator."
"""A key with this prefix is our own: `aggregator.on_gap` is `sources.<alias>.on_gap`."""

CONVERTERS = (
    "key.converter",
    "value.converter",
    "header.converter",
    "src.key.converter",
    "src.value.converter",
    "src.header.converter",
)
BYTES = "ByteArrayConverter"
"""Records are copied as bytes: the one converter that changes nothing."""

REFUSED: Mapping[str, str] = {
    "transforms": "single message transforms are Java's; topics.transform of the config takes a "
    "Python function",
    "predicates": "predicates belong to transforms; topics.transform of the config takes a Python "
    "function",
    "interceptor.classes": "an interceptor could change a record behind our back",
}
"""Words that would change what arrives, and are not understood; with what begins so and a dot."""

HUB = "the hub is that of the aggregation's config"
GROUPS = "see sources.<alias>.groups, which keeps consumer groups up at the hub"
MONITORING = "what is copied is seen on the dashboard and on /metrics"
MONITORS = "io.confluent.monitoring."
"""Interceptors of this package count records, and change none."""
OF_CONFLUENT: Mapping[str, str] = {
    "confluent.monitoring.": MONITORING,
    "timestamps.": GROUPS,
}
"""What begins so is a setting of Confluent's monitoring, or of its translation of groups' offsets.

They stand among those of its clients, which know none of them.
"""


def of_confluent(name: str, value: str) -> str:
    """Why a setting of a client that is only Confluent's has no effect; "" for any other."""
    if name == "interceptor.classes":
        classes = [it.strip() for it in value.split(",") if it.strip()]
        watch_only = bool(classes) and all(it.startswith(MONITORS) for it in classes)
        return MONITORING if watch_only else ""
    begins = next((it for it in OF_CONFLUENT if name.startswith(it)), "")
    return OF_CONFLUENT.get(begins, "")


NO_EFFECT: Mapping[str, str] = {
    "src.zookeeper.connect": "no ZooKeeper is asked: the brokers know all",
    "src.zookeeper.session.": "no ZooKeeper is asked: the brokers know all",
    "fetch.offset.": GROUPS,
    "provenance.header.filter.": "records that come back are known by their origin: see "
    "hub.known_as",
    "dest.": HUB,
    "target.": HUB,
    "producer.": "the producer is that of the hub: see hub.producer",
    "admin.": HUB,
    "topic.auto.create": "see topics.create",
    "topic.config.sync": "see topics.sync_configs",
    "topic.preserve.partitions": "see topics.partitions and topics.grow",
    "topic.create.backoff.ms": "see topics.refresh_interval",
    "topic.poll.interval.ms": "see topics.refresh_interval",
    "topic.timestamp.type": "timestamps are kept as they are",
    "sync.topic.": "see topics.sync_configs",
    "sync.topic.acls.": "acls.sync of the source adds them",
    "sync.group.": GROUPS,
    "groups": GROUPS,
    "checkpoints.": GROUPS,
    "heartbeats.": "see heartbeats",
    "emit.checkpoints.": GROUPS,
    "admin.timeout.ms": "see supervision.connect_timeout",
    "consumer.poll.timeout.ms": "a reader waits for records for as long as it takes",
    "add.source.alias.to.metrics": "metrics always say the source",
    "config.action.reload": "references are read at each start",
    "connector.plugin.version": "no plugins are loaded",
    "emit.heartbeats.": "see heartbeats",
    "group.filter.class": GROUPS,
    "key.converter.plugin.version": "no plugins are loaded",
    "value.converter.plugin.version": "no plugins are loaded",
    "header.converter.plugin.version": "no plugins are loaded",
    "metric.reporters": "see the metrics",
    "offset.storage.topic": "positions are in the checkpoint; import --positions reads this topic",
    "offsets.storage.topic": "positions are in the checkpoint; import --positions reads this topic",
    "refresh.groups.": "see sources.<alias>.groups.every",
    "tasks.max.enforce": "there are never more tasks than sources.<alias>.tasks says",
    "topic.creation.": "hub topics are created as topics says",
    "use.defaults.from": "configs of a topic are taken over; defaults of its brokers are not",
    "use.incremental.alter.configs": "topic configs are changed one by one",
    "config.providers": "${env:NAME}, ${file:PATH} and ${file:PATH:KEY} work without it",
    "dedicated.mode.": "one process does it all",
    "forwarding.admin.class": "topics are created by Kafka's own client",
    "header.": "headers are copied as bytes",
    "key.subject.": "schemas are copied as bytes",
    "value.subject.": "schemas are copied as bytes",
    "listeners": "see api.listen",
    "rest.": "see api.listen",
    "metric.names.formats": "see metrics.names",
    "mm.enable.": "one process does it all",
    "plugin.path": "no plugins are loaded",
    "replication.policy.internal.": "internal topics are never taken",
    "task.shutdown.": "see supervision.stop_timeout",
    "internal.": "one process does it all",
    "refresh.": "see topics.refresh_interval",
    "replication.factor": "see topics.replication_factor",
    "emit.": "see the metrics and the checkpoint",
    "offset-syncs.": "positions are in the checkpoint",
    "offset.storage.": "positions are in the checkpoint",
    "offset.": "positions are in the checkpoint",
    "config.": "configs are beside the checkpoint",
    "status.": "the status is made when it is asked for",
    "group.": "no consumer group is used",
    "errors.": "see topics.on_poison",
    "exactly.once.": "each record arrives once without it",
    "transaction.": "each record arrives once without transactions",
    "confluent.": "no licence is needed",
    "provenance.header.enable": "the origin is always in the headers",
    "schema.": "records keep the ids of their schemas; topics.schemas: translate registers the "
    "schemas at the hub's registry",
    "max.poll.": "see the settings of the consumer: src.consumer.max.poll.records",
}
"""Words without effect, or what they begin with; and where the matter is decided."""
ONLY_OF_FLOW = ("use.defaults.from", "topic.creation.", "transforms.", "predicates.")
"""What counts for a flow alone: MirrorMaker 2 does not hand it on when it is said for all."""


def no_effect(key: str) -> str:
    """Why a key has no effect, by the longest word that it begins with; "" when that is unknown."""
    begins = [it for it in NO_EFFECT if key.startswith(it)]
    return NO_EFFECT[max(begins, key=len)] if begins else ""
