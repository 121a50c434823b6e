"""The keys of MirrorMaker 1's files and options, and what each one means here. Pure.

Those of MirrorMaker 2 and the replicators are the keys of their connectors:
`aggregator.features.connectors.config_keys`.
"""

from collections.abc import Mapping

from aggregator.features.connectors.config_keys import of_confluent

NO_ZOOKEEPER = "no ZooKeeper is asked: the brokers know all"
NO_GROUP = "no consumer group is used, so nothing is rebalanced"
NOTHING_DROPPED = "nothing is dropped here: who reads waits for who writes"

OLD_CONSUMER: Mapping[str, str] = {
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
}
"""Settings of the Scala consumer, with the names of today."""

OLD_PRODUCER: Mapping[str, str] = {
    "compression.codec": "compression.type",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""Settings of the Scala producer, with the names of today."""

OLD_ADDRESS = ("metadata.broker.list", "broker.list")

OLD_RESET: Mapping[str, str] = {"smallest": "earliest", "largest": "latest"}

NO_CLIENTS: Mapping[str, str] = {
    "replication.factor": "is no setting of a client: see topics.replication_factor",
}
"""Settings of a cluster, as behind `dest.kafka.`, that no client reads."""

WITHOUT: Mapping[str, str] = {
    **NO_CLIENTS,
    "acks": "it is always all: what one broker alone has may be lost",
    "auto.commit.enable": "positions are in the checkpoint",
    "auto.commit.interval.ms": "see stream.checkpoint_interval",
    "batch.num.messages": "see batch.size and linger.ms of the producer",
    "block.on.buffer.full": NOTHING_DROPPED,
    "consumer.id": NO_GROUP,
    "consumer.timeout.ms": "a reader waits for records for as long as it takes",
    "dual.commit.enabled": "positions are in the checkpoint",
    "enable.auto.commit": "positions are in the checkpoint",
    "enable.idempotence": "it is always on",
    "exclude.internal.topics": "internal topics are never taken",
    "group.id": "no consumer group is used; --positions takes over what it has committed",
    "group.instance.id": NO_GROUP,
    "group.protocol": NO_GROUP,
    "heartbeat.interval.ms": NO_GROUP,
    "key.deserializer": "records are copied as bytes",
    "key.serializer": "records are copied as bytes",
    "key.serializer.class": "records are copied as bytes",
    "max.poll.interval.ms": NO_GROUP,
    "num.consumer.fetchers": "see sources.<alias>.tasks",
    "offsets.channel.backoff.ms": "positions are in the checkpoint",
    "offsets.storage": "positions are in the checkpoint",
    "partition.assignment.strategy": NO_GROUP,
    "producer.type": "the producer always sends in batches",
    "queue.buffering.max.messages": NOTHING_DROPPED,
    "queue.buffering.max.ms": "see linger.ms of the producer",
    "queue.enqueue.timeout.ms": NOTHING_DROPPED,
    "queue.time": "see linger.ms of the producer",
    "queued.max.message.chunks": "see fetch.max.bytes of the consumer",
    "rebalance.backoff.ms": NO_GROUP,
    "rebalance.max.retries": NO_GROUP,
    "refresh.leader.backoff.ms": "see retry.backoff.ms of the consumer",
    "serializer.class": "records are copied as bytes",
    "session.timeout.ms": NO_GROUP,
    "shallow.iterator.enable": "see topics.copy_as, which copies batches without unpacking them",
    "shallowiterator.enable": "see topics.copy_as, which copies batches without unpacking them",
    "timeout.ms": "see request.timeout.ms",
    "value.deserializer": "records are copied as bytes",
    "value.serializer": "records are copied as bytes",
    "zookeeper.connect": NO_ZOOKEEPER,
    "zk.connect": NO_ZOOKEEPER,
}
"""Settings of clients that have no place here."""
WITHOUT_BEGIN: Mapping[str, str] = {"zookeeper.": NO_ZOOKEEPER, "zk.": NO_ZOOKEEPER}
"""The same for what begins so."""


def reason_without(name: str, value: str) -> str:
    """Why a setting of a client has no place here; "" when it has one."""
    if name in WITHOUT:
        return WITHOUT[name]
    begins = next((it for it in WITHOUT_BEGIN if name.startswith(it)), "")
    return WITHOUT_BEGIN.get(begins, "") or of_confluent(name, value)


CONNECTION = ("ssl.", "sasl.", "security.", "client.dns.lookup")
"""What begins so is for every client of a cluster, not for consumers or producers alone."""

MM1_OPTIONS: Mapping[str, str] = {
    "new.consumer": "Kafka's own consumer is the only one",
    "num.producers": "each task has a producer of its own: see sources.<alias>.tasks",
    "queue.size": NOTHING_DROPPED,
    "rebalance.listener": NO_GROUP,
    "rebalance.listener.args": NO_GROUP,
    "consumer.rebalance.listener": NO_GROUP,
    "message.handler.args": "see message.handler",
}
"""Options of the command line without effect."""
HANDLER = (
    "a handler is Java's, and could change every record; topics.transform of the config takes a "
    "Python function"
)
