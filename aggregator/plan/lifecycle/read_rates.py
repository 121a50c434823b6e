"""Sets how fast the sources are read, from the config and their lags. Pure."""

from collections.abc import Collection, Mapping

from aggregator.model.values import Positions, SourcePartition, SourceState
from aggregator.plan.lanes.rate_limits import is_held_back, plan_pace
from aggregator.plan.lifecycle.commands import SetPace
from aggregator.plan.lifecycle.step_context import StepContext


def pace_starting(
    ctx: StepContext,
    partitions: Collection[SourcePartition],
    positions: Positions,
    ends: Mapping[SourcePartition, int],
) -> None:
    """Set the rates for partitions about to start at `positions`: slower with a large backlog."""
    backlogs: dict[str, int] = {}
    for sp in partitions:
        if sp in positions and sp in ends:
            left = max(0, ends[sp] - positions[sp])
            backlogs[sp.cluster] = backlogs.get(sp.cluster, 0) + left
    late = {
        alias
        for alias, backlog in backlogs.items()
        if alias not in ctx.state.behind
        and is_held_back(ctx.inputs.config, alias, backlog, held=False)
    }
    _hold_back(ctx, ctx.state.behind | late, backlogs)


def follow_pace(ctx: StepContext) -> None:
    """Set the rates from the lags of running sources and the config in force."""
    config, behind = ctx.inputs.config, ctx.state.behind & ctx.inputs.config.sources.keys()
    lags, sources = _lags(ctx), ctx.state.sources
    late = {
        alias
        for alias, lag in lags.items()
        if (alias in behind or sources[alias].state is SourceState.CATCHING_UP)
        and is_held_back(config, alias, lag, held=alias in behind)
    }
    _hold_back(ctx, (behind - lags.keys()) | late, lags)


def _lags(ctx: StepContext) -> dict[str, int]:
    """The lags of sources with a limit that run, where all their log ends are known."""
    measured, config = ctx.inputs.measured, ctx.inputs.config
    if measured is None:
        return {}
    limited = {
        alias
        for alias, it in config.sources.items()
        if it.catch_up_records_per_second is not None and alias in ctx.state.sources
    }
    if not limited:
        return {}
    running = ctx.state.in_lanes
    unknown = {sp.cluster for sp in running if sp not in measured.ends}
    known = {sp.cluster for sp in running} & limited - unknown
    return {alias: lag for alias, lag in measured.lags.items() if alias in known}


def _hold_back(ctx: StepContext, behind: Collection[str], lags: Mapping[str, int]) -> None:
    before, after = ctx.state.behind, frozenset(behind)
    config = ctx.inputs.config
    for alias in sorted(after - before):
        limit = config.sources[alias].catch_up_records_per_second
        _emit(ctx, alias, f"is {lags[alias]:,} records behind: it catches up at {limit:,} a second")
    for alias in sorted(before - after):
        if alias in config.sources:
            _emit(ctx, alias, "has caught up")
    pace = plan_pace(config, after)
    if (after, pace) != (before, ctx.state.pace):
        if pace != ctx.state.pace:
            ctx.command(SetPace(pace))
        ctx.update(behind=after, pace=pace)


def _emit(ctx: StepContext, alias: str, words: str) -> None:
    ctx.emit("source_pace", f"source {alias} {words}", {"source": alias})
