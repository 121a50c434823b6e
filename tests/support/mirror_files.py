"""Files of MirrorMaker 2: as people write them, and as many others as a test asks for."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

MIRROR = "org.apache.kafka.connect.mirror"
TOPICS = (
    *("orders", "orders-eu", "orders.eu", "orders-internal", "orders.internal", "x.replica"),
    *("payments", "PAYMENTS", "pay.old", "A.orders", "B.orders", "C.B.orders", "B.A.orders", "B."),
    *("B..", "..B.x", "A_orders", "B_orders", "x_B_orders", "B-x", "hub.orders", "usdf.orders"),
    *("Bookings", "B2C", "dbB1", "aB", "B", "__secret", ".foo", "mm2-x.internal", "mm2x_internal"),
    *("a.checkpoints.internal", "a_checkpoints_internal", "heartbeats", "A.heartbeats"),
    *("B.heartbeats", "device-heartbeats", "B.device-heartbeats", "_schemas", "connect-offsets"),
    *("a__b", "B__x", "foo1", "bar1", "us-east.orders", "a1", "a22", "internal", "x-internal"),
)
"""Names in the corners of filters, policies and cycles."""

WRITTEN: Mapping[str, str] = {
    "of Kafka's own folder": """
# Licensed to somebody
clusters = A, B
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092
A->B.enabled = true
A->B.topics = .*
B->A.enabled = true
B->A.topics = .*
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
""",
    "several into one": """
name = to-central
clusters=eu,us-east,central
eu.bootstrap.servers=eu1.test:9092
us-east.bootstrap.servers=us1.test:9092
central.bootstrap.servers=hub.test:9092
eu->central.enabled=true
eu->central.topics=orders.*, payments
us-east->central.enabled=true
us-east->central.topics=orders.*
us-east->central.topics.exclude=orders-internal
topics.exclude = .*[\\\\-\\\\.]internal, .*\\\\.replica, __.*
groups=.*
sync.group.offsets.enabled=true
emit.checkpoints.interval.seconds = 60
sync.topic.acls.enabled=false
refresh.topics.interval.seconds=30
tasks.max=10
""",
    "moving to a managed cluster": """
clusters = source, target
source.bootstrap.servers = old.test:9092
target.bootstrap.servers = new.test:9096
target.security.protocol = SSL
target.ssl.truststore.location = /etc/pki/java/cacerts
source->target.enabled = true
target->source.enabled = false
source->target.topics = ^(?!(_schemas|connect-)).*
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
source.consumer.isolation.level = read_committed
source.consumer.max.poll.records = 2000
target.producer.compression.type = lz4
target.producer.batch.size = 131072
target.offset.flush.interval.ms = 5000
emit.heartbeats.enabled = false
""",
    "aliases apart from names": """
clusters = source, target
source.bootstrap.servers = a.test:1
target.bootstrap.servers = b.test:1
source.cluster.alias = usdf
target.cluster.alias = hub
source->target.enabled = true
replication.policy.separator = _
""",
}
"""Files as people write them."""

_INCLUDES = (
    *(".*", "orders.*", "orders, payments", "orders-(eu, us)", "(?i)orders.*, pay.*", "a,,b.*"),
    *("orders|pay.*", "foo.*,", "^orders.*$", "[A-Z].*", "a[0-9]+", ".*heartbeats", "__secret"),
    *(
        r"\\Qorders.eu\\E, x.*",
        r"orders\\.eu",
        "B.*",
        ".*internal",
        "mm2.*, a.checkpoints.internal",
    ),
    *("_schemas, orders", ".*B.*", "((a)1|b), B.*"),
)
_EXCLUDES = ("", "orders.*", "foo.*, bar.*", ".*-internal", r"B\\..*", "x", "(?i)pay.*", "pay.old,")
_POLICIES = (
    f"{MIRROR}.DefaultReplicationPolicy",
    f"{MIRROR}.DefaultReplicationPolicy ",
    f"{MIRROR}.IdentityReplicationPolicy",
)
_SEPARATORS = (".", "_", "-", "__", "")
_ALIASES = ("usdf", "B", "hub", "", "A")
_CLIENT = {
    "max.poll.records": ("100", "2000"),
    "fetch.min.bytes": ("1", "1024"),
    "isolation.level": ("read_committed", "read_uncommitted"),
    "auto.offset.reset": ("latest", "earliest"),
    "client.rack": ("r1", "r2"),
}
_PRODUCER = {
    "linger.ms": ("5", "20"),
    "compression.type": ("lz4", "zstd"),
    "batch.size": ("16384", "131072"),
}
_OF_CLUSTER = {"ssl.truststore.location": ("/a", "/b"), "security.protocol": ("SSL", "PLAINTEXT")}


class _Lines(dict[str, str]):
    """Settings under construction, some of which are left to chance."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def perhaps(self, key: str, values: Sequence[str], odds: float = 0.3) -> None:
        if self._chance.random() < odds:
            self[key] = self._chance.choice(values)

    def some(self, prefix: str, settings: Mapping[str, Sequence[str]], odds: float = 0.15) -> None:
        for name, values in settings.items():
            self.perhaps(prefix + name, values, odds)

    def of_filters(self, prefix: str, odds: float = 0.3) -> None:
        self.perhaps(f"{prefix}topics", _INCLUDES, odds * 1.6)
        self.perhaps(f"{prefix}topics.exclude", _EXCLUDES, odds)
        self.perhaps(f"{prefix}topics.blacklist", _EXCLUDES, odds / 6)
        self.perhaps(f"{prefix}replication.policy.class", _POLICIES, odds)
        self.perhaps(f"{prefix}replication.policy.separator", _SEPARATORS, odds)
        internal = "replication.policy.internal.topic.separator.enabled"
        self.perhaps(prefix + internal, ("true", "false"), odds / 6)
        self.perhaps(f"{prefix}heartbeats.replication.enabled", ("true", "false"), odds / 6)


def made_file(seed: int) -> str:
    """A properties file with one to four enabled flows; the same for the same seed."""
    chance = random.Random(seed)
    names = chance.choice((("A", "B"), ("A", "B", "C"), ("source", "target"), ("A", "us-east")))
    lines = _Lines(chance)
    lines["clusters"] = ", ".join(names)
    for number, name in enumerate(names):
        lines[f"{name}.bootstrap.servers"] = f"k{number}.test:9092"
        lines.some(f"{name}.consumer.", _CLIENT)
        lines.some(f"{name}.producer.", _PRODUCER)
        lines.some(f"{name}.", _OF_CLUSTER, 0.1)
        lines.some(f"{name}.", {"auto.offset.reset": ("latest",), "max.poll.records": ("3",)}, 0.08)
        lines.perhaps(f"{name}.offset.storage.topic", ("my-offsets",), 0.1)
    pairs = [(a, b) for a in names for b in names if a != b]
    for source, target in chance.sample(pairs, chance.randint(1, min(3, len(pairs)))):
        head = f"{source}->{target}."
        lines[f"{head}enabled"] = "true"
        lines.of_filters(head)
        lines.some(head, {"consumer.auto.offset.reset": ("latest",), "name": ("mine",)}, 0.1)
        lines.some(f"{head}source.consumer.", _CLIENT, 0.08)
        lines.some(f"{head}consumer.override.", _CLIENT, 0.05)
    lines.of_filters("", 0.2)
    lines.perhaps("source.cluster.alias", _ALIASES, 0.12)
    lines.perhaps("target.cluster.alias", _ALIASES, 0.12)
    lines.some("consumer.", _CLIENT, 0.04)
    lines.some("", _OF_CLUSTER, 0.05)
    lines.perhaps("offset.storage.topic", ("top-offsets",), 0.05)
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def made_connector(seed: int) -> dict[str, str]:
    """The config of a connector; the same for the same seed."""
    chance = random.Random(seed)
    lines = _Lines(chance)
    lines["connector.class"] = f"{MIRROR}.MirrorSourceConnector"
    lines["name"] = chance.choice(("mirror", "MirrorSourceConnector", "m2"))
    lines["source.cluster.alias"] = chance.choice(("A", "A", "eu", "usdf", ""))
    lines["source.cluster.bootstrap.servers"] = "a.test:9092"
    lines["target.cluster.bootstrap.servers"] = "b.test:9092"
    lines.perhaps("target.cluster.alias", ("B", "B", "hub", ""), 0.7)
    lines.of_filters("", 0.5)
    lines.some("source.consumer.", _CLIENT)
    lines.some("consumer.", _CLIENT, 0.1)
    lines.some("consumer.override.", _CLIENT, 0.1)
    lines.some("source.cluster.", {**_CLIENT, **_OF_CLUSTER}, 0.1)
    return {key: value.replace("\\\\", "\\") for key, value in lines.items()}
