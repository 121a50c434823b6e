"""Small tables beside the checkpoints, which grow by rows: what people decided, and what was.

A reader takes the newest row of what it asks for. Which that is says the column `seq`:
each row gets the number after the highest that the table has. The column `at` is for people, as the
clocks of machines differ. Whatever cannot be read or written is a CheckpointError.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError

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

SEQ = "seq"
ATTEMPTS = 50
"""With each that fails somebody else has written."""
KEEP_HOURS = 1
"""How long files that are no longer part of a table stay for readers that still use them."""
TIDY_EVERY = 100
"""After so many commits whoever wrote the last one makes few files of many."""
CONFIGURATION = {"delta.logRetentionDuration": f"interval {KEEP_HOURS} hours"}
"""Commits need no longer than what they are about. Delta's own default is 30 days."""


def read_notes(path: str, storage_options: Mapping[str, str], table: str) -> list[dict[str, Any]]:
    """All rows of a table under `path` (the setting checkpoint.path), the oldest first."""
    delta = open_delta(path, storage_options, table)
    if delta is None:
        return []
    with translated(path, "read", table):
        return _in_order(dataset(delta, path, table).to_table().to_pylist())


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


def append_rows(
    path: str,
    storage_options: Mapping[str, str],
    table: str,
    rows: Sequence[Mapping[str, Any]],
    schema: pa.Schema,
) -> None:
    """Append rows in one commit, which nothing forces to the disk; a missing table is made.

    A column that an older table lacks is added to it.
    """
    found = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    append_table(path, storage_options, table, found)


def append_table(path: str, storage_options: Mapping[str, str], table: str, rows: pa.Table) -> None:
    """The same with rows that are a table of Arrow's."""
    with translated(path, "written", table):
        write_deltalake(
            table_uri(path, table),
            rows,
            mode="append",
            schema_mode="merge",
            name=f"aggregator_{table}",
            configuration=dict(CONFIGURATION),
            storage_options=dict(storage_options),
            post_commithook_properties=NO_HOOKS,
        )


def append_next(
    path: str,
    storage_options: Mapping[str, str],
    table: str,
    schema: pa.Schema,
    rows_of: Callable[[DeltaTable], Sequence[Mapping[str, Any]]],
) -> range:
    """Append the rows that `rows_of` makes of a table as it is; asked again if another one writes.

    So they come behind all that the table held when they were made. A missing table, and a column
    that an older one lacks, is made. Returns the versions that came by it, on a local disk forced
    to the disk; CheckpointError as well when others write all the time.
    """
    before: int | None = None
    for _ in range(ATTEMPTS):
        delta = open_delta(path, storage_options, table)
        if before is None:
            before = -1 if delta is None else int(delta.version())
        with translated(path, "written", table):
            delta = delta or _created(path, storage_options, table, schema)
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
            make_durable(path, version, table)
        return written
    raise CheckpointError(
        f"checkpoint.path {path}: the table of {table} cannot be written: others write there all "
        "the time"
    )


def append_note(
    path: str,
    storage_options: Mapping[str, str],
    table: str,
    row: Mapping[str, Any],
    schema: pa.Schema,
    key: str = "",
) -> None:
    """Append a row behind all others; a column that an older table lacks is added to it.

    Returns when the row is in the table, on a local disk forced to the disk. Now and then the table
    is made tidy as well.
    """
    append_notes(path, storage_options, table, [row], schema, key)


def append_notes(
    path: str,
    storage_options: Mapping[str, str],
    table: str,
    rows: Sequence[Mapping[str, Any]],
    schema: pa.Schema,
    key: str = "",
) -> None:
    """The same with several rows, in one commit."""

    def numbered(delta: DeltaTable) -> list[dict[str, Any]]:
        return [{**row, SEQ: seq} for seq, row in enumerate(rows, highest(delta, SEQ) + 1)]

    with_numbers = schema.append(pa.field(SEQ, pa.int64()))
    written = append_next(path, storage_options, table, with_numbers, numbered)
    if is_tidy_due(written):
        # The rows are written. What fails here is done after as many again, or by `maintain`.
        with suppress(CheckpointError):
            tidy(path, storage_options, table, key)


def is_tidy_due(written: Iterable[int]) -> bool:
    """Whether whoever wrote these versions of a table is to make it tidy."""
    return any(version and version % TIDY_EVERY == 0 for version in written)


def tidy(path: str, storage_options: Mapping[str, str], table: str, key: str = "") -> int | None:
    """Make few files of many; with a key, of whose rows the newest counts alone, drop the others.

    Returns how many rows were dropped; None when there is no such table.
    """
    delta = open_delta(path, storage_options, table)
    if delta is None:
        return None
    dropped = 0
    with translated(path, "maintained", table):
        newest = {it[key]: it for it in read_notes(path, storage_options, table) if key}
        for name, row in newest.items():
            replaced = f"{key} = {quoted(name)} AND ({_older_than(row)})"
            done = delta.delete(replaced, post_commithook_properties=NO_HOOKS)
            dropped += int(done.get("num_deleted_rows") or 0)
        make_few(delta, path, table)
    return dropped


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def _older_than(row: Mapping[str, Any]) -> str:
    """What rows of a table have in common that come before this one."""
    if row.get(SEQ):
        return f"{SEQ} IS NULL OR {SEQ} < {row[SEQ]}"
    older = f"at < '{row['at'].isoformat()}'"
    # A table that no version with numbers has written has no such column.
    return f"{older} OR {SEQ} IS NOT NULL" if SEQ in row else older


def trim_rows(path: str, storage_options: Mapping[str, str], table: str, before: datetime) -> int:
    """Drop rows older than `before`, merge small files, cut the log; returns rows dropped."""
    delta = open_delta(path, storage_options, table)
    if delta is None:
        return 0
    with translated(path, "maintained", table):
        done = delta.delete(f"at < '{before.isoformat()}'", post_commithook_properties=NO_HOOKS)
        make_few(delta, path, table)
    return int(done.get("num_deleted_rows") or 0)


def make_few(delta: DeltaTable, path: str, table: str) -> None:
    """Merge small files of a table under `path`, delete those that nobody uses, cut the log."""
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
    make_durable(path, int(delta.version()), table)
    cut_log(delta, path, table)


def _created(
    path: str, storage_options: Mapping[str, str], table: str, schema: pa.Schema
) -> DeltaTable:
    # "ignore": of two that create it at once both get the same.
    return DeltaTable.create(
        table_uri(path, table),
        Schema.from_arrow(schema),
        mode="ignore",
        name=f"aggregator_{table}",
        configuration=dict(CONFIGURATION),
        storage_options=dict(storage_options),
    )
