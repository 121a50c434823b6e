"""What becomes of a gap: the partition stays out, or continues, and from where. Pure.

A gap has a name that does not change until it is decided, so that it is recorded once,
however often it is seen. What is decided is recorded before any position is moved: a crash in
between finds the same gap again, and the same record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Literal

from aggregator.model.values import OffsetRange, Positions, SourcePartition
from aggregator.plan.positions.start import Gap, GapKind, Observed, Remembered, StartPlan

Policy = Literal["stop", "skip", "restart"]

OF_IDENTITY = (GapKind.TOPIC_RECREATED, GapKind.CLUSTER_CHANGED, GapKind.TOPIC_GONE)
"""What is behind the name is not what the position belongs to."""
OF_ANOTHER_LOG = (*OF_IDENTITY, GapKind.FOREIGN_ORIGIN)
"""Causes that are expected where topics are created again on purpose."""


class Decision(StrEnum):
    """What is done about a gap; `accept` is a manual decision with the effect of `skip`."""

    STOP = "stop"
    SKIP = "skip"
    RESTART = "restart"
    ACCEPT = "accept"


@dataclass(frozen=True, slots=True)
class GapRecord:
    """A gap as it is recorded: what was found, and what was decided about it.

    It is open until it is resolved. `resumes_at` is the position from which the partition
    continues, None while it does not, or where there is nothing to read; `decided_on` is the commit
    of the position that is left for it (its snapshot, in ms). `note` says how it was resolved.
    """

    id: str
    gap: Gap
    found_at: datetime
    epoch: int
    decision: Decision = Decision.STOP
    decided_at: datetime | None = None
    resolved: bool = False
    resumes_at: int | None = None
    decided_on: int | None = None
    note: str = ""

    def closed(self, how: str, at: datetime) -> GapRecord:
        """The record after the gap was settled by something other than a policy."""
        return replace(self, decided_at=at, resolved=True, note=how)

    def accepted(self, at: datetime) -> GapRecord:
        """The record after a person chose to continue, which the running or the next instance
        does.
        """
        return replace(self, decision=Decision.ACCEPT, decided_at=at)


@dataclass(frozen=True, slots=True)
class GapPlan:
    """What is decided about the gaps.

    `records` must be written first, then `moves` committed as positions; `positions` holds the
    start of every partition that may run, those included. `held` are the others with their reason;
    of these `quarantined` wait for a decision, the rest for a condition that passes by itself.
    """

    positions: Positions
    held: Mapping[SourcePartition, str] = field(default_factory=dict)
    quarantined: Mapping[SourcePartition, str] = field(default_factory=dict)
    moves: Positions = field(default_factory=Positions)
    records: tuple[GapRecord, ...] = ()


def gap_id(gap: Gap) -> str:
    """The name of a gap: of its partition, its cause, the position, and the ids then and now.

    Its end is not part of it: retention keeps deleting, and it is still the same gap.
    """
    now = gap.now if gap.kind in OF_IDENTITY else ()
    parts = (*gap.partition, gap.kind, gap.position, *gap.then, *now)
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def is_new(found: GapRecord, known: GapRecord | None) -> bool:
    """Whether what a recovery has found is more than what is `known` by the same name."""
    if known is None or found.gap.start < known.gap.start:
        return True
    return known.resolved and found.gap.kind in (GapKind.FOREIGN_ORIGIN, GapKind.HUB_LOST)


def decide(kind: GapKind, policy: Policy, accepted: bool = False) -> Decision:
    """What a source's `on_gap` means for one kind of gap.

    `restart` is for topics that were created again: a range lost from a topic that is still the
    same is a loss, and stops. A topic that is gone has nothing to stop.
    """
    if accepted:
        return Decision.ACCEPT
    if policy == "skip":
        return Decision.SKIP
    if policy == "restart" and kind in OF_ANOTHER_LOG:
        return Decision.RESTART
    return Decision.STOP


def resume_at(gap: Gap, log: OffsetRange | None) -> int | None:
    """Where a partition continues; None where there is nothing to read.

    After a loss, or what cannot be read: after it. In a log that was truncated: where it ended
    when that was found, since all that came later is new. In a log that is another one: at its
    earliest. Where the hub holds records of another log, or has lost some: where it is, whatever
    the log has lost meanwhile is a gap of its own.
    """
    if log is None or gap.kind is GapKind.TOPIC_GONE:
        return None
    if gap.kind in (GapKind.FOREIGN_ORIGIN, GapKind.HUB_LOST):
        return gap.position
    wanted = {
        GapKind.BELOW_EARLIEST: max(gap.position, log.earliest),
        GapKind.BEYOND_END: gap.start,
        GapKind.DAMAGED: gap.position if gap.end is None else gap.end,
    }.get(gap.kind, log.earliest)
    return min(max(wanted, log.earliest), log.latest)


@dataclass(frozen=True, slots=True)
class GapSight:
    """The inputs of decisions about gaps.

    `policies` is each source's `on_gap`; `selected` every partition that the routes name. About a
    partition in `busy` nothing is decided yet: it runs, or is being recovered. Nor about one in
    `unclean`, as it is not certain what the hub holds of it, but that some of it is foreign.
    """

    known: Remembered
    observed: Observed
    policies: Mapping[str, Policy]
    selected: Collection[SourcePartition]
    busy: Collection[SourcePartition]
    now: datetime
    epoch: int
    unclean: Collection[SourcePartition] = frozenset()

    def is_busy(self, gap: Gap) -> bool:
        """Whether nothing can be decided about a gap now."""
        sp = gap.partition
        return sp in self.busy or (sp in self.unclean and gap.kind is not GapKind.FOREIGN_ORIGIN)

    def is_unmoved(self, record: GapRecord) -> bool:
        """Whether the position is still the gap's; once it is decided, by the same commit."""
        sp = record.gap.partition
        return record.gap.position == self.known.positions.get(sp) and (
            # Another commit since may be there, too: the log was read up to it again.
            not record.resolved or None is not record.decided_on == self.known.snapshots.get(sp)
        )


def plan_gaps(start: StartPlan, records: Iterable[GapRecord], sight: GapSight) -> GapPlan:
    """Decide about every gap of `start`, and about those of `records` that are still open.

    `records` holds the newest record of each gap.
    """
    plan = _Planning(start, sight)
    recorded = {record.id: record for record in records}
    found = {gap_id(gap): gap for gap in start.gaps}
    for name, gap in found.items():
        plan.settle(gap, recorded.get(name))
    # What is not decided comes first: nothing of its partition moves before.
    for name, record in sorted(recorded.items(), key=lambda item: _is_decided(item[1])):
        if name not in found:
            plan.follow(record)
    plan.hold_newcomers()
    return GapPlan(
        Positions(plan.positions),
        plan.held,
        plan.quarantined,
        Positions(plan.moves),
        tuple(plan.records),
    )


class _Planning:
    """The state of one `plan_gaps`."""

    def __init__(self, start: StartPlan, sight: GapSight) -> None:
        self.sight = sight
        self.positions = dict(start.positions)
        self.held = dict(start.held)
        self.quarantined: dict[SourcePartition, str] = {}
        self.moves: dict[SourcePartition, int] = {}
        self.records: list[GapRecord] = []
        self.undecided: list[Gap] = []
        self.found = {gap.partition for gap in start.gaps}

    def settle(self, gap: Gap, record: GapRecord | None) -> None:
        """Decide about a gap that exists now."""
        sp, sight = gap.partition, self.sight
        log = sight.observed.reach(sp)
        if record is not None:
            gap = _with_what_was_known(gap, record.gap)
        if sight.is_busy(gap) or (log is None and sp in sight.selected):
            # Not yet: it runs, or must be recovered, or its log is not known.
            self._hold(gap)
            return
        accepted = record is not None and record.decision is Decision.ACCEPT
        decision = decide(gap.kind, sight.policies.get(sp.cluster, "stop"), accepted)
        before = record or GapRecord(gap_id(gap), gap, sight.now, sight.epoch)
        if decision is Decision.STOP:
            self._hold(gap)
            self.quarantined[sp] = gap.reason
            if record is None or record.resolved or record.decision is not decision:
                self.records.append(GapRecord(before.id, gap, before.found_at, before.epoch))
            return
        if sp in self.quarantined:
            # Another finding about the same partition waits for its own decision.
            self.undecided.append(gap)
            return
        at = resume_at(gap, log)
        if at is not None:
            at = min(at, self.moves.get(sp, at))
        after = replace(
            before,
            gap=gap,
            decision=decision,
            decided_at=before.decided_at if accepted else sight.now,
            resolved=True,
            resumes_at=at,
            decided_on=None if at is None else sight.known.snapshots.get(sp),
            note="nothing to read" if at is None else f"continues at {at}",
        )
        if record is None or _decided(record) != _decided(after):
            self.records.append(after)
        self.held.pop(sp, None)
        if at is not None:
            self.positions[sp] = at
            # Where it is already, in the same log, that is committed, with what belongs to it.
            if gap.kind in OF_ANOTHER_LOG or sight.known.positions.get(sp) != at:
                self.moves[sp] = at

    def follow(self, record: GapRecord) -> None:
        """Track an unsettled gap that the logs alone no longer show."""
        sp, sight = record.gap.partition, self.sight
        if record.gap.kind is GapKind.FOREIGN_ORIGIN and sp in self.found:
            # In another log its position says nothing: that is settled first.
            return
        if record.resolved:
            if self._is_pending(record):
                self.settle(record.gap, record)
            return
        reachable = sp.cluster in sight.policies and sp.cluster in sight.observed.cluster_ids
        if sight.is_busy(record.gap) or not reachable:
            return
        position = sight.known.positions.get(sp)
        if position != record.gap.position:
            at = "unknown" if position is None else position
            self.records.append(record.closed(f"its position is now {at}", sight.now))
        elif self._is_back(record.gap):
            how = (
                "it can be read again"
                if record.gap.kind is GapKind.DAMAGED
                else "what the position belongs to is back"
            )
            self.records.append(record.closed(how, sight.now))
        elif sp in sight.selected:
            self.settle(record.gap, record)

    def hold_newcomers(self) -> None:
        """Hold partitions without a position while their topic or cluster is undecided."""
        clusters = {
            gap.partition.cluster for gap in self.undecided if gap.kind is GapKind.CLUSTER_CHANGED
        }
        topics = {
            (gap.partition.cluster, gap.partition.topic)
            for gap in self.undecided
            if gap.kind is GapKind.TOPIC_RECREATED
        }
        for sp in list(self.positions):
            if sp in self.sight.known.positions:
                continue
            if sp.cluster in clusters:
                self.held[sp] = f"it waits for the decision about the other cluster of {sp.cluster}"
            elif (sp.cluster, sp.topic) in topics:
                self.held[sp] = f"it waits for the decision about the new topic {sp.topic}"
            if sp in self.held:
                del self.positions[sp]

    def _hold(self, gap: Gap) -> None:
        self.undecided.append(gap)
        self.held[gap.partition] = gap.reason
        self.positions.pop(gap.partition, None)

    def _is_pending(self, record: GapRecord) -> bool:
        """Whether a decision was recorded, and the position was not moved: there was a crash."""
        moves = (
            record.resumes_at != record.gap.position or record.gap.kind is GapKind.FOREIGN_ORIGIN
        )
        return record.resumes_at is not None and moves and self.sight.is_unmoved(record)

    def _is_back(self, gap: Gap) -> bool:
        """Whether the cluster and the topic are certainly those of the position again."""
        sp, known, observed = gap.partition, self.sight.known, self.sight.observed
        then, now = known.log(sp), observed.log(sp)
        match gap.kind:
            case GapKind.TOPIC_GONE:
                return (sp.cluster, sp.topic) in observed.topic_ids
            case GapKind.CLUSTER_CHANGED:
                return bool(then.cluster) and then.cluster == now.cluster
            case GapKind.TOPIC_RECREATED:
                return bool(now.topic) and gap.then.topic == now.topic != gap.now.topic
            case GapKind.DAMAGED:
                found = observed.damages.get(sp)
                return found is not None and found.end == gap.position == found.position
            case _:
                return False


def _with_what_was_known(gap: Gap, before: Gap) -> Gap:
    """The gap as found now, with what an earlier discovery knew better of it."""
    if gap.kind is GapKind.BEYOND_END:
        # Since then the log has grown, by new records.
        return replace(gap, start=min(gap.start, before.start), reason=before.reason)
    if gap.kind is GapKind.BELOW_EARLIEST and before.start < gap.start:
        more = max(0, (gap.end or 0) - (before.end or 0))
        lost = None if before.lost is None else before.lost + more
        return replace(gap, start=before.start, lost=lost, reason=before.reason)
    return gap


def _is_decided(record: GapRecord) -> bool:
    return record.resolved or record.decision is Decision.ACCEPT


def _decided(record: GapRecord) -> tuple[object, ...]:
    return (record.decision, record.resolved, record.resumes_at, record.gap.end)
