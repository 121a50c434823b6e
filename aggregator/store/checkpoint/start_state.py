"""The state that a start needs: the latest checkpoint of each partition. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aggregator.model.alike import made_of
from aggregator.model.values import LogId, Positions, SourcePartition, TopicPartition
from aggregator.plan.positions.hub_losses import cut_ends, cut_ids, is_lost, least_ends
from aggregator.plan.positions.start import Remembered
from aggregator.store.checkpoint.rows import DOUBT, HUB, HUB_END, POSITION, Checkpoint, from_table

CUT = -1_000
"""The number of what is committed again; those after it are lower, and no lane has such ones."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The hub's end offsets that bound the tail of some positions, and who took them."""

    lane: str
    generation: int
    batch: int
    snapshot_at_ms: int
    clean: bool
    hub_ends: Mapping[TopicPartition, int]
    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def by_hand(self) -> bool:
        """Whether a person set the positions that it belongs to: no lane's name has a blank."""
        return " " in self.lane


@dataclass(frozen=True, slots=True)
class Entry:
    """The latest that the table says about one source partition."""

    position: int
    seq: int
    snapshot: Snapshot
    cluster_id: str = ""
    topic_id: str = ""
    log_end: int | None = None

    @property
    def log(self) -> LogId:
        """What the position counts in."""
        return LogId(self.cluster_id, self.topic_id)

    def is_of_other(self, cluster_id: str, topic_id: str) -> bool:
        """Whether the position certainly counts in another log than the one with these ids."""
        return (self.cluster_id != cluster_id and bool(self.cluster_id and cluster_id)) or (
            self.topic_id != topic_id and bool(self.topic_id and topic_id)
        )


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The latest entry of every source partition ever checkpointed, and the last numbers used.

    `doubts` are sources (alias) of which partitions without an entry have to be looked for in the
    hub before they start, with the hub's ends behind which that is.
    """

    entries: Mapping[SourcePartition, Entry] = field(default_factory=dict)
    seq: int = 0
    epoch: int = 0
    full_seq: int = 0
    doubts: Mapping[str, Snapshot] = field(default_factory=dict)

    def apply(self, *checkpoints: Checkpoint) -> CheckpointState:
        """The state after `checkpoints`, in any order: of a partition the highest seq counts."""
        entries, doubts = dict(self.entries), dict(self.doubts)
        for checkpoint in sorted(checkpoints, key=lambda item: item.seq):
            snapshot = _snapshot_of(checkpoint)
            for alias in checkpoint.doubted:
                if checkpoint.clean:
                    doubts.pop(alias, None)
                else:
                    doubts[alias] = snapshot
            seq, log_ends = checkpoint.seq, checkpoint.log_ends
            cluster_ids, topic_ids = checkpoint.cluster_ids, checkpoint.topic_ids
            for sp, position in checkpoint.positions.items():
                known = entries.get(sp)
                if known is None or known.seq <= seq:
                    cluster_id = cluster_ids.get(sp.cluster, "")
                    topic_id = topic_ids.get((sp.cluster, sp.topic), "")
                    entries[sp] = Entry(
                        position, seq, snapshot, cluster_id, topic_id, log_ends.get(sp)
                    )
        return CheckpointState(
            entries=entries,
            seq=max([self.seq, *(item.seq for item in checkpoints)]),
            epoch=max([self.epoch, *(item.epoch for item in checkpoints)]),
            full_seq=max([self.full_seq, *(item.seq for item in checkpoints if item.full)]),
            doubts=doubts,
        )

    @property
    def positions(self) -> Positions:
        """The position of every partition."""
        return Positions({sp: entry.position for sp, entry in self.entries.items()})

    def position(self, sp: SourcePartition) -> int | None:
        """The position of one partition; None when there is none."""
        return entry.position if (entry := self.entries.get(sp)) is not None else None

    @property
    def unclean(self) -> frozenset[SourcePartition]:
        """Partitions whose latest checkpoint was no clean one: the hub may hold more of them."""
        return frozenset(sp for sp, entry in self.entries.items() if not entry.snapshot.clean)

    @property
    def clean(self) -> bool:
        """True when no partition needs recovery; true for an empty state."""
        return not self.unclean

    @property
    def cluster_ids(self) -> dict[str, str]:
        """Alias -> cluster id, of the newest entry of each source, and of the hub."""
        ids: dict[str, str] = {}
        for sp, entry in self._by_age():
            if entry.snapshot.cluster_id:
                ids[HUB] = entry.snapshot.cluster_id
            if entry.cluster_id:
                ids[sp.cluster] = entry.cluster_id
        return ids

    @property
    def hub_ids(self) -> dict[str, str]:
        """Hub topic -> its id, by the newest snapshot that knows it."""
        # The entries of a commit share its snapshot.
        snapshots = {id(entry.snapshot): entry.snapshot for entry in self.entries.values()}
        ids: dict[str, str] = {}
        for snapshot in sorted(snapshots.values(), key=lambda it: it.snapshot_at_ms):
            ids.update({name: it for name, it in snapshot.topic_ids.items() if not is_lost(it)})
        return ids

    def remembered(self, unsure: frozenset[SourcePartition] = frozenset()) -> Remembered:
        """What is known of each partition: its position, and the ids and log that belong to it."""
        entries = self.entries
        return Remembered(
            self.positions,
            {sp: entry.log for sp, entry in entries.items()},
            {sp: entry.log_end for sp, entry in entries.items() if entry.log_end is not None},
            {sp: entry.snapshot.snapshot_at_ms for sp, entry in entries.items()},
            unsure,
        )

    def furthest_hub_ends(self) -> dict[TopicPartition, int]:
        """How far the hub is known to have been, per partition, by any commit of a run.

        Of a partition that is clean, or has no entry, all that the hub may hold beyond what the
        table says lies behind these: when the last of them was committed nothing of it was on its
        way. What was set by hand is left out: it is set without reading what the hub holds.
        """
        snapshots = {id(s): s for s in (entry.snapshot for entry in self.entries.values())}
        ends: dict[TopicPartition, int] = {}
        ids = self.hub_ids
        for snapshot in snapshots.values():
            if snapshot.by_hand:
                continue
            # Of a topic that was created again, or has lost records, it says nothing.
            no_more = {
                name
                for name, own in snapshot.topic_ids.items()
                if own and (own != ids.get(name, own) or is_lost(own))
            }
            for tp, end in snapshot.hub_ends.items():
                if end > ends.get(tp, -1) and tp.topic not in no_more:
                    ends[tp] = end
        return ends

    def ends_by_hand(self) -> dict[SourcePartition, Mapping[TopicPartition, int]]:
        """The hub's ends that belong to clean positions set by hand."""
        return {
            sp: entry.snapshot.hub_ends
            for sp, entry in self.entries.items()
            if entry.snapshot.clean and entry.snapshot.by_hand
        }

    def own_hub_ends(
        self, partitions: Iterable[SourcePartition]
    ) -> dict[SourcePartition, Mapping[TopicPartition, int]]:
        """The lower bound of the hub tail of each partition by itself; those with an entry."""
        known = self.entries
        return {sp: known[sp].snapshot.hub_ends for sp in partitions if sp in known}

    def own_hub_ids(self) -> dict[SourcePartition, Mapping[str, str]]:
        """The ids (hub topic -> id) of the hub topics that each position belongs to."""
        return {sp: entry.snapshot.topic_ids for sp, entry in self.entries.items()}

    def carried(
        self,
        seq: int,
        epoch: int,
        without: Iterable[SourcePartition],
        settled: Collection[str] = (),
    ) -> list[Checkpoint]:
        """What a full commit `seq` repeats: all entries but `without`, by their snapshots.

        And the doubts, but those about the sources `settled`.
        """
        left_out = frozenset(without)
        groups: dict[tuple[Any, ...], list[tuple[SourcePartition, Entry]]] = {}
        lost: dict[int, tuple[str, ...]] = {}
        for sp, entry in self._by_age():
            if sp not in left_out:
                s = entry.snapshot
                if id(s) not in lost:
                    lost[id(s)] = tuple(sorted(it for it in s.topic_ids.values() if is_lost(it)))
                key = (s.lane, s.generation, s.batch, s.snapshot_at_ms, s.clean, lost[id(s)])
                groups.setdefault(key, []).append((sp, entry))
        open_ = [_doubt(seq, epoch, a, s) for a, s in self.doubts.items() if a not in settled]
        return [*(_carry(seq, epoch, groups[key]) for key in sorted(groups)), *open_]

    def cut_off(
        self, cuts: Mapping[TopicPartition, int], but: Collection[SourcePartition]
    ) -> list[Checkpoint]:
        """What to commit again because the hub has lost these partitions from these offsets on.

        The same, with that in place of their topics' ids. What is clean by lower ends stays: all
        that it knows of lies before them. Nor is what is committed anyway (`but`) in it.
        """
        groups: dict[int, list[tuple[SourcePartition, Entry]]] = {}
        for sp, entry in self._by_age():
            s = entry.snapshot
            knows = not s.clean or any(s.hub_ends.get(tp, 0) > at for tp, at in cuts.items())
            if knows and sp not in but:
                groups.setdefault(id(s), []).append((sp, entry))
        return [_cut(number, own, cuts) for number, own in enumerate(groups.values())]

    def _by_age(self) -> list[tuple[SourcePartition, Entry]]:
        return sorted(self.entries.items(), key=lambda item: (item[1].seq, item[0]))


def state_from(table: pa.Table) -> CheckpointState:
    """The state that rows (columns of SCHEMA) add up to; rows before the last full may be absent.

    Only the rows that still count are turned into Python values.
    """
    if table.num_rows == 0:
        return CheckpointState()
    full = table.filter(pc.field("full"))
    numbers = CheckpointState(
        seq=pc.max(table["seq"]).as_py(),
        epoch=pc.max(table["epoch"]).as_py(),
        full_seq=pc.max(full["seq"]).as_py() or 0,
    )
    return numbers.apply(*from_table(latest_rows(table)))


def latest_rows(table: pa.Table) -> pa.Table:
    """The rows of `table` that still count: of each partition and doubt the latest, and their
    hub ends.
    """
    keys = ["cluster", "topic", "partition"]
    positions = table.filter(pc.field("kind") == POSITION)
    newest = positions.group_by(keys).aggregate([("seq", "max")])
    newest = newest.rename_columns({"seq_max": "seq"})
    latest = positions.join(newest, [*keys, "seq"], join_type="inner").select(table.column_names)
    doubts = table.filter(pc.field("kind") == DOUBT)
    seqs = pa.concat_arrays([latest["seq"].combine_chunks(), doubts["seq"].combine_chunks()])
    hub_ends = table.filter((pc.field("kind") == HUB_END) & pc.field("seq").isin(seqs.unique()))
    return pa.concat_tables([latest, doubts, hub_ends])


def _snapshot_of(checkpoint: Checkpoint) -> Snapshot:
    return made_of(
        Snapshot,
        checkpoint,
        hub_ends=dict(checkpoint.hub_ends),
        cluster_id=checkpoint.cluster_ids.get(HUB, ""),
        topic_ids={
            topic: value for (alias, topic), value in checkpoint.topic_ids.items() if alias == HUB
        },
    )


def _carry(seq: int, epoch: int, group: list[tuple[SourcePartition, Entry]]) -> Checkpoint:
    snapshots = [entry.snapshot for _, entry in group]
    newest = snapshots[-1]
    topic_ids = {(sp.cluster, sp.topic): entry.topic_id for sp, entry in group if entry.topic_id}
    topic_ids |= {(HUB, topic): value for topic, value in newest.topic_ids.items()}
    cluster_ids = {sp.cluster: entry.cluster_id for sp, entry in group if entry.cluster_id}
    if newest.cluster_id:
        cluster_ids[HUB] = newest.cluster_id
    return made_of(
        Checkpoint,
        newest,
        positions=Positions({sp: entry.position for sp, entry in group}),
        hub_ends=least_ends(snapshot.hub_ends for snapshot in snapshots),
        cluster_ids=cluster_ids,
        topic_ids=topic_ids,
        log_ends={sp: entry.log_end for sp, entry in group if entry.log_end is not None},
        full=True,
        seq=seq,
        epoch=epoch,
    )


def _cut(
    number: int, group: list[tuple[SourcePartition, Entry]], cuts: Mapping[TopicPartition, int]
) -> Checkpoint:
    same = _carry(0, 0, group)
    hub = {name: it for (alias, name), it in same.topic_ids.items() if alias == HUB}
    return replace(
        same,
        batch=CUT - number,
        hub_ends=cut_ends(same.hub_ends, cuts),
        topic_ids={**same.topic_ids, **{(HUB, it): at for it, at in cut_ids(hub, cuts).items()}},
        full=False,
    )


def _doubt(seq: int, epoch: int, alias: str, snapshot: Snapshot) -> Checkpoint:
    return made_of(
        Checkpoint,
        snapshot,
        positions=Positions(),
        cluster_ids={HUB: snapshot.cluster_id} if snapshot.cluster_id else {},
        topic_ids={(HUB, topic): value for topic, value in snapshot.topic_ids.items()},
        clean=False,
        full=True,
        seq=seq,
        epoch=epoch,
        doubted=frozenset({alias}),
    )
