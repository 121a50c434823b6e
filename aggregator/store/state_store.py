"""The small append-only tables beside the checkpoints: decisions of people, and history.

A reader takes the newest row of what it asks for: the one with the highest `seq`. Each row gets the
number after the highest that the table has. The column `at` is for people, as the clocks of
machines differ. Whatever cannot be read or written is a CheckpointError.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Self

import pyarrow as pa
from deltalake import DeltaTable, Schema, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyarrow.dataset import Dataset, Expression

from aggregator.config.schema import CheckpointConfig
from aggregator.model.errors import CheckpointError
from aggregator.store.delta import (
    NO_HOOKS,
    at_known_version,
    cut_log,
    dataset,
    highest,
    make_durable,
    open_delta,
    table_uri,
    translated,
)
from aggregator.store.row_model import RowModel, T

SEQ = "seq"
ATTEMPTS = 50
"""Each that fails means that another writer has written."""
KEEP_HOURS = 1
"""How long files that are no longer part of a table stay for readers that still use them."""
TIDY_EVERY = 100
"""After this many commits the last writer merges the files."""
CONFIGURATION = {"delta.logRetentionDuration": f"interval {KEEP_HOURS} hours"}
"""Commits need no longer than what they are about. Delta's own default is 30 days."""


@dataclass(frozen=True, slots=True)
class StateStore:
    """Where the tables of an aggregation are: the setting checkpoint.path, and how to reach it."""

    path: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, place: CheckpointConfig) -> Self:
        """The store that a config names."""
        return cls(place.path, place.storage_options)

    def table(self, name: str) -> StateTable:
        """A table by its name, which need not exist."""
        return StateTable(self, name)

    def log(self, name: str, model: type[T], *, key: str = "", durable: bool = True) -> Log[T]:
        """The table `name`, whose rows are items of `model`."""
        return Log(self.table(name), RowModel(model), key, durable)


@dataclass(frozen=True, slots=True)
class StateTable:
    """One table beside the checkpoints; may be used by several threads and processes."""

    store: StateStore
    name: str

    def open(self, *, may_be_begun: bool = False) -> DeltaTable | None:
        """The table at its newest version, None when there is none; as `open_delta`."""
        path, options = self.store.path, self.store.options
        return open_delta(path, options, self.name, may_be_begun=may_be_begun)

    def translated(self, doing: str) -> AbstractContextManager[None]:
        """Turns whatever is raised into CheckpointError; `doing` is read, written or maintained."""
        return translated(self.store.path, doing, self.name)

    def dataset(self, delta: DeltaTable) -> Dataset:
        """The rows of a version of the table."""
        return dataset(delta, self.store.path, self.name)

    def rows(self) -> list[dict[str, Any]]:
        """All rows, the oldest first."""
        delta = self.open()
        if delta is None:
            return []
        with self.translated("read"):
            return _in_order(self.dataset(delta).to_table().to_pylist())

    def append(self, rows: pa.Table) -> None:
        """Append rows in one commit, which nothing forces to the disk; a missing table is made.

        A column that an older table lacks is added to it.
        """
        with self.translated("written"):
            write_deltalake(
                table_uri(self.store.path, self.name),
                rows,
                mode="append",
                schema_mode="merge",
                name=f"aggregator_{self.name}",
                configuration=dict(CONFIGURATION),
                storage_options=dict(self.store.options),
                post_commithook_properties=NO_HOOKS,
            )

    def append_next(
        self, schema: pa.Schema, rows_of: Callable[[DeltaTable], Sequence[Mapping[str, Any]]]
    ) -> range:
        """Append the rows that `rows_of` makes of the table; asked again if another one writes.

        So they come behind all that the table held when they were made. A missing table, and a
        column that an older one lacks, is made. Returns the versions that came by it, on a local
        disk forced to the disk; CheckpointError as well when others write all the time.
        """
        before: int | None = None
        for _ in range(ATTEMPTS):
            delta = self.open()
            if before is None:
                before = -1 if delta is None else int(delta.version())
            with self.translated("written"):
                delta = delta or self._created(schema)
                rows = pa.Table.from_pylist([dict(row) for row in rows_of(delta)], schema=schema)
                try:
                    write_deltalake(
                        delta,
                        rows,
                        mode="append",
                        schema_mode="merge",
                        commit_properties=at_known_version(),
                        post_commithook_properties=NO_HOOKS,
                    )
                except CommitFailedError:
                    continue
            written = range(before + 1, int(delta.version()) + 1)
            for version in written:
                make_durable(self.store.path, version, self.name)
            return written
        raise CheckpointError(
            f"checkpoint.path {self.store.path}: the table of {self.name} cannot be written: "
            "others write there all the time"
        )

    def append_notes(
        self, rows: Sequence[Mapping[str, Any]], schema: pa.Schema, key: str = ""
    ) -> None:
        """Append rows behind all others, in one commit; a column that the table lacks is added.

        Returns when they are in the table, on a local disk forced to the disk. Now and then the
        table is made tidy as well.
        """

        def numbered(delta: DeltaTable) -> list[dict[str, Any]]:
            return [{**row, SEQ: seq} for seq, row in enumerate(rows, highest(delta, SEQ) + 1)]

        written = self.append_next(schema.append(pa.field(SEQ, pa.int64())), numbered)
        if is_tidy_due(written):
            # The rows are written. What fails here is done after as many again, or by `maintain`.
            with suppress(CheckpointError):
                self.tidy(key)

    def tidy(self, key: str = "") -> int | None:
        """Make few files of many; with a key, of whose rows the newest counts, drop the others.

        Returns how many rows were dropped; None when there is no such table.
        """
        delta = self.open()
        if delta is None:
            return None
        dropped = 0
        with self.translated("maintained"):
            newest = {row[key]: row for row in self.rows() if key}
            for name, row in newest.items():
                replaced = f"{key} = {quoted(name)} AND ({_older_than(row)})"
                done = delta.delete(replaced, post_commithook_properties=NO_HOOKS)
                dropped += int(done.get("num_deleted_rows") or 0)
            self.make_few(delta)
        return dropped

    def trim(self, before: datetime) -> int:
        """Drop rows older than `before`, merge small files, cut the log; returns rows dropped."""
        delta = self.open()
        if delta is None:
            return 0
        with self.translated("maintained"):
            done = delta.delete(f"at < '{before.isoformat()}'", post_commithook_properties=NO_HOOKS)
            self.make_few(delta)
        return int(done.get("num_deleted_rows") or 0)

    def make_few(self, delta: DeltaTable) -> None:
        """Merge small files of the table, delete unused ones, cut the log."""
        if not CONFIGURATION.items() <= delta.metadata().configuration.items():
            delta.alter.set_table_properties(dict(CONFIGURATION))
        delta.optimize.compact(
            max_concurrent_tasks=1,
            writer_properties=WriterProperties(compression="ZSTD"),
            post_commithook_properties=NO_HOOKS,
        )
        delta.vacuum(
            retention_hours=KEEP_HOURS,
            dry_run=False,
            enforce_retention_duration=False,
            post_commithook_properties=NO_HOOKS,
        )
        make_durable(self.store.path, int(delta.version()), self.name)
        cut_log(delta, self.store.path, self.name)

    def _created(self, schema: pa.Schema) -> DeltaTable:
        # "ignore": of two that create it at once both get the same.
        return DeltaTable.create(
            table_uri(self.store.path, self.name),
            Schema.from_arrow(schema),
            mode="ignore",
            name=f"aggregator_{self.name}",
            configuration=dict(CONFIGURATION),
            storage_options=dict(self.store.options),
        )


@dataclass(frozen=True, slots=True)
class Log(Generic[T]):
    """A table whose rows are items of one model, as `RowModel` has it; append-only.

    A durable log numbers its rows, and `append` returns when they are in the table, on a local disk
    forced to the disk. Of any other log the time is the order, and a power loss may cost the last
    rows. Of the items with the same `key`, if there is one, the newest counts alone.
    """

    table: StateTable
    model: RowModel[T]
    key: str = ""
    durable: bool = True

    def append(self, items: Iterable[T]) -> None:
        """Append items behind all others, in one commit; nothing when there are none."""
        rows = [self.model.row(item) for item in items]
        if rows and self.durable:
            self.table.append_notes(rows, self.model.schema, self.key)
        elif rows:
            self.table.append(pa.Table.from_pylist(rows, schema=self.model.schema))

    def items(self) -> list[T]:
        """All items, the oldest first."""
        rows = self.table.rows()
        with self.table.translated("read"):
            return [self.model.item(row) for row in rows]

    def select(
        self,
        wanted: Expression | None = None,
        most: int | None = None,
        join: Callable[[pa.Table], pa.Table] | None = None,
    ) -> list[T]:
        """The items of which an expression over the columns is true, in the order of time.

        `join` makes fewer rows of those found, which costs far less than items of all of them. With
        `most` the last of them. A table that is just being made has none yet.
        """
        delta = self.table.open(may_be_begun=True)
        if delta is None:
            return []
        with self.table.translated("read"):
            found = self.table.dataset(delta).to_table(filter=wanted)
            found = (found if join is None else join(found)).sort_by("at")
            rows = found if most is None else found.slice(max(0, found.num_rows - most))
            return [self.model.item(row) for row in rows.to_pylist()]


def is_tidy_due(written: Iterable[int]) -> bool:
    """Whether the writer of these versions of a table must tidy it."""
    return any(version and version % TIDY_EVERY == 0 for version in written)


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def _in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """By their numbers. Rows of a version that gave none have their place by their time."""
    numbered: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for row in rows:
        (numbered if row.get(SEQ) else others).append(row)
    numbered.sort(key=lambda row: int(row[SEQ]))
    others.sort(key=_at)
    return list(heapq.merge(others, numbered, key=_at))


def _at(row: Mapping[str, Any]) -> datetime:
    at: datetime = row["at"]
    return at


def _older_than(row: Mapping[str, Any]) -> str:
    """What rows of a table have in common that come before this one."""
    if row.get(SEQ):
        return f"{SEQ} IS NULL OR {SEQ} < {row[SEQ]}"
    older = f"at < '{row['at'].isoformat()}'"
    # A table that no version with numbers has written has no such column.
    return f"{older} OR {SEQ} IS NOT NULL" if SEQ in row else older
