"""Limits on brokers: in records, in bytes, while catching up; and with few task slots."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.model.errors import RefusedError
from support.reading import read_topic, wait_until_topic_has
from support.running import Run, catch_up, make_config, run_in_background, source
from support.verdict import assert_copied, judge

RECORDS = [NewRecord(b"%096d" % at, b"%04d" % at) for at in range(1_200)]
BYTES = 100
"""Of each record, key and value."""
ARRIVAL = {"message.timestamp.type": "LogAppendTime"}
BURST = 1.5
"""What comes in a usual second, as a share of the limit: a quarter of it may be saved up."""


def arrivals(hub: EmbeddedCluster, topic: str, alias: str) -> list[int]:
    """When the records of a source arrived at the hub, in ms, by its own clock."""
    return sorted(
        record.timestamp
        for record in read_topic(hub.bootstrap_servers, topic)
        if record.origin.cluster == alias
    )


def assert_complete(sources: dict[str, EmbeddedCluster], hub: EmbeddedCluster, topic: str) -> None:
    """As `assert_copied`, for a hub topic that has the time of arrival as its timestamps."""
    found = [
        record._replace(timestamp=record.origin.timestamp)
        for record in read_topic(hub.bootstrap_servers, topic)
    ]
    written = {alias: read_topic(it.bootstrap_servers, topic) for alias, it in sources.items()}
    verdict = judge(written, found)
    assert not verdict.problems, verdict.problems


def usual_in_a_second(moments: list[int]) -> float:
    """The median of what arrived in each second.

    The pace is that of the reader: after a moment in which the hub, or the machine, takes nothing,
    what was read meanwhile arrives at once. That is seen in one second or two, never in half.
    """
    seconds = Counter((it - moments[0]) // 1_000 for it in moments)
    return median(seconds[at] for at in range(max(seconds) + 1))


def assert_at_least(seconds: float, moments: list[int]) -> None:
    """They took `seconds` to arrive, but for a start in which the hub took nothing for a while."""
    assert moments[-1] - moments[0] >= 1_000 * (seconds - 2)


def test_a_limited_source_is_read_at_its_pace_and_no_other_source_is(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    limit, records = 200, len(RECORDS)
    clusters = {"eu": source_a, "us": source_b}
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=3)
        produce(cluster.bootstrap_servers, unique, RECORDS)
    create_topic(hub.bootstrap_servers, unique, partitions=3, config=ARRIVAL)
    config = make_config(
        hub,
        tmp_path,
        {
            "eu": source(source_a, unique, max_records_per_second=limit),
            "us": source(source_b, unique),
        },
        topics={"sync_configs": False},
    )
    with run_in_background(config):
        wait_until_topic_has(hub.bootstrap_servers, unique, 2 * records)
    slow, free = (arrivals(hub, unique, alias) for alias in ("eu", "us"))
    assert (len(slow), len(free)) == (records, records)
    assert_at_least(records / limit, slow)
    assert usual_in_a_second(slow) <= BURST * limit
    # In one lane with it, and done long before.
    assert free[-1] < slow[records * 3 // 4]
    assert_complete(clusters, hub, unique)


def test_a_limit_in_bytes_goes_by_the_size_of_the_records_that_are_there(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    create_topic(hub.bootstrap_servers, unique, partitions=2, config=ARRIVAL)
    produce(source_a.bootstrap_servers, unique, RECORDS)
    limited = source(source_a, unique, max_bytes_per_second="30kB")
    config = make_config(hub, tmp_path, {"eu": limited}, topics={"sync_configs": False})
    with run_in_background(config):
        wait_until_topic_has(hub.bootstrap_servers, unique, len(RECORDS))
    moments = arrivals(hub, unique, "eu")
    per_second = 30_000 // BYTES
    assert_at_least(len(RECORDS) / per_second, moments)
    assert usual_in_a_second(moments) <= BURST * per_second
    assert_complete({"eu": source_a}, hub, unique)


def test_history_is_read_at_its_own_limit_and_what_is_live_without(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=2)
    create_topic(hub.bootstrap_servers, unique, partitions=2, config=ARRIVAL)
    produce(source_a.bootstrap_servers, unique, RECORDS)
    history = source(source_a, unique, catch_up_records_per_second=100)
    sources = {"eu": history, "us": source(source_b, unique)}
    config = make_config(hub, tmp_path, sources, topics={"sync_configs": False})

    def paces() -> list[str]:
        return [event.message for event in running.events if event.kind == "source_pace"]

    with run_in_background(config) as running:
        # What is live arrives while there is history.
        produce(source_b.bootstrap_servers, unique, RECORDS[:10])
        running.wait_for(lambda: len(paces()) == 2, "the history is read")
        assert paces() == [
            "source eu is 1,200 records behind: it catches up at 100 a second",
            "source eu has caught up",
        ]
        # Far more than the limit, and reported at once: live records are no backlog.
        for _ in range(3):
            produce(source_a.bootstrap_servers, unique, RECORDS)
        expected = 10 + 4 * len(RECORDS)
        wait_until_topic_has(hub.bootstrap_servers, unique, expected)
        wait_until_positions(running, expected)
        assert len(paces()) == 2
    slow = arrivals(hub, unique, "eu")
    # Until five seconds' worth are left.
    limited, live = slow[: len(RECORDS) - 500], arrivals(hub, unique, "us")
    assert usual_in_a_second(limited) <= BURST * 100
    assert live[-1] < limited[-1]
    assert_complete(clusters, hub, unique)


def wait_until_positions(running: Run, records: int) -> None:
    """Wait until the tasks have reported all records."""
    running.wait_for(
        lambda: sum(it.position or 0 for it in running.status.partitions) == records,
        "the positions are reported",
    )


def test_with_fewer_slots_than_sources_nothing_is_started_and_the_fix_is_named(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=5)
        produce(cluster.bootstrap_servers, unique, RECORDS)
    sources = {alias: source(cluster, f"{unique}.*") for alias, cluster in clusters.items()}
    few = make_config(hub, tmp_path, sources, spark={"master": "local[1]"})
    with pytest.raises(RefusedError, match=r"1 task slots for 2 tasks.*local\[2\]"):
        catch_up(few)
    enough = make_config(hub, tmp_path, sources, spark={"master": "local[2]"})
    later = f"{unique}.later"[-200:]
    with run_in_background(enough):
        wait_until_topic_has(hub.bootstrap_servers, unique, 2 * len(RECORDS))
        # No slot is free for another lane: what comes later joins the one that there is.
        create_topic(source_a.bootstrap_servers, later)
        produce(source_a.bootstrap_servers, later, RECORDS)
        wait_until_topic_has(hub.bootstrap_servers, later, len(RECORDS))
    where = {alias: (it.bootstrap_servers, unique) for alias, it in clusters.items()}
    assert_copied(where, (hub.bootstrap_servers, unique), at_least=2 * len(RECORDS))
    eu = {"eu": (source_a.bootstrap_servers, later)}
    assert_copied(eu, (hub.bootstrap_servers, later), at_least=len(RECORDS))
