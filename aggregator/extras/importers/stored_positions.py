"""Converts the stored offsets of other tools to our positions. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aggregator.model.values import TopicPartition

FLUSH_SECONDS = 60
"""How often Connect's workers and MirrorMaker 1 store positions by default."""


@dataclass(frozen=True, slots=True)
class StoredPositions:
    """The NEXT offsets of a source as another tool has stored them, and `when` it did so last.

    With `refused` there are none to be had.
    """

    alias: str
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    when_ms: int = 0
    refused: str = ""


def offset_of(
    key: bytes | None, value: bytes | None, connector: str, cluster: str
) -> tuple[TopicPartition, int | None] | None:
    """The NEXT offset that a record of an offsets topic says, None as offset when it was deleted.

    None for a record that is about another connector or cluster, or is of another form. MirrorMaker
    2 stores the offset of the last record that it has read (`MirrorSourceTask` wraps the record's
    own, and begins behind it), so the next one is used.
    """
    found = _json(key)
    if not (isinstance(found, list) and len(found) == 2 and found[0] == connector):
        return None
    place = found[1]
    if not isinstance(place, dict) or place.get("cluster") != cluster:
        return None
    topic, partition = place.get("topic"), place.get("partition")
    if not isinstance(topic, str) or not isinstance(partition, int):
        return None
    tp = TopicPartition(topic, partition)
    if value is None:
        return tp, None
    stored = _json(value)
    offset = stored.get("offset") if isinstance(stored, dict) else None
    return (tp, offset + 1) if isinstance(offset, int) and offset >= 0 else (tp, None)


def by_topic(positions: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    """Topic -> partition -> offset, sorted."""
    found: dict[str, dict[int, int]] = {}
    for tp, at in sorted(positions.items()):
        found.setdefault(tp.topic, {})[tp.partition] = at
    return found


def how_far_off(
    alias: str, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> str:
    """In words how many records the hub may have twice, if the other tool was not stopped cleanly.

    No more than its source holds behind what was stored. `ends` are the ends of the source's logs.
    """
    unknown = sum(tp not in ends for tp in positions)
    most = sum(max(0, ends[tp] - at) for tp, at in positions.items() if tp in ends)
    head = f"{alias}: stopped cleanly, the other tool has left nothing that comes twice"
    if unknown:
        return f"{head}; how much it may be otherwise is unknown, as a log's end is not known"
    if not most:
        return f"{alias}: the source holds nothing behind these positions, so nothing comes twice"
    return (
        f"{head}; otherwise no more than the {most:,} offsets that the source holds behind these "
        f"positions, of which it had written what came to it after it stored them last (every "
        f"{FLUSH_SECONDS} s by default)"
    )


def _json(content: bytes | None) -> Any:
    try:
        return None if content is None else json.loads(content)
    except ValueError:
        return None
