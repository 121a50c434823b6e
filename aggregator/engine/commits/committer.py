"""Commits positions to the checkpoint table, of which it is the only user while an instance runs.

Each commit gets what belongs to its positions: the hub's ends, the ids of clusters and topics, and
the log ends. The positions are decided elsewhere.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from aggregator.datapath.hub_ledger import Ends, HubSnapshot, HubTail
from aggregator.engine.commits.points import Bounded, bounded
from aggregator.model.errors import CheckpointConflictError, CheckpointError, ClusterError
from aggregator.model.events import Event, EventSink
from aggregator.model.values import Positions, SourcePartition, TopicPartition
from aggregator.plan.health.suspects import Seen
from aggregator.plan.positions.hub_losses import LOST, least_cuts, plan_cuts, words_of
from aggregator.store.checkpoint.checkpoint_table import MOMENTS, CheckpointTable
from aggregator.store.checkpoint.identity import Identity, by_identity, known_ends, own_ends
from aggregator.store.checkpoint.maintenance import maintain
from aggregator.store.checkpoint.past_commits import REWOUND
from aggregator.store.checkpoint.rows import Checkpoint
from aggregator.store.checkpoint.start_state import CheckpointState

MAINTENANCE_PAUSE_SECONDS = 60.0

NOTHING_LOST: Mapping[SourcePartition, frozenset[str]] = MappingProxyType({})

EndsReader = Callable[[Mapping[str, int]], Ends]
"""Reads the end offsets of hub topics (topic -> partitions); ClusterError without an answer."""


class HubLostError(ClusterError):
    """The hub has lost records: what was decided before that has to be decided again."""


class Commits:
    """The newest state of the checkpoint, and all that is committed to it. Used by any thread.

    `error` says why the last commit failed, until the next one. A conflict (another writer) is
    final: nothing is committed any more, and `conflict` says why, for commits that did not come
    from the engine's thread.
    """

    def __init__(
        self,
        table: CheckpointTable,
        read_hub: EndsReader,
        identity: Identity,
        history_seconds: float,
        emit: EventSink,
    ) -> None:
        self._table = table
        self._read_hub = read_hub
        self._identity = identity
        self._history = history_seconds
        self._emit = emit
        self._lock = threading.RLock()
        self._tail = HubTail(time.time_ns() // 1_000_000)
        self._log_ends: Mapping[SourcePartition, int] = {}
        self._cuts: Ends = {}
        self._maintain_after = 0.0
        self._is_unsure = False
        """Whether a commit has failed that may have landed all the same."""
        self._read_at = time.monotonic()
        self.state: CheckpointState = table.load()
        self._joined: tuple[CheckpointState, Mapping[str, object]] = (self.state, {})
        self.positions: Positions = self.state.positions
        self.committed_ms: int | None = None
        self.error = ""
        self.conflict: CheckpointConflictError | None = None

    def update(self, identity: Identity) -> None:
        """Take over the ids that discovery has found."""
        with self._lock:
            before, self._identity = self._identity.hub_ids, identity
            now = identity.hub_ids
            self._tail.drop({name for name, it in before.items() if now.get(name, it) != it})

    def saw(self, seen: Mapping[str, Seen]) -> None:
        """Keep the log ends that discovery or probes reported, for the next commits.

        Those of logs that the positions are not of are left out; earlier values stay: of a log that
        is gone it is the last known end.
        """
        state = self.state
        inputs = {alias: (it.cluster_id, it.topic_ids, it.ends) for alias, it in seen.items()}
        before = self._joined[1] if self._joined[0] is state else {}
        # Of many sources a few have answered since.
        news = {it: seen[it] for it, own in inputs.items() if before.get(it) != own}
        self._joined = (state, inputs)
        if news:
            self._log_ends = {**self._log_ends, **own_ends(state, news)}

    def recovered(
        self,
        positions: Positions,
        older: Mapping[SourcePartition, Ends] | None = None,
        rewound: Collection[SourcePartition] = (),
        hub_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Commit, in one go, the result of reading the hub.

        It holds these positions exactly, except those in `older`: beyond them it holds records, but
        none before these ends. Those `rewound` were set back for what the hub has lost. It was read
        in the hub topics with these `hub_ids`, or those of the last discovery. Raises
        CheckpointError when it cannot be written, and ClusterError when the hub does not report its
        end offsets, or has lost something since it was read; then they have to be recovered again.
        """
        older = older or {}
        with self._lock:
            self._refuse_cuts()
            ids_read = self._identity.hub_ids if hub_ids is None else hub_ids
            whole = positions.only(positions.keys() - older.keys())
            found: list[Checkpoint] = []
            now = self._snapshot() if whole else HubSnapshot(0, {})
            back = set(rewound)
            for name, own in (("recovery", positions.keys() - back), (REWOUND, back)):
                for number, (group, ids) in enumerate(self._groups(whole.only(own), ids_read)):
                    parts = [Bounded(-1, group, now, clean=True)]
                    found += self._checkpoints(name, number, ids, parts)
                found += self._unclean(name, positions.only(own & older.keys()), older, ids_read)
            self._commit(*found)
            self.positions = self.positions.merged(positions)

    def distrust(
        self,
        positions: Positions,
        ends: Mapping[SourcePartition, Ends],
        opened: Mapping[str, Ends],
        closed: Collection[str],
        lost: Mapping[SourcePartition, frozenset[str]] = NOTHING_LOST,
    ) -> None:
        """Commit, in one go, that the hub may hold more than the checkpoint knows.

        Of these positions anything beyond lies behind their `ends`; of other partitions of the
        sources `opened` behind those. Of the sources `closed` nothing more has to be searched for.
        The hub topics `lost` of some hold less than was copied, which stays so when they grow.
        Raises CheckpointError when it cannot be written.
        """
        with self._lock:
            found = self._unclean("doubt", positions, ends, lost=lost)
            marks = [(frozenset({alias}), own) for alias, own in sorted(opened.items())]
            marks += [(frozenset(closed), {})] if closed else []
            for number, (aliases, own) in enumerate(marks):
                bound = HubSnapshot(MOMENTS.next(), own)
                part = Bounded(-1, Positions(), bound, clean=aliases == closed)
                (mark,) = self._checkpoints("doubt", number, self._identity, [part])
                found.append(replace(mark, doubted=aliases))
            self._commit(*found)
            self.positions = self.positions.merged(positions)

    def moved(self, positions: Positions, why: str = "gaps") -> None:
        """Commit decided positions under the ids of the last discovery; the lane is `why`.

        The hub's ends of now bound them: older records by these names, of a deleted topic, are
        never taken for them. Raises as `recovered` does.
        """
        with self._lock:
            # Until they are reported again, the ends of these logs are unknown.
            self._log_ends = {sp: at for sp, at in self._log_ends.items() if sp not in positions}
            parts = [Bounded(-1, positions, self._snapshot(), clean=True)]
            self._commit(*self._checkpoints(why, 0, self._identity, parts))
            self.positions = self.positions.merged(positions)

    def put(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Commit positions that were set by hand, in one go; raises as `recovered` does."""
        with self._lock:
            self._commit(*checkpoints)
            for each in checkpoints:
                self.positions = self.positions.merged(each.positions)

    def _groups(
        self, positions: Positions, hub_ids: Mapping[str, str] | None = None
    ) -> list[tuple[Positions, Identity]]:
        return by_identity(positions, self.state.entries, self._identity, hub_ids)

    def _unclean(
        self,
        name: str,
        positions: Positions,
        ends: Mapping[SourcePartition, Ends],
        hub_ids: Mapping[str, str] | None = None,
        lost: Mapping[SourcePartition, frozenset[str]] = NOTHING_LOST,
    ) -> list[Checkpoint]:
        """Positions beyond which the hub may hold something, but nothing before their ends."""
        now, found = HubSnapshot(MOMENTS.next(), {}), list[Checkpoint]()
        parts = {lost.get(sp, frozenset[str]()) for sp in positions}
        groups = [
            (own, replace(ids, hub_ids={**ids.hub_ids, **dict.fromkeys(less, LOST)}))
            for less in sorted(parts, key=sorted)
            for own, ids in self._groups(
                positions.only({sp for sp in positions if lost.get(sp, frozenset()) == less}),
                hub_ids,
            )
        ]
        for number, (own, ids) in enumerate(groups):
            found += self._checkpoints(name, number, ids, bounded(-1, own, now, ends))
        return found

    def _commit(self, *checkpoints: Checkpoint) -> None:
        """Commit these, and with them of all others what the hub has lost."""
        if self.conflict is not None:
            raise self.conflict
        own = {sp for it in checkpoints for sp in it.positions}
        again = self.state.cut_off(self._cuts, own) if self._cuts else []
        if not checkpoints and not again:
            self._cuts = {}
            return
        try:
            self._table.append(*checkpoints, *again)
        except CheckpointError:
            self._is_unsure = True
            raise
        self._cuts = {}
        state = self._table.load()
        if self._is_unsure:
            # Before the state: no one may see what it says by the positions of before.
            self._is_unsure, self.positions = False, self._after_landed(state, own)
        self.state = state
        self.committed_ms = time.time_ns() // 1_000_000
        if self.error:
            self._note_error("")

    def _after_landed(self, state: CheckpointState, own: Collection[SourcePartition]) -> Positions:
        """The positions, with those of a failed commit that has landed: what is clean starts there.

        From where it was before, all that the hub holds since would be written again; or a part of
        a log would be left out, where the position is of another log by now. What is clean is in no
        lane, so nothing else can have moved it.
        """
        return self.positions.merged(
            {
                sp: entry.position
                for sp, entry in state.entries.items()
                if entry.snapshot.clean and sp not in own
            }
        )

    def _checkpoints(
        self, name: str, generation: int, identity: Identity, parts: Sequence[Bounded]
    ) -> list[Checkpoint]:
        found, ends = [], self._log_ends
        for part in parts:
            cluster_ids, topic_ids = identity.of(part.positions)
            checkpoint = Checkpoint(
                lane=name,
                generation=generation,
                batch=part.number,
                positions=part.positions,
                hub_ends=part.bound.ends,
                snapshot_at_ms=part.bound.taken_ms,
                cluster_ids=cluster_ids,
                topic_ids=topic_ids,
                log_ends=known_ends(part.positions, identity, ends, self.state.entries),
                clean=part.clean,
            )
            found.append(checkpoint)
        return found

    def _maintain(self) -> None:
        if not self._table.maintenance_due or time.monotonic() < self._maintain_after:
            return
        try:
            maintain(self._table, self._history, time.time_ns() // 1_000_000)
        except CheckpointConflictError as error:
            self.conflict = error
        except CheckpointError as error:
            self._maintain_after = time.monotonic() + MAINTENANCE_PAUSE_SECONDS
            self._note_error(f"maintenance: {error}")

    def _snapshot(self, into: Collection[str] | None = None) -> HubSnapshot:
        """The hub's ends of now; those alone of topics that a lane writes `into`, where it is one.

        Of the others a known end is a bound as well, and hundreds of lanes may start one by one.
        """
        known, topics = self._tail.newest.ends, self._identity.hub_topics
        if into is not None:
            topics = {
                name: count
                for name, count in topics.items()
                if name in into or any(TopicPartition(name, it) not in known for it in range(count))
            }
        if len(topics) == len(self._identity.hub_topics):
            self._read_at = time.monotonic()
        ends = self._read_hub(topics)
        if cuts := plan_cuts(known, ends):
            self._note_cuts(cuts)
            raise HubLostError(f"hub: {words_of(cuts)}")
        return self._tail.read(HubSnapshot(MOMENTS.next(), ends))

    def _note_cuts(self, cuts: Ends) -> None:
        """The hub has lost these partitions from these offsets on, or before."""
        self._tail.lower(cuts)
        self._cuts = least_cuts(self._cuts, cuts)
        words = f"{words_of(cuts)}: what it lacks is copied again"
        self._emit(Event("hub_lost", words, {"hub_partitions": len(cuts)}))

    def _take_cuts(self) -> None:
        """Note what lanes have found to be lost; without lanes that is nothing."""

    def _refuse_cuts(self) -> None:
        """What was decided before the hub had lost something is decided again."""
        self._take_cuts()
        if cuts := self._cuts:
            self._commit()
            raise HubLostError(f"hub: {words_of(cuts)}")

    def _note_error(self, error: str) -> None:
        if error != self.error:
            kind = "checkpoint_error" if error else "checkpoint_recovered"
            self._emit(Event(kind, error or "checkpoints are committed again"))
        self.error = error
