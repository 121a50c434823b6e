"""Keep the table fast for months: few files, a short log, and no rows older than the history.

Runs between two commits of the writer, on a handle of its own. The writer continues from the
version it leaves only when every commit up to there is the writer's: so a foreign commit is found
here as it is in `append`. One that fails leaves what it has committed by then: `append` follows it.
"""

from dataclasses import dataclass

import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties

from aggregator.model.failpoint import failpoint
from aggregator.store.checkpoint.checkpoint_table import MAINTENANCE, CheckpointTable
from aggregator.store.checkpoint.rows import to_millis, to_moment
from aggregator.store.delta import (
    NO_HOOKS,
    at_known_version,
    cut_log,
    dataset,
    lowest,
    make_durable,
    statistic,
    translated,
)

TARGET_BYTES = 1024 * 1024
"""Larger files are left as they are, so that a call costs the same however long the history
is."""
ROW_GROUP = 50_000
KEEP_HOURS = 1
"""How long files that are no longer part of the table stay for readers that still use them."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """What one call did."""

    files_before: int
    files_after: int
    rows_deleted: int


def maintain(
    table: CheckpointTable, history_seconds: float, now_ms: int, keep_hours: int = KEEP_HOURS
) -> Maintained:
    """Merge small files, drop expired rows, delete files unused for `keep_hours`, cut the log.

    Keeps every state of the last `history_seconds` readable, and the newest one always.
    CheckpointConflictError when another writer committed; CheckpointError when it cannot write.
    """
    with table.lock:
        return _maintain(table, history_seconds, now_ms, keep_hours)


def _maintain(
    table: CheckpointTable, history_seconds: float, now_ms: int, keep_hours: int
) -> Maintained:
    state = table.load()
    delta = table.handle_for_maintenance()
    before = len(delta.file_uris())
    properties = at_known_version(
        seq=str(state.seq),
        epoch=str(state.epoch),
        lane=MAINTENANCE,
        writer=table.writer,
        owner=table.record,
    )
    deleted = 0
    with translated(table.path, "maintained"):
        expired = _expired_before(table.path, delta, now_ms - int(history_seconds * 1000))
        if expired:
            done = delta.delete(
                f"seq < {expired}",
                commit_properties=properties,
                post_commithook_properties=NO_HOOKS,
            )
            deleted = int(done.get("num_deleted_rows") or 0)
            make_durable(table.path, delta.version())
        failpoint("before-compaction")
        delta.optimize.compact(
            target_size=TARGET_BYTES,
            max_concurrent_tasks=1,
            writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=ROW_GROUP),
            commit_properties=properties,
            post_commithook_properties=NO_HOOKS,
        )
        # On the disk before the vacuum deletes what it replaces.
        make_durable(table.path, delta.version())
        failpoint("after-compaction")
        delta.vacuum(
            retention_hours=keep_hours,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            commit_properties=properties,
            post_commithook_properties=NO_HOOKS,
        )
        failpoint("after-vacuum")
        table.adopt(delta)
        cut_log(delta, table.path)
    return Maintained(before, len(delta.file_uris()), deleted)


def _expired_before(path: str, delta: DeltaTable, cutoff_ms: int) -> int:
    """Rows of a seq below this are expired; 0 when there is nothing to delete.

    It is the last full commit before the cutoff, so that the state at the cutoff and at every
    moment after it can still be found.
    """
    oldest = statistic(delta, "min", "committed_at")
    if oldest is None or to_millis(oldest) >= cutoff_ms:
        return 0
    old = dataset(delta, path).to_table(
        columns=["seq"],
        filter=(pc.field("committed_at") < to_moment(cutoff_ms)) & pc.field("full"),
    )
    last_full = int(pc.max(old["seq"]).as_py() or 0)
    return last_full if last_full > lowest(delta, "seq") else 0
