"""Where records land in a hub topic whose partition count is not the source's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kafka.partitioner.default import murmur2

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from support.reading import Record, read_topic
from support.running import catch_up, make_config, source
from support.verdict import assert_copied

SOURCES = {"eu": 6, "us": 3}
KEYS = [b"", b"\xff\xfe\x00", *(b"k" * size for size in range(1, 12))]
KEYS += [b"order-%d" % number for number in range(487)]


def by_java(key: bytes, partitions: int) -> int:
    """The Java producer's choice, by another project's murmur2."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def test_records_land_where_each_rule_says(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    rules = {
        "key-4": {"partitions": 4},
        "key-12": {"partitions": 12},
        "source_partition": {"partitions": 4},
        "round_robin": {"partitions": 4},
        "cluster": {"partitions": 4},
    }
    topics = {rule: f"{rule}.{unique}" for rule in rules}
    for topic in topics.values():
        keyless = [NewRecord(b"none", None, partition) for partition in range(3)] * 20
        for alias, cluster in clusters.items():
            create_topic(cluster.bootstrap_servers, topic, partitions=SOURCES[alias])
            records = [NewRecord(b"%d" % at, key) for at, key in enumerate(KEYS)]
            produce(cluster.bootstrap_servers, topic, [*records, *keyless])
    config = make_config(
        hub,
        tmp_path,
        {alias: source(cluster, f".*{unique}") for alias, cluster in clusters.items()},
        topics={
            "overrides": {
                topic: {**rules[rule], "partition_by": rule.partition("-")[0]}
                for rule, topic in topics.items()
            }
        },
    )
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    found = {
        rule: assert_copied(
            {alias: (cluster.bootstrap_servers, topic) for alias, cluster in clusters.items()},
            (hub.bootstrap_servers, topic),
            at_least=2 * (len(KEYS) + 60),
        )
        for rule, topic in topics.items()
    }
    for partitions in (4, 12):
        keyed = [record for record in found[f"key-{partitions}"] if record.key is not None]
        assert [r for r in keyed if r.partition != by_java(r.key or b"", partitions)] == []
        assert {record.partition for record in keyed} == set(range(partitions))
    # The same keys, written by a plain client with Kafka's rule, lie in the same places.
    create_topic(hub.bootstrap_servers, f"direct.{unique}", partitions=4)
    produce(hub.bootstrap_servers, f"direct.{unique}", [NewRecord(b"", key) for key in KEYS if key])
    direct = {(r.key, r.partition) for r in read_topic(hub.bootstrap_servers, f"direct.{unique}")}
    assert {(r.key, r.partition) for r in found["key-4"] if r.key} == direct
    for record in found["source_partition"]:
        assert record.partition == record.origin.partition % 4
    per_source_partition: dict[tuple[str, int], list[Record]] = {}
    for record in found["round_robin"]:
        place = (record.origin.cluster, record.origin.partition)
        per_source_partition.setdefault(place, []).append(record)
    for group in per_source_partition.values():
        shares = Counter(record.partition for record in group)
        assert max(shares.values()) - min(shares.get(each, 0) for each in range(4)) <= 1
    for alias in clusters:
        chosen = {r.partition for r in found["cluster"] if r.origin.cluster == alias}
        assert chosen == {by_java(alias.encode(), 4)}
