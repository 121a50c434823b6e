"""One lane as the observer knows it: its reports, the checkpoint to make of them, and when. Pure.

No clock, no client, no table: the moment and the hub's snapshots are arguments.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aggregator.datapath.connector.reports import Counted, LaneReport, TaskReport
from aggregator.datapath.hub_ledger import Ends, HubSnapshot, HubTail
from aggregator.datapath.spark.lane import LaneQuery
from aggregator.model.patched import may_differ
from aggregator.model.values import Positions, SourcePartition
from aggregator.plan.positions.hub_losses import cut_ends, least_cuts
from aggregator.status.view import LaneProgress
from aggregator.store.checkpoint.identity import Identity
from aggregator.store.checkpoint.rows import OLDER

STILL_SECONDS = 60.0
"""How often a lane without progress is committed: its bound must not age."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """Positions of a lane that share a bound; no two of one commit have the same number."""

    number: int
    positions: Positions
    bound: HubSnapshot
    clean: bool = False


def bounded(
    number: int, positions: Positions, bound: HubSnapshot, older: Mapping[SourcePartition, Ends]
) -> list[Bounded]:
    """What to commit of a lane in one go: by `bound`, and separately by those of `older` ends.

    A bound that is too old would take records of a topic that is gone for those of its successor.
    """
    groups: list[tuple[Ends, dict[SourcePartition, int]]] = []
    for sp, at in positions.items():
        if sp in older:
            known = next((own for ends, own in groups if ends == older[sp]), None)
            if known is None:
                groups.append((older[sp], known := {}))
            known[sp] = at
    rest = _without(positions, older.keys())
    parts = [Bounded(number, rest, bound)] if rest else []
    for at, (ends, own) in enumerate(groups):
        parts.append(Bounded(OLDER - at, Positions(own), HubSnapshot(bound.taken_ms, ends)))
    return parts


@dataclass(frozen=True, slots=True)
class LaneStart:
    """The start of a lane as it was committed: its positions, and the hub snapshot of then.

    `older` are the bounds of partitions of which it skips what the hub held before. It writes
    `into` these hub topics, of which partitions were cut off since as `cuts` say.
    """

    number: int
    snapshot: HubSnapshot
    positions: Positions
    older: Mapping[SourcePartition, Ends]
    into: frozenset[str] = frozenset()
    cuts: Ends = field(default_factory=dict)


class LanePoints:
    """A life of a lane, observed from the moment `now`; `earlier` is how its last life ended."""

    def __init__(
        self,
        query: LaneQuery,
        identity: Identity,
        begun: LaneStart,
        earlier: LaneProgress,
        now: float,
    ) -> None:
        self.query = query
        self.identity = identity
        self.reported = Positions()
        self._begun = begun
        self._older = begun.older
        self._earlier = earlier
        self._points: tuple[int, ...] = ()
        self._taken: tuple[TaskReport, ...] = ()
        self._sent: dict[tuple[int, int], Mapping[str, Counted]] = {}
        self._records = 0
        self._left: frozenset[SourcePartition] = frozenset()
        self._committed = begun.positions
        self._committed_at = now
        self._cuts: Ends = {}
        self._is_said = True
        self.cut_off(begun.cuts)

    def cut_off(self, cuts: Ends) -> None:
        """The hub has lost these partitions from these offsets on: from now on its commits say so.

        What was copied into them may be gone, whether its positions say so or not.
        """
        own = {tp: at for tp, at in cuts.items() if tp.topic in self._begun.into}
        if own:
            self._cuts = least_cuts(self._cuts, own)
            self.identity = self.identity.cut_off(own)
            self._is_said = False

    @property
    def into(self) -> frozenset[str]:
        """The hub topics that it writes."""
        return self._begun.into

    @property
    def is_cut_off(self) -> bool:
        """Whether what its tasks report of the hub's ends may be of before that."""
        return bool(self._cuts)

    def take(self, report: LaneReport) -> Mapping[SourcePartition, int]:
        """Take a report of all its tasks, if it is new; returns the positions that it changes."""
        points, stuck = tuple(task.point for task in report.tasks), report.stuck
        if points == self._points and self._left >= stuck:
            return {}
        before, self._taken, self._points = self._taken, report.tasks, points
        if self._left >= stuck:
            moved = _moved(before, report.tasks, self._left)
            if moved is not None:
                self.reported = self.reported.merged(moved)
                return moved
        # The bounds of what is given up are those of its last commit.
        self._left |= stuck
        self.reported = _without(report.positions, self._left)
        return self.reported

    def take_all(self) -> None:
        """Have the next new report change all of its positions: others have set some since."""
        self._taken = ()

    def leave(self, partitions: Collection[SourcePartition]) -> None:
        """Its reports of these partitions no longer count."""
        self._left |= frozenset(partitions)
        self.reported = _without(self.reported, self._left)

    def is_due(self, report: LaneReport, interval: float, now: float) -> bool:
        """Whether its report must be committed."""
        if not self._is_said:
            return True
        if self._older and not report.skipping:
            # From here on a recovery has less to read.
            return True
        patience = interval if self.has_news else max(interval, STILL_SECONDS)
        return now - self._committed_at >= patience

    @property
    def has_news(self) -> bool:
        """Whether its positions differ from the committed ones."""
        return self.reported != self._committed

    def point(self, report: LaneReport, tail: HubTail) -> list[Bounded]:
        """Its report in the form to commit while it keeps running."""
        # A task may name the snapshot that it began with when no other does any more.
        bound = tail.bound(report.tasks, {self._begun.number: self._begun.snapshot})
        return self._cut(bounded(self._number, self.reported, bound, self._left_out(report)))

    def end(self, report: LaneReport, positions: Positions, now: HubSnapshot) -> list[Bounded]:
        """Positions that are exact, and beyond which it has written nothing.

        Not clean where the hub holds, beyond them, what it had to skip.
        """
        older = self._left_out(report)
        clean = _without(positions, older.keys())
        return self._cut(
            [
                *(replace(it, clean=True) for it in bounded(self._number, clean, now, {})),
                *bounded(self._number, positions.only(set(older)), now, older),
            ]
        )

    def has_committed(self, report: LaneReport, now: float) -> None:
        """What `point` gave for the report is committed."""
        self._committed, self._committed_at = self.reported, now
        self._is_said = True
        if not report.skipping:
            self._older = {}

    def progress(self, report: LaneReport) -> LaneProgress:
        """Its progress, for the status."""
        return LaneProgress(
            records=self._earlier.records + self._count(report),
            replayed=self._earlier.replayed + report.replayed,
            at_ms=min((task.at_ms for task in report.tasks), default=0),
            generation=self.query.generation,
            report=report,
        )

    def _count(self, report: LaneReport) -> int:
        """Its records, of which only those of topics with news are added up again."""
        nothing = Counted()
        for task in report.tasks:
            before = self._sent.get(task.task, {})
            self._sent[task.task] = task.sent
            for topic in may_differ(task.sent, before):
                now, known = task.sent.get(topic, nothing), before.get(topic, nothing)
                self._records += now.records - known.records
        return self._records

    @property
    def _number(self) -> int:
        return max(self._points, default=0)

    def _cut(self, parts: Sequence[Bounded]) -> list[Bounded]:
        return [
            replace(it, bound=replace(it.bound, ends=cut_ends(it.bound.ends, self._cuts)))
            for it in parts
        ]

    def _left_out(self, report: LaneReport) -> Mapping[SourcePartition, Ends]:
        return self._older if report.skipping else {}


def _moved(
    before: Sequence[TaskReport], now: Sequence[TaskReport], left_out: Collection[SourcePartition]
) -> dict[SourcePartition, int] | None:
    """What tasks report of positions that they did not before; None when it is of others."""
    if [task.task for task in before] != [task.task for task in now]:
        return None
    moved = {}
    for old, new in zip(before, now, strict=True):
        for sp in may_differ(new.positions, old.positions):
            if sp not in new.positions:
                return None
            if sp not in left_out and new.positions[sp] != old.positions.get(sp):
                moved[sp] = new.positions[sp]
    return moved


def _without(positions: Positions, left_out: Collection[SourcePartition]) -> Positions:
    return Positions({sp: at for sp, at in positions.items() if sp not in left_out})
