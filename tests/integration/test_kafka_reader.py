"""The plain reader of partitions, against a real broker: which records, where it ends, silence."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Producer

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, end_offsets
from aggregator.kafka.credentials import reader_settings
from aggregator.kafka.reader import WHOLE_LOG, RangeReader, open_consumer, read_ranges
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, TopicPartition
from support.reading import SECONDS, wait_for


def config_of(servers: str, timeout: str = "60s") -> Config:
    return load_text(
        f"""
        hub: {{bootstrap_servers: "127.0.0.1:1"}}
        sources: {{eu: {{bootstrap_servers: "{servers}", topics: {{include: .*}}}}}}
        supervision: {{connect_timeout: {timeout}}}
        """
    )


def write_transactions(servers: str, topic: str) -> None:
    """Partition 0: 0 and 1 committed, 2 a marker, 3 aborted, 4 a marker, 5 committed, 6 a marker.

    Partition 1 stays empty.
    """
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    for number, (records, is_committed) in enumerate([(2, True), (1, False), (1, True)]):
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(SECONDS)
        end = producer.commit_transaction if is_committed else producer.abort_transaction
        end(SECONDS)
    # A marker is written after the end of a transaction is answered.
    wait_for(lambda: end_offsets(servers, topic)[0] == 7, "the last marker")


def test_a_range_ends_with_its_log_and_has_no_markers_and_nothing_aborted(
    source_a: EmbeddedCluster, unique: str
) -> None:
    servers = source_a.bootstrap_servers
    create_topic(servers, unique, partitions=2)
    write_transactions(servers, unique)
    config = config_of(servers)
    first, empty = TopicPartition(unique, 0), TopicPartition(unique, 1)
    with RangeReader(config) as reader:
        for log, expected in (
            (WHOLE_LOG, [0, 1, 5]),
            (OffsetRange(1, 5), [1]),
            (OffsetRange(6, 100), []),
            (OffsetRange(3, 3), []),
        ):
            assert [it.offset for it in reader.read_range("eu", first, log)] == expected
        assert reader.read_one("eu", first, 2) is None
        found = reader.read_one("eu", first, 5)
        assert found is not None
        assert found.value == b"2"
    settings = reader_settings(config.sources["eu"], "reader")
    with closing(open_consumer("eu", settings)) as consumer:
        read = list(read_ranges(consumer, "eu", {first: WHOLE_LOG, empty: WHOLE_LOG}, SECONDS))
    assert [(tp, raw.offset) for tp, raw in read] == [(first, 0), (first, 1), (first, 5)]


def test_a_cluster_that_sends_nothing_is_an_error_that_names_what_is_left() -> None:
    config = config_of("127.0.0.1:2", "1s")
    with RangeReader(config) as reader, pytest.raises(ClusterError) as one:
        list(reader.read_range("eu", TopicPartition("t", 0), WHOLE_LOG))
    assert str(one.value) == "eu: reading t-0: no answer within 1 s"
    settings = reader_settings(config.sources["eu"], "reader")
    ranges = {TopicPartition("t", number): WHOLE_LOG for number in range(3)}
    with closing(open_consumer("eu", settings)) as consumer, pytest.raises(ClusterError) as more:
        list(read_ranges(consumer, "eu", ranges, 0.5))
    assert str(more.value) == "eu: reading t-0 and 2 more: no answer within 0.5 s"


def test_settings_that_the_client_refuses_are_an_error_of_the_cluster() -> None:
    with pytest.raises(ClusterError, match=r"^eu: .*no\.such"):
        open_consumer("eu", {"group.id": "reader", "no.such": "1"})
