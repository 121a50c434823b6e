"""What the history says about earlier positions: how far each log was copied, and its hub bounds.

A commit's hub ends bound every position at or beyond its own: what it does not cover was written
behind them. Rows about another incarnation of a topic do not count. Nor do those since a position
was set back with --again: from then on the hub holds records twice, and behind such a commit
perhaps only some of them. The rows are read in batches and folded, as there may be millions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from aggregator.model.values import LogId, OffsetRange, SourcePartition, TopicPartition
from aggregator.plan.positions.hub_losses import cut_ends, id_before, is_lost, least_ends
from aggregator.store.checkpoint.rows import (
    HUB,
    HUB_END,
    OLDER,
    POSITION,
    Checkpoint,
    from_table,
    partition_of,
)
from aggregator.store.delta import dataset, highest, lowest, open_delta, translated

SET = "positions set"
AGAIN = "positions --again"
"""Lanes of commits made by hand; AGAIN writes records a second time. No lane of a
run is called so, as its name has a blank."""
REWOUND = "recovery/rewound"
"""The lane of a recovery that set positions back, because the hub has lost what was copied."""

PARTITION = ["cluster", "topic", "partition"]
MANY = 2**62
"""More than a seq will ever be."""
FOLDS = {"min": min, "max": max}
RECENT = 2_000
"""The number of commits searched first: they mostly contain what is asked for."""
NO_IDS: Mapping[str, str] = MappingProxyType({})
LIFE = ["epoch", "lane", "generation"]
"""The commits of one life of a lane."""
PART = ["seq", "lane", "generation", "batch"]
"""A part of a commit: positions, and the hub ends that belong to them."""
AT_ONCE_MS = 2_000
"""A clean commit follows so soon when the hub was asked for its ends."""
HALVES = 16
"""How often the range in which a position is searched for is halved."""


@dataclass(frozen=True, slots=True)
class ProvenBound:
    """Hub ends that lie before every record of some positions, and when they were read.

    A hub partition that is absent is unknown: it must be read from its beginning. `hub_id` is the
    cluster that they were read from, "" when not known, `topic_ids` are those of its topics.
    """

    hub_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    snapshot_at_ms: int = 0
    hub_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def after_cuts(self, cuts: Mapping[TopicPartition, int]) -> ProvenBound:
        """The same, as a bound of what the hub holds since partitions of it were cut off there."""
        ids = {name: id_before(it) or it for name, it in self.topic_ids.items()}
        return replace(self, hub_ends=cut_ends(self.hub_ends, cuts), topic_ids=ids)


@dataclass(slots=True)
class _Folded:
    """The rows of each partition, folded: offsets, and commits (seq) from which on they count.

    `again` and `back` are the first commits that wrote again, or set back at all, `rewound` the
    last that a recovery set back; `other` is the first about another log by its name.
    """

    furthest: dict[SourcePartition, int] = field(default_factory=dict)
    lowest: dict[SourcePartition, int] = field(default_factory=dict)
    first: dict[SourcePartition, int] = field(default_factory=dict)
    again: dict[SourcePartition, int] = field(default_factory=dict)
    back: dict[SourcePartition, int] = field(default_factory=dict)
    by_hand: dict[SourcePartition, int] = field(default_factory=dict)
    rewound: dict[SourcePartition, int] = field(default_factory=dict)
    other: dict[SourcePartition, int] = field(default_factory=dict)

    def copy(self) -> _Folded:
        """The same, to be folded on."""
        values = [dict(getattr(self, it.name)) for it in fields(self)]
        return _Folded(*values)


class Past:
    """The history under `path`, for partitions with their ids of now.

    With `earlier`, which was made a while ago, only what is new since is read. CheckpointError when
    it cannot be read; without a checkpoint every answer is empty.
    """

    def __init__(
        self,
        path: str,
        storage_options: Mapping[str, str],
        partitions: Mapping[SourcePartition, LogId],
        earlier: Past | None = None,
    ) -> None:
        self._path = path
        self._partitions = dict(partitions)
        ids = partitions.values()
        self._wanted = (
            table_of(partitions)
            .append_column("cluster_now", pa.array([it.cluster for it in ids], pa.string()))
            .append_column("topic_now", pa.array([it.topic for it in ids], pa.string()))
        )
        delta = open_delta(path, storage_options) if partitions else None
        self._data = dataset(delta, path) if delta is not None else None
        self._last = highest(delta, "seq") if delta is not None else 0
        self._first = lowest(delta, "seq") if delta is not None else 0
        known = earlier if earlier is not None and earlier._partitions == self._partitions else None
        folded: _Folded = _Folded() if known is None else known._folded.copy()
        self._folded: _Folded = folded
        since = 0 if known is None else known._last
        for own, other in self._rows(["seq", "offset", "lane", "clean"], since):
            _fold(folded.furthest, own, "offset", "max")
            _fold(folded.lowest, own, "offset", "min")
            _fold(folded.first, own, "seq", "min")
            again = pc.field("lane") == AGAIN
            _fold(folded.again, own.filter(again), "seq", "min")
            by_hand = again | ((pc.field("lane") == SET) & ~pc.field("clean"))
            rewound = pc.field("lane") == REWOUND
            _fold(folded.back, own.filter(by_hand | rewound), "seq", "min")
            _fold(folded.by_hand, own.filter(by_hand), "seq", "min")
            _fold(folded.rewound, own.filter(rewound), "seq", "max")
            _fold(folded.other, other, "seq", "min")

    def furthest(self) -> dict[SourcePartition, int]:
        """The highest position that each partition ever had in its log of now."""
        return dict(self._folded.furthest)

    @property
    def is_whole(self) -> bool:
        """Whether it reaches back to the first commit: nothing of it has expired."""
        return self._first <= 1

    def lowest(self) -> dict[SourcePartition, int]:
        """The lowest position that is known of each partition in its log of now."""
        return dict(self._folded.lowest)

    def set_back(self) -> frozenset[SourcePartition]:
        """Partitions that were set back: their records may follow later ones."""
        return frozenset(self._folded.back)

    def bounds(
        self, targets: Mapping[SourcePartition, int], *, recent: bool = False
    ) -> dict[SourcePartition, ProvenBound]:
        """For each partition the newest bound that holds at its target; one of everything, if none.

        Every record of the partition from its target on that the hub holds lies behind it. The
        newest is the one that was read last: a reset to an earlier position commits it again.
        With `recent` only the newest commits are looked at.
        """
        best: dict[SourcePartition, int] = {}
        for since in self._backwards(recent=recent):
            left = {sp: at for sp, at in targets.items() if sp not in best}
            best |= self._holding(left, since) if left else {}
        for sp in set(targets) - set(best):
            first = self._folded.first.get(sp)
            if first is not None and self._folded.other.get(sp, first) < first:
                # Created again: all its records are behind the first commit about it.
                best[sp] = first
        found = self._commits(best)
        return {sp: found.get(sp, ProvenBound()) for sp in targets}

    def tops(
        self, targets: Mapping[SourcePartition, int], *, recent: bool = False
    ) -> dict[SourcePartition, ProvenBound]:
        """For each partition hub ends behind all its records below its target; absent where none
        are proven.

        All below a position was acknowledged when it was committed, and what the tasks of a lane
        had reported by then is in each snapshot that was made later. So a later commit of the same
        life of the lane, by such a snapshot, has these ends. Both moments are by one clock, which
        is never set back.
        """
        in_order = {sp: at for sp, at in targets.items() if sp not in self._folded.back}
        return self._tops(in_order, recent=recent)

    def _tops(
        self, targets: Mapping[SourcePartition, int], *, recent: bool = False
    ) -> dict[SourcePartition, ProvenBound]:
        """The same by what was committed since a recovery has set back a partition, if one has."""
        chosen: dict[SourcePartition, int] = {}
        for since in self._backwards(recent=recent):
            left = {sp: at for sp, at in targets.items() if sp not in chosen}
            chosen |= self._behind(left, since) if left else {}
        return self._commits(chosen)

    def held(
        self,
        targets: Mapping[SourcePartition, int],
        holds: Callable[[SourcePartition, ProvenBound], bool],
    ) -> dict[SourcePartition, int]:
        """The highest positions up to the targets of which all was in a hub that `holds` it.

        `holds` says whether the hub still has all of a partition up to these ends. A partition of
        which nothing is proven, as one that was set back by hand, is absent.
        """
        found = self._ended(targets, holds)
        low = {sp: found.get(sp, at) for sp, at in self.lowest().items() if sp in targets}
        high = {sp: at + 1 for sp, at in targets.items() if sp in low}
        asked = {sp: at for sp, at in low.items() if sp not in found}
        for _ in range(HALVES):
            tops = self._tops(
                {sp: at for sp, at in asked.items() if sp not in self._folded.by_hand}
            )
            for sp, at in asked.items():
                if sp in tops and holds(sp, tops[sp]):
                    found[sp] = low[sp] = at
                else:
                    high[sp] = at
            asked = {sp: (at + high[sp]) // 2 for sp, at in low.items() if high[sp] - at > 1}
            if not asked:
                break
        return found

    def _ended(
        self,
        targets: Mapping[SourcePartition, int],
        holds: Callable[[SourcePartition, ProvenBound], bool],
    ) -> dict[SourcePartition, int]:
        """What a lane that has ended proves: the hub was asked when all was acknowledged."""
        columns = ["seq", "offset", "clean", "full", "snapshot_at", "committed_at"]
        soon = pc.scalar(timedelta(milliseconds=AT_ONCE_MS))
        ended: dict[tuple[int, SourcePartition], int] = {}
        for own, _ in self._rows(columns):
            asked = pc.field("clean") & ~pc.field("full")
            asked = asked & (pc.field("committed_at") - pc.field("snapshot_at") < soon)
            for row in own.filter(asked).to_pylist():
                ended[row["seq"], partition_of(row)] = row["offset"]
        found: dict[SourcePartition, int] = {}
        for checkpoint in self._all_of({seq for seq, _ in ended}):
            bound = _bound(checkpoint)
            for sp, at in checkpoint.positions.items():
                fits = found.get(sp, -1) < at == ended.get((checkpoint.seq, sp), -1)
                in_order = sp not in self._folded.by_hand and at <= targets.get(sp, -1)
                in_order = in_order and checkpoint.seq >= self._folded.rewound.get(sp, 0)
                if fits and in_order and checkpoint.clean and holds(sp, bound):
                    found[sp] = at
        return found

    def _backwards(self, *, recent: bool) -> tuple[int, ...]:
        """Behind which commits to look, one after the other."""
        if self._last <= RECENT:
            return (0,)
        return (self._last - RECENT,) if recent else (self._last - RECENT, 0)

    def _behind(
        self, targets: Mapping[SourcePartition, int], since: int
    ) -> dict[SourcePartition, int]:
        """Of each partition the first commit (its seq) as `tops` wants it."""
        rewound = [self._folded.rewound.get(sp, 0) for sp in targets]
        limits = (
            table_of(targets)
            .append_column("target", pa.array(targets.values(), pa.int64()))
            .append_column("rewound", pa.array(rewound, pa.int64()))
        )
        keys = [*PARTITION, *LIFE]
        columns = [*LIFE, "batch", "seq", "offset", "full", "snapshot_at", "committed_at"]
        reached: list[pa.Table] = []
        lowest: dict[SourcePartition, int] = {}
        for own, _ in self._rows(columns, since):
            both = own.join(limits, PARTITION, join_type="inner")
            _fold(lowest, both, "offset", "min")
            both = both.filter((pc.field("offset") >= pc.field("target")) & ~pc.field("full"))
            both = both.filter(pc.field("seq") > pc.field("rewound"))
            reached.append(_least_of(both, keys, ["seq", "committed_at"]))
        if not reached:
            return {}
        begun = _least_of(pa.concat_tables(reached), keys, ["seq", "committed_at"])
        begun = begun.rename_columns([*keys, "reached", "reached_at"])
        found: dict[SourcePartition, int] = {}
        for own, _ in self._rows(columns, since):
            both = own.filter(~pc.field("full")).join(begun, keys, join_type="inner")
            later = pc.field("seq") > pc.field("reached")
            after = pc.field("snapshot_at") > pc.field("reached_at")
            # One by older ends knows no more of what was copied than it did before.
            own_ends = pc.field("batch") > OLDER
            _fold(found, both.filter(later & after & own_ends), "seq", "min")
        # What had been reached before is bounded closer by an older commit.
        return {
            sp: seq for sp, seq in found.items() if not since or lowest[sp] < targets.get(sp, 0)
        }

    def _holding(
        self, targets: Mapping[SourcePartition, int], since: int
    ) -> dict[SourcePartition, int]:
        """Of each partition the commit (its seq) as `bounds` wants it."""
        limits = (
            table_of(targets)
            .append_column("target", pa.array(targets.values(), pa.int64()))
            .append_column(
                "until", pa.array([self._folded.again.get(sp, MANY) for sp in targets], pa.int64())
            )
        )
        best: dict[SourcePartition, tuple[datetime, int]] = {}
        for own, _ in self._rows(["seq", "offset", "snapshot_at"], since):
            both = own.join(limits, PARTITION, join_type="inner")
            holds = pc.field("offset") <= pc.field("target")
            for sp, newest in _newest(both.filter(holds & (pc.field("seq") < pc.field("until")))):
                best[sp] = max(best.get(sp, newest), newest)
        return {sp: seq for sp, (_, seq) in best.items()}

    def _commits(self, chosen: Mapping[SourcePartition, int]) -> dict[SourcePartition, ProvenBound]:
        """The bound of each partition in its chosen commit (its seq); those of a part share one."""
        found: dict[SourcePartition, ProvenBound] = {}
        for checkpoint in self._parts_with(chosen):
            bound = _bound(checkpoint)
            found |= {sp: bound for sp in checkpoint.positions if chosen.get(sp) == checkpoint.seq}
        return found

    def _parts_with(self, chosen: Mapping[SourcePartition, int]) -> Sequence[Checkpoint]:
        """The parts of commits that have these partitions, each in its chosen commit (its seq).

        A commit may have a part for each of a hundred lanes, each with the ends of the whole hub:
        rows of the others are left out before any is made an object.
        """
        if self._data is None or not chosen:
            return ()
        seqs = pa.array(chosen.values(), pa.int64())
        wanted = table_of(chosen).append_column("seq", seqs)
        asked = pc.field("seq").isin(pa.array(sorted(set(chosen.values())), pa.int64()))
        both = pc.field("kind").isin(pa.array([POSITION, HUB_END]))
        with translated(self._path, "read"):
            positions = self._data.to_table(
                columns=[*PARTITION, *PART], filter=asked & (pc.field("kind") == POSITION)
            )
            own = positions.join(wanted, [*PARTITION, "seq"], join_type="inner").select(PART)
            rows = [
                pa.Table.from_batches([batch]).join(own, PART, join_type="left semi")
                for batch in self._data.to_batches(filter=asked & both)
            ]
        return tuple(from_table(pa.concat_tables(rows))) if rows else ()

    def _all_of(self, seqs: Collection[int]) -> Sequence[Checkpoint]:
        """The checkpoints of these commits."""
        if self._data is None or not seqs:
            return ()
        asked = pc.field("seq").isin(pa.array(sorted(seqs), pa.int64()))
        with translated(self._path, "read"):
            rows = self._data.to_table(
                filter=asked & pc.field("kind").isin(pa.array([POSITION, HUB_END]))
            )
        return tuple(from_table(rows))

    def _rows(self, columns: Sequence[str], since: int = 0) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Position rows of the partitions, batch by batch: of their log of now, and of others.

        Only of commits behind `since`.
        """
        if self._data is None:
            return
        ids = ["cluster_id", "topic_id"]
        with translated(self._path, "read"):
            for batch in self._data.to_batches(
                columns=[*PARTITION, *ids, *columns],
                filter=(pc.field("kind") == POSITION) & (pc.field("seq") > since),
            ):
                rows = pa.Table.from_batches([batch])
                rows = rows.join(self._wanted, PARTITION, join_type="inner")
                same = _same("cluster_id", "cluster_now") & _same("topic_id", "topic_now")
                yield rows.filter(same), rows.filter(~same)


def fitting(
    bound: ProvenBound,
    hub_id: str,
    logs: Mapping[TopicPartition, OffsetRange],
    topic_ids: Mapping[str, str] = NO_IDS,
    renewed: Collection[str] = (),
) -> ProvenBound:
    """The bound without what belongs to another hub cluster, or to a topic that was created again.

    A hub topic whose log does not reach the bound is not the one that the bound is about, nor is
    one with another id than in `topic_ids`. Of those `renewed` an id that is not known is another.
    """
    if bound.hub_id and hub_id and bound.hub_id != hub_id:
        return ProvenBound()
    other = {tp.topic for tp, end in bound.hub_ends.items() if tp in logs and end > logs[tp].latest}
    for name in {tp.topic for tp in bound.hub_ends}:
        own, now = bound.topic_ids.get(name, ""), topic_ids.get(name, "")
        if is_lost(own) or (own and now and own != now) or (name in renewed and not own):
            other.add(name)
    ends = {tp: end for tp, end in bound.hub_ends.items() if tp.topic not in other}
    return replace(bound, hub_ends=ends)


def least(bounds: Iterable[ProvenBound]) -> ProvenBound:
    """One bound that holds for all: per hub partition the lowest, where all know it."""
    given = list(bounds) or [ProvenBound()]
    ends = least_ends(it.hub_ends for it in given)
    return ProvenBound(ends, min(it.snapshot_at_ms for it in given))


def _newest(rows: pa.Table) -> Iterator[tuple[SourcePartition, tuple[datetime, int]]]:
    """Of each partition the last snapshot and the last commit (seq) that has it."""
    last = rows.group_by(PARTITION).aggregate([("snapshot_at", "max")])
    rows = rows.join(last, PARTITION, join_type="inner")
    rows = rows.filter(pc.field("snapshot_at") == pc.field("snapshot_at_max"))
    for row in rows.group_by([*PARTITION, "snapshot_at"]).aggregate([("seq", "max")]).to_pylist():
        yield partition_of(row), (row["snapshot_at"], row["seq_max"])


def _same(then: str, now: str) -> pc.Expression:
    """An id that is not known is taken for the same."""
    unknown = (pc.field(then) == "") | (pc.field(now) == "")
    return unknown | (pc.field(then) == pc.field(now))


def _fold(
    into: dict[SourcePartition, int], rows: pa.Table, column: str, how: Literal["min", "max"]
) -> None:
    for row in rows.group_by(PARTITION).aggregate([(column, how)]).to_pylist():
        sp, value = partition_of(row), row[f"{column}_{how}"]
        into[sp] = FOLDS[how](into.get(sp, value), value)


def _least_of(rows: pa.Table, keys: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """The least of each column, a row for each of `keys`."""
    grouped = rows.group_by(list(keys)).aggregate([(column, "min") for column in columns])
    ordered = grouped.select([*keys, *(f"{column}_min" for column in columns)])
    return ordered.rename_columns([*keys, *columns])


def _bound(checkpoint: Checkpoint) -> ProvenBound:
    return ProvenBound(
        checkpoint.hub_ends,
        checkpoint.snapshot_at_ms,
        checkpoint.cluster_ids.get(HUB, ""),
        {topic: it for (alias, topic), it in checkpoint.topic_ids.items() if alias == HUB},
    )


def table_of(partitions: Iterable[SourcePartition]) -> pa.Table:
    """Source partitions as rows, by the columns of PARTITION."""
    listed = list(partitions)
    return pa.table(
        {
            "cluster": pa.array([sp.cluster for sp in listed], pa.string()),
            "topic": pa.array([sp.topic for sp in listed], pa.string()),
            "partition": pa.array([sp.partition for sp in listed], pa.int32()),
        }
    )
