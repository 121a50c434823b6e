"""Heartbeat records: for which sources, and their bytes, as in MirrorMaker 2. Pure.

MirrorMaker 2 (org.apache.kafka.connect.mirror.Heartbeat, Kafka 4.3) writes structs of Kafka's
protocol: numbers in network order, and a string as its length in two bytes and its UTF-8 text.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from aggregator.model.values import SourcePartition, SourceState

TARGET = "hub"
"""What the hub is called in a heartbeat: the config knows no alias of it."""
VERSION = 0
GOING = (SourceState.RUNNING, SourceState.CATCHING_UP)


def beating(
    states: Mapping[str, SourceState], reading: Collection[SourcePartition]
) -> frozenset[str]:
    """The sources that get a heartbeat: they answer, and of each a lane reads some partition.

    So one that is paused, silent, refused or not selected gets none, and that says so.
    """
    read = {sp.cluster for sp in reading}
    return frozenset(alias for alias in read if states.get(alias) in GOING)


def key_of(source: str, target: str = TARGET) -> bytes:
    """The key of a heartbeat: {source alias, target alias}."""
    return _text(source) + _text(target)


def value_of(at_ms: int) -> bytes:
    """The value of a heartbeat: a header {version}, then {timestamp}."""
    return struct.pack(">hq", VERSION, at_ms)


def _text(words: str) -> bytes:
    content = words.encode()
    return struct.pack(">h", len(content)) + content
