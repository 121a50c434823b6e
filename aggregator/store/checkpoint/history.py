"""The checkpoint table read backwards: which commits there were, and the state at one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from aggregator.model.errors import CheckpointError
from aggregator.store.checkpoint.rows import EPOCH, POSITION, to_millis, to_moment
from aggregator.store.checkpoint.start_state import CheckpointState, state_from
from aggregator.store.delta import dataset, highest, open_delta, translated


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of the table; `lane` is the owner when `kind` is `epoch`."""

    seq: int
    committed_at_ms: int
    epoch: int
    kind: str
    lane: str
    generation: int | None
    batch: int | None
    positions: int
    rows: int
    clean: bool


def history(
    path: str, storage_options: Mapping[str, str] | None = None, limit: int = 50
) -> list[Commit]:
    """The last `limit` commits, newest first; empty when there is no table yet.

    A full commit repeats rows of other lanes: lane, generation and batch are those of its newest
    snapshot. CheckpointError when the table cannot be read.
    """
    delta = open_delta(path, storage_options)
    if delta is None:
        return []
    with translated(path, "read"):
        since = highest(delta, "seq") - limit
        rows = dataset(delta, path).to_table(filter=pc.field("seq") > since)
    by_seq: dict[int, list[dict[str, Any]]] = {}
    columns = ["seq", "epoch", "generation", "lane", "batch", "kind", "clean"]
    for row in rows.select([*columns, "snapshot_at", "committed_at"]).to_pylist():
        by_seq.setdefault(row["seq"], []).append(row)
    return [_commit(by_seq[seq]) for seq in sorted(by_seq, reverse=True)]


def _commit(rows: list[dict[str, Any]]) -> Commit:
    claims = [row for row in rows if row["kind"] == EPOCH]
    head = claims[0] if claims else max(rows, key=lambda row: str(row["snapshot_at"]))
    return Commit(
        seq=head["seq"],
        committed_at_ms=to_millis(head["committed_at"]),
        epoch=head["epoch"],
        kind=EPOCH if claims else "checkpoint",
        lane=str(head["lane"]),
        generation=head["generation"],
        batch=head["batch"],
        positions=sum(row["kind"] == POSITION for row in rows),
        rows=len(rows),
        clean=bool(head["clean"]),
    )


def state_at(
    path: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    seq: int | None = None,
    at_ms: int | None = None,
) -> CheckpointState:
    """The state as it was after commit `seq`, or at a moment; the newest with neither.

    Both reach back as far as checkpoint.history. CheckpointError when there is no table, or
    nothing that old in it.
    """
    delta = open_delta(path, storage_options)
    if delta is None:
        raise CheckpointError(f"checkpoint.path {path}: there is no checkpoint yet")
    with translated(path, "read"):
        past = pc.field("seq") > 0
        if seq is not None:
            past = past & (pc.field("seq") <= seq)
        if at_ms is not None:
            past = past & (pc.field("committed_at") <= to_moment(at_ms))
        data = dataset(delta, path)
        fulls = data.to_table(columns=["seq"], filter=past & pc.field("full"))
        if fulls.num_rows == 0:
            raise CheckpointError(
                f"checkpoint.path {path}: nothing that old is kept (checkpoint.history says how "
                "long; `positions history` shows what there is)"
            )
        return state_from(data.to_table(filter=past & (pc.field("seq") >= pc.max(fulls["seq"]))))
