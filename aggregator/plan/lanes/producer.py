"""The Kafka settings of the hub's producers, fitted to the records and topics of a plan. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aggregator.config.kafka_settings import DEFAULTS, jvm_settings
from aggregator.config.schema import Config
from aggregator.model.values import TopicFacts
from aggregator.plan.lanes.memory import heap_of, request_room
from aggregator.plan.topics.source_configs import HEADER_SLACK_BYTES, MOST_BYTES

REQUEST_HEADROOM = 2
"""A producer checks the size before compression, the broker after it: a compressed record that a
source accepted is larger when our producer weighs it."""

REQUEST_TIMEOUT_MS, DELIVERY_TIMEOUT_MS = "30000", "120000"
"""Kafka's defaults (ProducerConfig, kafka-clients 3.9.2)."""

ESTIMATE_EXCESS_BYTES = 17
"""By so much a producer's estimate of a batch of one record may exceed what it is: 21 bytes for
lengths that take at least 4 (DefaultRecord.MAX_RECORD_OVERHEAD, kafka-clients 3.9.2)."""


EXPIRY = "producer.id.expiration.ms"
EXPIRY_MS = 86_400_000
"""Kafka's default for it (broker 3.9 and 4.3)."""
CLOCKS_MS = 600_000
"""So much the hub's clock may differ from ours, and a request may take."""
CAREFUL_REQUEST_MS = 300_000
"""A broker that hangs for less answers in the end, and nothing is in doubt."""

ZSTD_LEVEL = "1"
"""The cheapest; Kafka's default is 3."""

FOREVER = {"delivery.timeout.ms": str(2**31 - 1), "max.block.ms": str(2**63 - 1)}
"""While the hub is away a producer waits. One that gave a batch up would continue with later ones
of the same partition when the hub is back, and what is written again then comes out of order."""


def hub_producer(
    config: Config, sources: Iterable[TopicFacts], hub_topics: Iterable[TopicFacts]
) -> dict[str, str]:
    """The producer's settings for records of these source topics into these hub topics.

    `batch.size` stays within what every hub topic takes. A larger batch is refused, and a producer
    that splits it makes batches of `batch.size` again, until delivery.timeout.ms or the task ends
    it (KAFKA-8350). With a local master and a local checkpoint they never give up, unless the user
    says otherwise: there a lane's old producer can be seen, and is waited for. On executors, or
    when another machine may take over, it is waited out: they give up as Kafka's defaults say.
    """
    producer = jvm_settings(config.hub, "producer")
    given = {*config.hub.kafka, *config.hub.producer}
    if producer["compression.type"] == "zstd":
        producer.setdefault("compression.zstd.level", ZSTD_LEVEL)
    if "max.request.size" not in given:
        largest = max((topic.max_message_bytes for topic in sources), default=0)
        wanted = REQUEST_HEADROOM * (largest + HEADER_SLACK_BYTES)
        # A limit that hardly any record reaches must not let a producer fill the heap.
        room = request_room(heap_of(config.spark.conf, local=is_local(config.spark.master)))
        size = max(int(producer["max.request.size"]), min(wanted, room, MOST_BYTES))
        producer["max.request.size"] = str(size)
        if "buffer.memory" not in given:
            producer["buffer.memory"] = str(max(int(producer["buffer.memory"]), 2 * size))
    batch = min([int(producer["batch.size"]), *(topic.max_message_bytes for topic in hub_topics)])
    producer["batch.size"] = str(batch)
    if is_local(config.spark.master) and config.checkpoint.is_local:
        producer |= {name: value for name, value in FOREVER.items() if name not in given}
    return producer


@dataclass(frozen=True, slots=True)
class HubProducers:
    """Settings of a task's producers.

    The usual one has the records whose timestamp is at most `fresh_ms` ago; none when that is 0.
    Batches that are copied as they are have the numbered one in its place.
    """

    usual: dict[str, str]
    numbered: dict[str, str]
    careful: dict[str, str]
    fresh_ms: int


def hub_producers(producer: Mapping[str, str], expiry_ms: int | None) -> HubProducers:
    """The producers, from the settings of one, for a hub with this `expiry_ms` of producer ids.

    A broker forgets a producer when that time has gone by since the timestamp of its last record,
    and we keep those of the sources. What is sent again then is written twice. So of the time
    that is left of it, less what clocks may differ by, half may be a record's age, and half the
    time until the usual producer gives up. The careful one never sends anything again, so it has
    no numbers that could be forgotten; with one request at a time its order needs none. The
    numbered one sends again as the usual one does; the numbers are in the batches that it has.
    """
    expiry = EXPIRY_MS if expiry_ms is None else expiry_ms
    half = (expiry - min(CLOCKS_MS, expiry // 4)) // 2
    linger = int(producer.get("linger.ms", "0"))
    request = int(producer.get("request.timeout.ms", REQUEST_TIMEOUT_MS))
    delivery = int(producer.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS))
    one_by_one = {"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"}
    careful = {
        **producer,
        **one_by_one,
        "retries": "0",
        "request.timeout.ms": str(max(request, min(CAREFUL_REQUEST_MS, delivery - linger))),
    }
    if half < linger + request:
        return HubProducers(dict(producer), {**producer, **one_by_one}, careful, 0)
    usual = {**producer, "delivery.timeout.ms": str(min(delivery, half))}
    return HubProducers(usual, {**usual, **one_by_one}, careful, half)


def recompressed(hub_topics: Iterable[TopicFacts], codec: str) -> frozenset[str]:
    """Hub topics whose brokers compress otherwise than a producer with this `compression.type`.

    They judge the size of what they have made of a batch, which nothing here can foresee.
    """
    return frozenset(
        topic.name for topic in hub_topics if topic.compression_type not in ("producer", codec)
    )


def short_expiry(expiry_ms: int | None) -> str:
    """What to do about a hub that forgets producers soon; "" when it does not."""
    if expiry_ms is None or expiry_ms >= EXPIRY_MS:
        return ""
    return (
        f"set {EXPIRY} of the hub's brokers to {EXPIRY_MS} or more: they forget producers after "
        f"{expiry_ms / 3_600_000:.3g} h, so records older than half of that are sent one request "
        "at a time, and a lost answer costs a restart of their lane"
    )


def least_buffer(producer: Mapping[str, str]) -> int:
    """Bytes that a producer with these settings has to buffer at least.

    Its largest request; and another one beside it where sources take larger records than usual.
    """
    request, buffer = int(producer["max.request.size"]), int(producer["buffer.memory"])
    usual = int(DEFAULTS["producer"]["max.request.size"])
    return request if request <= usual else buffer


def largest_request(producer: dict[str, str]) -> int:
    """The largest batch of one record, in bytes, that a producer with these settings sends."""
    return (
        min(int(producer["max.request.size"]), int(producer["buffer.memory"]))
        - ESTIMATE_EXCESS_BYTES
    )


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's JVM."""
    return master == "auto" or master == "local" or master.startswith("local[")
