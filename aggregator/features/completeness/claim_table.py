"""The table `completeness` beside the checkpoints: what was claimed, a row whenever it changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aggregator.plan.completeness.claims import Claim, Laggard, Lost
from aggregator.store.checkpoint.rows import to_millis, to_moment
from aggregator.store.state_store import StateStore

TABLE = "completeness"
MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("at", MOMENT),
        ("source", pa.string()),
        ("topic", pa.string()),
        ("up_to", MOMENT),
        ("lost", pa.int64()),
        ("gaps", pa.int64()),
        ("laggard_source", pa.string()),
        ("laggard_topic", pa.string()),
        ("laggard_partition", pa.int32()),
        ("why", pa.string()),
        ("reason", pa.string()),
        ("topics", pa.string()),
        ("cluster_id", pa.string()),
        ("hub_cluster_id", pa.string()),
    ]
)
"""Columns and their types. `source` is null for all together; `topics` are its own, as JSON."""


class CompletenessTable:
    """Whatever cannot be read or written is a CheckpointError.

    A commit is not forced to the disk: a power loss may cost the last rows, and a claim then starts
    a little lower.
    """

    def __init__(self, store: StateStore) -> None:
        self._table = store.table(TABLE)

    def append(self, claims: Sequence[Claim], at_ms: int) -> None:
        """Append a row for each claim in one commit; the table is made if there is none."""
        if claims:
            rows = [_row(claim, at_ms) for claim in claims]
            self._table.append(pa.Table.from_pylist(rows, schema=SCHEMA))

    def newest(self, topic: str | None = None) -> tuple[Claim, ...]:
        """The newest claim of each source, and of all together; of this hub topic, or of all."""
        delta = self._table.open(may_be_begun=True)
        if delta is None:
            return ()
        wanted = None if topic is None else pc.field("topic") == topic
        with self._table.translated("read"):
            found = self._table.dataset(delta).to_table(filter=wanted).sort_by("at")
            rows: list[dict[str, Any]] = found.to_pylist()
        newest: dict[tuple[str | None, str], Claim] = {}
        for row in rows:
            claim = _claim(row)
            before = newest.get((claim.source, claim.topic))
            newest[claim.source, claim.topic] = _merged(before, claim)
        return tuple(newest.values())

    def claims(self, begin: datetime, end: datetime) -> tuple[tuple[datetime, Claim], ...]:
        """What was written down in [begin, end), and when, in the order of time."""
        delta = self._table.open(may_be_begun=True)
        if delta is None:
            return ()
        wanted = (pc.field("at") >= begin) & (pc.field("at") < end)
        with self._table.translated("read"):
            found = self._table.dataset(delta).to_table(filter=wanted).sort_by("at")
            return tuple((row["at"], _claim(row)) for row in found.to_pylist())

    def maintain(self, before: datetime) -> int:
        """Drop rows older than `before`, merge small files, cut the log; returns rows dropped."""
        return self._table.trim(before)


def _merged(before: Claim | None, claim: Claim) -> Claim:
    """The newer one, which an instance that was replaced may have written with less in it."""
    if before is None or before.source is None or before.up_to_ms is None:
        return claim
    if not before.covers(claim.topics, claim.cluster_id, claim.hub_id):
        return claim
    if claim.up_to_ms is not None and claim.up_to_ms >= before.up_to_ms:
        return claim
    if before.topics != claim.topics:
        return claim
    return Claim(
        source=claim.source,
        topic=claim.topic,
        up_to_ms=before.up_to_ms,
        laggard=claim.laggard,
        lost=claim.lost,
        topics=claim.topics,
        cluster_id=claim.cluster_id,
        hub_id=claim.hub_id,
    )


def _row(claim: Claim, at_ms: int) -> dict[str, Any]:
    laggard = claim.laggard
    return {
        "at": to_moment(at_ms),
        "source": claim.source,
        "topic": claim.topic,
        "up_to": None if claim.up_to_ms is None else to_moment(claim.up_to_ms),
        "lost": claim.lost.offsets,
        "gaps": claim.lost.gaps,
        "laggard_source": laggard.source if laggard else None,
        "laggard_topic": laggard.topic if laggard else None,
        "laggard_partition": laggard.partition if laggard else None,
        "why": laggard.why if laggard else None,
        "reason": laggard.reason if laggard else None,
        "topics": json.dumps(list(claim.topics)),
        "cluster_id": claim.cluster_id,
        "hub_cluster_id": claim.hub_id,
    }


def _claim(row: Mapping[str, Any]) -> Claim:
    laggard = None
    if row["why"]:
        laggard = Laggard(
            row["laggard_source"] or "",
            row["why"],
            row["reason"] or "",
            row["laggard_topic"] or "",
            row["laggard_partition"],
        )
    up_to: datetime | None = row["up_to"]
    return Claim(
        row["source"],
        row["topic"],
        None if up_to is None else to_millis(up_to),
        laggard,
        Lost(row["lost"] or 0, row["gaps"] or 0),
        tuple(json.loads(row["topics"] or "[]")),
        row["cluster_id"] or "",
        row["hub_cluster_id"] or "",
    )
