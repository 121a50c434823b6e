"""Where a run begins, and what it holds back because its data are not what they were."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, delete_topic, produce
from aggregator.model.errors import EXIT_DATA, CheckpointConflictError
from aggregator.model.values import SourceState
from aggregator.status.schema import PartitionState
from support.changing import delete_records
from support.clusters import ClusterFactory
from support.reading import read_topic, topics_of, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import assert_copied

HOUR_MS = 3_600_000


def numbers(start: int, end: int, *, at_ms: int = 0, partition: int = -1) -> list[NewRecord]:
    return [
        NewRecord(b"%d" % number, b"k%d" % number, partition, timestamp=at_ms and at_ms + number)
        for number in range(start, end)
    ]


def test_each_source_begins_where_its_start_says(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    servers, to = source_a.bootstrap_servers, hub.bootstrap_servers
    now = time.time_ns() // 1_000_000
    topics = {alias: f"{alias}.{unique}" for alias in ("earliest", "latest", "moment")}
    for topic in topics.values():
        create_topic(servers, topic, partitions=2)
        for partition in (0, 1):
            produce(servers, topic, numbers(0, 50, at_ms=now - 2 * HOUR_MS, partition=partition))
            produce(servers, topic, numbers(50, 100, at_ms=now - HOUR_MS, partition=partition))
    starts = {"earliest": "earliest", "latest": "latest", "moment": str(now - HOUR_MS)}
    config = make_config(
        hub,
        tmp_path,
        {alias: source(source_a, topics[alias], start=starts[alias]) for alias in topics},
    )
    assert catch_up(config).exit_code == 0
    for topic in topics.values():
        produce(servers, topic, [NewRecord(b"new", None, partition) for partition in (0, 1)])
    assert catch_up(config).exit_code == 0
    first = {}
    for alias, topic in topics.items():
        origins = [record.origin for record in read_topic(to, topic)]
        for partition in (0, 1):
            offsets = sorted(origin.offset for origin in origins if origin.partition == partition)
            assert offsets == list(range(offsets[0], 101))
            first[alias, partition] = offsets[0]
    assert first == {
        (alias, partition): offset
        for alias, offset in (("earliest", 0), ("latest", 100), ("moment", 50))
        for partition in (0, 1)
    }


def test_a_second_instance_on_the_same_checkpoint_is_refused_and_the_first_continues(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    config = make_config(hub, tmp_path, {"eu": source(source_a, unique)})
    with run_in_background(config) as running:
        with pytest.raises(CheckpointConflictError, match=f"pid {os.getpid()}") as refused:
            catch_up(config)
        assert refused.value.exit_code == EXIT_DATA
        produce(source_a.bootstrap_servers, unique, numbers(0, 10))
        running.wait_for(
            lambda: sum(lane.records for lane in running.status.lanes) == 10, "all are copied"
        )
    where = {"eu": (source_a.bootstrap_servers, unique)}
    assert_copied(where, (hub.bootstrap_servers, unique), at_least=10)


def test_a_partition_whose_records_are_gone_is_held_and_named_and_the_others_continue(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    servers, to = source_a.bootstrap_servers, hub.bootstrap_servers
    fine, trimmed, recreated = (f"{name}.{unique}" for name in ("fine", "trimmed", "again"))
    for topic in (fine, trimmed, recreated):
        create_topic(servers, topic, partitions=2)
        for partition in (0, 1):
            produce(servers, topic, numbers(0, 20, partition=partition))
    config = make_config(hub, tmp_path, {"eu": source(source_a, f".*{unique}")})
    assert catch_up(config).exit_code == 0
    for partition in (0, 1):
        produce(servers, trimmed, numbers(20, 40, partition=partition))
    delete_records(servers, trimmed, {0: 30})
    delete_topic(servers, recreated)
    create_topic(servers, recreated, partitions=2)
    for partition in (0, 1):
        produce(servers, recreated, numbers(100, 150, partition=partition))
    produce(servers, fine, numbers(20, 40))
    result = catch_up(config)
    assert result.exit_code == EXIT_DATA
    held = {
        (part.topic, part.partition): part.reason
        for part in result.status.partitions
        if part.state is PartitionState.QUARANTINED
    }
    assert held.keys() == {(trimmed, 0), (recreated, 0), (recreated, 1)}
    assert "offsets 20 to 29 were deleted" in held[trimmed, 0]
    assert "created again" in held[recreated, 0]
    assert len(result.problems) == 3
    assert any(f"eu/{trimmed}-0" in problem for problem in result.problems)
    assert_copied({"eu": (servers, fine)}, (to, fine), at_least=60)
    origins = [record.origin for record in read_topic(to, trimmed)]
    assert sorted((o.partition, o.offset) for o in origins) == [
        *((0, offset) for offset in range(20)),
        *((1, offset) for offset in range(40)),
    ]
    assert len(read_topic(to, recreated)) == 40
    assert recreated in topics_of(to)


def test_a_source_that_is_down_at_the_start_is_picked_up_when_it_comes(
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
) -> None:
    with cluster_factory("late") as late:
        for cluster in (late, source_b):
            create_topic(cluster.bootstrap_servers, unique, partitions=2)
            produce(cluster.bootstrap_servers, unique, numbers(0, 100))
        late.brokers[0].stop()
        config = make_config(
            hub,
            tmp_path,
            {"late": source(late, unique), "us": source(source_b, unique)},
            supervision={"connect_timeout": "5s"},
        )
        with run_in_background(config) as running:
            wait_until_topic_has(hub.bootstrap_servers, unique, 100)

            def state() -> SourceState:
                return next(s.state for s in running.status.sources if s.alias == "late")

            assert state() is SourceState.UNREACHABLE
            late.brokers[0].start()
            wait_until_topic_has(hub.bootstrap_servers, unique, 200)
            running.wait_for(lambda: state() is SourceState.RUNNING, "the source is RUNNING")
            produce(source_b.bootstrap_servers, unique, numbers(100, 110))
            produce(late.bootstrap_servers, unique, numbers(100, 110))
            wait_until_topic_has(hub.bootstrap_servers, unique, 220)
        where = {"late": late.bootstrap_servers, "us": source_b.bootstrap_servers}
        assert_copied(
            {alias: (servers, unique) for alias, servers in where.items()},
            (hub.bootstrap_servers, unique),
            at_least=220,
        )
