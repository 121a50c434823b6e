"""The table of audits, beside the checkpoints: a row per source partition and hub topic of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from aggregator.checkpoint.delta import table_uri, translated

TABLE = "audits"
PARTITION = "partition"
HUB_TOPIC = "hub_topic"
COUNTS = (
    *("expected", "present", "missing", "twice", "altered"),
    *("altered_key", "altered_value", "altered_headers", "altered_timestamp", "altered_schema"),
    *("out_of_order", "foreign", "expired", "superseded", "accounted"),
    *("not_begun", "transformed", "forgotten", "excused", "schemas_unknown", "ahead"),
    *("no_origin", "unknown_source", "other_topic", "no_such_record"),
)
NOT_JUDGED = ("expired", "not_begun", "transformed", "forgotten", "excused", "schemas_unknown")
"""Those of records that could not be judged, or not in all of their parts."""

SCHEMA = pa.schema(
    [
        ("audit", pa.string()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("seconds", pa.float64()),
        ("commit", pa.int64()),
        ("exit_code", pa.int32()),
        ("kind", pa.string()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("hub_topic", pa.string()),
        ("standing", pa.string()),
        ("reason", pa.string()),
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),
        *((name, pa.int64()) for name in COUNTS),
    ]
)
"""`kind` is `partition` or `hub_topic`; what does not belong to a kind is null."""


def append_audit(
    path: str, storage_options: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Append the rows of one audit in one commit; CheckpointError when they cannot be written.

    The table is made if there is none. Several may append at once: nothing is lost.
    """
    with translated(path, "written", TABLE):
        write_deltalake(
            table_uri(path, TABLE),
            pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA),
            mode="append",
            schema_mode="merge",
            name="aggregator_audits",
            storage_options=dict(storage_options),
        )
