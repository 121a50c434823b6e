"""Batches that are copied as they are (`topics.copy_as`): the hub holds each record once, in order.

What a plain consumer reads of both sides is compared; who came from where is in the values.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.model.errors import EXIT_DONE
from support.application import KILLED, application
from support.groups import commit_at, committed_at
from support.reading import Headers, Record, read_topic
from support.running import catch_up, make_config, source

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
LARGE = {"linger.ms": "200", "batch.size": "200000"}
"""A producer whose batches are worth to be copied as they are."""
KILLS = ("task-pass:90", "task-point:2", "task-pass:60")


def written(alias: str, count: int) -> Iterator[NewRecord]:
    """Records of many shapes, each another one."""
    chance = random.Random(alias)
    shapes: list[list[tuple[str, bytes | None]]] = [[], [("a", b"1"), ("a", None)], [("b", b"")]]
    for at in range(count):
        key = None if at % 7 == 0 else b"key-%d" % (at % 211)
        value = None if at % 11 == 0 and key else b"%s %d " % (alias.encode(), at)
        filler = b"" if value is None else chance.randbytes(100).hex().encode()
        whole = None if value is None else value + filler
        yield NewRecord(whole, key, at % PARTITIONS, shapes[at % 3])


def seen(records: list[Record]) -> dict[int, list[tuple[Any, ...]]]:
    """What the partitions hold, without the origin."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for it in records:
        content = (it.timestamp, it.key, it.value, own_headers(it))
        found.setdefault(it.partition, []).append(content)
    return found


def own_headers(record: Record) -> Headers:
    """The headers without the origin, which records of whole batches do not have."""
    return record.own_headers if has_origin(record) else record.headers


def has_origin(record: Record) -> bool:
    return bool(record.headers) and record.headers[-1][0] == "origin"


def whole_part(records: list[Record]) -> float:
    """How much of it came with whole batches."""
    return sum(not has_origin(it) for it in records) / len(records)


def verified(config: Config, folder: Path) -> None:
    """Has `aggregator verify` find that all is there, once and as it was."""
    file = folder / "config.yaml"
    file.write_text(to_yaml(config))
    called(["verify", "-c", str(file)])


def called(words: list[str]) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == EXIT_DONE, (done.stdout, done.stderr)


def config_of(
    hub: EmbeddedCluster, state: Path, sources: dict[str, tuple[EmbeddedCluster, str]]
) -> Config:
    return make_config(
        hub,
        state,
        {alias: source(cluster, include) for alias, (cluster, include) in sources.items()},
        topics={"copy_as": "batches", "partition_by": "source_partition", "origin": "header"},
        stream={"checkpoint_interval": "30s"},
        api={"listen": "off"},
    )


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
    verified(config, tmp_path)
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
