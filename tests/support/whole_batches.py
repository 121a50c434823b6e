"""Configs that copy batches as they are, and what a plain consumer reads of them at both sides."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord
from support.reading import Headers, Record
from support.running import make_config, source

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
LARGE = {"linger.ms": "200", "batch.size": "200000"}
"""A producer whose batches are worth to be copied as they are."""


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


def config_of(
    hub: EmbeddedCluster,
    state: Path,
    sources: dict[str, tuple[EmbeddedCluster, str]],
    **of_source: Any,
) -> Config:
    return make_config(
        hub,
        state,
        {
            alias: source(cluster, include, **of_source)
            for alias, (cluster, include) in sources.items()
        },
        topics={"copy_as": "batches", "partition_by": "source_partition", "origin": "header"},
        stream={"checkpoint_interval": "30s"},
        api={"listen": "off"},
    )


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
