"""The health of sources: running, catching up, silent, paused or failed; what is stuck. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from aggregator.model.values import SourceState
from aggregator.plan.lifecycle.inputs import Measured
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import SourceLife
from aggregator.plan.lifecycle.step_context import StepContext
from aggregator.plan.snapshot import ClusterSnapshot

CATCHING_UP_ABOVE = 10_000
"""A source is catching up when its lag exceeds this, plus what arrives in a few seconds."""


def add_new_sources(ctx: StepContext, snapshot: ClusterSnapshot) -> None:
    """Add sources that are new in a snapshot: they run, except those that gave no answer."""
    found = dict(ctx.state.sources)
    for alias in ctx.inputs.config.sources:
        if alias not in found:
            state, reason = SourceState.RUNNING, ""
            if alias in ctx.inputs.paused:
                state, reason = SourceState.PAUSED, ctx.inputs.paused[alias]
            elif alias in snapshot.unreachable:
                state, reason = SourceState.UNREACHABLE, snapshot.unreachable[alias]
            found[alias] = SourceLife(state, ctx.inputs.at, reason)
        if alias in snapshot.plan.sources:
            found[alias] = replace(found[alias], cluster_id=snapshot.plan.sources[alias].cluster_id)
    ctx.update(sources=found)


def follow_sources(ctx: StepContext) -> None:
    """Update each source's state from the measurements, and emit what has changed."""
    measured, before = ctx.inputs.measured, ctx.state.sources
    if measured is None:
        return
    for sp, reason in sorted(measured.stuck.items()):
        if sp not in ctx.state.stuck:
            ctx.emit("partition_stuck", f"{sp}: {reason}", {"partition": str(sp)})
    ctx.update(stuck=frozenset(measured.stuck))
    failed, errors = _failed(ctx), _errors(ctx)
    after = {}
    for alias in ctx.inputs.config.sources:
        if alias not in before:
            continue
        state, reason = _health(ctx, measured, alias, failed, errors)
        life = before[alias]
        if state != life.state:
            words = f"source {alias} is {state}" + (f": {reason}" if reason else "")
            ctx.emit("source_state", words, {"source": alias, "state": str(state)})
            life = replace(life, state=state, since=ctx.inputs.at, reason=reason)
        elif reason != life.reason:
            life = replace(life, reason=reason)
        after[alias] = life
    if after != before:
        ctx.update(sources=after)


def _health(
    ctx: StepContext,
    measured: Measured,
    alias: str,
    failed: Mapping[str, str],
    errors: Mapping[str, str],
) -> tuple[SourceState, str]:
    life = ctx.state.sources[alias]
    if alias in ctx.inputs.paused:
        return SourceState.PAUSED, ctx.inputs.paused[alias]
    if alias in measured.silent:
        return SourceState.UNREACHABLE, measured.silent[alias]
    if life.state is SourceState.UNREACHABLE and alias not in measured.answered:
        # It gave no answer at the start, and its deadline is not over yet.
        return life.state, life.reason
    if alias in failed:
        return SourceState.FAILED, failed[alias]
    if alias in errors:
        return SourceState.FAILED, errors[alias]
    enough = max(CATCHING_UP_ABOVE, measured.arrivals.get(alias, 0.0))
    if measured.lags.get(alias, 0) > enough:
        return SourceState.CATCHING_UP, ""
    return SourceState.RUNNING, ""


def _failed(ctx: StepContext) -> dict[str, str]:
    """Sources of which more partitions were in lanes that have failed than are read: alias -> why.

    Where most of a source is read, only the partitions of the failed lane say so.
    """
    failed = [it for it in ctx.state.over.values() if it.reason]
    if not failed:
        return {}
    reasons = {alias: it.reason for it in failed for alias in it.lane.clusters}
    lost = Counter(sp.cluster for it in failed for sp in it.lane.partitions)
    read = Counter(sp.cluster for sp in ctx.state.of(Stage.READING))
    return {alias: why for alias, why in reasons.items() if lost[alias] > read[alias]}


def _errors(ctx: StepContext) -> dict[str, str]:
    """Sources that give no records, as reported by readers of running lanes: alias -> why."""
    found: dict[str, str] = {}
    for name, life in ctx.state.lanes.items():
        if life.key and life.ends_by is None and name in ctx.inputs.lanes:
            found |= ctx.inputs.lanes[name].errors
    return found
