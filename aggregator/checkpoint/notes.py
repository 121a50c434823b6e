"""Small tables beside the checkpoints, which grow by rows: what people decided, and what was.

They have a column `at`, and whoever reads them takes the newest row of what it asks for. Whatever
cannot be read or written is a CheckpointError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import WriterProperties, write_deltalake

from aggregator.checkpoint.delta import (
    NO_HOOKS,
    cut_log,
    dataset,
    make_durable,
    open_delta,
    table_uri,
    translated,
)

KEEP_HOURS = 1
"""How long files that are no longer part of a table stay for readers that still use them."""
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
) -> None:
    """Append a row; a column that an older table lacks is added to it.

    Returns when the row is in the table, on a local disk forced to the disk.
    """
    append_notes(path, storage_options, table, [row], schema)


def append_notes(
    path: str,
    storage_options: Mapping[str, str],
    table: str,
    rows: Sequence[Mapping[str, Any]],
    schema: pa.Schema,
) -> None:
    """The same with several rows, in one commit."""
    append_rows(path, storage_options, table, rows, schema)
    delta = open_delta(path, storage_options, table)
    if delta is not None:
        make_durable(path, int(delta.version()), table)


def trim_rows(path: str, storage_options: Mapping[str, str], table: str, before: datetime) -> int:
    """Drop rows older than `before`, merge small files, cut the log; returns rows dropped."""
    delta = open_delta(path, storage_options, table)
    if delta is None:
        return 0
    with translated(path, "maintained", table):
        if not CONFIGURATION.items() <= delta.metadata().configuration.items():
            delta.alter.set_table_properties(dict(CONFIGURATION))
        done = delta.delete(f"at < '{before.isoformat()}'", post_commithook_properties=NO_HOOKS)
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
    return int(done.get("num_deleted_rows") or 0)
