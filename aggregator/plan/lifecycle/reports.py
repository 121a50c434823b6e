"""Applies reports of lanes and probes: what has ended, was released, or is another log. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from aggregator.model.values import ReaderState, SourcePartition
from aggregator.plan.health.suspects import ReadPosition, cut, follow_progress, foreign, gone
from aggregator.plan.lifecycle.commands import End, Finish, Release
from aggregator.plan.lifecycle.failures import leave_stuck, may_try, stop_partition
from aggregator.plan.lifecycle.inputs import LaneSeen
from aggregator.plan.lifecycle.stage import Stage, Trigger
from aggregator.plan.lifecycle.state import LaneLife
from aggregator.plan.lifecycle.step_context import StepContext

STOPPED = (ReaderState.POISONED, ReaderState.DAMAGED)


def notice_lanes(ctx: StepContext) -> None:
    """Finish ended or late lanes; take back released partitions; note stopped ones."""
    for name, life in sorted(ctx.state.lanes.items()):
        seen = ctx.inputs.lanes.get(name)
        if seen is None:
            continue
        if life.ends_by is not None:
            if seen.ended or not seen.active or ctx.now >= life.ends_by:
                ctx.command(Finish(name, clean=seen.ended))
        elif not seen.active:
            ctx.command(Finish(name, clean=False))
        else:
            if life.leaving and all(_has_left(seen, sp) for sp in life.leaving):
                ctx.command(Release(name, life.leaving))
            _notice_stops(ctx, life, seen)
            if ctx.state.until_done and _is_done(life, seen):
                end_lane(ctx, name, finished=True)


def end_lane(ctx: StepContext, name: str, *, finished: bool = False) -> None:
    """Let a lane end; until it has reported that, its partitions are leaving."""
    life = ctx.state.lanes[name]
    for sp in life.lane.partitions:
        if ctx.at(sp).stage is Stage.READING:
            ctx.transition(Trigger.TAKEN_OUT, sp, Stage.LEAVING)
    ends_by = ctx.now + ctx.inputs.config.supervision.stop_timeout
    ctx.lane(name, replace(life, ends_by=ends_by, finished=finished))
    ctx.command(End(name))


def release_partition(ctx: StepContext, sp: SourcePartition, *, finished: bool) -> None:
    """A lane sends nothing more of a partition, and its position is committed."""
    partition = ctx.at(sp)
    if partition.stopped:
        # What cannot be read is looked at before it is given up.
        again = partition.stuck or (partition.damaged and may_try(ctx, sp))
        stage = Stage.RESTING if again or not ctx.state.until_done else Stage.DONE
        ctx.transition(Trigger.STOPPED, sp, stage, lane="", left_at=ctx.now, why=partition.stopped)
    elif finished:
        ctx.transition(Trigger.FINISHED, sp, Stage.DONE, lane="", left_at=ctx.now)
    else:
        ctx.transition(Trigger.KEPT, sp, Stage.HELD, lane="", left_at=ctx.now)
    ctx.dirty = True


def notice_logs(ctx: StepContext) -> None:
    """Take out partitions whose log is another one, or shorter, than was read.

    A reader reports by itself when its log does not hold its position. But in a topic that was
    created again it may keep reading. So the probes' answers are compared with what is read. A full
    discovery follows, and judges each log by where its reader has stopped.
    """
    known, seen = ctx.inputs.known, ctx.inputs.seen
    out_of_range, cuts = _out_of_range(ctx)
    before, probed = ctx.state.probed, {alias: it.asked_at for alias, it in seen.items()}
    fresh = {alias for alias, at in probed.items() if before.get(alias) != at}
    if not fresh and all(ctx.at(sp).suspect for sp in out_of_range) and _are_noted(ctx, cuts):
        # No source was probed since the last step.
        return
    reading, logs = ctx.state.in_lanes, known.remembered.logs
    readings = {
        sp: ReadPosition(at, logs[sp])
        for sp in reading
        if sp.cluster in fresh and (at := known.positions.get(sp)) is not None and sp in logs
    }
    progress = follow_progress(ctx.state.progress, readings, seen, ctx.now)
    found = {**out_of_range, **cut(progress, ctx.now), **foreign(readings, seen)}
    for sp, reason in sorted(found.items()):
        own = progress.get(sp)
        ends = [cuts.get(sp), ctx.at(sp).cut, own.lowest if own is not None else None]
        lowest = min((it for it in ends if it is not None), default=None)
        is_new = not ctx.at(sp).suspect
        ctx.keep(sp, replace(ctx.at(sp), suspect=ctx.at(sp).suspect or reason, cut=lowest))
        if is_new:
            ctx.emit("partition_suspect", f"{sp}: {reason}", {"partition": str(sp)})
            ctx.dirty = True
            ctx.request_discovery()
    missing = gone(readings, seen)
    if missing - ctx.state.gone:
        ctx.request_discovery()
    others = probed.keys() - fresh
    progress |= {
        sp: own for sp, own in ctx.state.progress.items() if sp.cluster in others and sp in reading
    }
    missing |= {key for key in ctx.state.gone if key[0] in others}
    ctx.update(progress=progress, gone=frozenset(missing), probed=probed)


def _notice_stops(ctx: StepContext, life: LaneLife, seen: LaneSeen) -> None:
    stuck: dict[str, list[SourcePartition]] = {}
    for sp, state in sorted(seen.states.items()):
        if state != ReaderState.STUCK and state not in STOPPED:
            continue
        is_new = sp in life.lane.partitions and ctx.at(sp).stage is Stage.READING
        if not is_new or ctx.at(sp).stopped:
            continue
        if state == ReaderState.STUCK:
            stuck.setdefault(seen.reasons.get(sp, state), []).append(sp)
        else:
            stop_partition(ctx, sp, seen.reasons.get(sp, state))
            ctx.keep(sp, replace(ctx.at(sp), damaged=state == ReaderState.DAMAGED, stuck=False))
    for reason, partitions in stuck.items():
        leave_stuck(ctx, life.lane.name, partitions, reason)


def _out_of_range(
    ctx: StepContext,
) -> tuple[dict[SourcePartition, str], dict[SourcePartition, int]]:
    """What readers report: the reasons, and the offset from which a log is another one."""
    found, cuts = {}, {}
    for name, life in ctx.state.lanes.items():
        seen = ctx.inputs.lanes.get(name)
        for sp, state in seen.states.items() if seen is not None else ():
            if state == ReaderState.OUT_OF_RANGE and sp in life.lane.partitions and seen:
                at = ctx.inputs.known.positions.get(sp)
                found[sp] = f"its log does not hold {at}, where its reader is"
                if sp in seen.cuts:
                    cuts[sp] = seen.cuts[sp]
                    found[sp] = f"its log was cut off at {cuts[sp]}, and read up to {at} before"
    return found, cuts


def _are_noted(ctx: StepContext, cuts: Mapping[SourcePartition, int]) -> bool:
    return all((known := ctx.at(sp).cut) is not None and known <= at for sp, at in cuts.items())


def _has_left(seen: LaneSeen, sp: SourcePartition) -> bool:
    # One that is refused, or waits, is tried again, until the order has reached its task.
    state = seen.states.get(sp, ReaderState.READING)
    return state not in (ReaderState.READING, ReaderState.REFUSED, ReaderState.AWAITING)


def _is_done(life: LaneLife, seen: LaneSeen) -> bool:
    states = (seen.states.get(sp, ReaderState.READING) for sp in life.lane.partitions)
    return seen.whole and all(it in (ReaderState.DONE, ReaderState.HELD) for it in states)
