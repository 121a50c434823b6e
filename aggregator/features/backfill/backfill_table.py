"""The table of backfills, beside the checkpoints: a row with each change of one, the newest counts.

A row holds the whole backfill, its positions and the hub's ends that belong to them among it. So
each commit is one, and all of it is right or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from aggregator.features.backfill.ranges import Backfill, BackfillPart, BackfillState
from aggregator.model.values import LogId, SourcePartition, TopicPartition
from aggregator.store.state_store import StateStore

TABLE, KEY = "backfills", "id"

_PART = pa.struct(
    [
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("position", pa.int64()),
        ("lost", pa.int64()),
    ]
)
_END = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("id", pa.string()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("cluster_id", pa.string()),
        ("topic_id", pa.string()),
        ("ordered_at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("records_per_second", pa.float64()),
        ("bytes_per_second", pa.float64()),
        ("records", pa.int64()),
        ("parts", pa.list_(_PART)),
        ("hub_ends", pa.list_(_END)),
    ]
)


@dataclass(frozen=True, slots=True)
class BackfillTable:
    """The table under `path` (the setting checkpoint.path).

    Whatever cannot be read or written is a CheckpointError; `put` returns when the row is in the
    table, on a local disk forced to the disk.
    """

    store: StateStore

    def load(self) -> dict[str, Backfill]:
        """Every backfill as it was last known, in the order in which they were ordered."""
        newest = {row["id"]: row for row in self.store.table(TABLE).rows()}
        found = sorted(map(_backfill, newest.values()), key=lambda it: it.ordered_at)
        return {it.id: it for it in found}

    def partitions(self) -> frozenset[SourcePartition]:
        """Those of which a backfill has read anything: old records may stand behind newer ones."""
        return frozenset(
            part.partition
            for backfill in self.load().values()
            for part in backfill.parts
            if part.position > part.start
        )

    def put(self, backfill: Backfill) -> None:
        """Note how a backfill is now."""
        row = {
            "at": datetime.now(UTC),
            "id": backfill.id,
            "cluster": backfill.cluster,
            "topic": backfill.topic,
            "cluster_id": backfill.log.cluster,
            "topic_id": backfill.log.topic,
            "ordered_at": backfill.ordered_at,
            "by": backfill.by,
            "state": str(backfill.state),
            "reason": backfill.reason,
            "records_per_second": backfill.records_per_second,
            "bytes_per_second": backfill.bytes_per_second,
            "records": backfill.records,
            "parts": [
                {
                    "partition": it.partition.partition,
                    "start": it.start,
                    "end": it.end,
                    "position": it.position,
                    "lost": it.lost,
                }
                for it in backfill.parts
            ],
            "hub_ends": [
                {"topic": tp.topic, "partition": tp.partition, "offset": end}
                for tp, end in backfill.bound.items()
            ],
        }
        self.store.table(TABLE).append_notes([row], SCHEMA, KEY)


def _backfill(row: Mapping[str, Any]) -> Backfill:
    cluster, topic = row["cluster"], row["topic"]
    return Backfill(
        id=row["id"],
        cluster=cluster,
        topic=topic,
        parts=tuple(
            BackfillPart(
                SourcePartition(cluster, topic, it["partition"]),
                it["start"],
                it["end"],
                it["position"],
                it["lost"],
            )
            for it in row["parts"]
        ),
        ordered_at=row["ordered_at"],
        at=row["at"],
        log=LogId(row["cluster_id"], row["topic_id"]),
        bound={
            TopicPartition(it["topic"], it["partition"]): it["offset"] for it in row["hub_ends"]
        },
        state=BackfillState(row["state"]),
        reason=row["reason"],
        by=row["by"],
        records_per_second=row["records_per_second"],
        bytes_per_second=row["bytes_per_second"],
        records=row["records"],
    )
