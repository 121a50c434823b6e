"""Batches that are copied as they are (`topics.copy_as`): the hub holds each record once, in order.

What a plain consumer reads of both sides is compared; who came from where is in the values.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.features.peek.read_topic import follow, look_at
from aggregator.features.peek.topic_report import LogSpan
from aggregator.model.errors import EXIT_DONE
from support.application import KILLED, application
from support.clusters import ClusterFactory
from support.groups import commit_at, committed_at
from support.reading import read_topic
from support.running import catch_up
from support.small_plans import AS_OPTIONS
from support.whole_batches import (
    CODECS,
    LARGE,
    PARTITIONS,
    config_of,
    seen,
    whole_part,
    written,
)

KILLS = ("task-pass:90", "task-point:2", "task-pass:60")
SEQUENCES = 2**31
"""How many sequence numbers there are: after the last one comes 0."""
BATCH = 100


def verified(config: Config, folder: Path) -> None:
    """Has `aggregator verify` find that all is there, once and as it was."""
    file = folder / "config.yaml"
    file.write_text(to_yaml(config))
    called(["verify", "-c", str(file), *AS_OPTIONS])


def called(words: list[str]) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == EXIT_DONE, (done.stdout, done.stderr)
    return done.stdout


def shown(config: Config, folder: Path, topic: str) -> None:
    """Has `aggregator peek` show where records are from: here their offsets are those there."""
    words = ["peek", topic, "-c", str(folder / "config.yaml")]
    (look,) = [json.loads(called([*words, "--limit", "40", "-o", "json"]))]
    assert not look["notes"], look
    assert {it["origin"] for it in look["records"]} == {
        f"eu/{topic}-{it['partition']}@{it['offset']}" for it in look["records"]
    }
    assert "origin" not in {header["name"] for it in look["records"] for header in it["headers"]}
    # The table has that column where any record has an origin.
    assert "origin" in called(words)
    # As if all of it came after the look: those by records at first, and whole batches behind.
    spans = [LogSpan(partition=0, earliest=0, latest=0)]
    begun = look_at(config, None, topic, 0).model_copy(update={"partitions": tuple(spans)})
    for at, record in enumerate(islice(follow(config, begun, None), 3_000)):
        assert (record.offset, record.origin) == (at, f"eu/{topic}-0@{at}")


@pytest.mark.timeout(900)
def test_batches_of_each_codec_are_at_the_hub_as_they_were(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    for codec in CODECS:
        topic = f"{unique}.{codec}"
        create_topic(source_a.bootstrap_servers, topic, partitions=PARTITIONS)
        client = {**LARGE, "compression.type": codec}
        produce(source_a.bootstrap_servers, topic, written(codec, 12_000), client=client)
    config = config_of(hub, tmp_path / "state", {"eu": (source_a, f"{unique}.*")})
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    for codec in CODECS:
        topic = f"{unique}.{codec}"
        found = read_topic(hub.bootstrap_servers, topic)
        assert seen(found) == seen(read_topic(source_a.bootstrap_servers, topic)), codec
        assert whole_part(found) > 0.5, codec
    # What was copied so is understood as well when the topics are copied by records from now on.
    topics = config.topics.model_copy(update={"copy_as": "records"})
    config = config.model_copy(update={"topics": topics})
    verified(config, tmp_path)
    shown(config, tmp_path, f"{unique}.zstd")
    # The hub's offsets are the source's here, so a group continues at the same ones.
    places = {0: 3_000, 1: 1_234, 2: 4_000}
    commit_at(source_a.bootstrap_servers, unique, f"{unique}.lz4", places)
    called(["groups", "apply", unique, "-c", str(tmp_path / "config.yaml")])
    assert committed_at(hub.bootstrap_servers, unique, f"{unique}.lz4") == places


@pytest.mark.timeout(900)
def test_killed_again_and_again_each_record_is_there_once_and_in_order(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    client = {**LARGE, "compression.type": "lz4", "batch.size": "30000"}
    config = config_of(hub, tmp_path / "state", {it: (on, unique) for it, on in clusters.items()})
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=PARTITIONS)
    found_again: list[int] = []
    for failpoint in KILLS:
        for alias, cluster in clusters.items():
            more = written(f"{alias}-{failpoint}", 9_000)
            produce(cluster.bootstrap_servers, unique, more, client=client)
        with application(config, tmp_path / "app", failpoint=failpoint) as running:
            running.until(lambda: not running.alive, f"it dies at {failpoint}")
            assert running.exit_code == KILLED, running.text
            assert running.wait_gone()
            found_again += [it["found"] for it in running.events() if it["event"] == "recovered"]
    # What a life has sent is not committed when it dies.
    assert max(found_again) > 0, found_again
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    assert result.status.recovery is not None
    found = read_topic(hub.bootstrap_servers, unique)
    wanted = {it: read_topic(on.bootstrap_servers, unique) for it, on in clusters.items()}
    assert len(found) == sum(map(len, wanted.values()))
    for records in wanted.values():
        own = {it.value for it in records if it.value is not None}
        assert seen([it for it in found if it.value in own]) == seen(
            [it for it in records if it.value is not None]
        )
    assert whole_part(found) > 0.3
    verified(config, tmp_path)


@pytest.mark.timeout(900)
def test_groups_are_kept_in_sync_where_batches_go_as_they_are(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    # Two partitions of the one source and one of the other go to each of the hub's.
    counts = {"eu": 2 * PARTITIONS, "us": PARTITIONS}
    create_topic(hub.bootstrap_servers, unique, partitions=PARTITIONS)
    client = {**LARGE, "compression.type": "lz4"}
    for alias, cluster in clusters.items():
        create_topic(cluster.bootstrap_servers, unique, partitions=counts[alias])
        many = distinct(alias, counts[alias], 12_000)
        produce(cluster.bootstrap_servers, unique, many, client=client)
    groups = {"sync": unique, "every": "1s"}
    sources = {alias: (cluster, unique) for alias, cluster in clusters.items()}
    config = config_of(hub, tmp_path / "state", sources, groups=groups)
    stays = config.stream.model_copy(update={"checkpoint_interval": 1.0})
    config = config.model_copy(update={"stream": stays})
    with application(config, tmp_path / "app") as running:
        running.until(lambda: hub_has(hub, unique, 24_000), "all is copied")
        for places in ({"eu": 500, "us": 2_100}, {"eu": 1_500, "us": 2_100}, {"us": 4_000}):
            for alias, at in places.items():
                most = 12_000 // counts[alias]
                commits = {it: min(at + 7 * it, most) for it in range(counts[alias])}
                commit_at(clusters[alias].bootstrap_servers, unique, unique, commits)
            wanted = first_unread(clusters, hub, unique)
            in_sync = partial(is_committed, hub, unique, wanted)
            running.until(in_sync, f"the group continues at {wanted}")
    assert whole_part(read_topic(hub.bootstrap_servers, unique)) > 0.5


def distinct(alias: str, partitions: int, count: int) -> Iterator[NewRecord]:
    """Records of which each has another value, that compression makes little smaller."""
    chance = random.Random(alias)
    for at in range(count):
        filler = chance.randbytes(150)
        yield NewRecord(b"%s-%d-" % (alias.encode(), at) + filler, None, at % partitions)


def hub_has(hub: EmbeddedCluster, topic: str, count: int) -> bool:
    return sum(end_offsets(hub.bootstrap_servers, topic).values()) >= count


def is_committed(hub: EmbeddedCluster, topic: str, wanted: dict[int, int]) -> bool:
    return committed_at(hub.bootstrap_servers, topic, topic) == wanted


def first_unread(
    clusters: dict[str, EmbeddedCluster], hub: EmbeddedCluster, topic: str
) -> dict[int, int]:
    """The lowest offset of each hub partition with a record that the group has not read."""
    unread = set[bytes | None]()
    for cluster in clusters.values():
        commits = committed_at(cluster.bootstrap_servers, topic, topic)
        records = read_topic(cluster.bootstrap_servers, topic)
        unread |= {it.value for it in records if it.offset >= commits[it.partition]}
    found = dict(end_offsets(hub.bootstrap_servers, topic))
    for it in read_topic(hub.bootstrap_servers, topic):
        if it.value in unread:
            found[it.partition] = min(found[it.partition], it.offset)
    return found


def begin_at(cluster: EmbeddedCluster, topic: str, firsts: dict[int, int]) -> None:
    """Have empty partitions of a topic begin at these offsets, as if all before were deleted."""
    (broker,) = cluster.brokers
    broker.stop()
    for partition, first in firsts.items():
        for file in (broker.home / "data" / f"{topic}-{partition}").glob(f"{0:020}.*"):
            file.rename(file.with_name(f"{first:020}{file.suffix}"))
    broker.start()


def write_batches(servers: str, topic: str, count: int, tag: str) -> None:
    """Write `count` batches of a hundred records to each of two partitions."""
    for number in range(count):
        for partition in range(2):
            one = [
                NewRecord(f"{tag}-{number}-{at}-".encode() + b"." * 200, b"key-%d" % at, partition)
                for at in range(BATCH)
            ]
            produce(servers, topic, one, client=LARGE)


@pytest.mark.timeout(600)
def test_batches_at_both_sides_of_the_offset_where_sequences_begin_again_are_there_once(
    hub: EmbeddedCluster, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    """In one partition a batch begins there, in the other it lies in the midst of one."""
    long = cluster_factory("long")
    servers = long.bootstrap_servers
    create_topic(servers, unique, partitions=2)
    before = 30 * BATCH
    firsts = {0: SEQUENCES - before, 1: SEQUENCES - before + BATCH // 2}
    begin_at(long, unique, firsts)
    config = config_of(hub, tmp_path / "state", {"eu": (long, unique)})
    # What a life has handed over need not be at the hub when it is killed, so one ends first.
    write_batches(servers, unique, 20, "first")
    assert catch_up(config).exit_code == EXIT_DONE
    write_batches(servers, unique, 40, "killed")
    # By then the first partition is beyond: of the other one, no more than 10 batches go whole.
    with application(config, tmp_path / "app", failpoint="task-pass:45") as running:
        running.until(lambda: not running.alive, "it dies")
        assert running.exit_code == KILLED, running.text
        assert running.wait_gone()
    # The other one may be beyond when that is copied; behind a hole no run begins at once.
    for tag in ("second", "third"):
        write_batches(servers, unique, 20, tag)
        result = catch_up(config)
        assert (result.exit_code, result.problems) == (0, ())
    wanted = read_topic(servers, unique)
    assert {it.partition: it.offset for it in reversed(wanted)} == firsts
    found = read_topic(hub.bootstrap_servers, unique)
    assert seen(found) == seen(wanted)
    for partition in range(2):
        own = [it for it in found if it.partition == partition]
        assert whole_part(own[:before]) > 0.3
        assert whole_part(own[before:]) > 0.2
    verified(config, tmp_path)
