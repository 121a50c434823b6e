"""`aggregator verify` and the tee of batches that were copied as they are, without headers."""

from __future__ import annotations

import re
import struct
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.config.tee import TeeConfig, TeeTopics
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, produce
from aggregator.features.delta_sink.sink import tee
from aggregator.features.verify.audit import VerifyRequest, verify
from aggregator.features.verify.audit_report import VerifyReport
from aggregator.features.verify.audit_scope import Scope
from support.changing import delete_records
from support.clusters import ClusterFactory
from support.crashed import with_origin, write_again
from support.reading import read_topic
from support.running import catch_up
from support.sessions import running_session
from support.whole_batches import LARGE, PARTITIONS, config_of, own_headers, written

COUNT = 9_000
EACH = COUNT // PARTITIONS
TOPICS = ("well", "twice", "altered", "cut", "short")
CHECKSUM_AT, CHECKED_FROM, PRODUCER_AT, COUNT_AT = 17, 21, 43, 57
HEX = b"0123456789abcdef"
"""What a value ends with, when the last record of a batch has one; headers follow."""
PASSED = 2**62
"""Producer ids from here on say that a batch was copied as it is."""


@dataclass
class Copied:
    """Topics that were copied by batches, each by the name of what is done to it later."""

    source: EmbeddedCluster
    hub: EmbeddedCluster
    name: str
    config: Config
    spark: SparkSession

    def topic(self, what: str) -> str:
        return f"{what}-{self.name}"

    def audit(self, what: str, config: Config | None = None) -> VerifyReport:
        request = VerifyRequest(Scope(topic=self.topic(what)), examples=10)
        return verify(config or self.config, request, spark=self.spark)


@pytest.fixture(scope="module")
def copied(
    source_a: EmbeddedCluster,
    lasting_clusters: ClusterFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Copied]:
    hub, name = lasting_clusters("worn-hub"), uuid.uuid4().hex[:8]
    for what in TOPICS:
        topic = f"{what}-{name}"
        create_topic(source_a.bootstrap_servers, topic, partitions=PARTITIONS)
        produce(source_a.bootstrap_servers, topic, written(what, COUNT), client=LARGE)
    state = tmp_path_factory.mktemp("verify") / "state"
    config = config_of(hub, state, {"eu": (source_a, f".*-{name}")})
    assert catch_up(config).exit_code == 0
    with running_session() as spark:
        yield Copied(source_a, hub, name, config, spark)


def by_hash(report: VerifyReport) -> int:
    """How many records were compared by the hash of their batch."""
    found = [re.match(r"([\d,]+) records were compared by the hash", it) for it in report.notes]
    return sum(int(it[1].replace(",", "")) for it in found if it)


def test_equal_batches_are_compared_by_their_hash_and_all_other_records_one_by_one(
    copied: Copied,
) -> None:
    report = copied.audit("well")
    assert report.exit_code == 0
    assert [it.expected for it in report.partitions] == [EACH] * PARTITIONS
    assert [it.present for it in report.partitions] == [EACH] * PARTITIONS
    (topic,) = report.hub_topics
    assert topic.offsets == COUNT
    assert COUNT // 2 < by_hash(report) < COUNT


def test_the_tee_lands_records_of_whole_batches_with_their_origins(
    copied: Copied, tmp_path: Path
) -> None:
    topic = copied.topic("well")
    settings = TeeConfig(path=str(tmp_path / "tee"), topics=TeeTopics(include=topic))
    config = copied.config.model_copy(update={"tee": settings})
    assert tee(config, once=True, spark=copied.spark).problems == ()
    rows = DeltaTable(str(tmp_path / "tee" / topic)).to_pyarrow_table().to_pylist()
    wanted = [
        (it.value, ("eu", topic, it.partition, it.offset), own_headers(it))
        for it in read_topic(copied.source.bootstrap_servers, topic)
    ]
    origin = ("origin_cluster", "origin_topic", "origin_partition", "origin_offset")
    landed = [
        (
            row["value"],
            tuple(row[name] for name in origin),
            tuple((it["key"], it["value"]) for it in row["headers"] or ()),
        )
        for row in rows
    ]
    assert sorted(landed, key=str) == sorted(wanted, key=str)


def test_a_record_of_an_equal_batch_that_is_there_twice_is_found(copied: Copied) -> None:
    topic = copied.topic("twice")
    record = next(
        it
        for it in read_topic(copied.source.bootstrap_servers, topic)
        if (it.partition, it.offset) == (1, EACH // 2)
    )
    write_again(copied.hub, topic, [with_origin(record, "eu", form="header")])
    report = copied.audit("twice")
    assert by_hash(report) == 0
    assert [it.twice for it in report.partitions] == [0, 1, 0]
    assert [it.present for it in report.partitions] == [EACH] * PARTITIONS
    (found,) = report.findings
    assert (found.kind, found.partition, found.offset) == ("twice", 1, EACH // 2)


def test_one_byte_of_a_batch_that_is_another_one_at_the_hub_is_one_altered_record(
    copied: Copied,
) -> None:
    (broker,) = copied.hub.brokers
    broker.stop()
    offset = change(broker.home / "data" / f"{copied.topic('altered')}-1" / f"{0:020}.log")
    broker.start()
    report = copied.audit("altered")
    assert [it.altered for it in report.partitions] == [0, 1, 0]
    assert [it.missing + it.twice + it.out_of_order for it in report.partitions] == [0, 0, 0]
    (found,) = report.findings
    assert (found.kind, found.partition, found.offset) == ("altered", 1, offset)
    # What is in its other batches need not be unpacked.
    assert 0 < by_hash(report) < COUNT


def test_what_the_hub_lost_of_a_batch_is_expired_to_the_record(copied: Copied) -> None:
    gone = EACH // 3
    delete_records(copied.hub.bootstrap_servers, copied.topic("cut"), {2: gone})
    report = copied.audit("cut")
    assert [it.expired for it in report.partitions] == [0, 0, gone]
    assert [it.missing for it in report.partitions] == [0, 0, 0]
    assert by_hash(report) > 0


def test_what_never_came_is_missing_beside_batches_that_are_equal(
    copied: Copied, tmp_path: Path
) -> None:
    more = list(written("more", 700))
    produce(copied.source.bootstrap_servers, copied.topic("short"), more, client=LARGE)
    # Without a checkpoint all of a source is expected.
    none = copied.config.checkpoint.model_copy(update={"path": str(tmp_path / "none")})
    report = copied.audit("short", copied.config.model_copy(update={"checkpoint": none}))
    wanted = Counter(it.partition for it in more)
    assert [it.missing for it in report.partitions] == [wanted[at] for at in range(PARTITIONS)]
    assert by_hash(report) > 0


def change(log: Path) -> int:
    """Changes one byte of the last record of a whole batch; returns the offset of that record."""
    content, at = bytearray(log.read_bytes()), 0
    while True:
        first, length = struct.unpack_from(">qi", content, at)
        end = at + 12 + length
        (producer,) = struct.unpack_from(">q", content, at + PRODUCER_AT)
        (count,) = struct.unpack_from(">i", content, at + COUNT_AT)
        is_value = all(it in HEX for it in content[end - 60 : end - 20])
        if producer >= PASSED and is_value:
            break
        at = end
    content[end - 20] ^= 1
    struct.pack_into(">I", content, at + CHECKSUM_AT, crc32c(content[at + CHECKED_FROM : end]))
    log.write_bytes(content)
    return int(first + count - 1)


def crc32c(data: bytes | bytearray) -> int:
    """Castagnoli's checksum, as batches of Kafka have it."""
    table = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    found = 0xFFFFFFFF
    for byte in data:
        found = (found >> 8) ^ table[(found ^ byte) & 0xFF]
    return found ^ 0xFFFFFFFF
