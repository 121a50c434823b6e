"""Answers to ListOffsets as our values, and which partitions must not be asked about at all.

librdkafka (2.16.0) may end the whole process when it is asked for offsets of a partition whose
leader it does not know. It then waits for news of the cluster, and when these come while the call
is still under way its own thread answers, and frees what the call works on
(rd_kafka_topic_partition_list_query_leaders_async_worker; docs/results/2026-11-23-list-offsets.md).
So the cluster's metadata are read first.
"""

import socket
import ssl
import struct
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import BrokerMetadata, ClusterMetadata

from aggregator.kafka.admin.client_errors import text_of
from aggregator.model.values import OffsetRange, TopicPartition

KNOWN_SECONDS = 300.0
"""Metadata that are older are read again. librdkafka forgets them after `CLIENT_SETTINGS`."""
CLIENT_SETTINGS = {"metadata.max.age.ms": "900000"}

Answers = Mapping[TopicPartition, Any | Exception]

MOST_AT_ONCE = 32
"""Brokers that are asked at once whether they answer."""
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 0, -1)
"""Kafka's request for ApiVersions, version 0: a broker answers it before any login."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Log ranges by partition, and why some are not known; one missing topic spoils no other."""

    ranges: Mapping[TopicPartition, OffsetRange]
    failed: Mapping[TopicPartition, str] = field(default_factory=dict)


class TopicLeaders(NamedTuple):
    """How many partitions a topic has, and which of them have no leader."""

    partitions: int
    leaderless: frozenset[int]


Leaders = Mapping[str, TopicLeaders]


def leaders_of(cluster: ClusterMetadata, away: Collection[int] = ()) -> Leaders:
    """Topic -> its leaders, according to these metadata; small, because clients keep it.

    Brokers in `away` lead nothing, whatever the metadata say.
    """
    return {
        name: TopicLeaders(
            len(topic.partitions),
            frozenset(
                number
                for number, partition in topic.partitions.items()
                if partition.leader not in cluster.brokers or partition.leader in away
            ),
        )
        for name, topic in cluster.topics.items()
    }


def brokers_away(
    cluster: ClusterMetadata, partitions: Iterable[TopicPartition], seconds: float, *, tls: bool
) -> frozenset[int]:
    """Brokers that lead one of these partitions and answer nothing within `seconds` each.

    Where the controllers have no quorum, the metadata name a leader that is dead for as long as
    that lasts. Asked for its offsets, librdkafka (2.16.0) connects to it without a pause until the
    request times out, which keeps a core busy. A leader that hangs costs the whole timeout as well,
    and its system accepts connections. So it is asked whether anybody answers there.
    """
    leaders = {_leader(cluster, tp) for tp in partitions} & cluster.brokers.keys()
    return away_of(cluster, leaders, seconds, tls=tls)


def away_of(
    cluster: ClusterMetadata, brokers: Iterable[int], seconds: float, *, tls: bool
) -> frozenset[int]:
    """Those of these brokers of the cluster that answer nothing within `seconds` each."""
    asked = sorted(brokers)
    if not asked:
        return frozenset()
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(asked))) as pool:
        away = pool.map(lambda it: _is_away(cluster.brokers[it], seconds, tls=tls), asked)
        return frozenset(compress(asked, away))


def controller_away(cluster: ClusterMetadata, seconds: float, *, tls: bool) -> bool:
    """Whether the controller in these metadata answers nothing within `seconds`.

    librdkafka describes topics only when it has one to its controller, and waits for that as it
    does for a leader: of three brokers two killed, it took 8.7 s of CPU in 8 s.
    """
    controller = cluster.brokers.get(cluster.controller_id)
    return controller is not None and _is_away(controller, seconds, tls=tls)


def _is_away(broker: BrokerMetadata, seconds: float, *, tls: bool) -> bool:
    try:
        with socket.create_connection((broker.host, broker.port), seconds) as connection:
            if tls:
                _shake_hands(connection)
            else:
                connection.sendall(API_VERSIONS)
                connection.recv(1)
    except ConnectionResetError:
        return False
    except OSError:
        return True
    return False


def _shake_hands(connection: socket.socket) -> None:
    """Raises OSError where no answer comes; nothing is sent, so any certificate will do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError:
        # That is an answer.
        return


def _leader(cluster: ClusterMetadata, tp: TopicPartition) -> int:
    topic = cluster.topics.get(tp.topic)
    partition = topic.partitions.get(tp.partition) if topic is not None else None
    return partition.leader if partition is not None else -1


def without_leader(
    leaders: Leaders, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaException]:
    """The partitions that have no leader, with the error that says why."""
    found = {}
    for tp in partitions:
        topic = leaders.get(tp.topic)
        if topic is None or tp.partition >= topic.partitions:
            found[tp] = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        elif tp.partition in topic.leaderless:
            found[tp] = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return found


def ranges_of(earliest: Answers, latest: Answers) -> PartitionOffsets:
    """The logs, from what was answered for their beginnings and for their ends."""
    ranges, failed = {}, {}
    for tp, low in earliest.items():
        high = latest[tp]
        if isinstance(low, Exception) or isinstance(high, Exception):
            failed[tp] = text_of(low if isinstance(low, Exception) else high)
        else:
            ranges[tp] = OffsetRange(low.offset, high.offset)
    return PartitionOffsets(ranges, failed)


def first_offsets_of(times: Answers, latest: Answers) -> dict[TopicPartition, int]:
    """Where a time begins: at the offset that was answered for it, or at the end of the log.

    A partition that gave no answer is left out.
    """
    found = {}
    for tp, at in times.items():
        end = latest[tp]
        if not isinstance(at, Exception) and not isinstance(end, Exception):
            found[tp] = at.offset if at.offset >= 0 else end.offset
    return found


def oldest_of(first: Answers) -> dict[str, int]:
    """Topic -> the lowest timestamp (ms) that was answered; topics without one are left out."""
    oldest: dict[str, int] = {}
    for tp, at in first.items():
        if not isinstance(at, Exception) and at.offset >= 0 and at.timestamp >= 0:
            oldest[tp.topic] = min(at.timestamp, oldest.get(tp.topic, at.timestamp))
    return oldest
