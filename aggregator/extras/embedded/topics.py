"""Helpers for a cluster: create and delete topics, write and read records, offsets.

For setting up demos and tests, so everything waits until it is done and raises `ClusterError`.
`client` holds further librdkafka settings, such as a login.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import ClusterError

SECONDS = 120.0
"""For an answer. On a busy machine a broker took more than 30 s to create a topic, once."""
TOLD_SECONDS = 10.0
"""For what a broker knows at once."""

ONCE: Mapping[str, Any] = MappingProxyType({"enable.idempotence": True, "max.in.flight": 1})
"""Settings of a producer that writes each record once. With more requests under way, librdkafka
(2.16.0) keeps a core busy for as long as a broker leaves them all unanswered: frozen for 10 s, 10 s
of CPU instead of 0.1 s."""

Client = Mapping[str, str]

_NO_LEADER_YET = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    # A new leader does not know yet what all replicas have.
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    # The client has heard of a leader that has not heard of it yet, or the other way round.
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
}


class NewRecord(NamedTuple):
    """One record to write. `partition` -1 lets the key decide; `timestamp` 0 is now (ms)."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int = 0


def admin(bootstrap: str, client: Client | None = None) -> AdminClient:
    """An admin client that does not write about refused connections to stderr."""
    patient = {"socket.timeout.ms": round(SECONDS * 1000)}
    return AdminClient({"bootstrap.servers": bootstrap, **patient, **_quiet(), **(client or {})})


def alive_nodes(bootstrap: str) -> set[int]:
    """Ids of the brokers that `bootstrap` says are alive; empty when none answers."""
    kafka = admin(bootstrap)
    try:
        return set(kafka.list_topics(timeout=2).brokers)
    except KafkaException:
        return set()


def create_topic(
    bootstrap: str,
    name: str,
    *,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    client: Client | None = None,
) -> str:
    """Create a topic with the default replication; returns its name, when it can be used."""
    topic = NewTopic(name, partitions, -1, config=dict(config or {}))
    kafka = _steered(bootstrap, client)
    _done(f"create topic {name}", kafka.create_topics([topic])[name])
    _usable(kafka, name, partitions)
    return name


def delete_topic(bootstrap: str, name: str, *, client: Client | None = None) -> None:
    """Delete a topic; returns when the cluster no longer lists it."""
    kafka = _steered(bootstrap, client)
    _done(f"delete topic {name}", kafka.delete_topics([name])[name])
    wait_until(
        lambda: name not in kafka.list_topics(timeout=SECONDS).topics,
        seconds=SECONDS,
        what=f"topic {name} is still listed",
    )


def grow_topic(bootstrap: str, name: str, partitions: int, *, client: Client | None = None) -> None:
    """Raise the number of partitions; returns when all have a leader."""
    kafka = _steered(bootstrap, client)
    _done(f"grow topic {name}", kafka.create_partitions([NewPartitions(name, partitions)])[name])
    _usable(kafka, name, partitions)


def produce(
    bootstrap: str, topic: str, records: Iterable[NewRecord], *, client: Client | None = None
) -> int:
    """Write records in this order, acknowledged by all replicas; returns how many."""
    # Of several brokers another one may be sent again what the first has. With one, a request at a
    # time does: librdkafka looks only every half a second whether it can ask for a producer id, so
    # that would be most of what a small write takes.
    once_and_in_order = ONCE if "," in bootstrap else {"max.in.flight": 1}
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            **once_and_in_order,
            "linger.ms": 5,
            # As every Java client does, so that keys land where Java tools expect them.
            "partitioner": "murmur2_random",
            **_quiet(),
            **(client or {}),
        }
    )
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    count = 0
    for record in records:
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    record.partition,
                    on_delivery=delivered,
                    timestamp=record.timestamp,
                    headers=list(record.headers),
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        count += 1
    left = producer.flush(SECONDS)
    if failed or left:
        why = failed[0] if failed else f"not within {SECONDS:g} s"
        raise ClusterError(f"write to {topic}: {len(failed) + left} of {count} failed: {why}")
    return count


def end_offsets(bootstrap: str, topic: str, *, client: Client | None = None) -> dict[int, int]:
    """The next offset of every partition: where the next record will land.

    Waits while a partition has no leader, as after a broker's restart.
    """
    kafka = admin(bootstrap, client)
    return wait_until(
        lambda: _offsets(kafka, topic), seconds=SECONDS, what=f"{topic} has no leaders"
    )


def _usable(kafka: AdminClient, topic: str, partitions: int) -> None:
    """Wait until every partition's leader answers: being listed with a leader is not enough."""

    def usable() -> bool:
        found = kafka.list_topics(topic, timeout=SECONDS).topics[topic]
        if found.error is not None or len(found.partitions) != partitions:
            return False
        try:
            return bool(_offsets(kafka, topic))
        except ClusterError:
            # Another broker was asked, which does not know it yet.
            return False

    wait_until(usable, seconds=SECONDS, what=f"{topic} with {partitions} partitions is not usable")


def _steered(bootstrap: str, client: Client | None) -> AdminClient:
    """A client that knows the controller, which it needs to change a topic.

    A broker that was frozen and has just woken up may name none, or leave a question unanswered,
    and librdkafka (2.16.0) then waits until its time is up. So it is asked until it names one, and
    another client is made where there is no answer.
    """
    kafka = admin(bootstrap, client)

    def steered() -> bool:
        nonlocal kafka
        try:
            found = kafka.list_topics(timeout=TOLD_SECONDS)
        except KafkaException:
            kafka = admin(bootstrap, client)
            return False
        return found.controller_id in found.brokers

    wait_until(steered, seconds=SECONDS, what=f"{bootstrap} names no controller")
    return kafka


def _offsets(kafka: AdminClient, topic: str) -> dict[int, int] | None:
    """The end offsets; None while a partition has no leader that knows it is one."""
    found = kafka.list_topics(topic, timeout=SECONDS).topics[topic]
    if found.error is not None:
        raise ClusterError(f"topic {topic}: {found.error}")
    # librdkafka must not be asked where it knows no leader: `aggregator.kafka.admin.offsets` says
    # why.
    if any(partition.leader < 0 for partition in found.partitions.values()):
        return None
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(topic, each): latest for each in found.partitions}
    offsets = {}
    for partition, future in kafka.list_offsets(asked, request_timeout=SECONDS).items():
        try:
            end = future.result(SECONDS).offset
        except KafkaException as error:
            if error.args[0].code() in _NO_LEADER_YET:
                return None
            raise ClusterError(f"offsets of {topic}: {error.args[0]}") from error
        if end < 0:  # how librdkafka reports that it had no answer
            raise ClusterError(f"offsets of {topic}: no answer within {SECONDS:g} s")
        offsets[partition.partition] = end
    return dict(sorted(offsets.items()))


def _done(what: str, future: object) -> None:
    try:
        future.result(SECONDS)  # type: ignore[attr-defined]
    except KafkaException as error:
        raise ClusterError(f"{what}: {error.args[0]}") from error
    except TimeoutError as error:
        raise ClusterError(f"{what}: no answer within {SECONDS:g} s") from error


def _quiet() -> dict[str, Any]:
    """Without these, each refused connection is a line on stderr; we say what did not work."""
    return {"log_level": 0, "error_cb": lambda _error: None}
