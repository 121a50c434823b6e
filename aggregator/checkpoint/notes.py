"""Small append-only tables beside the checkpoints: what people have decided, a row each time.

They have a column `at`, and whoever reads them takes the newest row of what it asks for. Whatever
cannot be read or written is a CheckpointError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from aggregator.checkpoint.delta import (
    NO_HOOKS,
    dataset,
    make_durable,
    open_delta,
    table_uri,
    translated,
)


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
    with translated(path, "written", table):
        write_deltalake(
            table_uri(path, table),
            pa.Table.from_pylist([dict(row) for row in rows], schema=schema),
            mode="append",
            schema_mode="merge",
            name=f"aggregator_{table}",
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
    append_rows(path, storage_options, table, [row], schema)
    delta = open_delta(path, storage_options, table)
    if delta is not None:
        make_durable(path, int(delta.version()), table)
