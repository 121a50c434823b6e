"""The table `dedup` beside the checkpoints: events of the window, and which hub ends they cover.

A row is an event: the hash of its id in two halves, and since when the hub holds it. A row without
a hash is a mark: every event of the hub topic below these hub ends is in rows of that commit or
an earlier one of the same life, or was not our own. A life of a hub topic ends when it is created
again, or has lost its newest records: what an earlier life held is worth nothing in the next.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from aggregator.store.checkpoint.rows import to_moment
from aggregator.store.state_store import StateStore

TABLE = "dedup"
MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("at", MOMENT),
        ("hub_topic", pa.string()),
        ("by", pa.string()),
        ("high", pa.int64()),
        ("low", pa.int64()),
        ("ends", pa.string()),
        ("life", pa.int64()),
        ("topic_id", pa.string()),
    ]
)
"""Columns and their types. `by` is the rule that identified the events.

Tables of earlier versions lack the last two: null is the first life, of a topic that is not known.
"""
ROW_BYTES = 20
"""An event as the connector hands it over: all upper halves, all lower ones, all seconds."""
ROWS_AT_ONCE = 100_000


class Rule(NamedTuple):
    """The events of one hub topic, identified by one rule."""

    hub_topic: str
    by: str


@dataclass(frozen=True, slots=True)
class TopicLife:
    """A life of a hub topic. An id of "" is not known, and proves nothing."""

    number: int = 0
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class KnownEvents:
    """The events of a life are known below these ends; without any, nothing is known."""

    life: TopicLife
    ends: tuple[int, ...] = ()


class DedupTable:
    """Whatever cannot be read or written is a CheckpointError.

    A commit is not forced to the disk: a power loss may cost the last rows with their mark, and
    then a start reads more of the hub.
    """

    def __init__(self, store: StateStore) -> None:
        self._table = store.table(TABLE)

    def append(
        self, rule: Rule, life: TopicLife, events: bytes, ends: Sequence[int] | None, at_ms: int
    ) -> None:
        """Append events, and with `ends` a mark, in one commit."""
        rows = to_rows(rule, life, events)
        if ends is not None:
            note = {"at": to_moment(at_ms), "hub_topic": rule.hub_topic, "by": rule.by}
            ends_of = {
                "ends": json.dumps(list(ends)),
                "life": life.number,
                "topic_id": life.topic_id,
            }
            rows = pa.concat_tables([rows, pa.Table.from_pylist([note | ends_of], schema=SCHEMA)])
        self._table.append(rows)

    def mark(self, rule: Rule, since: datetime) -> KnownEvents | None:
        """The newest mark that is not older than `since`; None when there is none."""
        delta = self._table.open(may_be_begun=True)
        if delta is None:
            return None
        wanted = _of(rule) & pc.field("ends").is_valid() & (pc.field("at") >= since)
        with self._table.translated("read"):
            rows = self._table.dataset(delta)
            found = rows.to_table(filter=wanted)
        if not found.num_rows:
            return None
        if "life" in found.column_names:
            # A later life has a higher number, whatever the clocks of its writers said.
            lives = pc.fill_null(found["life"], 0)
            found = found.filter(pc.equal(lives, pc.max(lives)))
        newest = found.sort_by("at").slice(found.num_rows - 1).to_pylist()[0]
        life = TopicLife(newest.get("life") or 0, newest.get("topic_id") or "")
        return KnownEvents(life, tuple(json.loads(newest["ends"])))

    def events(self, rule: Rule, life: TopicLife, since: datetime) -> Iterator[bytes]:
        """The events of a life that are held since then or later, as the connector takes them."""
        delta = self._table.open(may_be_begun=True)
        if delta is None:
            return
        wanted = _of(rule) & pc.field("high").is_valid() & (pc.field("at") >= since)
        with self._table.translated("read"):
            found = self._table.dataset(delta)
            # Not by the filter: where a file lacks the column that would leave all of it out.
            lives = ["life"] if "life" in found.schema.names else []
            for batch in found.to_batches(
                ["at", "high", "low", *lives], filter=wanted, batch_size=ROWS_AT_ONCE
            ):
                if lives:
                    batch = batch.filter(pc.equal(pc.fill_null(batch["life"], 0), life.number))
                if batch.num_rows and (lives or life.number == 0):
                    yield to_bytes(batch)

    def maintain(self, before: datetime) -> int:
        """Drop rows older than `before`, merge small files, cut the log; returns rows dropped."""
        return self._table.trim(before)


def to_rows(rule: Rule, life: TopicLife, events: bytes) -> pa.Table:
    """Events as rows of the table."""
    count = len(events) // ROW_BYTES
    buffer = pa.py_buffer(events)

    def column(kind: pa.DataType, start: int, size: int) -> pa.Array:
        part = buffer.slice(start * count, size * count)
        return pa.Array.from_buffers(kind, count, [None, part])

    seconds = column(pa.int32(), 16, 4).cast(pa.int64())
    micros = pc.multiply(seconds, 1_000_000)
    return pa.table(
        [
            micros.cast(pa.timestamp("us")).cast(MOMENT),
            pa.repeat(pa.scalar(rule.hub_topic), count),
            pa.repeat(pa.scalar(rule.by), count),
            column(pa.int64(), 0, 8),
            column(pa.int64(), 8, 8),
            pa.nulls(count, pa.string()),
            pa.repeat(pa.scalar(life.number), count),
            pa.nulls(count, pa.string()),
        ],
        schema=SCHEMA,
    )


def to_bytes(rows: pa.RecordBatch) -> bytes:
    """Rows of the table as the connector takes them."""
    micros = rows["at"].cast(pa.int64())
    seconds = pc.divide(micros, 1_000_000).cast(pa.int32())
    parts = (rows["high"], rows["low"], seconds)
    return b"".join(it.to_numpy(zero_copy_only=False).tobytes() for it in parts)


def _of(rule: Rule) -> pc.Expression:
    return (pc.field("hub_topic") == rule.hub_topic) & (pc.field("by") == rule.by)
