"""What the history tells about going back: how far each log was copied, and which hub bound holds.

A commit's hub ends bound every position at or beyond its own: what it does not cover was written
behind them. Rows about another incarnation of a topic do not count. Nor do those since a position
was set back with --again: from then on the hub holds records twice, and behind such a commit
perhaps only some of them. The rows are read in batches and folded, as there may be millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from aggregator.checkpoint.delta import dataset, open_delta, translated
from aggregator.checkpoint.rows import HUB, HUB_END, POSITION, Checkpoint, from_table
from aggregator.model import LogId, OffsetRange, SourcePartition, TopicPartition

AGAIN = "positions --again"
"""The lane of a commit that sets positions back to write records a second time. No lane of a run
is called so, as its name has a blank."""

PARTITION = ["cluster", "topic", "partition"]
MANY = 2**62
"""More than a seq will ever be."""
FOLDS = {"min": min, "max": max}


@dataclass(frozen=True, slots=True)
class ProvenBound:
    """Hub ends that lie before every record of some positions, and when they were read.

    A hub partition that is absent is unknown: it is to be read from its beginning. `hub_id` is the
    cluster that they were read from, "" when not told.
    """

    hub_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    snapshot_at_ms: int = 0
    hub_id: str = ""


class Past:
    """The history under `path`, for partitions with their ids of now.

    CheckpointError when it cannot be read; without a checkpoint every answer is empty.
    """

    def __init__(
        self,
        path: str,
        storage_options: Mapping[str, str],
        partitions: Mapping[SourcePartition, LogId],
    ) -> None:
        self._path = path
        ids = partitions.values()
        self._wanted = (
            _table(partitions)
            .append_column("cluster_now", pa.array([it.cluster for it in ids], pa.string()))
            .append_column("topic_now", pa.array([it.topic for it in ids], pa.string()))
        )
        delta = open_delta(path, storage_options) if partitions else None
        self._data = dataset(delta, path) if delta is not None else None
        self._furthest: dict[SourcePartition, int] = {}
        self._first: dict[SourcePartition, int] = {}
        self._again: dict[SourcePartition, int] = {}
        self._other: dict[SourcePartition, int] = {}
        for own, other in self._rows(["seq", "offset", "lane"]):
            _fold(self._furthest, own, "offset", "max")
            _fold(self._first, own, "seq", "min")
            _fold(self._again, own.filter(pc.field("lane") == AGAIN), "seq", "min")
            _fold(self._other, other, "seq", "min")

    def furthest(self) -> dict[SourcePartition, int]:
        """The highest position that each partition ever had in its log of now."""
        return dict(self._furthest)

    def bounds(self, targets: Mapping[SourcePartition, int]) -> dict[SourcePartition, ProvenBound]:
        """For each partition the newest bound that holds at its target; one of everything, if none.

        Every record of the partition from its target on that the hub holds lies behind it. The
        newest is the one that was read last: who set positions back committed an old one anew.
        """
        if not targets:
            return {}
        limits = (
            _table(targets)
            .append_column("target", pa.array(targets.values(), pa.int64()))
            .append_column(
                "until", pa.array([self._again.get(sp, MANY) for sp in targets], pa.int64())
            )
        )
        best: dict[SourcePartition, tuple[datetime, int]] = {}
        for own, _ in self._rows(["seq", "offset", "snapshot_at"]):
            both = own.join(limits, PARTITION, join_type="inner")
            holds = pc.field("offset") <= pc.field("target")
            for sp, newest in _newest(both.filter(holds & (pc.field("seq") < pc.field("until")))):
                best[sp] = max(best.get(sp, newest), newest)
        chosen = {sp: seq for sp, (_, seq) in best.items()}
        for sp in set(targets) - set(chosen):
            first = self._first.get(sp)
            if first is not None and self._other.get(sp, first) < first:
                # Created again: all its records are behind the first commit about it.
                chosen[sp] = first
        found = self._commits(chosen)
        return {sp: found.get(sp, ProvenBound()) for sp in targets}

    def _commits(self, chosen: Mapping[SourcePartition, int]) -> dict[SourcePartition, ProvenBound]:
        """The bound of each partition in its chosen commit (its seq)."""
        if self._data is None or not chosen:
            return {}
        seqs = pa.array(sorted(set(chosen.values())), pa.int64())
        wanted = pc.field("seq").isin(seqs) & pc.field("kind").isin(pa.array([POSITION, HUB_END]))
        with translated(self._path, "read"):
            rows = self._data.to_table(filter=wanted)
        return {
            sp: _bound(checkpoint)
            for checkpoint in from_table(rows)
            for sp in checkpoint.positions
            if chosen.get(sp) == checkpoint.seq
        }

    def _rows(self, columns: Sequence[str]) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Position rows of the partitions, batch by batch: of their log of now, and of others."""
        if self._data is None:
            return
        ids = ["cluster_id", "topic_id"]
        with translated(self._path, "read"):
            for batch in self._data.to_batches(
                columns=[*PARTITION, *ids, *columns], filter=pc.field("kind") == POSITION
            ):
                rows = pa.Table.from_batches([batch])
                rows = rows.join(self._wanted, PARTITION, join_type="inner")
                same = _same("cluster_id", "cluster_now") & _same("topic_id", "topic_now")
                yield rows.filter(same), rows.filter(~same)


def fitting(
    bound: ProvenBound, hub_id: str, logs: Mapping[TopicPartition, OffsetRange]
) -> ProvenBound:
    """The bound without what belongs to another hub cluster, or to a topic that was made anew.

    A hub topic whose log does not reach the bound is not the one that the bound is about.
    """
    if bound.hub_id and hub_id and bound.hub_id != hub_id:
        return ProvenBound()
    other = {tp.topic for tp, end in bound.hub_ends.items() if tp in logs and end > logs[tp].latest}
    ends = {tp: end for tp, end in bound.hub_ends.items() if tp.topic not in other}
    return replace(bound, hub_ends=ends)


def least(bounds: Iterable[ProvenBound]) -> ProvenBound:
    """One bound that holds for all: per hub partition the lowest, where all know it."""
    first, *others = list(bounds) or [ProvenBound()]
    ends = dict(first.hub_ends)
    for bound in others:
        both = ends.keys() & bound.hub_ends.keys()
        ends = {tp: min(ends[tp], bound.hub_ends[tp]) for tp in both}
    return ProvenBound(ends, min(it.snapshot_at_ms for it in (first, *others)))


def _newest(rows: pa.Table) -> Iterator[tuple[SourcePartition, tuple[datetime, int]]]:
    """Of each partition the last snapshot and the last commit (seq) that has it."""
    last = rows.group_by(PARTITION).aggregate([("snapshot_at", "max")])
    rows = rows.join(last, PARTITION, join_type="inner")
    rows = rows.filter(pc.field("snapshot_at") == pc.field("snapshot_at_max"))
    for row in rows.group_by([*PARTITION, "snapshot_at"]).aggregate([("seq", "max")]).to_pylist():
        yield _partition(row), (row["snapshot_at"], row["seq_max"])


def _same(then: str, now: str) -> pc.Expression:
    """An id that is not known is taken for the same."""
    unknown = (pc.field(then) == "") | (pc.field(now) == "")
    return unknown | (pc.field(then) == pc.field(now))


def _fold(
    into: dict[SourcePartition, int], rows: pa.Table, column: str, how: Literal["min", "max"]
) -> None:
    for row in rows.group_by(PARTITION).aggregate([(column, how)]).to_pylist():
        sp, value = _partition(row), row[f"{column}_{how}"]
        into[sp] = FOLDS[how](into.get(sp, value), value)


def _bound(checkpoint: Checkpoint) -> ProvenBound:
    return ProvenBound(
        checkpoint.hub_ends, checkpoint.snapshot_at_ms, checkpoint.cluster_ids.get(HUB, "")
    )


def _table(partitions: Iterable[SourcePartition]) -> pa.Table:
    listed = list(partitions)
    return pa.table(
        {
            "cluster": pa.array([sp.cluster for sp in listed], pa.string()),
            "topic": pa.array([sp.topic for sp in listed], pa.string()),
            "partition": pa.array([sp.partition for sp in listed], pa.int32()),
        }
    )


def _partition(row: Mapping[str, Any]) -> SourcePartition:
    return SourcePartition(row["cluster"], row["topic"], row["partition"])
