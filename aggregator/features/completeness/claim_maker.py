"""Makes the claims of a running engine from what it knows; no decision depends on them."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.features.completeness.claim_keeper import Keeper
from aggregator.features.service import EngineProgress, Now, Service
from aggregator.model.events import EventSink
from aggregator.model.values import SourcePartition, SourceState
from aggregator.plan.completeness.claims import Claim, Claims, ClaimSight, Laggard, LateCounts, Lost
from aggregator.plan.completeness.marks import MarkLedger
from aggregator.plan.completeness.scope import Feeding, scope_of
from aggregator.plan.lifecycle.inputs import Measured
from aggregator.plan.lifecycle.judge import paused_part
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import State
from aggregator.plan.plan import Plan
from aggregator.plan.positions.gaps import GapRecord
from aggregator.status.completeness import completeness_of
from aggregator.status.service_status import ServicePart

SETTLED = (Stage.OUT, Stage.DONE)
CLAIM_SECONDS = 1.9
"""Marks come every two to five seconds: between them there is little to claim."""


class CompletenessWatch(Service):
    """`latest` is replaced as a whole, so that it can be read from any thread.

    `keeper` reads what was claimed before this run, and writes what is claimed. `bounds` are those
    of the buckets in which the tasks count records by age.
    """

    name = "completeness"

    def __init__(self, in_force: InForce, emit: EventSink, bounds: Sequence[int]) -> None:
        self.keeper = Keeper(in_force, emit)
        self._in_force = in_force
        self._ages: Callable[[], Mapping[str, Sequence[int]]] = dict
        self._late = LateCounts(bounds)
        self.latest: tuple[Claim, ...] = ()
        self._ledger = MarkLedger()
        self._claims: Claims | None = None
        self._taken: dict[str, float] = {}
        self._listed: dict[str, int] = {}
        self._scope = Feeding()
        self._claimed_at = 0.0
        self._made_of: tuple[Config, Plan] | None = None
        self._counts: dict[str, dict[str, int]] = {}

    def start(self) -> None:
        """Begin to read what was claimed before."""
        self.keeper.start()

    def stop(self) -> None:
        """Write the last claims, if the table takes them soon, and end."""
        self.keeper.stop()

    def follow(self, now: Now) -> None:
        """Make the claims of now; the last ones of a run whenever the ones before were made."""
        if now.progress is not None:
            self._claim(now.progress)

    def status(self) -> ServicePart:
        """The newest claims, and the records that came too late for one."""
        return partial(
            completeness_of,
            self.latest,
            self._in_force.config.completeness.allowed_lateness,
            self.late(self._ages()),
            self.keeper.failing,
        )

    def _claim(self, progress: EngineProgress) -> None:
        state, now, positions = progress.state, progress.at, progress.positions
        self._ages = progress.ages
        if state.plan is None or self.keeper.earlier is None:
            return
        if self._claims is None:
            self._claims = Claims(self.keeper.earlier)
        if state.snapshot is not None:
            for alias, at_ms in state.snapshot.listed_ms.items():
                self._listed[alias] = max(at_ms, self._listed.get(alias, 0))
        self._follow_plan(state.config, state.plan)
        self._ledger.follow(positions, now)
        fresh = [it for it, mark in progress.marks.items() if self._taken.get(it) != mark.asked_at]
        reading = _reading(state) if fresh else {}
        for alias in fresh:
            mark = progress.marks[alias]
            self._taken[alias] = mark.asked_at
            own = reading.get(alias, ())
            self._ledger.take(mark, self._counts.get(alias, {}), own, progress.logs)
        if now - self._claimed_at < CLAIM_SECONDS and not progress.last:
            return
        self._claimed_at = now
        sight = ClaimSight(
            self._scope,
            self._listed,
            state.topics.came,
            {
                (sp.cluster, sp.topic)
                for sp, it in state.partitions.items()
                if it.stage not in SETTLED
            },
            lost_of(state.gaps.values()),
            int(state.config.completeness.allowed_lateness * 1_000),
            progress.at_ms,
            lambda alias, sp: blame(state, progress.measured, self._ledger, alias, sp),
            more_ms={it: int(mark.more_seconds * 1_000) for it, mark in progress.marks.items()},
        )
        self.latest = self._claims.make(self._ledger, sight)
        self.keeper.take(self.latest)

    def heard(self) -> Collection[str]:
        """The sources that have reported by now what they had acknowledged."""
        return self._taken.keys()

    def late(self, ages: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Records of each source (alias) that came below what had been claimed, at least."""
        claimed: dict[str, int | None] = {}
        for it in self.latest:
            if it.source is not None and it.topic and it.topics:
                before = claimed.get(it.source, it.up_to_ms)
                unknown = before is None or it.up_to_ms is None
                claimed[it.source] = None if unknown else min(before or 0, it.up_to_ms or 0)
        return self._late.follow(ages, claimed, time.time_ns() // 1_000_000)

    def _follow_plan(self, config: Config, plan: Plan) -> None:
        if self._made_of is not None and self._made_of[0] is config and self._made_of[1] is plan:
            return
        self._made_of = config, plan
        self._scope = scope_of(config, plan)
        # A source that is gone, and may come back as another one, is listed again.
        self._listed = {it: at for it, at in self._listed.items() if it in config.sources}
        counts: dict[str, dict[str, int]] = {}
        for route in plan.routes:
            counts.setdefault(route.cluster, {})[route.topic] = route.partitions
        self._counts = counts
        self._ledger.forget_others(
            {sp for route in plan.routes for sp in route.source_partitions()}
        )


def lost_of(gaps: Collection[GapRecord]) -> dict[tuple[str, str], Lost]:
    """What was lost of each topic of a source in gaps that were decided: those hold nothing up."""
    found: dict[tuple[str, str], Lost] = {}
    for it in gaps:
        if it.resolved and it.gap.lost != 0:
            key = (it.gap.partition.cluster, it.gap.partition.topic)
            before = found.get(key, Lost())
            found[key] = Lost(before.offsets + (it.gap.lost or 0), before.gaps + 1)
    return found


def blame(
    state: State,
    measured: Measured | None,
    ledger: MarkLedger,
    alias: str,
    sp: SourcePartition | None,
) -> Laggard:
    """Why a partition, or a source (None), holds a claim up, as far as is known."""
    why, reason = _of_source(state, alias)
    if sp is None:
        return Laggard(alias, why or "not_listed", reason)
    own = _of_partition(state, measured, sp)
    if why == "paused" or (why and not own[0]):
        return Laggard(alias, why, reason, sp.topic, sp.partition)
    if not own[0]:
        own = _of_ledger(ledger, sp)
    return Laggard(alias, *own, sp.topic, sp.partition)


def _of_source(state: State, alias: str) -> tuple[str, str]:
    if (why := state.paused.get(alias)) is not None:
        return "paused", why or "the source is paused"
    life = state.sources.get(alias)
    if life is None:
        return "", ""
    if life.state is SourceState.UNREACHABLE:
        return "away", life.reason or "the source gives no answer"
    if life.state is SourceState.FAILED:
        return "failed", life.reason
    return "", ""


def _of_partition(state: State, measured: Measured | None, sp: SourcePartition) -> tuple[str, str]:
    partition = state.at(sp)
    if (part := paused_part(sp, state.parts)) is not None:
        return "paused", part
    if partition.stage is Stage.QUARANTINED:
        return "gap", partition.why
    if partition.suspect or partition.stopped:
        return "held", partition.suspect or partition.stopped
    if measured is not None and sp in measured.stuck:
        return "stuck", measured.stuck[sp]
    if partition.stage not in (Stage.READING, Stage.LEAVING):
        return "held", partition.why or f"it is {partition.stage}"
    return "", ""


def _of_ledger(ledger: MarkLedger, sp: SourcePartition) -> tuple[str, str]:
    if doubt := ledger.doubt(sp):
        return "doubt", doubt
    if (at := ledger.open_from(sp)) is not None:
        return "transaction", f"a transaction is open at the source since offset {at}"
    if (behind := ledger.waits_for(sp)) is not None:
        position, end = behind
        return "behind", f"its position is {position}, and must reach {end}"
    return "not_asked", "its source has not reported the end of its log lately"


def _reading(state: State) -> dict[str, list[SourcePartition]]:
    """The partitions that are read, or were to their end, by source.

    Not those whose log may be another one.
    """
    found: dict[str, list[SourcePartition]] = {}
    for sp, it in state.partitions.items():
        if it.stage in (Stage.READING, Stage.LEAVING, Stage.DONE) and not it.suspect:
            found.setdefault(sp.cluster, []).append(sp)
    return found
