"""Topics and partitions that appear while an aggregation runs."""

from __future__ import annotations

from pathlib import Path

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, grow_topic, produce
from support.load import records
from support.reading import read_topic, topics_of, wait_until_topic_has
from support.running import make_config, run_in_background, source
from support.verdict import assert_copied


def test_new_topics_and_partitions_are_found_while_it_runs(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    eu, us, to = (each.bootstrap_servers for each in (source_a, source_b, hub))
    grows, kept, new, old = (f"{name}.{unique}" for name in ("grows", "kept", "new", "old"))
    for topic in (grows, kept):
        create_topic(eu, topic, partitions=2)
        produce(eu, topic, records(100))
    create_topic(us, old)
    produce(us, old, records(50))
    config = make_config(
        hub,
        tmp_path,
        {
            "eu": source(source_a, f".*{unique}"),
            "us": source(source_b, f".*{unique}", start="latest"),
        },
        topics={"overrides": {grows: {"grow": True}}},
    )
    with run_in_background(config) as running:
        wait_until_topic_has(to, grows, 100)
        # Partitions: one hub topic may grow with its source, the other one keeps its own count.
        for topic in (grows, kept):
            grow_topic(eu, topic, 5)
            for partition in range(5):
                produce(eu, topic, records(30, partition))
        # A topic: all of it is new, so `start: latest` does not cut it off.
        for servers in (eu, us):
            create_topic(servers, new, partitions=3)
            produce(servers, new, records(200))
        wait_until_topic_has(to, grows, 250)
        wait_until_topic_has(to, kept, 250)
        wait_until_topic_has(to, new, 400)
        # What was there continues, next to what is new.
        produce(us, old, records(10))
        produce(eu, new, records(10))
        wait_until_topic_has(to, old, 10)
        wait_until_topic_has(to, new, 410)
        assert max(lane.generation for lane in running.status.lanes) > 2
    assert_copied({"eu": (eu, grows)}, (to, grows), at_least=250)
    assert_copied({"eu": (eu, kept)}, (to, kept), at_least=250)
    assert_copied({"eu": (eu, new), "us": (us, new)}, (to, new), at_least=410)
    assert [record.origin.offset for record in read_topic(to, old)] == list(range(50, 60))
    counts = topics_of(to)
    assert (counts[grows], counts[kept], counts[new]) == (5, 2, 3)
