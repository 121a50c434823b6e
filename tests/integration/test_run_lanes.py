"""How sources are put into queries, what a transform touches, and records that come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.model.errors import ConfigError
from support.reading import Record, read_topic, topics_of, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import assert_copied

TRANSFORM = "support.transforms:only_even_in_capitals"


def words(count: int) -> list[NewRecord]:
    return [
        NewRecord(b"word %d" % at, b"key-%d" % (at % 7), headers=[("h", None)])
        for at in range(count)
    ]


def test_one_lane_is_a_union_of_all_sources_and_a_transform_touches_its_own_route_only(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    plain, changed = f"plain.{unique}", f"changed.{unique}"
    for cluster in clusters.values():
        for topic in (plain, changed):
            create_topic(cluster.bootstrap_servers, topic, partitions=2)
            produce(cluster.bootstrap_servers, topic, words(200))
    config = make_config(
        hub,
        tmp_path,
        {alias: source(cluster, f".*{unique}") for alias, cluster in clusters.items()},
        topics={"overrides": {changed: {"transform": TRANSFORM}}},
    )
    with run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, plain, 400)
        wait_until_topic_has(hub.bootstrap_servers, changed, 200)
        (lane,) = running.status.lanes
        assert (lane.clusters, lane.partitions) == (("eu", "us"), 8)
    where = {alias: cluster.bootstrap_servers for alias, cluster in clusters.items()}
    assert_copied(
        {alias: (servers, plain) for alias, servers in where.items()},
        (hub.bootstrap_servers, plain),
        at_least=400,
    )

    def essence(record: Record, cluster: str, partition: int, offset: int) -> tuple[object, ...]:
        return (cluster, partition, offset, record.key, (record.value or b"").upper())

    wanted = {
        (*essence(r, alias, r.partition, r.offset), r.timestamp)
        for alias, servers in where.items()
        for r in read_topic(servers, changed)
        if r.offset % 2 == 0
    }
    found = [
        (r.origin.cluster, r.origin.partition, r.origin.offset, r.key, r.value, r.timestamp)
        for r in read_topic(hub.bootstrap_servers, changed)
    ]
    assert sorted(found) == sorted(wanted)


def test_each_source_has_a_lane_of_its_own_when_the_config_says_so(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=3)
        produce(cluster.bootstrap_servers, unique, words(500))
    config = make_config(
        hub,
        tmp_path,
        {alias: source(cluster, unique) for alias, cluster in clusters.items()},
        stream={"lanes": "source"},
    )
    with run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, 1000)
        found = {lane.name: (lane.clusters, lane.partitions) for lane in running.status.lanes}
        assert found == {"eu": (("eu",), 3), "us": (("us",), 3)}
        produce(source_a.bootstrap_servers, unique, words(500))
        wait_until_topic_has(hub.bootstrap_servers, unique, 1500)
    where = {alias: (cluster.bootstrap_servers, unique) for alias, cluster in clusters.items()}
    assert_copied(where, (hub.bootstrap_servers, unique), at_least=1500)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("support.transforms:value_as_text", "value string instead of binary"),
        ("support.transforms:without_headers", "headers is missing"),
    ],
)
def test_a_transform_that_breaks_a_record_is_refused_before_anything_is_written(
    name: str,
    reason: str,
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    topic = f"refused-{unique}"[:200]
    create_topic(source_a.bootstrap_servers, topic)
    produce(source_a.bootstrap_servers, topic, words(10))
    config = make_config(hub, tmp_path, {"eu": source(source_a, topic)}, topics={"transform": name})
    with pytest.raises(ConfigError, match=reason) as refused:
        catch_up(config)
    assert refused.value.exit_code == 2
    assert topic not in topics_of(hub.bootstrap_servers)


def test_records_do_not_come_back_to_a_hub_that_they_have_been_to(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    """`central` copies eu and us into the hub; `edge` copies the hub back into eu."""
    there, back = f"there.{unique}", f"back.there.{unique}"
    eu, us, to = (each.bootstrap_servers for each in (source_a, source_b, hub))
    for servers in (eu, us):
        create_topic(servers, there)
        produce(servers, there, words(20))
    central = make_config(
        hub,
        tmp_path / "central",
        {"eu": source(source_a, f".*{unique}"), "us": source(source_b, there)},
        name="central",
    )
    edge = make_config(
        source_a,
        tmp_path / "edge",
        # The hub is a source here, under the name of the aggregation that writes it.
        {"central": source(hub, there)},
        name="edge",
        hub={"known_as": ["eu"]},
        topics={"rename": "back.${topic}"},
    )
    assert catch_up(central).exit_code == 0
    assert_copied({"eu": (eu, there), "us": (us, there)}, (to, there), at_least=40)
    assert catch_up(edge).exit_code == 0
    # What came from eu is not copied back to eu: edge's hub is known as eu elsewhere.
    found = read_topic(eu, back)
    chains = [[v for name, v in r.headers if name == "origin.cluster"] for r in found]
    assert chains == [[b"us", b"central"]] * 20
    produce(eu, back, [NewRecord(b"of its own", b"k")])
    assert catch_up(central).exit_code == 0
    # Central reads the topic, but these records name it already.
    assert [record.value for record in read_topic(to, back)] == [b"of its own"]
    assert len(read_topic(to, there)) == 40
