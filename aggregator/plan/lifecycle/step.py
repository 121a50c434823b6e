"""The one decision of a running instance: state and inputs in, state and commands out. Pure.

    outcomes of the last commands -> discovery -> reports of lanes and probes -> whose time
    has come -> judge, recover, arrange -> health, pace

Time goes by between two steps, and anything may have happened. So a step never waits, and it
relies only on its inputs.
"""

from aggregator.plan.lifecycle.commands import Command, Finish, Prepare, Release
from aggregator.plan.lifecycle.failures import notice_rests
from aggregator.plan.lifecycle.health import follow_sources
from aggregator.plan.lifecycle.inputs import StepInputs
from aggregator.plan.lifecycle.lane_changes import decide
from aggregator.plan.lifecycle.outcomes import take
from aggregator.plan.lifecycle.read_rates import follow_pace
from aggregator.plan.lifecycle.reports import notice_lanes, notice_logs
from aggregator.plan.lifecycle.state import State
from aggregator.plan.lifecycle.step_context import StepContext


def step(state: State, inputs: StepInputs, now: float) -> tuple[State, tuple[Command, ...]]:
    """What follows from the inputs; `now` are monotonic seconds.

    The commands must be executed in their order; their outcomes are inputs of the next step, which
    must follow at once. Guarantees, whatever fails: no partition is ever in two lanes; none starts
    but from a position that is committed or proven by the hub; what is lost is recorded before
    anything continues behind it.
    """
    ctx = StepContext(state, inputs, now)
    for outcome in inputs.outcomes:
        take(ctx, outcome)
    _take_orders(ctx)
    if inputs.snapshot is not None:
        _prepare(ctx)
    if inputs.turn:
        notice_lanes(ctx)
        notice_logs(ctx)
        notice_rests(ctx)
    snapshot = ctx.state.snapshot
    # What a lane must be asked first may change everything, and a lane starts by the ids of the
    # snapshot that was prepared last: a decision follows either.
    waits = any(isinstance(it, (Finish, Prepare, Release)) for it in ctx.commands)
    if ctx.dirty and snapshot is not None and not waits:
        ctx.dirty = False
        decide(ctx, snapshot)
    if ctx.dirty != ctx.state.undecided:
        ctx.update(undecided=ctx.dirty)
    follow_sources(ctx)
    if inputs.measured is not None or ctx.state.config is not state.config:
        follow_pace(ctx)
    return ctx.state, ctx.commands


def _prepare(ctx: StepContext) -> None:
    snapshot, before = ctx.inputs.snapshot, ctx.state.snapshot
    assert snapshot is not None
    if before is not None and snapshot.began <= before.began:
        # It says nothing that is not known by now.
        return
    if snapshot.plan.refusals and ctx.state.begun:
        why = "; ".join(snapshot.plan.refusals)
        if why != ctx.state.refused_plan:
            ctx.emit("plan_refused", why)
        ctx.update(refused_plan=why)
        ctx.retry_discovery()
    else:
        ctx.command(Prepare(snapshot))


def _take_orders(ctx: StepContext) -> None:
    """Apply orders: new settings, pauses, sources that leave, a requested discovery."""
    state, inputs = ctx.state, ctx.inputs
    if (state.paused, state.leaving, state.parts) != (inputs.paused, inputs.leaving, inputs.parts):
        ctx.update(paused=dict(inputs.paused), leaving=inputs.leaving, parts=dict(inputs.parts))
        ctx.dirty = True
    if state.config is not inputs.config:
        # Nothing is decided any more from the old config's snapshot, nor from one that is awaited:
        # it may be there already, and is left out.
        ctx.update(config=inputs.config, snapshot=None, asked_at=None)
        ctx.dirty = True
        ctx.emit("reloaded", "the config was read again, and is in force")
        ctx.request_discovery()
    if state.backfilled != inputs.backfilled:
        ctx.update(backfilled=inputs.backfilled)
        ctx.dirty = True
    if inputs.again:
        ctx.request_discovery()
    if inputs.discovery_failed:
        ctx.retry_discovery()
