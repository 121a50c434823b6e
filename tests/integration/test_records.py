"""Everything of a record survives: what is odd, what is large, what is compressed, what is not."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, end_offsets, produce
from support.reading import Record, read_topic, wait_for, wait_until_topic_has
from support.running import Run, make_config, run_in_background, source
from support.verdict import assert_copied, judge

MAX_BYTES = 300_000
DAY_MS = 86_400_000

ODD_SHAPES: dict[str, NewRecord] = {
    "no key": NewRecord(b"value", None),
    "tombstone": NewRecord(None, b"key"),
    "nothing at all": NewRecord(None, None),
    "empty value": NewRecord(b"", b"key"),
    "empty key": NewRecord(b"value", b""),
    "no headers": NewRecord(b"value", b"key", headers=()),
    "repeated headers": NewRecord(
        b"value", b"key", headers=[("b", b"2"), ("a", b"1"), ("b", b"1"), ("a", b"1")]
    ),
    "null and empty header values": NewRecord(b"v", b"k", headers=[("n", None), ("e", b"")]),
    "empty header name": NewRecord(b"v", b"k", headers=[("", b"value")]),
    "headers like ours": NewRecord(
        b"v",
        b"k",
        headers=[
            ("origin.offset", b"-7"),
            ("origin.cluster", b"evil"),
            ("origin.timestamp", b"12"),
            ("origin.timestamp", None),
            ("origin.cluster", None),
        ],
    ),
    "no UTF-8": NewRecord(b"\xff\xfe\x00\x80", b"\xc3\x28\x00", headers=[("h", b"\xf0\x28")]),
    "name with an accent": NewRecord(b"v", b"k", headers=[("grüße", "日本".encode())]),
}


class Sources:
    """The topics of this file: filled before the run, so that one run copies them all."""

    def __init__(self, cluster: EmbeddedCluster, suffix: str) -> None:
        self.servers = cluster.bootstrap_servers
        self.suffix = suffix
        self.sizes: list[int] = []
        # How often transactions were written, once for each way of copying.
        self.rounds = 0

    def topic(self, name: str) -> str:
        return f"{name}.{self.suffix}"

    def fill(self) -> None:
        self._fill_odd()
        self._fill_large()
        self._fill_compressed()
        self._fill_compacted()
        create_topic(self.servers, self.topic("transactions"))

    def _fill_odd(self) -> None:
        topic = self.topic("odd")
        # Records of 1970 are to stay, and records of tomorrow to be taken.
        config = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2 * DAY_MS)}
        create_topic(self.servers, topic, partitions=2, config=config)
        produce(self.servers, topic, ODD_SHAPES.values())
        # librdkafka takes 0 for "now".
        with_times = KafkaProducer(bootstrap_servers=self.servers, acks="all")
        try:
            ahead = time.time_ns() // 1_000_000 + DAY_MS
            for timestamp in (0, -1, 1, ahead):
                key = b"at %d" % timestamp
                with_times.send(topic, b"v", key, timestamp_ms=timestamp).get(60)
        finally:
            with_times.close()

    def _fill_large(self) -> None:
        """Find the largest record that the topic takes, by trying; all that it took stay there."""
        topic = self.topic("large")
        create_topic(self.servers, topic, config={"max.message.bytes": str(MAX_BYTES)})
        fits, too_large = MAX_BYTES - 512, MAX_BYTES
        while too_large - fits > 1:
            size = (fits + too_large) // 2
            # The topic must say what is too large, not this client, which is unusable after such
            # an answer.
            producer = KafkaProducer(
                bootstrap_servers=self.servers, acks="all", max_request_size=10 * MAX_BYTES
            )
            try:
                producer.send(topic, b"x" * size).get(60)
            except MessageSizeTooLargeError:
                too_large = size
            else:
                fits = size
                self.sizes.append(size)
            finally:
                producer.close()
        # Ten times the limit: the source's broker weighed what compression left of it.
        produce(
            self.servers,
            topic,
            [NewRecord(b"0123456789" * MAX_BYTES, b"shrunk")],
            client={"compression.type": "zstd", "message.max.bytes": "10000000"},
        )

    def _fill_compressed(self) -> None:
        topic = self.topic("compressed")
        create_topic(self.servers, topic, partitions=2)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            records = [
                NewRecord(f"{codec} {number}".encode() * 20, b"%d" % number, headers=[("h", b"x")])
                for number in range(200)
            ]
            produce(
                self.servers, topic, records, client={"compression.type": codec, "linger.ms": "50"}
            )

    def _fill_compacted(self) -> None:
        config = {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "100",
        }
        create_topic(self.servers, self.topic("compacted"), config=config)
        # A segment ends by the times of its records; only those behind which one began are cleaned.
        began = time.time_ns() // 1_000_000 - 10_000
        for turn in range(10):
            records = [
                NewRecord(b"%d" % turn, b"key-%d" % number, timestamp=began + 1_000 * turn)
                for number in range(100)
            ]
            produce(self.servers, self.topic("compacted"), records)

    def write_transaction(self, number: int, *, end: str) -> Producer:
        """Ten records in a transaction; `end` is commit, abort or nothing (it stays open)."""
        producer = Producer(
            {"bootstrap.servers": self.servers, "transactional.id": f"{self.suffix}-{number}"}
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        for at in range(10):
            producer.produce(self.topic("transactions"), f"{end} {number} {at}".encode())
        assert producer.flush(60) == 0
        if end == "commit":
            producer.commit_transaction(60)
        elif end == "abort":
            producer.abort_transaction(60)
        return producer


@pytest.fixture(scope="module")
def sources(source_a: EmbeddedCluster) -> Sources:
    made = Sources(source_a, f"records-{time.time_ns()}")
    made.fill()
    return made


@pytest.fixture(scope="module", params=["bytes", "objects"])
def running(
    request: pytest.FixtureRequest,
    sources: Sources,
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Run]:
    wait_for(lambda: gaps(sources), "compaction leaves gaps")
    config = make_config(
        hub,
        tmp_path_factory.mktemp("records"),
        {"eu": source(source_a, f".*[.]{sources.suffix}")},
        topics={
            "rename": f"{request.param}.${{topic}}",
            "overrides": {
                # A hub topic that compacts on its own would hide what was copied.
                f"{request.param}.{sources.topic('compacted')}": {"sync_configs": False}
            },
        },
        stream={"path": request.param},
    )
    with run_in_background(config) as running:
        yield running
        (lane,) = running.status.lanes
        why = {"bytes": "", "objects": "eu: stream.path is objects"}
        assert lane.objects == why[request.param]


def gaps(sources: Sources) -> bool:
    """Whether a plain consumer finds fewer records than offsets."""
    topic = sources.topic("compacted")
    found = read_topic(sources.servers, topic)
    return len(found) < sum(end_offsets(sources.servers, topic).values()) // 2


def copied(sources: Sources, running: Run, hub: EmbeddedCluster, name: str) -> list[Record]:
    """Wait for a topic's copy, and return it after comparing it with the source."""
    topic = sources.topic(name)
    copy = f"{running.config.stream.path}.{topic}"
    expected = len(read_topic(sources.servers, topic))
    wait_until_topic_has(hub.bootstrap_servers, copy, expected)
    where = {"eu": (sources.servers, topic)}
    return assert_copied(where, (hub.bootstrap_servers, copy), expected)


def test_odd_records_arrive_as_they_were(
    sources: Sources, running: Run, hub: EmbeddedCluster
) -> None:
    began = time.time_ns() // 1_000_000 - DAY_MS
    found = copied(sources, running, hub, "odd")
    assert len(found) == len(ODD_SHAPES) + 4
    shapes = {(r.key, r.value, r.own_headers) for r in found}
    for name, sent in ODD_SHAPES.items():
        assert (sent.key, sent.value, tuple(sent.headers)) in shapes, name
    times = {r.key: r for r in found if (r.key or b"").startswith(b"at ")}
    assert (times[b"at 0"].timestamp, times[b"at 1"].timestamp) == (0, 1)
    # A Java producer cannot send -1, so the hub's record has the time when it was written.
    assert times[b"at -1"].origin.timestamp == -1
    assert times[b"at -1"].timestamp > began
    assert max(times[key].timestamp for key in times) > began + DAY_MS + DAY_MS // 2


def test_the_largest_record_that_a_topic_takes_arrives(
    sources: Sources, running: Run, hub: EmbeddedCluster
) -> None:
    found = copied(sources, running, hub, "large")
    assert max(sources.sizes) < MAX_BYTES <= max(sources.sizes) + 100
    sizes = [len(record.value or b"") for record in found]
    assert sorted(sizes) == sorted([*sources.sizes, 10 * MAX_BYTES])


def test_every_codec_is_read(sources: Sources, running: Run, hub: EmbeddedCluster) -> None:
    assert len(copied(sources, running, hub, "compressed")) == 1000 + sources.rounds


def test_a_compacted_source_arrives_with_its_gaps(
    sources: Sources, running: Run, hub: EmbeddedCluster
) -> None:
    topic = sources.topic("compacted")
    copy = f"{running.config.stream.path}.{topic}"
    wait_until_topic_has(hub.bootstrap_servers, copy, 100)

    def complete() -> bool:
        # The source may compact further after it was read: what it holds now must have arrived.
        expected = read_topic(sources.servers, topic)
        return not judge({"eu": expected}, read_topic(hub.bootstrap_servers, copy)).missing

    running.wait_for(complete, "the compacted topic is copied")
    found = read_topic(hub.bootstrap_servers, copy)
    origins = [record.origin.offset for record in found]
    assert origins == sorted(set(origins)) and len(origins) < 1000
    latest = {record.key: record.value for record in found}
    assert latest == {b"key-%d" % number: b"9" for number in range(100)}


def test_committed_transactions_arrive_and_aborted_ones_do_not(
    sources: Sources, running: Run, hub: EmbeddedCluster
) -> None:
    copy = f"{running.config.stream.path}.{sources.topic('transactions')}"
    for number, end in enumerate(["commit", "abort", "commit", "abort"]):
        sources.write_transaction(number, end=end)
    still_open = sources.write_transaction(4, end="open")
    before = 30 * sources.rounds
    sources.rounds += 1
    wait_until_topic_has(hub.bootstrap_servers, copy, before + 20)
    # A record that was written after it has arrived by now, the open transaction has not.
    produce(sources.servers, sources.topic("compressed"), [NewRecord(b"later", b"later")])
    copied(sources, running, hub, "compressed")
    assert len(read_topic(hub.bootstrap_servers, copy)) == before + 20
    still_open.commit_transaction(60)
    wait_until_topic_has(hub.bootstrap_servers, copy, before + 30)
    values = [record.value for record in copied(sources, running, hub, "transactions")]
    once = [
        f"{end} {number} {at}".encode()
        for number, end in ((0, "commit"), (2, "commit"), (4, "open"))
        for at in range(10)
    ]
    assert values == once * sources.rounds
