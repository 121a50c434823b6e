"""The server settings of an embedded broker, as text: fast to start, small, and eager in tests."""

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LOG4J = """\
shutdownHook = disable
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %m (%c{1})%n
"""

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Security:
    """Who may talk to a cluster; without users everyone may.

    `listeners` are more of them for clients: a name in capital letters -> `security.protocol`, and
    settings of the broker that are for this listener alone.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    super_users: Sequence[str] = ()
    acls: bool = False
    listeners: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.acls and not self.users and not self.listeners:
            raise ValueError("acls need sasl_users: without them every client is the same user")


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The loopback ports of one node: for clients, for the other brokers, for the controllers.

    `more` are those of more listeners for clients, by name.
    """

    client: int
    internal: int
    controller: int
    more: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hosts:
    """The address on which brokers listen, and the address that they advertise to clients.

    `inner` is what brokers advertise to each other.
    """

    own: str = LOOPBACK
    advertised: str = LOOPBACK
    inner: str = LOOPBACK


HERE = Hosts()


def new_kafka_id() -> str:
    """A random id of a cluster or a folder, as Kafka writes them (22 characters).

    Never one that looks like a command line flag.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def render_properties(settings: Mapping[str, str]) -> str:
    """The text of a Java properties file."""
    escape = str.maketrans({"\\": "\\\\", "\n": "\\n"})
    return "".join(f"{key}={value.translate(escape)}\n" for key, value in settings.items())


COPIES = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
FIXED = {
    # A topic that is not created on purpose is a mistake we want to see.
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # A broker that was killed is let in again only after this time (default 9 s).
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # Twice a second by default, a third of a broker's work, and unused.
    "metadata.max.idle.interval.ms": "0",
    # Retention and compaction happen within seconds, so that a test can wait for them.
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    # The default of 128 MB would be half of the heap.
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


def server_settings(
    node: int,
    ports: Sequence[NodePorts],
    data: str,
    *,
    security: Security,
    overrides: Mapping[str, str],
    hosts: Hosts,
) -> dict[str, str]:
    """The settings of node number `node` (from 1) of a cluster with these ports.

    Clients use the listener CLIENT; brokers, and the check that the cluster answers, use INTERNAL.
    `overrides` win over everything.
    """
    own = ports[node - 1]
    internal = f"INTERNAL://{LOOPBACK}:{own.internal}"
    more = "".join(f",{name}://{LOOPBACK}:{port}" for name, port in own.more.items())
    protocols = "".join(
        f",{name}:{settings['security.protocol']}" for name, settings in security.listeners.items()
    )
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "log.dirs": data,
        "controller.quorum.voters": ",".join(
            f"{number}@{LOOPBACK}:{each.controller}" for number, each in enumerate(ports, 1)
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL",
        "listeners": f"CLIENT://{hosts.own}:{own.client},{internal},"
        f"CONTROLLER://{LOOPBACK}:{own.controller}{more}",
        "advertised.listeners": f"CLIENT://{hosts.advertised}:{own.client},"
        f"INTERNAL://{hosts.inner}:{own.internal}{more}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:"
        + ("SASL_PLAINTEXT" if security.users else "PLAINTEXT")
        + protocols,
        **dict.fromkeys(COPIES, str(min(3, len(ports)))),
        **FIXED,
        **_security_settings(security),
    }
    return {**settings, **overrides}


def _security_settings(security: Security) -> dict[str, str]:
    settings = {
        f"listener.name.{listener.lower()}.{name}": value
        for listener, own in security.listeners.items()
        for name, value in own.items()
        if name != "security.protocol"
    }
    if security.users:
        logins = " ".join(f'user_{name}="{word}"' for name, word in security.users.items())
        settings["sasl.enabled.mechanisms"] = "PLAIN"
        settings["listener.name.client.plain.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {logins};"
        )
    if security.acls:
        # ANONYMOUS uses the internal listeners: brokers, and the set-up of a test.
        users = ["ANONYMOUS", *security.super_users]
        settings["authorizer.class.name"] = (
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
        settings["super.users"] = ";".join(f"User:{user}" for user in users)
    return settings
