"""Sets how fast the sources are read, from the config and their lags. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aggregator.model.values import Positions, SourcePartition, SourceState
from aggregator.plan.lanes.rate_limits import is_held_back, plan_pace
from aggregator.plan.lifecycle.commands import SetPace
from aggregator.plan.lifecycle.step_context import Draft


def pace_starting(
    d: Draft,
    partitions: Collection[SourcePartition],
    positions: Positions,
    ends: Mapping[SourcePartition, int],
) -> None:
    """These are about to be read from `positions`: with a long way to go, at less speed."""
    backlogs: dict[str, int] = {}
    for sp in partitions:
        if sp in positions and sp in ends:
            left = max(0, ends[sp] - positions[sp])
            backlogs[sp.cluster] = backlogs.get(sp.cluster, 0) + left
    late = {
        alias
        for alias, backlog in backlogs.items()
        if alias not in d.state.behind and is_held_back(d.news.config, alias, backlog, held=False)
    }
    _hold_back(d, d.state.behind | late, backlogs)


def follow_pace(d: Draft) -> None:
    """Set the rates from the lags of running sources and the config in force."""
    config, behind = d.news.config, d.state.behind & d.news.config.sources.keys()
    lags, sources = _lags(d), d.state.sources
    late = {
        alias
        for alias, lag in lags.items()
        if (alias in behind or sources[alias].state is SourceState.CATCHING_UP)
        and is_held_back(config, alias, lag, held=alias in behind)
    }
    _hold_back(d, (behind - lags.keys()) | late, lags)


def _lags(d: Draft) -> dict[str, int]:
    """The lags of sources with a limit that run, where all their log ends are known."""
    measured, config = d.news.measured, d.news.config
    if measured is None:
        return {}
    limited = {
        alias
        for alias, it in config.sources.items()
        if it.catch_up_records_per_second is not None and alias in d.state.sources
    }
    if not limited:
        return {}
    running = d.state.in_lanes
    unknown = {sp.cluster for sp in running if sp not in measured.ends}
    known = {sp.cluster for sp in running} & limited - unknown
    return {alias: lag for alias, lag in measured.lags.items() if alias in known}


def _hold_back(d: Draft, behind: Collection[str], lags: Mapping[str, int]) -> None:
    before, after = d.state.behind, frozenset(behind)
    config = d.news.config
    for alias in sorted(after - before):
        limit = config.sources[alias].catch_up_records_per_second
        _say(d, alias, f"is {lags[alias]:,} records behind: it catches up at {limit:,} a second")
    for alias in sorted(before - after):
        if alias in config.sources:
            _say(d, alias, "has caught up")
    pace = plan_pace(config, after)
    if (after, pace) != (before, d.state.pace):
        if pace != d.state.pace:
            d.do(SetPace(pace))
        d.note(behind=after, pace=pace)


def _say(d: Draft, alias: str, words: str) -> None:
    d.emit("source_pace", f"source {alias} {words}", {"source": alias})
