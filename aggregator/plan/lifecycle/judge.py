"""Judges each partition that is in no lane by the snapshot, the checkpoint and the gaps. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from aggregator.model.values import Part, Positions, SourcePartition
from aggregator.plan.lifecycle.commands import Hole, Move, RecordGaps
from aggregator.plan.lifecycle.stage import STANDING, Stage, Trigger
from aggregator.plan.lifecycle.state import Partition
from aggregator.plan.lifecycle.step_context import StepContext
from aggregator.plan.positions.gaps import OF_IDENTITY, GapPlan, GapRecord, GapSight, plan_gaps
from aggregator.plan.positions.hub_losses import renewed_ids, renewed_topics
from aggregator.plan.positions.recovery import needed_topics
from aggregator.plan.positions.start import (
    GapKind,
    Remembered,
    StartPlan,
    is_same_log,
    plan_positions,
)
from aggregator.plan.snapshot import ClusterSnapshot, is_selected

CREATING = "its hub topic is being created"
BACKFILLED = "a backfill writes what it may have to skip, and ends first"
DISCOVERIES_ALLOWED = 3
"""How often discovery repeats at once for offsets that could not be read."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a decision is based on.

    `positions` is where each partition starts that may. `may_read` are those in a lane that may
    continue. `waits`: positions must be moved before all of them can start. `doubtful` would
    start where the hub may hold what the checkpoint does not know: they are searched for first. Of
    those `renewed` these hub topics were created again since their commits: they need a recovery.
    """

    positions: Positions
    may_read: frozenset[SourcePartition]
    waits: bool
    doubtful: Positions
    renewed: Mapping[SourcePartition, frozenset[str]]


def judge(ctx: StepContext, snapshot: ClusterSnapshot) -> Judgement:
    """Set the stage of each partition in no lane, and decide about gaps."""
    state, config, known = ctx.state, ctx.inputs.config, ctx.inputs.known
    selected = {sp for route in snapshot.plan.routes for sp in route.source_partitions()}
    in_lanes = state.in_lanes
    renewed = renewed_of(ctx, snapshot)
    holes = {
        sp: hole
        for sp, it in state.partitions.items()
        if sp not in renewed and (hole := _hole(ctx, snapshot, sp, it))
    }
    unclean = (known.unclean - holes.keys()) | renewed.keys()
    # What a lane read after the snapshot is beyond the ends in it.
    later = {sp for sp, it in state.partitions.items() if it.left_at > snapshot.began}
    busy = state.of(Stage.LOST, Stage.RESTING, Stage.RECOVERING)
    remembered = replace(
        known.remembered,
        unsure=frozenset(unclean | in_lanes | later),
        copied={sp: hole.skip.ranges for sp, hole in holes.items()},
        cuts={sp: it.cut for sp, it in state.partitions.items() if it.cut is not None},
    )
    start = _starts(ctx, snapshot, remembered)
    other = {gap.partition for gap in start.gaps if gap.kind in OF_IDENTITY}
    sight = GapSight(
        remembered,
        snapshot.observed,
        {alias: source.on_gap for alias, source in config.sources.items()},
        selected,
        in_lanes | busy | later,
        ctx.inputs.at,
        known.epoch,
        unclean & selected,
    )
    gaps = _settle(ctx, start, sight)
    out = {sp: why for sp in selected if (why := _out_of(ctx, sp)) is not None}
    doubtful = _doubtful(ctx, snapshot, gaps.positions)
    # Found once: of thousands of topics this takes as long as all else here.
    creating = snapshot.plan.waiting
    stages = _Stages(ctx, snapshot, gaps, holes, unclean, other & selected, out, doubtful, creating)
    for sp in sorted(selected | set(gaps.held) | set(state.partitions)):
        if ctx.at(sp).stage in STANDING:
            stages.take(sp)
    unread = start.unread - out.keys() - busy - in_lanes
    _repeat_discovery(
        ctx, snapshot, unread=bool(unread), too_old=stages.too_old or bool(other & later)
    )
    return Judgement(
        gaps.positions.only(set(gaps.positions) - set(doubtful)).merged(known.positions),
        frozenset(
            sp
            for sp in in_lanes & selected
            if sp not in other and sp not in renewed and _may_continue(ctx, sp, out)
        ),
        bool(gaps.moves or doubtful),
        doubtful,
        renewed,
    )


def _starts(ctx: StepContext, snapshot: ClusterSnapshot, remembered: Remembered) -> StartPlan:
    """Where each partition starts, or why it does not."""
    config = ctx.inputs.config
    return plan_positions(
        snapshot.plan.routes,
        remembered,
        snapshot.observed,
        {alias: source.start for alias, source in config.sources.items()},
        snapshot.by_time,
        frozenset(
            key for key in ctx.state.topics.came if config.sources[key[0]].new_topics == "earliest"
        ),
        lambda key: is_selected(config, key),
    )


def renewed_of(
    ctx: StepContext, snapshot: ClusterSnapshot
) -> dict[SourcePartition, frozenset[str]]:
    """The hub topics of partitions that were created again since the commit of each."""
    if ctx.state.fresh:
        return {}
    own, now = ctx.inputs.known.own_ids, snapshot.plan.hub_ids
    # The partitions of a commit share its ids; as a rule none is another one.
    if not any(renewed_ids(it, now) for it in {id(it): it for it in own.values()}.values()):
        return {}
    return renewed_topics(own, needed_topics(snapshot.plan.routes, own, {}, ()), now)


def _doubtful(ctx: StepContext, snapshot: ClusterSnapshot, positions: Positions) -> Positions:
    """Those without a commit, of a source that is in doubt; not where nothing is left to copy."""
    known, logs = ctx.inputs.known, snapshot.observed.offsets
    return Positions(
        {
            sp: at
            for sp, at in positions.items()
            if sp.cluster in known.doubts
            and sp not in known.positions
            and ((log := logs.get(sp)) is None or at < log.latest)
        }
    )


def _settle(ctx: StepContext, start: StartPlan, sight: GapSight) -> GapPlan:
    """Decide about gaps; what is new is recorded first, then the positions move.

    When that fails, the partitions in question are held until the next discovery.
    """
    if ctx.state.gap_error:
        why = ctx.state.gap_error
        # Also what the logs no longer show: it is undecided, or decided and not moved yet.
        recorded = [
            it.gap
            for it in ctx.state.gaps.values()
            if not sight.is_busy(it.gap) and sight.is_unmoved(it)
        ]
        gaps = (*recorded, *start.gaps)
        held = {it.partition: f"{it.reason}; that cannot be recorded: {why}" for it in gaps}
        positions = start.positions.only(start.positions.keys() - held.keys())
        return GapPlan(positions, {**start.held, **held})
    plan = plan_gaps(start, ctx.state.gaps.values(), sight)
    if plan.records:
        ctx.command(RecordGaps(plan.records))
    if plan.moves:
        ctx.command(Move(plan.moves, "gaps"))
    unsettled = [
        record
        for record in ctx.state.gaps.values()
        if not record.resolved and record.gap.partition in plan.quarantined
    ]
    emit_gaps(ctx, unsettled)
    return plan


def emit_gaps(ctx: StepContext, records: Collection[GapRecord]) -> None:
    """Emit an event for each gap, once when found and once when decided."""
    for record in records:
        inputs = (record.id, str(record.decision), record.resolved)
        if inputs in ctx.state.reported:
            continue
        ctx.update(reported=ctx.state.reported | {inputs})
        gap, alias = record.gap, record.gap.partition.cluster
        if not record.resolved:
            goes_on = (
                f"continues at {gap.position}, and what the hub holds of it comes again"
                if gap.kind is GapKind.FOREIGN_ORIGIN
                else "continues without what is lost"
            )
            words = (
                f"quarantined; `aggregator gaps accept {record.id}` {goes_on}, "
                f"sources.{alias}.on_gap decides for all to come"
            )
        elif record.decision == "stop":
            words = record.note
        else:
            words = f"{record.decision}: {record.note}"
        fields: Mapping[str, str | int] = {
            "gap": record.id,
            "partition": str(gap.partition),
            "cause": str(gap.kind),
            "decision": str(record.decision),
            "lost": -1 if gap.lost is None else gap.lost,
        }
        ctx.emit("gap", f"{gap} [{record.id}] {words}", fields)


@dataclass
class _Stages:
    """The stages of the partitions in no lane, by one judgement."""

    ctx: StepContext
    snapshot: ClusterSnapshot
    gaps: GapPlan
    holes: Mapping[SourcePartition, Hole]
    unclean: Collection[SourcePartition]
    other: set[SourcePartition]
    out: Mapping[SourcePartition, str]
    doubtful: Collection[SourcePartition]
    creating: frozenset[SourcePartition]
    too_old: bool = False
    """Whether the snapshot is older than something that it would have to show."""

    def take(self, sp: SourcePartition) -> None:
        """Set the stage of one partition."""
        ctx, partition = self.ctx, self.ctx.at(sp)
        if partition.suspect and self.snapshot.began > partition.left_at:
            ctx.keep(sp, partition := replace(partition, suspect=""))
        if partition.hole and sp not in self.holes:
            ctx.keep(sp, partition := replace(partition, hole=None))
        stage, why = self._of(sp, partition)
        if stage is Stage.HELD and why == self.gaps.held.get(sp, "") != partition.why:
            ctx.emit("held", f"{sp}: {why}", {"partition": str(sp)})
        if stage is Stage.OUT and not why and partition.left_at <= self.snapshot.began:
            ctx.forget(sp)
        else:
            # A partition that may start no longer depends on what its last reader reported.
            reset = {"cut": None, "damaged": False} if stage is Stage.READY else {}
            ctx.transition(Trigger.JUDGED, sp, stage, why=why, **reset)

    def _of(self, sp: SourcePartition, partition: Partition) -> tuple[Stage, str]:
        gaps = self.gaps
        if sp in gaps.quarantined:
            return Stage.QUARANTINED, gaps.quarantined[sp]
        # With another log it is not known yet what the hub holds of the old one.
        unclean = sp in self.unclean and (sp in gaps.positions or sp in self.other)
        end = self.ctx.inputs.backfilled.get(sp)
        # Before anything runs the hub is read in any case: what is paused is searched for as well.
        looked_for = unclean and not self.ctx.state.begun and sp not in gaps.moves
        if sp in self.out and not looked_for:
            return Stage.OUT, self.out[sp]
        if sp in gaps.moves:
            return Stage.HELD, f"it continues at {gaps.moves[sp]} when that is committed"
        if sp in self.creating:
            return Stage.HELD, CREATING
        if end is not None and (unclean or gaps.positions.get(sp, end) < end):
            return Stage.HELD, BACKFILLED
        if unclean:
            return Stage.UNCLEAN, ""
        if sp in gaps.held:
            return Stage.HELD, gaps.held[sp]
        if sp not in gaps.positions:
            return Stage.OUT, ""
        if partition.suspect:
            self.too_old = True
            return Stage.HELD, f"{partition.suspect}: it is looked at again"
        if sp in self.doubtful:
            return Stage.HELD, "it is looked for in the hub first"
        return Stage.READY, ""


def _hole(
    ctx: StepContext, snapshot: ClusterSnapshot, sp: SourcePartition, partition: Partition
) -> Hole | None:
    """What a partition must skip, if it may start although the hub holds more of it.

    It no longer applies to a partition that was moved since, by a gap or by hand. If the log has
    been cut off meanwhile, another recovery has to find what is lost.
    """
    hole, known = partition.hole, ctx.inputs.known.remembered
    if hole is None:
        return None
    at, log = known.positions.get(sp), snapshot.observed.offsets.get(sp)
    if (hole.position, hole.snapshot) != (at, known.snapshots.get(sp)):
        return None
    if hole.position < ctx.inputs.backfilled.get(sp, 0):
        # The hub may hold more by now than the recovery found.
        return None
    same = is_same_log(sp, known, snapshot.observed)
    return None if same and log is not None and log.earliest > hole.position else hole


def _out_of(ctx: StepContext, sp: SourcePartition) -> str | None:
    """Why a partition must not run, None when it may."""
    if sp.cluster in ctx.inputs.leaving:
        return "its lanes must end"
    return ctx.inputs.paused.get(sp.cluster) or paused_part(sp, ctx.inputs.parts)


def paused_part(sp: SourcePartition, parts: Mapping[Part, str]) -> str | None:
    """Why a partition is paused by itself or with its topic; None when it is not."""
    if not parts:
        return None
    topic = Part(sp.cluster, sp.topic)
    return parts.get(topic) or parts.get(topic._replace(partition=sp.partition))


def _may_continue(
    ctx: StepContext, sp: SourcePartition, out: Mapping[SourcePartition, str]
) -> bool:
    partition = ctx.at(sp)
    if sp in out or partition.suspect or partition.stopped:
        return False
    life = ctx.state.lanes.get(partition.lane)
    return life is None or not life.finished


def _repeat_discovery(
    ctx: StepContext, snapshot: ClusterSnapshot, *, unread: bool, too_old: bool
) -> None:
    """Repeat discovery for what could not be read: a broker may be slow for a moment.

    Longer silence is handled elsewhere.
    """
    if ctx.state.judged != snapshot.began:
        # One snapshot may be judged several times.
        ctx.update(
            judged=snapshot.began, unread_snapshots=ctx.state.unread_snapshots + 1 if unread else 0
        )
    if too_old or 0 < ctx.state.unread_snapshots < DISCOVERIES_ALLOWED:
        ctx.request_discovery()
