"""Applies the outcomes of the previous step's commands to the state. Pure.

Issuing a command changes nothing; its outcome does. So one that failed, or was not tried, leaves a
state from which the next decision issues it again.
"""

from dataclasses import replace

from aggregator.model.values import Lane
from aggregator.plan.lifecycle.commands import (
    AskHub,
    Distrust,
    Finish,
    Move,
    Outcome,
    Prepare,
    RecordGaps,
    Recover,
    Recovered,
    Release,
    Remember,
    Start,
    Started,
)
from aggregator.plan.lifecycle.failures import (
    fail_lane,
    fail_recovery,
    forget_waits,
    put_back,
    wait_for_hub,
)
from aggregator.plan.lifecycle.health import add_new_sources
from aggregator.plan.lifecycle.inputs import HubLogs, Ready
from aggregator.plan.lifecycle.judge import emit_gaps
from aggregator.plan.lifecycle.reports import release_partition
from aggregator.plan.lifecycle.stage import Stage, Trigger
from aggregator.plan.lifecycle.state import LaneOver
from aggregator.plan.lifecycle.step_context import StepContext
from aggregator.plan.positions.recovery import hub_topics_of
from aggregator.plan.positions.start import GapKind
from aggregator.plan.snapshot import ClusterSnapshot


def take(ctx: StepContext, outcome: Outcome) -> None:
    """Change the state by one outcome."""
    match outcome.command:
        case Prepare(snapshot):
            _take_snapshot(ctx, snapshot, outcome)
        case RecordGaps(records):
            if outcome.error is not None:
                _postpone_gaps(ctx, outcome.error)
            elif not outcome.dropped:
                gaps = {**ctx.state.gaps, **{it.id: it for it in records}}
                ctx.update(gaps=gaps, gap_error_reported="")
                emit_gaps(ctx, records)
        case Move():
            _take_move(ctx, outcome.command, outcome)
        case Remember(topics):
            if outcome.error is None and not outcome.dropped:
                ctx.update(kept=ctx.state.kept.plus(topics))
            elif outcome.error is not None:
                # The next decision tries again.
                words = f"which topics there are is not kept yet: {outcome.error}"
                ctx.emit("checkpoint_error", words)
        case AskHub() if isinstance(outcome.result, HubLogs):
            ctx.update(hub_logs=outcome.result)
            ctx.dirty = True
        case AskHub():
            # Nothing begins before it is known; the decision after the next snapshot asks again.
            ctx.emit("hub_silent", f"what the hub holds is not known yet: {outcome.error}")
            ctx.request_discovery()
        case Distrust():
            if outcome.error is not None:
                # They wait; the next snapshot tries it again.
                ctx.emit("checkpoint_error", f"a doubt is not committed yet: {outcome.error}")
            else:
                ctx.update(doubted=True)
                ctx.dirty = True
        case Recover():
            _take_recovery(ctx, outcome)
        case Start():
            _take_start(ctx, outcome.command, outcome)
        case Finish():
            _take_finish(ctx, outcome.command, outcome)
        case Release():
            _take_release(ctx, outcome.command, outcome)
        case _:
            pass


def _take_snapshot(ctx: StepContext, snapshot: ClusterSnapshot, outcome: Outcome) -> None:
    if outcome.error is not None:
        ctx.emit("plan_failed", str(outcome.error))
        ctx.retry_discovery()
        return
    assert isinstance(outcome.result, Ready)
    plan, found = outcome.result.plan, outcome.result.gaps
    if ctx.state.plan is not None and ctx.state.plan == plan:
        # The same object: who follows the plan has work with another one only.
        plan = ctx.state.plan
    snapshot = replace(snapshot, plan=plan)
    before = ctx.state.snapshot
    known = before.plan.warnings if before is not None else ()
    for warning in snapshot.plan.warnings:
        if warning not in known:
            ctx.emit("warning", warning)
    refused = before.plan.refused if before is not None else ()
    for topic in snapshot.plan.refused:
        if topic not in refused:
            ctx.emit("topic_refused", f"not taken: {topic}", {"hub_topic": topic.hub_topic})
    asked = ctx.state.asked_at
    ctx.update(
        snapshot=snapshot,
        plan=snapshot.plan,
        refused_plan="",
        topics=ctx.state.topics.after(snapshot, ctx.inputs.config),
        asked_at=asked if asked is not None and asked > snapshot.began else None,
        # Of what we wrote ourselves meanwhile the newest counts.
        gaps={**ctx.state.gaps, **found.records},
        gap_error="",
    )
    add_new_sources(ctx, snapshot)
    if found.error:
        _postpone_gaps(ctx, found.error)
    ctx.dirty = True


def _postpone_gaps(ctx: StepContext, error: Exception | str) -> None:
    if str(error) != ctx.state.gap_error_reported:
        ctx.emit("gap_failed", f"gaps cannot be decided about now: {error}")
    ctx.update(gap_error=str(error), gap_error_reported=str(error))
    ctx.dirty = True


def _take_move(ctx: StepContext, command: Move, outcome: Outcome) -> None:
    if command.why == "gaps":
        if outcome.error is not None:
            _postpone_gaps(ctx, outcome.error)
        ctx.dirty = True
    elif outcome.error is not None:
        # The next snapshot finds them new as well, and this is tried again.
        count = len(command.positions)
        words = f"where {count} new partitions begin is not committed yet: {outcome.error}"
        ctx.emit("checkpoint_error", words)


def _take_recovery(ctx: StepContext, outcome: Outcome) -> None:
    assert isinstance(outcome.command, Recover)
    if outcome.error is None and outcome.result is None and not outcome.dropped:
        # It has begun.
        return
    ctx.update(recovering=frozenset(), recovers_alone=False)
    partitions = sorted(outcome.command.partitions)
    if outcome.error is not None or outcome.dropped:
        fail_recovery(ctx, partitions, str(outcome.error or "it was put off"))
        return
    found = outcome.result
    assert isinstance(found, Recovered)
    whole = [sp for sp in partitions if sp not in found.waiting]
    for sp in whole:
        if sp not in found.silent:
            ctx.transition(Trigger.RECOVERED, sp, Stage.HELD, hole=found.holes.get(sp))
    put_back(ctx, found.silent)
    forget_waits(ctx, hub_topics_of(outcome.command.snapshot.plan.routes, whole))
    wait_for_hub(ctx, found)
    if not whole:
        return
    # What discovery has read meanwhile says how a new finding is decided; what was settled once,
    # and is found again, is open.
    new = {it.id: it for it in found.records}
    open_ = {
        name: it
        for name, it in ctx.state.gaps.items()
        if not it.resolved and (name not in new or it.gap.start <= new[name].gap.start)
    }
    ctx.update(
        gaps={**ctx.state.gaps, **new, **open_},
        recovered=(ctx.inputs.at, found),
    )
    holed = len(found.holes)
    missing = (
        f"{holed} of them have something missing below that, which their lanes write"
        if holed
        else "nothing is missing"
    )
    foreign = sum(it.gap.kind is GapKind.FOREIGN_ORIGIN for it in found.records)
    doubtful = "".join(
        f", of {count} {what}"
        for count, what in (
            (foreign, "what was found is of another log"),
            (len(found.silent), "the source does not show whether it is theirs"),
        )
        if count
    )
    words = (
        f"{found.partitions} partitions: {found.tail} offsets of the hub tail read, "
        f"{found.found} records found beyond the checkpoint, {missing}{doubtful}, "
        f"{found.seconds:.1f} s"
    )
    ctx.emit("recovered", words, {"tail": found.tail, "found": found.found, "holed": holed})
    ctx.dirty = True


def _take_start(ctx: StepContext, command: Start, outcome: Outcome) -> None:
    name = command.lane.name
    life = ctx.state.lanes[name]
    if outcome.dropped:
        for sp in command.lane.partitions:
            ctx.transition(Trigger.NOT_STARTED, sp, Stage.HELD, lane="", hole=command.holes.get(sp))
        ctx.lane(name, None)
    elif outcome.error is not None:
        fail_lane(ctx, name, life, str(outcome.error))
    else:
        assert isinstance(outcome.result, Started)
        generation, key = outcome.result.generation, outcome.result.key
        ctx.lane(name, replace(life, generation=generation, key=key))


def _take_finish(ctx: StepContext, command: Finish, outcome: Outcome) -> None:
    life = ctx.state.lanes[command.name]
    if problem := str(outcome.result or ""):
        fail_lane(ctx, command.name, life, problem)
        return
    for sp in life.lane.partitions:
        release_partition(ctx, sp, finished=life.finished)
    ctx.lane(command.name, None, LaneOver(life.lane, life.generation, life.restarts))
    if life.finished:
        ctx.emit("lane_ended", f"lane {command.name} has ended", {"lane": command.name})


def _take_release(ctx: StepContext, command: Release, outcome: Outcome) -> None:
    if outcome.error is not None:
        # The next turn tries it again.
        ctx.emit("checkpoint_error", str(outcome.error))
        return
    life = ctx.state.lanes[command.name]
    for sp in sorted(command.partitions):
        release_partition(ctx, sp, finished=False)
    left = tuple(sp for sp in life.lane.partitions if sp not in command.partitions)
    leaving = life.leaving - command.partitions
    ctx.lane(command.name, replace(life, lane=Lane(command.name, left), leaving=leaving))
