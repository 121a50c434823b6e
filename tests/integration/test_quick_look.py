"""The quick look at a hub tail: what it concludes, Spark concludes too; the rest is left to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.model import OffsetRange, Positions, SourcePartition, TopicPartition
from aggregator.plan.recovery import TailPlan, plan_tail, recovered_positions
from aggregator.recover.quick import QUICK_OFFSETS, look_quickly
from aggregator.recover.tail import filter_beyond, highest_offsets, read_ranges, to_origins
from support.crashed import with_origin, write_again
from support.reading import Record, read_topic
from support.running import make_config, source

Bounds = dict[SourcePartition, dict[TopicPartition, int]]

RECORDS = 400
START = 100


class World:
    """A source with records, a hub that got some of them, and positions in between."""

    def __init__(
        self, cluster: EmbeddedCluster, hub: EmbeddedCluster, topic: str, folder: Path
    ) -> None:
        self.cluster, self.hub, self.topic = cluster, hub, topic
        self.parts = [SourcePartition("eu", topic, number) for number in range(2)]
        for it in (cluster, hub):
            create_topic(it.bootstrap_servers, topic, partitions=2)
        produce(
            cluster.bootstrap_servers,
            topic,
            [NewRecord(b"v", b"%d" % at, at % 2) for at in range(2 * RECORDS)],
        )
        self.config: Config = make_config(hub, folder, {"eu": source(cluster, topic)})
        self.records = read_topic(cluster.bootstrap_servers, topic)
        self.logs = {sp: OffsetRange(0, RECORDS) for sp in self.parts}

    def deliver(self, *records: Record) -> None:
        """Write these into the hub, with their origin."""
        write_again(self.hub, self.topic, [with_origin(record, "eu") for record in records])

    def tail(self, at: int = START, own: Bounds | None = None) -> TailPlan:
        """The whole hub topic as the tail of positions that are all the same."""
        ends = end_offsets(self.hub.bootstrap_servers, self.topic)
        logs = {TopicPartition(self.topic, it): OffsetRange(0, end) for it, end in ends.items()}
        return plan_tail(Positions(dict.fromkeys(self.parts, at)), {}, logs, own or {})

    def by_spark(self, spark: SparkSession, tail: TailPlan) -> tuple[Positions, int]:
        """What Spark finds of the same tail: the positions, and how many records."""
        options = {"kafka.bootstrap.servers": self.hub.bootstrap_servers}
        found = filter_beyond(
            to_origins(read_ranges(spark, tail.ranges, options)), tail.positions, tail.above
        )
        highest = highest_offsets(found)
        tops = {sp: top for sp, (top, _) in highest.items()}
        return recovered_positions(tail.positions, tops), sum(n for _, n in highest.values())


@pytest.fixture
def world(source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str, tmp_path: Path) -> World:
    return World(source_a, hub, unique, tmp_path)


def test_where_nothing_is_missing_the_positions_are_those_that_spark_finds(
    world: World, spark: SparkSession
) -> None:
    world.deliver(*[record for record in world.records if record.offset < 250])
    # Not ours: without an origin, of another source, and with a part of an origin.
    produce(world.hub.bootstrap_servers, world.topic, [NewRecord(b"v", b"k", 0)])
    other = with_origin(world.records[0], "us")
    write_again(world.hub, world.topic, [other, other._replace(headers=other.headers[:3])])
    tail = world.tail()
    done = look_quickly(world.config, tail, world.logs)
    assert done is not None
    assert done.positions == Positions(dict.fromkeys(world.parts, 250))
    assert (done.found, done.replayed, done.tail) == (2 * (250 - START), 0, tail.offsets)
    assert (done.positions, done.found) == world.by_spark(spark, tail)


def test_what_is_missing_is_left_to_spark(world: World) -> None:
    upto = [record for record in world.records if record.offset < 250]
    world.deliver(*[it for it in upto if (it.partition, it.offset) != (1, 180)])
    assert look_quickly(world.config, world.tail(), world.logs) is None
    # Below the position it is none of its business.
    assert look_quickly(world.config, world.tail(at=181), world.logs) is not None


def test_what_is_unclear_is_left_to_spark(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.deliver(*[record for record in world.records if record.offset < 250])
    tail = world.tail()
    deleted = {**world.logs, world.parts[0]: OffsetRange(START + 1, RECORDS)}
    assert look_quickly(world.config, tail, deleted) is None
    longer = {tp: OffsetRange(log.earliest, log.latest + 1) for tp, log in tail.ranges.items()}
    assert look_quickly(world.config, TailPlan(tail.positions, longer), world.logs) is None
    many = {next(iter(tail.ranges)): OffsetRange(0, QUICK_OFFSETS + 1)}
    assert look_quickly(world.config, TailPlan(tail.positions, many), world.logs) is None
    assert look_quickly(world.config, TailPlan(tail.positions, {}), world.logs) is None
    monkeypatch.setattr("aggregator.recover.quick.QUICK_SECONDS", 0.0)
    assert look_quickly(world.config, tail, world.logs) is None


def test_records_of_an_earlier_topic_are_not_taken_for_those_of_the_new_one(
    world: World, spark: SparkSession
) -> None:
    """Of a topic that was created again the hub holds old records by the same names."""
    world.deliver(*world.records)
    old = end_offsets(world.hub.bootstrap_servers, world.topic)
    world.deliver(*[record for record in world.records if record.offset < 30])
    ends = {TopicPartition(world.topic, it): end for it, end in old.items()}
    tail = world.tail(at=0, own=dict.fromkeys(world.parts, ends))
    expected = Positions(dict.fromkeys(world.parts, 30))
    done = look_quickly(world.config, tail, world.logs)
    assert done is not None
    assert (done.positions, done.found) == (expected, 60)
    assert world.by_spark(spark, tail) == (expected, 60)
    # Both read the whole topic: for one that began earlier all of it counts.
    all_of_it = look_quickly(world.config, world.tail(at=0), world.logs)
    assert all_of_it is not None
    assert all_of_it.positions == Positions(dict.fromkeys(world.parts, RECORDS))
