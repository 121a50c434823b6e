"""One checkpoint as a value and as rows of the Delta table, converted both ways. Pure.

A commit of a lane holds its positions and a snapshot of the hub's end offsets, taken at a moment
when no record beyond those positions was written yet. A *full* commit also repeats what earlier
commits said of all other partitions, each with the snapshot that belongs to it: so the hub ends
of a position are the `hub_end` rows with the same seq, lane, generation, batch and snapshot_at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from aggregator.model.values import Positions, SourcePartition, TopicPartition

HUB = "hub"
"""The hub's alias in `cluster_ids` and `topic_ids`."""

POSITION = "position"
HUB_END = "hub_end"
EPOCH = "epoch"
DOUBT = "doubt"
"""The hub may hold more of a source than the table knows; clean: all of it was looked for."""

OLDER = -2
"""The number (`batch`) of positions that are committed by hub ends of long before their snapshot's
moment, and of further ones lower numbers: what was copied by then may lie behind such ends, too."""

SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("epoch", pa.int64()),
        ("generation", pa.int64()),
        ("lane", pa.string()),
        ("batch", pa.int64()),
        ("kind", pa.string()),
        ("full", pa.bool_()),
        ("clean", pa.bool_()),
        ("cluster", pa.string()),
        ("cluster_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("log_end", pa.int64()),
        ("snapshot_at", pa.timestamp("us", "UTC")),
        ("committed_at", pa.timestamp("us", "UTC")),
    ]
)
"""The columns of the table. `log_end` is null where it is not known; an `epoch` row has only
seq, epoch, lane (the owner) and committed_at, a `doubt` row names only a cluster."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Positions of some partitions and the hub's end offsets that belong to them.

    `hub_ends`: every record not covered by `positions` was written at or after them. A hub
    partition that is absent is unknown: its tail begins at its earliest offset.
    `cluster_ids` and `topic_ids` name the sources by alias, the hub by `HUB`.
    `clean`: the hub holds nothing beyond `positions`, so a start from here needs no recovery.
    `full`: the commit also repeats all other partitions. `seq` and `epoch` are set by the table.
    `doubted` are sources (alias) of which the hub may hold, behind `hub_ends`, records of
    partitions that have no position; with `clean` nothing is left to be looked for.
    """

    lane: str
    generation: int
    batch: int
    positions: Positions
    hub_ends: Mapping[TopicPartition, int]
    snapshot_at_ms: int
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    topic_ids: Mapping[tuple[str, str], str] = field(default_factory=dict)
    log_ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    clean: bool = False
    full: bool = False
    seq: int = 0
    epoch: int = 0
    doubted: frozenset[str] = frozenset()


def to_table(checkpoints: Iterable[Checkpoint], committed_at_ms: int) -> pa.Table:
    """The rows of `checkpoints`, for one commit; made by columns, as there are thousands."""
    parts = [
        part
        for checkpoint in checkpoints
        for part in (
            _positions(checkpoint, committed_at_ms),
            _hub_ends(checkpoint, committed_at_ms),
            _rows(checkpoint, committed_at_ms, DOUBT, sorted(checkpoint.doubted)),
        )
    ]
    return pa.concat_tables([SCHEMA.empty_table(), *parts]).combine_chunks()


def _positions(checkpoint: Checkpoint, committed_at_ms: int) -> pa.Table:
    own, cluster_ids, topic_ids = checkpoint.positions, checkpoint.cluster_ids, checkpoint.topic_ids
    return _rows(
        checkpoint,
        committed_at_ms,
        POSITION,
        [sp.cluster for sp in own],
        cluster_id=[cluster_ids.get(sp.cluster, "") for sp in own],
        topic=[sp.topic for sp in own],
        topic_id=[topic_ids.get((sp.cluster, sp.topic), "") for sp in own],
        partition=[sp.partition for sp in own],
        offset=[offset for _, offset in own.items()],
        log_end=[checkpoint.log_ends.get(sp) for sp in own],
    )


def _hub_ends(checkpoint: Checkpoint, committed_at_ms: int) -> pa.Table:
    own, topic_ids = sorted(checkpoint.hub_ends.items()), checkpoint.topic_ids
    return _rows(
        checkpoint,
        committed_at_ms,
        HUB_END,
        [HUB] * len(own),
        cluster_id=[checkpoint.cluster_ids.get(HUB, "")] * len(own),
        topic=[tp.topic for tp, _ in own],
        topic_id=[topic_ids.get((HUB, tp.topic), "") for tp, _ in own],
        partition=[tp.partition for tp, _ in own],
        offset=[offset for _, offset in own],
    )


def _rows(
    checkpoint: Checkpoint,
    committed_at_ms: int,
    kind: str,
    cluster: Sequence[str],
    **columns: Sequence[str | int | None],
) -> pa.Table:
    """The rows of one kind; a column that is not given is null, or the same in all of them."""
    same: dict[str, object] = {
        "seq": checkpoint.seq,
        "epoch": checkpoint.epoch,
        "generation": checkpoint.generation,
        "lane": checkpoint.lane,
        "batch": checkpoint.batch,
        "kind": kind,
        "full": checkpoint.full,
        "clean": checkpoint.clean,
        "snapshot_at": to_moment(checkpoint.snapshot_at_ms),
        "committed_at": to_moment(committed_at_ms),
    }
    given = {"cluster": cluster, **columns}
    arrays = [
        pa.array(given[name], of)
        if name in given
        else pa.repeat(pa.scalar(same.get(name), of), len(cluster))
        for name, of in zip(SCHEMA.names, SCHEMA.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def epoch_row(seq: int, epoch: int, owner: str, committed_at_ms: int) -> pa.Table:
    """The one row that claims `epoch` for `owner`."""
    row = {
        "seq": seq,
        "epoch": epoch,
        "lane": owner,
        "kind": EPOCH,
        "full": True,
        "committed_at": to_moment(committed_at_ms),
    }
    return pa.Table.from_pylist([row], schema=SCHEMA)


def from_table(table: pa.Table) -> list[Checkpoint]:
    """The checkpoints that `table` (columns of SCHEMA, any order of rows) holds, by seq.

    A full commit comes back as several checkpoints of the same seq with different partitions.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        if row["kind"] != EPOCH:
            key = tuple(
                row[name]
                for name in ("seq", "lane", "generation", "batch", "snapshot_at", "clean", "full")
            )
            groups.setdefault(key, []).append(row)
    return [_checkpoint(groups[key]) for key in sorted(groups)]


def partition_of(row: Mapping[str, Any]) -> SourcePartition:
    """The source partition that a row names."""
    return SourcePartition(row["cluster"], row["topic"], row["partition"])


def _checkpoint(rows: list[dict[str, Any]]) -> Checkpoint:
    first = rows[0]
    positions = {partition_of(row): row for row in rows if row["kind"] == POSITION}
    hub_rows = [row for row in rows if row["kind"] == HUB_END]
    named = [*positions.values(), *hub_rows]
    return Checkpoint(
        lane=first["lane"],
        generation=first["generation"],
        batch=first["batch"],
        positions=Positions({sp: row["offset"] for sp, row in positions.items()}),
        hub_ends={
            TopicPartition(row["topic"], row["partition"]): row["offset"] for row in hub_rows
        },
        snapshot_at_ms=to_millis(first["snapshot_at"]),
        cluster_ids={row["cluster"]: row["cluster_id"] for row in named if row["cluster_id"]},
        topic_ids={
            (row["cluster"], row["topic"]): row["topic_id"] for row in named if row["topic_id"]
        },
        log_ends={
            sp: row["log_end"] for sp, row in positions.items() if row["log_end"] is not None
        },
        clean=first["clean"],
        full=first["full"],
        seq=first["seq"],
        epoch=first["epoch"],
        doubted=frozenset(row["cluster"] for row in rows if row["kind"] == DOUBT),
    )


def to_moment(millis: int) -> datetime:
    """Milliseconds since 1970 as an aware moment."""
    return datetime.fromtimestamp(millis // 1000, UTC).replace(microsecond=millis % 1000 * 1000)


def to_millis(moment: datetime) -> int:
    """An aware moment as milliseconds since 1970."""
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000
