"""Topics that belong to a program and not to its users, recognised by their names. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from aggregator.config.java_regex import compiled

KAFKA = "Kafka itself"
STREAMS = "Kafka Streams"

_CONNECT = r"(.*[._-])?(connect|mirrormaker2?)([._-].*)?[._-](configs?|offsets?|status|statuses)"
"""`connect-configs`, `docker-connect-offsets`, `_connect_status`, `connect-cluster-status`, and
what Strimzi calls those of MirrorMaker 2: `mirrormaker2-cluster-configs`."""

INTERNAL: Mapping[str, tuple[str, ...]] = {
    "Strimzi": (r"(__)?strimzi.*",),
    KAFKA: (r"__.*",),
    "MirrorMaker": (
        r"mm2-.*",
        r"mm2.*[.]internal",
        r".*[.]checkpoints[.]internal",
        r"(.*[.])?heartbeats",
    ),
    "Confluent's platform": (r"_confluent.*", r"_dek_registry_keys", r"_exporter_(configs|states)"),
    "Kafka Connect": (_CONNECT,),
    "a schema registry": (r"_schemas([._-].*)?", r"kafkasql-(journal|snapshots)"),
}
"""Who -> the names of its topics. Copied they are of no use, and some would say that something is
alive or configured which is not ours."""

OF_STREAMS = (r".*-(changelog|repartition)",)
"""The internal topics of Kafka Streams; left out only on request."""

RESERVED = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Hub topics that Kafka alone writes: any other writer is refused."""


def owner_of(topic: str, *, streams: bool = False) -> str:
    """The program that a topic belongs to, "" for one of users; `streams`: Kafka Streams' too."""
    for owner, patterns in INTERNAL.items():
        if any(compiled(it).fullmatch(topic) for it in patterns):
            return owner
    if streams and any(compiled(it).fullmatch(topic) for it in OF_STREAMS):
        return STREAMS
    return ""
