"""The one place that renders Kafka settings: for the Java clients, and for librdkafka."""

from collections.abc import Mapping

from aggregator.config.kafka_names import READERS, Role
from aggregator.config.librdkafka import MSK_IAM, to_librdkafka
from aggregator.config.schema import ClusterConfig, HubConfig, SourceConfig
from aggregator.config.stores import java_stores
from aggregator.model.errors import ConfigError, Problem

DEFAULTS: Mapping[Role, Mapping[str, str]] = {
    "consumer": {
        # Records of aborted transactions never arrive.
        "isolation.level": "read_committed",
        # Reading must not create a topic on a source.
        "allow.auto.create.topics": "false",
        # As the system finds out. Kafka's 64 kB bound a connection to so much in a round trip:
        # 1.4 MB/s at 50 ms.
        "receive.buffer.bytes": "-1",
    },
    "producer": {
        # Under load batches fill by themselves while others are under way. Kafka's own 5 ms
        # add 1.6 to 2 ms to the median (docs/results/2026-11-24-settings.md).
        "linger.ms": "1",
        # Many small batches cost more than the memory of larger ones.
        "batch.size": "131072",
        # Cheap on both sides, and it shrinks the repeated origin headers.
        "compression.type": "lz4",
        # The topic's max.message.bytes is the limit; the producer's own must not come first.
        "max.request.size": "33554432",
        # Must hold the largest record and a batch per hub partition.
        "buffer.memory": "67108864",
        # The same for the way to a hub that is far: Kafka's own are 128 kB.
        "send.buffer.bytes": "-1",
    },
    "admin": {},
}
"""What we set when the user does not."""

ENFORCED: Mapping[Role, Mapping[str, str]] = {
    "consumer": {},
    "producer": {
        # Without these a retry inside the producer may double, lose or reorder records.
        "acks": "all",
        "enable.idempotence": "true",
    },
    "admin": {},
}
"""What we set whatever the user says."""


_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_LOGIN_MS = "10000"
"""Timeout to connect to a token server, and for its answer. Kafka sets no limit, and all clients
of a JVM log in one after the other."""
_IAM = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"


def jvm_settings(cluster: ClusterConfig, role: Role) -> dict[str, str]:
    """Settings of one kind of Java client for a cluster, by their Java names, sorted.

    Weakest first: our defaults, `kafka` of the cluster, its `consumer` or `producer`, then what we
    enforce and `bootstrap.servers`. Settings that only another kind of client reads are left out;
    unknown names go through, for plugins.
    """
    given = _given(cluster, role)
    settings = {**DEFAULTS[role], **_login(given), **given, **ENFORCED[role]}
    settings["bootstrap.servers"] = cluster.bootstrap_servers
    return {
        name: value
        for name, value in sorted(settings.items())
        if name not in READERS or role in READERS[name]
    }


def hub_reader_settings(hub: HubConfig) -> dict[str, str]:
    """Settings of a Java consumer that reads all that the hub's logs hold.

    Our records are not transactional; a foreign open transaction must not hide them.
    """
    return {**jvm_settings(hub, "consumer"), "isolation.level": "read_uncommitted"}


def librdkafka_settings(cluster: ClusterConfig) -> dict[str, str]:
    """Settings of a librdkafka client for a cluster: `kafka` of the cluster in librdkafka's names.

    What librdkafka has no counterpart for is left out, so it never meets an unknown name.
    Raises ConfigError for what it cannot do although the connection depends on it, and for a store
    that is no PEM: `aggregator.kafka.credentials` opens those first, so clients get their settings
    there.
    """
    settings, problems = to_librdkafka(cluster.kafka)
    for store in java_stores(cluster.kafka):
        problems.append(Problem(f"kafka.{store.setting('location')}", "was not opened"))
    if problems:
        raise ConfigError(problems)
    return {"bootstrap.servers": cluster.bootstrap_servers, **settings}


def _login(given: Mapping[str, str]) -> dict[str, str]:
    """What a mechanism needs in Java: its class, so that users need not name it, and timeouts."""
    mechanism = given.get("sasl.mechanism", "").strip().upper()
    if mechanism == "OAUTHBEARER" and "sasl.oauthbearer.token.endpoint.url" in given:
        return {
            "sasl.login.callback.handler.class": _OAUTH,
            "sasl.login.connect.timeout.ms": _LOGIN_MS,
            "sasl.login.read.timeout.ms": _LOGIN_MS,
        }
    return {"sasl.client.callback.handler.class": _IAM} if mechanism == MSK_IAM else {}


def _given(cluster: ClusterConfig, role: Role) -> dict[str, str]:
    own: Mapping[str, str] = {}
    if role == "producer" and isinstance(cluster, HubConfig):
        own = cluster.producer
    elif role == "consumer" and isinstance(cluster, SourceConfig):
        own = cluster.consumer
    return {**cluster.kafka, **own}


def isolation_of(cluster: ClusterConfig) -> str:
    """The isolation level that a cluster's records and ends are read with.

    The hub's end is where it is written, whatever transactions are open there.
    """
    if not isinstance(cluster, SourceConfig):
        return "read_uncommitted"
    return {**DEFAULTS["consumer"], **cluster.kafka, **cluster.consumer}["isolation.level"]


def ignore(_error: object) -> None:
    """For `error_cb`: a connection that fails shows by itself."""
