"""Small tables beside the checkpoints, which grow by rows: what people decided, and what was.

They have a column `at`, and whoever reads them takes the newest row of what it asks for. Whatever
cannot be read or written is a CheckpointError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties, write_deltalake

from aggregator.checkpoint.delta import (
    NO_HOOKS,
    cut_log,
    dataset,
    make_durable,
    open_delta,
    table_uri,
    translated,
)
from aggregator.errors import CheckpointError

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
        rows: list[dict[str, Any]] = (
            dataset(delta, path, table).to_table().sort_by("at").to_pylist()
        )
    return rows


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


def append_note(
    path: str,
    storage_options: Mapping[str, str],
    table: str,
    row: Mapping[str, Any],
    schema: pa.Schema,
    key: str = "",
) -> None:
    """Append a row; a column that an older table lacks is added to it.

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
    before = _version(path, storage_options, table)
    append_rows(path, storage_options, table, rows, schema)
    after = _version(path, storage_options, table)
    # One of them is this one; others may have written in between.
    for version in range(before + 1, after + 1):
        make_durable(path, version, table)
    if after // TIDY_EVERY > max(before, 0) // TIDY_EVERY:
        # The rows are written. What fails here is done after as many again, or by `maintain`.
        with suppress(CheckpointError):
            tidy(path, storage_options, table, key)


def tidy(path: str, storage_options: Mapping[str, str], table: str, key: str = "") -> int | None:
    """Make few files of many; with a key, of whose rows the newest counts alone, drop the others.

    Returns how many rows were dropped; None when there is no such table.
    """
    delta = open_delta(path, storage_options, table)
    if delta is None:
        return None
    dropped = 0
    with translated(path, "maintained", table):
        newest = {it[key]: it["at"] for it in read_notes(path, storage_options, table) if key}
        for name, at in newest.items():
            word = name.replace("'", "''")
            replaced = f"{key} = '{word}' AND at < '{at.isoformat()}'"
            done = delta.delete(replaced, post_commithook_properties=NO_HOOKS)
            dropped += int(done.get("num_deleted_rows") or 0)
        _make_few(delta, path, table)
    return dropped


def trim_rows(path: str, storage_options: Mapping[str, str], table: str, before: datetime) -> int:
    """Drop rows older than `before`, merge small files, cut the log; returns rows dropped."""
    delta = open_delta(path, storage_options, table)
    if delta is None:
        return 0
    with translated(path, "maintained", table):
        done = delta.delete(f"at < '{before.isoformat()}'", post_commithook_properties=NO_HOOKS)
        _make_few(delta, path, table)
    return int(done.get("num_deleted_rows") or 0)


def _make_few(delta: DeltaTable, path: str, table: str) -> None:
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


def _version(path: str, storage_options: Mapping[str, str], table: str) -> int:
    """The newest version of a table, below 0 when there is none."""
    delta = open_delta(path, storage_options, table)
    return -1 if delta is None else int(delta.version())
