"""What the checkpoint's history proves: where a copy began, and its bounds at the hub.

All of it follows from one property of every commit: whatever its positions do not cover was written
at or behind its hub ends. Where records were written again on purpose, it holds for the last copy
alone. The rows are read in batches and folded, as there may be millions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset

from aggregator.features.verify.audit_scope import CopyBegin
from aggregator.model.values import SourcePartition, TopicPartition
from aggregator.store.checkpoint.past_commits import AGAIN, MANY, PARTITION, SET, table_of
from aggregator.store.checkpoint.rows import DOUBT, HUB_END, POSITION, SCHEMA, partition_of
from aggregator.store.delta import dataset, lowest, open_delta, translated

MARGIN = timedelta(minutes=10)
"""How much older than the newest that would do is the commit that a hub start is taken from: an
audit is not to lean on the very commits that it judges."""
FOLD_EVERY = 64
TYPES = {
    **{field.name: field.type for field in SCHEMA},
    "hub_topic": pa.string(),
    "begins": pa.int64(),
    "last": pa.int64(),
}
LOOKED_FOR = ("doubt", "recovery")
"""Lanes of commits about what the hub was found to hold: no copy begins with one."""

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
                self._oldest = lowest(delta, "seq")

    def begun(self) -> dict[SourcePartition, CopyBegin]:
        """The lowest position of each partition.

        It is where the copy began, unless an older checkpoint may have known it: the oldest commit
        that is kept knows the partition, or its first one was made while the hub was in doubt, as
        after a checkpoint that was lost.
        """
        rows = (
            part.append_column("begins", _begins(part))
            for part in self._positions(["seq", "offset", "lane"])
        )
        found = _folded(rows, PARTITION, [("offset", "min"), ("seq", "min"), ("begins", "min")])
        doubts = self._doubts()

        def is_exact(alias: str, first: int, begins: int | None) -> bool:
            opened, closed = doubts.get(alias, (MANY, 0))
            known = self._oldest == 1 or first > self._oldest
            return known and begins == first and not opened <= first <= closed

        return {
            partition_of(row): CopyBegin(
                row["offset"], is_exact(row["cluster"], row["seq"], row["begins"])
            )
            for row in found.to_pylist()
        }

    def _doubts(self) -> dict[str, tuple[int, int]]:
        """Alias -> the first and the last commit between which the hub was in doubt about it."""
        rows = self._batches(["cluster", "seq", "clean"], pc.field("kind") == DOUBT)
        doubts: dict[str, tuple[int, int]] = {}
        last: dict[str, tuple[int, bool]] = {}
        for row in (row for part in rows for row in part.to_pylist()):
            alias, seq = row["cluster"], row["seq"]
            first, _ = doubts.get(alias, (seq, 0))
            last[alias] = max(last.get(alias, (0, False)), (seq, row["clean"]))
            doubts[alias] = (min(first, seq), last[alias][0] if last[alias][1] else MANY)
        return doubts

    def put_back(self) -> frozenset[SourcePartition]:
        """Partitions whose position was set back: older records may follow newer ones."""
        back = (pc.field("lane") == AGAIN) | ((pc.field("lane") == SET) & ~pc.field("clean"))
        found = _folded(self._positions(["seq"], back), PARTITION, [("seq", "min")])
        return frozenset(partition_of(row) for row in found.to_pylist())

    def kept_from(
        self, lost: Mapping[TopicPartition, int], into: str | None = None
    ) -> dict[SourcePartition, int]:
        """From which source offset on no record can have been deleted at the hub.

        `lost` are hub partitions that begin above 0, with where they begin. A source partition is
        absent when no commit that is kept lies behind all that its hub topic has lost; or, with
        `into`, all that this topic has, where records of any may be kept aside.
        """
        behind = self._behind(lost)
        rows = (
            _renamed(part, into).join(behind, ["hub_topic", "snapshot_at"], join_type="inner")
            for part in self._positions(["snapshot_at", "offset"])
        )
        found = _folded(rows, PARTITION, [("offset", "min")])
        return {partition_of(row): row["offset"] for row in found.to_pylist()}

    def hub_starts(self, lowers: Mapping[SourcePartition, int]) -> dict[TopicPartition, int]:
        """From where to read each hub partition, to see all records from `lowers` on.

        A hub topic is absent when no commit has it for one of the partitions of `lowers`.
        """
        again = self._again()
        # Behind a commit of since then may lie the later copies alone.
        before = [
            first if lower < furthest else MANY
            for sp, lower in lowers.items()
            for first, furthest in (again.get(sp, (MANY, 0)),)
        ]
        wanted = (
            table_of(lowers)
            .append_column("lower", pa.array(list(lowers.values()), pa.int64()))
            .append_column("before", pa.array(before, pa.int64()))
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
        for part in self._positions(["snapshot_at", "offset", "seq"]):
            rows = part.join(wanted, PARTITION, join_type="inner")
            holds = pc.field("offset") <= pc.field("lower")
            yield rows.filter(holds & (pc.field("seq") < pc.field("before")))

    def _again(self) -> dict[SourcePartition, tuple[int, int]]:
        """Of each partition that was written again: since which commit, and how far it was."""
        rows = (
            part.append_column("last", part["seq"])
            for part in self._positions(["seq"], pc.field("lane") == AGAIN)
        )
        found = _folded(rows, PARTITION, [("seq", "min"), ("last", "max")])
        if not found.num_rows:
            return {}
        limits = found.drop_columns("seq")
        earlier = (
            part.join(limits, PARTITION, join_type="inner").filter(
                pc.field("seq") < pc.field("last")
            )
            for part in self._positions(["seq", "offset"])
        )
        far = _folded(earlier, PARTITION, [("offset", "max")])
        furthest = {partition_of(row): row["offset"] for row in far.to_pylist()}
        since = {partition_of(row): row["seq"] for row in found.to_pylist()}
        return {sp: (seq, furthest.get(sp, MANY)) for sp, seq in since.items()}

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

    def _positions(
        self, columns: Sequence[str], wanted: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Position rows of the topics as they are now, with their hub topic, batch by batch."""
        names, own = [*PARTITION, "topic_id", *columns], pc.field("kind") == POSITION
        for part in self._batches(names, own if wanted is None else own & wanted):
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


def _begins(rows: pa.Table) -> pa.ChunkedArray:
    """The number of each row's commit; null for those of `LOOKED_FOR`."""
    is_other = pc.is_in(rows["lane"], pa.array(LOOKED_FOR, pa.string()))
    return pc.if_else(is_other, pa.scalar(None, pa.int64()), rows["seq"])


def _renamed(rows: pa.Table, hub_topic: str | None) -> pa.Table:
    """The rows as if they were about this hub topic; as they are without one."""
    if hub_topic is None:
        return rows
    name = pa.array([hub_topic] * rows.num_rows, pa.string())
    return rows.set_column(rows.column_names.index("hub_topic"), "hub_topic", name)


def _strings(**columns: list[str]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
