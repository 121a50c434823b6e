"""The names of all settings of the Java Kafka clients (kafka-clients 3.9.2), and who reads them."""

from typing import Literal

Role = Literal["consumer", "producer", "admin"]

_SHARED = """
    auto.include.jmx.reporter bootstrap.servers client.dns.lookup client.id
    connections.max.idle.ms enable.metrics.push metadata.max.age.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
    retry.backoff.max.ms retry.backoff.ms sasl.client.callback.handler.class sasl.jaas.config
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites
    ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
    ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
"""Read by consumers, producers and admin clients alike."""

_CONSUMER = """
    allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
    default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
    group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level
    key.deserializer max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    partition.assignment.strategy session.timeout.ms value.deserializer
"""

_PRODUCER = """
    acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level delivery.timeout.ms enable.idempotence interceptor.classes
    key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection max.request.size
    metadata.max.idle.ms partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys retries
    transaction.timeout.ms transactional.id value.serializer
"""

_ADMIN = """
    bootstrap.controllers default.api.timeout.ms retries
"""


def _roles() -> dict[str, frozenset[Role]]:
    lists: tuple[tuple[str, Role], ...] = (
        (_CONSUMER, "consumer"),
        (_PRODUCER, "producer"),
        (_ADMIN, "admin"),
    )
    readers: dict[str, frozenset[Role]] = {}
    for names, role in lists:
        for name in (_SHARED + names).split():
            readers[name] = readers.get(name, frozenset[Role]()) | {role}
    return readers


READERS = _roles()
"""Setting -> the clients that read it."""

_UNITS = (".ms", ".bytes", ".seconds")
_OTHER_NUMBERS = """
    batch.size buffer.memory compression.gzip.level compression.lz4.level compression.zstd.level
    max.in.flight.requests.per.connection max.poll.records max.request.size metrics.num.samples
    retries sasl.kerberos.min.time.before.relogin
"""
WHOLE_NUMBERS = frozenset({it for it in READERS if it.endswith(_UNITS)} | {*_OTHER_NUMBERS.split()})
"""Settings that Java's clients read as a whole number, without a unit."""

_NO_GROUP = "partitions are assigned by hand, not by a consumer group"
NO_EFFECT = {
    "auto.commit.interval.ms": "positions are kept in the checkpoint",
    "exclude.internal.topics": "topics.include says which topics are taken",
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "heartbeat.interval.ms": _NO_GROUP,
    "max.poll.interval.ms": _NO_GROUP,
    "partition.assignment.strategy": _NO_GROUP,
    "partitioner.adaptive.partitioning.enable": "topics.partition_by says where a record goes",
    "partitioner.availability.timeout.ms": "topics.partition_by says where a record goes",
    "partitioner.class": "topics.partition_by says where a record goes",
    "partitioner.ignore.keys": "topics.partition_by says where a record goes",
    "session.timeout.ms": _NO_GROUP,
    "transaction.timeout.ms": "nothing is written in transactions",
}
"""Settings that Java's clients read, and that change nothing in how they are used here: why."""
