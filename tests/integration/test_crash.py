"""Crashes: killed under load, a lane that fails, holes in the hub. Each origin is there once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.status.schema import RecoveryStatus
from support.application import GONE_SECONDS
from support.clusters import ClusterFactory
from support.crashed import crash_at_zero, with_origin, write_again
from support.load import load
from support.reading import Record, read_topic, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import assert_copied, judge

PATHS = ("bytes", "objects") * 2
"""How each life copies that is killed; the next one continues with what it has left."""
COMPACTED = {"cleanup.policy": "compact"}


@contextmanager
def child(config: Config, folder: Path) -> Iterator[None]:
    """`aggregator run` in a process group of its own, which is gone after the block.

    And when this process dies within it.
    """
    file = folder / "aggregator.yaml"
    file.write_text(to_yaml(config))
    command = [sys.executable, "-m", "aggregator", "run", "-c", str(file)]
    process = GuardedProcess(command, folder / "run.log")
    try:
        yield
    finally:
        # With its JVM; it may have ended by itself.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.wait(GONE_SECONDS)


@pytest.mark.timeout(900)
def test_killed_under_load_nothing_is_missing_and_nothing_is_there_twice(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    create_topic(source_a.bootstrap_servers, unique, partitions=6)
    create_topic(source_b.bootstrap_servers, unique, partitions=3)

    def config(path: str) -> Config:
        return make_config(
            hub,
            tmp_path / "state",
            {alias: source(cluster, unique) for alias, cluster in clusters.items()},
            topics={"partitions": 4},
            stream={"path": path},
            api={"listen": "off"},
        )

    with load(list(clusters.values()), unique):
        copied = 0
        for path in PATHS:
            with child(config(path), tmp_path):
                # Killed in the midst of its work, some thousand records after it began to write.
                copied = wait_until_topic_has(hub.bootstrap_servers, unique, copied + 5_000)
        with run_in_background(config("bytes")) as running:
            assert "recovered" in running.kinds()
            running.wait_for(
                lambda: (
                    (running.status.checkpoint.seq or 0) > 0
                    and any(lane.records >= 1 for lane in running.status.lanes)
                ),
                "records arrive after the recovery",
            )
    assert catch_up(config("objects")).exit_code == 0
    assert_copied(
        {alias: (cluster.bootstrap_servers, unique) for alias, cluster in clusters.items()},
        (hub.bootstrap_servers, unique),
        at_least=len(PATHS) * 5_000,
    )


@pytest.mark.timeout(900)
def test_a_lane_that_fails_continues_when_its_old_producer_can_deliver_nothing_more(
    source_a: EmbeddedCluster, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    hub = cluster_factory("frail")
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        hub={"producer": {"delivery.timeout.ms": "6000", "request.timeout.ms": "3000"}},
        api={"listen": "off"},
    )
    with load([source_a], unique), run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, 2_000)
        hub.brokers[0].pause()
        try:
            running.wait_for(lambda: "lane_failed" in running.kinds(), "the lane fails")
        finally:
            hub.brokers[0].resume()
        running.wait_for(lambda: "recovered" in running.kinds(), "the lane is recovered")
        copied = wait_until_topic_has(hub.bootstrap_servers, unique, 1)
        wait_until_topic_has(hub.bootstrap_servers, unique, copied + 2_000)
    assert catch_up(config).exit_code == 0
    assert_copied(
        {"eu": (source_a.bootstrap_servers, unique)}, (hub.bootstrap_servers, unique), 4_000
    )


def test_holes_in_the_hub_are_filled_in_order_and_foreign_records_do_no_harm(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """A crash leaves, per source partition and hub partition, a prefix of what was sent."""
    records = fill(source_a, unique, [f"key-{number % 97}" for number in range(3_000)])
    once = make_config(
        hub,
        tmp_path / "first",
        {"eu": source(source_a, unique)},
        topics={"partitions": 4, "rename": "${topic}.whole"},
    )
    assert catch_up(once).exit_code == 0
    whole = read_topic(hub.bootstrap_servers, f"{unique}.whole")
    # Hub partition 0 got least, 3 got most: the highest offset proves nothing about the others.
    kept = [r for r in whole if r.origin.offset < 200 + 250 * r.partition]
    create_topic(hub.bootstrap_servers, f"{unique}.torn", partitions=4)
    write_again(hub, f"{unique}.torn", kept)
    produce(hub.bootstrap_servers, f"{unique}.torn", [NewRecord(b"not ours", b"k")])
    config = make_config(
        hub,
        tmp_path / "second",
        {"eu": source(source_a, unique)},
        topics={"partitions": 4, "rename": "${topic}.torn"},
    )
    crash_at_zero(config, unique, {"eu": 2})
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    recovery = recovery_of(result.status.recovery)
    assert recovery.found == len(kept)
    assert recovery.replayed > 0
    found = read_topic(hub.bootstrap_servers, f"{unique}.torn")
    ours = [record for record in found if record.value != b"not ours"]
    verdict = judge({"eu": records}, ours)
    assert not verdict.problems, verdict.problems
    assert len(found) == len(ours) + 1


def test_of_a_compacted_hub_topic_only_what_may_have_been_compacted_away_is_left_out(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """What a later record of its key replaced, in the same hub partition, is not missing."""
    keyed, spread = f"keyed.{unique}", f"spread.{unique}"
    large = b"a" * 60_000
    records = {
        keyed: fill_compacted(source_a, keyed, [large, b"b", large, b"c"]),
        spread: fill_compacted(source_a, spread, [large, large, b"b", large]),
    }
    for topic, partitions in {keyed: 1, spread: 2}.items():
        create_topic(hub.bootstrap_servers, topic, partitions=partitions, config=COMPACTED)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, f".*{unique}")},
        topics={"overrides": {spread: {"partition_by": "round_robin"}}},
    )
    # Offset 0 (key a) was compacted away, as 2 replaced it; offset 1 (key b) never arrived.
    write_again(hub, keyed, [with_origin(records[keyed][at], "eu") for at in (2, 3)])
    # Hub partition 1 got offsets 1 and 3, of which 1 was compacted away; partition 0 got nothing.
    write_again(hub, spread, [with_origin(records[spread][3], "eu")._replace(partition=1)])
    for topic in records:
        crash_at_zero(config, topic, {"eu": 1})
    assert catch_up(config).exit_code == 0
    values = [record.value for record in read_topic(hub.bootstrap_servers, keyed)]
    assert values == [b"v2", b"v3", b"v1"]
    found = read_topic(hub.bootstrap_servers, spread)
    assert {(it.partition, it.value) for it in found} == {(1, b"v3"), (0, b"v0"), (0, b"v2")}


def fill_compacted(cluster: EmbeddedCluster, topic: str, keys: Sequence[bytes]) -> list[Record]:
    """A compacted topic of one partition with a record per key; returns what it holds."""
    create_topic(cluster.bootstrap_servers, topic, partitions=1, config=COMPACTED)
    records = [NewRecord(b"v%d" % at, key, partition=0) for at, key in enumerate(keys)]
    produce(cluster.bootstrap_servers, topic, records)
    return read_topic(cluster.bootstrap_servers, topic)


def fill(cluster: EmbeddedCluster, topic: str, keys: Sequence[str]) -> list[Record]:
    """A topic of two partitions with a record per key; returns what it holds."""
    create_topic(cluster.bootstrap_servers, topic, partitions=2)
    produce(
        cluster.bootstrap_servers,
        topic,
        [NewRecord(b"%d" % number, key.encode()) for number, key in enumerate(keys)],
    )
    return read_topic(cluster.bootstrap_servers, topic)


def recovery_of(recovery: RecoveryStatus | None) -> RecoveryStatus:
    assert recovery is not None, "nothing was recovered"
    return recovery
