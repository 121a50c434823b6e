"""The hub's tail, read on brokers: which origins it holds at or beyond given positions."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from aggregator.datapath.connector.connector import Connector, TailFound
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, Positions, SourcePartition, TopicPartition
from aggregator.plan.positions.recovery import TailPlan, plan_tail, recovered_positions
from support.crashed import with_origin, write_again
from support.reading import Record, read_topic

Bounds = dict[SourcePartition, dict[TopicPartition, int]]

RECORDS = 400
START = 100


class World:
    """A source with records, a hub that got some of them, and positions in between."""

    def __init__(self, cluster: EmbeddedCluster, hub: EmbeddedCluster, topic: str) -> None:
        self.cluster, self.hub, self.topic = cluster, hub, topic
        self.parts = [SourcePartition("eu", topic, number) for number in range(2)]
        for it in (cluster, hub):
            create_topic(it.bootstrap_servers, topic, partitions=2)
        produce(
            cluster.bootstrap_servers,
            topic,
            [NewRecord(b"v", b"%d" % at, at % 2) for at in range(2 * RECORDS)],
        )
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

    def read(
        self, spark: SparkSession, tail: TailPlan, compacted: bool = False, cancelled: bool = False
    ) -> TailFound:
        """What the tail holds."""
        connector = Connector(spark)
        settings = {"bootstrap.servers": self.hub.bootstrap_servers, "group.id": "tail"}
        cancellation = connector.cancellation()
        if cancelled:
            cancellation.cancel()
        topics = [self.topic] if compacted else []
        return connector.read_tail(tail, settings, topics, cancellation)

    def positions(self, tail: TailPlan, found: TailFound) -> Positions:
        """The positions of the source, by what was found."""
        ranges = {sp: skip.ranges for sp, skip in found.parts.items()}
        return recovered_positions(tail.positions, ranges, self.logs)


@pytest.fixture
def world(source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str) -> World:
    return World(source_a, hub, unique)


def test_what_is_whole_is_found_and_records_of_others_do_not_count(
    world: World, spark: SparkSession
) -> None:
    world.deliver(*[record for record in world.records if record.offset < 250])
    # Not ours: without an origin, of another source, and with a part of an origin.
    produce(world.hub.bootstrap_servers, world.topic, [NewRecord(b"v", b"k", 0)])
    other = with_origin(world.records[0], "us")
    write_again(world.hub, world.topic, [other, other._replace(headers=other.headers[:3])])
    tail = world.tail()
    found = world.read(spark, tail)
    assert (found.read, found.found) == (tail.offsets, 2 * (250 - START))
    whole = {sp: [(START, 250)] for sp in world.parts}
    assert {sp: list(skip.ranges) for sp, skip in found.parts.items()} == whole
    assert world.positions(tail, found) == Positions(dict.fromkeys(world.parts, 250))


def test_a_hole_ends_what_is_whole(world: World, spark: SparkSession) -> None:
    upto = [record for record in world.records if record.offset < 250]
    world.deliver(*[it for it in upto if (it.partition, it.offset) != (1, 180)])
    tail = world.tail()
    found = world.read(spark, tail)
    assert list(found.parts[world.parts[1]].ranges) == [(START, 180), (181, 250)]
    assert world.positions(tail, found) == Positions({world.parts[0]: 250, world.parts[1]: 180})
    # Below the position it is none of its business.
    later = world.tail(at=181)
    assert set(world.positions(later, world.read(spark, later)).values()) == {250}


def test_of_a_compacted_topic_the_newest_offset_of_each_key_and_partition_is_reported(
    world: World, spark: SparkSession
) -> None:
    records = [record for record in world.records if record.offset in (120, 130)]
    world.deliver(*[record._replace(key=b"a\xff") for record in records])
    plain = world.read(spark, world.tail())
    assert all(not skip.later for skip in plain.parts.values())
    found = world.read(spark, world.tail(), compacted=True)
    for sp, skip in found.parts.items():
        assert skip.later == {TopicPartition(world.topic, sp.partition): {b"a\xff": 130}}


def test_records_of_an_earlier_topic_are_not_taken_for_those_of_the_new_one(
    world: World, spark: SparkSession
) -> None:
    """Of a topic that was created again the hub holds old records by the same names."""
    world.deliver(*world.records)
    old = end_offsets(world.hub.bootstrap_servers, world.topic)
    world.deliver(*[record for record in world.records if record.offset < 30])
    ends = {TopicPartition(world.topic, it): end for it, end in old.items()}
    tail = world.tail(at=0, own=dict.fromkeys(world.parts, ends))
    found = world.read(spark, tail)
    assert found.found == 60
    assert world.positions(tail, found) == Positions(dict.fromkeys(world.parts, 30))
    # The whole topic: for one that began earlier all of it counts.
    everything = world.tail(at=0)
    again = world.positions(everything, world.read(spark, everything))
    assert again == Positions(dict.fromkeys(world.parts, RECORDS))


def test_a_hub_that_refuses_is_an_error_of_the_hub(world: World, spark: SparkSession) -> None:
    world.deliver(*world.records[:10])
    tail = world.tail(at=0)
    beyond = {tp: OffsetRange(log.latest + 5, log.latest + 9) for tp, log in tail.ranges.items()}
    with pytest.raises(ClusterError, match=r"hub: its tail cannot be read: .*OffsetOutOfRange"):
        world.read(spark, TailPlan(tail.positions, beyond))


def test_a_read_that_is_cancelled_ends(world: World, spark: SparkSession) -> None:
    world.deliver(*world.records[:10])
    with pytest.raises(ClusterError, match=r"hub: its tail cannot be read: .*Cancellation"):
        world.read(spark, world.tail(), cancelled=True)
    assert world.read(spark, world.tail(at=0)).found == 10
