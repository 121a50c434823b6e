"""The table of gaps, beside the checkpoints: a row when a gap is found, one for what became of it.

Append-only; the row of a gap with the highest number has its state. The running instance and
the command line may append at the same time: the later one has the higher number.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from aggregator.model.errors import CheckpointError
from aggregator.model.failpoint import failpoint
from aggregator.model.values import LogId, SourcePartition
from aggregator.plan.positions.gaps import Decision, GapRecord
from aggregator.plan.positions.start import Gap, GapKind
from aggregator.store.delta import NO_HOOKS
from aggregator.store.state_store import StateStore, StateTable, is_tidy_due, quoted

TABLE = "gaps"

MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("gap", pa.string()),
        ("seq", pa.int64()),
        ("recorded_at", MOMENT),
        ("found_at", MOMENT),
        ("epoch", pa.int64()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("cause", pa.string()),
        ("position", pa.int64()),
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),
        ("lost", pa.int64()),
        ("cluster_id_then", pa.string()),
        ("cluster_id_now", pa.string()),
        ("topic_id_then", pa.string()),
        ("topic_id_now", pa.string()),
        ("decision", pa.string()),
        ("decided_at", MOMENT),
        ("resolved", pa.bool_()),
        ("resumes_at", pa.int64()),
        ("decided_on", pa.int64()),
        ("reason", pa.string()),
        ("note", pa.string()),
    ]
)
"""Offsets are [from_offset, to_offset); `seq` counts the rows of one gap from 1 on."""


@dataclass(frozen=True, slots=True)
class GapTable:
    """The table under `path` (the setting checkpoint.path); may be used by several threads.

    Guarantee: `append` returns only when the rows are in the table, on a local disk forced to the
    disk. Whatever cannot be read or written is a CheckpointError.
    """

    store: StateStore

    @property
    def _table(self) -> StateTable:
        return self.store.table(TABLE)

    def load(self) -> dict[str, GapRecord]:
        """The newest record of each gap, by its id, in the order in which they were found."""
        return {record.id: record for record, _ in self._load().values()}

    def append(self, records: Iterable[GapRecord]) -> None:
        """Write one row for each record, in one commit; nothing when there are none."""
        wanted = list(records)
        if not wanted:
            return
        now = datetime.now(UTC)

        def rows(delta: DeltaTable) -> list[dict[str, Any]]:
            known = self._read(delta)
            return [
                _row(record, known[record.id][1] + 1 if record.id in known else 1, now)
                for record in wanted
            ]

        written = self._table.append_next(SCHEMA, rows)
        failpoint("after-gap")
        if is_tidy_due(written):
            # The rows are written. What fails here is done after as many again, or by `maintain`.
            with suppress(CheckpointError):
                self.tidy()

    def tidy(self) -> int | None:
        """Make few files of many, and drop the rows of each gap that its newest one has replaced.

        Returns how many rows were dropped; None when there is no table.
        """
        delta = self._table.open()
        if delta is None:
            return None
        newest: dict[int, list[str]] = {}
        for gap, (_, seq) in self._read(delta).items():
            newest.setdefault(seq, []).append(quoted(gap))
        dropped = 0
        with self._table.translated("maintained"):
            for seq, gaps in newest.items():
                if seq > 1:
                    older = f"seq < {seq} AND gap IN ({', '.join(gaps)})"
                    done = delta.delete(older, post_commithook_properties=NO_HOOKS)
                    dropped += int(done.get("num_deleted_rows") or 0)
            self._table.make_few(delta)
        return dropped

    def resolve(
        self, partitions: Collection[SourcePartition], how: str, at: datetime
    ) -> list[GapRecord]:
        """Close every open gap of these partitions, because something else settled it (`how`).

        For positions that are set by hand: the next start uses them. Returns what was closed.
        """
        closed = [
            record.closed(how, at)
            for record in self.load().values()
            if not record.resolved and record.gap.partition in partitions
        ]
        self.append(closed)
        return closed

    def _load(self) -> dict[str, tuple[GapRecord, int]]:
        delta = self._table.open()
        return {} if delta is None else self._read(delta)

    def _read(self, delta: DeltaTable) -> dict[str, tuple[GapRecord, int]]:
        """Gap id -> its newest record and that row's seq, in the order of finding."""
        with self._table.translated("read"):
            rows = self._table.dataset(delta).to_table().to_pylist()
        newest: dict[str, dict[str, Any]] = {}
        for row in sorted(rows, key=lambda row: (row["seq"], row["recorded_at"])):
            newest[row["gap"]] = row
        ordered = sorted(newest.values(), key=lambda row: (row["found_at"], _partition(row)))
        return {row["gap"]: (_record(row), row["seq"]) for row in ordered}


def _row(record: GapRecord, seq: int, now: datetime) -> dict[str, Any]:
    gap = record.gap
    return {
        "gap": record.id,
        "seq": seq,
        "recorded_at": now,
        "found_at": record.found_at,
        "epoch": record.epoch,
        "cluster": gap.partition.cluster,
        "topic": gap.partition.topic,
        "partition": gap.partition.partition,
        "cause": str(gap.kind),
        "position": gap.position,
        "from_offset": gap.start,
        "to_offset": gap.end,
        "lost": gap.lost,
        "cluster_id_then": gap.then.cluster,
        "cluster_id_now": gap.now.cluster,
        "topic_id_then": gap.then.topic,
        "topic_id_now": gap.now.topic,
        "decision": str(record.decision),
        "decided_at": record.decided_at,
        "resolved": record.resolved,
        "resumes_at": record.resumes_at,
        "decided_on": record.decided_on,
        "reason": gap.reason,
        "note": record.note,
    }


def _record(row: Mapping[str, Any]) -> GapRecord:
    gap = Gap(
        _partition(row),
        GapKind(row["cause"]),
        row["from_offset"],
        row["to_offset"],
        row["reason"],
        row["position"],
        row["lost"],
        LogId(row["cluster_id_then"], row["topic_id_then"]),
        LogId(row["cluster_id_now"], row["topic_id_now"]),
    )
    return GapRecord(
        row["gap"],
        gap,
        row["found_at"],
        row["epoch"],
        Decision(row["decision"]),
        row["decided_at"],
        row["resolved"],
        row["resumes_at"],
        row["decided_on"],
        row["note"],
    )


def _partition(row: Mapping[str, Any]) -> SourcePartition:
    return SourcePartition(row["cluster"], row["topic"], row["partition"])
