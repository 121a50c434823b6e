"""What the checkpoint's history proves: where a copy began, and what lies behind what at the hub.

All of it follows from one property of every commit: whatever its positions do not cover was written
at or behind its hub ends. The rows are read in batches and folded, as there may be millions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset

from aggregator.checkpoint.delta import dataset, open_delta, translated
from aggregator.checkpoint.rows import HUB_END, POSITION, SCHEMA
from aggregator.model import SourcePartition, TopicPartition
from aggregator.verify.core import CopyBegin

PARTITION = ["cluster", "topic", "partition"]
MARGIN = timedelta(minutes=10)
"""How much older than the newest that would do is the commit that a hub start is taken from: an
audit is not to lean on the very commits that it judges."""
FOLD_EVERY = 64
TYPES = {**{field.name: field.type for field in SCHEMA}, "hub_topic": pa.string()}

Folds = Sequence[tuple[str, str]]
"""(column, how): "min" or "max"."""


class Bounds:
    """The history under `path`, for the topics as they are now.

    `routes` is (alias, topic) -> hub topic, `topic_ids` (alias, topic) -> id, `hub_ids` hub topic
    -> id: rows about another incarnation of a topic do not count. Without a checkpoint nothing is
    proven and every answer is empty. CheckpointError when it cannot be read.
    """

    def __init__(
        self,
        path: str,
        storage_options: Mapping[str, str],
        routes: Mapping[tuple[str, str], str],
        topic_ids: Mapping[tuple[str, str], str],
        hub_ids: Mapping[str, str],
    ) -> None:
        self._path = path
        self._routes = routes
        self._sources = _strings(
            cluster=[alias for alias, _ in routes],
            topic=[topic for _, topic in routes],
            id_now=[topic_ids.get(key, "") for key in routes],
            hub_topic=list(routes.values()),
        )
        self._hub = _strings(topic=list(hub_ids), id_now=list(hub_ids.values()))
        self._data: Dataset | None = None
        self._oldest = 0
        delta = open_delta(path, storage_options)
        if delta is not None:
            with translated(path, "read"):
                self._data = dataset(delta, path)
                files = pa.table(delta.get_add_actions(flatten=True))
                if files.num_rows and "min.seq" in files.column_names:
                    self._oldest = int(pc.min(files["min.seq"]).as_py() or 0)

    def begun(self) -> dict[SourcePartition, CopyBegin]:
        """The lowest position of each partition.

        It is where the copy began, unless the oldest commit that is kept knows the partition: then
        an older one may have known it, too.
        """
        rows = self._positions(["seq", "offset"])
        found = _folded(rows, PARTITION, [("offset", "min"), ("seq", "min")])
        return {
            _partition(row): CopyBegin(
                row["offset"], self._oldest == 1 or row["seq"] > self._oldest
            )
            for row in found.to_pylist()
        }

    def kept_from(self, lost: Mapping[TopicPartition, int]) -> dict[SourcePartition, int]:
        """From which source offset on no record can have been deleted at the hub.

        `lost` are hub partitions that begin above 0, with where they begin. A source partition is
        absent when no commit that is kept lies behind all that its hub topic has lost.
        """
        behind = self._behind(lost)
        rows = (
            part.join(behind, ["hub_topic", "snapshot_at"], join_type="inner")
            for part in self._positions(["snapshot_at", "offset"])
        )
        found = _folded(rows, PARTITION, [("offset", "min")])
        return {_partition(row): row["offset"] for row in found.to_pylist()}

    def hub_starts(self, lowers: Mapping[SourcePartition, int]) -> dict[TopicPartition, int]:
        """From where to read each hub partition, to see all records from `lowers` on.

        A hub topic is absent when no commit tells it for one of the partitions of `lowers`.
        """
        wanted = pa.table(
            {
                "cluster": pa.array([sp.cluster for sp in lowers], pa.string()),
                "topic": pa.array([sp.topic for sp in lowers], pa.string()),
                "partition": pa.array([sp.partition for sp in lowers], pa.int32()),
                "lower": pa.array(list(lowers.values()), pa.int64()),
            }
        )
        last = _folded(self._covering(wanted), PARTITION, [("snapshot_at", "max")])
        until = pc.subtract(last["snapshot_at"], pa.scalar(MARGIN, pa.duration("us")))
        limits = last.drop_columns("snapshot_at").append_column("until", until)
        wanted = wanted.join(limits, PARTITION, join_type="inner")
        early = (
            rows.filter(pc.field("snapshot_at") <= pc.field("until"))
            for rows in self._covering(wanted)
        )
        chosen = _folded(early, [*PARTITION, "hub_topic"], [("snapshot_at", "max")])
        ends = self._hub_ends(pc.field("snapshot_at").isin(chosen["snapshot_at"].unique()))
        chosen = chosen.select(["hub_topic", "snapshot_at"])
        both = chosen.join(ends, ["hub_topic", "snapshot_at"], join_type="inner")
        found = both.group_by(["hub_topic", "hub_partition"]).aggregate(
            [("end", "min"), ("end", "count")]
        )
        needed = Counter(self._routes.get((sp.cluster, sp.topic), "") for sp in lowers)
        return {
            TopicPartition(row["hub_topic"], row["hub_partition"]): row["end_min"]
            for row in found.to_pylist()
            if row["end_count"] == needed[row["hub_topic"]]
        }

    def _covering(self, wanted: pa.Table) -> Iterator[pa.Table]:
        """Position rows whose hub ends lie before every record from `lower` on."""
        for part in self._positions(["snapshot_at", "offset"]):
            rows = part.join(wanted, PARTITION, join_type="inner")
            yield rows.filter(pc.field("offset") <= pc.field("lower"))

    def _behind(self, lost: Mapping[TopicPartition, int]) -> pa.Table:
        """(hub_topic, snapshot_at) of the snapshots that lie behind what their topic has lost."""
        starts = pa.table(
            {
                "hub_topic": pa.array([tp.topic for tp in lost], pa.string()),
                "hub_partition": pa.array([tp.partition for tp in lost], pa.int32()),
                "start": pa.array(list(lost.values()), pa.int64()),
            }
        )
        ends = self._hub_ends(pc.field("topic").isin(starts["hub_topic"].unique()))
        both = ends.join(starts, ["hub_topic", "hub_partition"], join_type="inner")
        good = both.filter(pc.field("end") >= pc.field("start"))
        counted = good.group_by(["hub_topic", "snapshot_at"]).aggregate([("end", "count")])
        needed = starts.group_by("hub_topic").aggregate([("start", "count")])
        whole = counted.join(needed, "hub_topic", join_type="inner")
        whole = whole.filter(pc.field("end_count") == pc.field("start_count"))
        return whole.select(["hub_topic", "snapshot_at"])

    def _positions(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Position rows of the topics as they are now, with their hub topic, batch by batch."""
        names = [*PARTITION, "topic_id", *columns]
        for part in self._batches(names, pc.field("kind") == POSITION):
            yield _as_now(part.join(self._sources, ["cluster", "topic"], join_type="inner"))

    def _hub_ends(self, wanted: pc.Expression) -> pa.Table:
        """hub_topic, hub_partition, snapshot_at, end: the least that a snapshot says of each."""
        keys = ["topic", "partition", "snapshot_at"]
        parts = (
            _as_now(part.join(self._hub, "topic", join_type="inner"))
            for part in self._batches(
                [*keys, "topic_id", "offset"], (pc.field("kind") == HUB_END) & wanted
            )
        )
        found = _folded(parts, keys, [("offset", "min")])
        return found.rename_columns(["hub_topic", "hub_partition", "snapshot_at", "end"])

    def _batches(self, columns: Sequence[str], wanted: pc.Expression) -> Iterator[pa.Table]:
        if self._data is None:
            return
        with translated(self._path, "read"):
            for batch in self._data.to_batches(columns=list(columns), filter=wanted):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])


def _as_now(rows: pa.Table) -> pa.Table:
    """Rows about the topic that is there now; an id that is not known is taken for the same."""
    unknown = (pc.field("topic_id") == "") | (pc.field("id_now") == "")
    return rows.filter(unknown | (pc.field("topic_id") == pc.field("id_now")))


def _folded(parts: Iterable[pa.Table], keys: Sequence[str], folds: Folds) -> pa.Table:
    """One row per `keys`, of any number of tables; columns are `keys` and the folded ones."""
    held: list[pa.Table] = []
    for part in parts:
        held.append(_fold(part, keys, folds))
        if len(held) >= FOLD_EVERY:
            held = [_fold(pa.concat_tables(held), keys, folds)]
    if held:
        return _fold(pa.concat_tables(held), keys, folds)
    names = [*keys, *(column for column, _ in folds)]
    return pa.schema([(name, TYPES[name]) for name in names]).empty_table()


def _fold(table: pa.Table, keys: Sequence[str], folds: Folds) -> pa.Table:
    grouped = table.group_by(list(keys)).aggregate(list(folds))
    names = {f"{column}_{how}": column for column, how in folds}
    ordered = grouped.select([*keys, *names])
    return ordered.rename_columns([*keys, *names.values()])


def _strings(**columns: list[str]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _partition(row: Mapping[str, Any]) -> SourcePartition:
    return SourcePartition(row["cluster"], row["topic"], row["partition"])
