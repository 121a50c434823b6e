"""The main job, seen from outside: records of two clusters go in, a plain consumer reads a hub."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka.admin import ConfigResource, ResourceType

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import SECONDS, NewRecord, admin, create_topic, produce
from aggregator.status.schema import LaneState, Phase
from support import stdin_producer
from support.reading import read_topic, topics_of, wait_until_topic_has
from support.running import make_config, run_in_background, source
from support.verdict import assert_copied

RECORDS = 100_000
SIZE = 1_000


def topic_configs(cluster: EmbeddedCluster, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    kafka = admin(cluster.bootstrap_servers)
    found = kafka.describe_configs([resource])[resource].result(SECONDS)
    return {name: str(entry.value) for name, entry in found.items()}


def test_seq_piped_into_a_topic_arrives_in_its_replica(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    wanted = {
        "retention.ms": "-1",
        "cleanup.policy": "delete",
        "compression.type": "lz4",
        "segment.bytes": "2097152",
    }
    create_topic(source_a.bootstrap_servers, unique, partitions=3, config=wanted)
    config = make_config(
        hub, tmp_path, {"eu": source(source_a, unique)}, topics={"rename": "${topic}.replica"}
    )
    with run_in_background(config) as running:
        producer = [sys.executable, stdin_producer.__file__, source_a.bootstrap_servers, unique]
        with subprocess.Popen(["seq", "10000"], stdout=subprocess.PIPE) as seq:
            subprocess.run(producer, stdin=seq.stdout, check=True, timeout=240)
        replica = f"{unique}.replica"
        wait_until_topic_has(hub.bootstrap_servers, replica, 10_000)
        assert running.status.phase is Phase.RUNNING
    found = [record.value for record in read_topic(hub.bootstrap_servers, replica)]
    assert sorted(found, key=lambda value: int(value or b"0")) == [
        b"%d" % number for number in range(1, 10_001)
    ]
    assert topics_of(hub.bootstrap_servers)[replica] == 3
    configs = topic_configs(hub, replica)
    assert {name: configs[name] for name in wanted} == wanted
    # The one config that is not the source's: there has to be room for the origin headers.
    before = topic_configs(source_a, unique)["max.message.bytes"]
    assert int(configs["max.message.bytes"]) > int(before)


def test_two_sources_of_100000_records_each_arrive_complete_once_and_in_order(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    sources = {"eu": (source_a, 6), "us": (source_b, 3)}
    began = time.time_ns() // 1_000_000 - 3_600_000

    def records(start: int, end: int) -> list[NewRecord]:
        return [
            NewRecord(
                (b"%d|" % number + b"abcdefgh" * (SIZE // 8))[:SIZE],
                b"key-%d" % (number % 997),
                timestamp=began + number,
            )
            for number in range(start, end)
        ]

    half = RECORDS // 2
    for cluster, partitions in sources.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=partitions)
        produce(cluster.bootstrap_servers, unique, records(0, half))
    config = make_config(
        hub,
        tmp_path,
        {alias: source(cluster, unique) for alias, (cluster, _) in sources.items()},
        topics={"partitions": 4},
    )
    with run_in_background(config) as running:
        for cluster, _ in sources.values():
            produce(cluster.bootstrap_servers, unique, records(half, RECORDS))
        wait_until_topic_has(hub.bootstrap_servers, unique, 2 * RECORDS)
        running.wait_for(
            lambda: sum(lane.records for lane in running.status.lanes) == 2 * RECORDS,
            "the status counts every record",
        )
        assert [lane.name for lane in running.status.lanes] == ["union"]
        assert {lane.state for lane in running.status.lanes} == {LaneState.RUNNING}
        running.wait_for(
            lambda: [it.seconds_behind for it in running.status.sources] == [0.0, 0.0],
            "no source is behind",
        )
        for shown in running.status.sources:
            assert [(it.topic, it.records) for it in shown.copied] == [(unique, RECORDS)]
            assert RECORDS * SIZE < shown.bytes < RECORDS * (SIZE + len(b"key-999"))
            flight, age = shown.latency.flight_ms, shown.latency.age_ms
            assert flight is not None and flight.p50 < 60_000
            # By their timestamps they are an hour old. That is forgotten of one that catches up.
            assert age is None or age.p50 > 3_000_000
    found = assert_copied(
        {alias: (cluster.bootstrap_servers, unique) for alias, (cluster, _) in sources.items()},
        (hub.bootstrap_servers, unique),
        at_least=2 * RECORDS,
    )
    assert {record.partition for record in found} == {0, 1, 2, 3}
    assert {len(record.value or b"") for record in found} == {SIZE}
