"""The table of gaps, beside the checkpoints: a row when a gap is found, one for what became of it.

Append-only; the row of a gap with the highest number has its state. The running instance and
the command line may append at the same time: the later one has the higher number.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from deltalake import DeltaTable

from aggregator.model.alike import made_of
from aggregator.model.errors import CheckpointError, RefusedError
from aggregator.model.failpoint import failpoint
from aggregator.model.values import LogId, SourcePartition
from aggregator.plan.positions.gaps import Decision, GapRecord
from aggregator.plan.positions.start import Gap, GapKind
from aggregator.store.delta import NO_HOOKS
from aggregator.store.row_model import INT32, RowModel
from aggregator.store.state_store import StateStore, StateTable, is_tidy_due, quoted

TABLE = "gaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """A row. Offsets are [from_offset, to_offset); `seq` counts the rows of one gap from 1 on."""

    gap: str
    seq: int
    recorded_at: datetime
    found_at: datetime
    epoch: int
    cluster: str
    topic: str
    partition: Annotated[int, INT32]
    cause: GapKind
    position: int
    from_offset: int
    to_offset: int | None = None
    lost: int | None = None
    cluster_id_then: str = ""
    cluster_id_now: str = ""
    topic_id_then: str = ""
    topic_id_now: str = ""
    decision: Decision
    decided_at: datetime | None = None
    resolved: bool
    resumes_at: int | None = None
    decided_on: int | None = None
    reason: str = ""
    note: str = ""


ROWS = RowModel(GapRow)


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
        if (delta := self._table.open()) is None:
            return {}
        return {record.id: record for record, _ in self._read(delta).values()}

    def select(self, source: str | None, topic: str | None) -> list[GapRecord]:
        """The newest record of each gap, of a source and a topic where they are given."""
        return [
            record
            for record in self.load().values()
            if source in (None, record.gap.partition.cluster)
            and topic in (None, record.gap.partition.topic)
        ]

    def accept(
        self, names: Sequence[str], source: str | None, topic: str | None
    ) -> list[GapRecord]:
        """Accept open gaps: those with these ids, or with none all of a source or topic.

        A running instance continues at its next discovery, else the next start does. Raises
        RefusedError for an id that is no open gap, and when nothing is named at all.
        """
        if not names and source is None and topic is None:
            raise RefusedError(["name gaps by their ids, or all open ones by source or topic"])
        found = {it.id: it for it in self.select(source, topic) if not it.resolved}
        if unknown := sorted(set(names) - found.keys()):
            raise RefusedError(
                [f"no open gap {', '.join(unknown)}; `aggregator gaps --open` lists them"]
            )
        now = datetime.now(UTC)
        chosen = [found[name] for name in dict.fromkeys(names)] if names else list(found.values())
        accepted = [record.accepted(now) for record in chosen]
        self.append(accepted)
        return accepted

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

        written = self._table.append_next(ROWS.schema, rows)
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

    def _read(self, delta: DeltaTable) -> dict[str, tuple[GapRecord, int]]:
        """Gap id -> its newest record and that row's seq, in the order of finding."""
        with self._table.translated("read"):
            rows = [ROWS.item(it) for it in self._table.dataset(delta).to_table().to_pylist()]
        rows.sort(key=lambda row: (row.seq, row.recorded_at))
        newest = {row.gap: (_record(row), row.seq) for row in rows}.values()
        by_age = sorted(newest, key=lambda it: (it[0].found_at, it[0].gap.partition))
        return {record.id: (record, seq) for record, seq in by_age}


def _row(record: GapRecord, seq: int, now: datetime) -> dict[str, Any]:
    gap = record.gap
    row = made_of(
        GapRow,
        record,
        gap.partition,
        gap,
        gap=record.id,
        seq=seq,
        recorded_at=now,
        **gap.as_columns(),
    )
    return ROWS.row(row)


def _record(row: GapRow) -> GapRecord:
    gap = made_of(
        Gap,
        row,
        partition=SourcePartition(row.cluster, row.topic, row.partition),
        kind=row.cause,
        start=row.from_offset,
        end=row.to_offset,
        then=LogId(row.cluster_id_then, row.topic_id_then),
        now=LogId(row.cluster_id_now, row.topic_id_now),
    )
    return made_of(GapRecord, row, id=row.gap, gap=gap)
