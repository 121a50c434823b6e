"""The one decision of a running instance: state and news go in, state and commands come out. Pure.

    outcomes of the last commands -> discovery -> reports of lanes and probes -> whose time
    has come -> judge, recover, arrange -> health, pace

Time goes by between two steps, and anything may have happened. So a step never waits, and it
relies only on its inputs.
"""

from __future__ import annotations

from aggregator.plan.lifecycle.commands import Command, Finish, Prepare, Release
from aggregator.plan.lifecycle.failures import notice_rests
from aggregator.plan.lifecycle.health import follow_sources
from aggregator.plan.lifecycle.inputs import News
from aggregator.plan.lifecycle.lane_changes import decide
from aggregator.plan.lifecycle.outcomes import take
from aggregator.plan.lifecycle.read_rates import follow_pace
from aggregator.plan.lifecycle.reports import notice_lanes, notice_logs
from aggregator.plan.lifecycle.state import State
from aggregator.plan.lifecycle.step_context import Draft


def step(state: State, news: News, now: float) -> tuple[State, tuple[Command, ...]]:
    """What follows from the news; `now` are monotonic seconds.

    The commands must be executed in their order; their outcomes are news of the next step, which
    must follow at once. Guarantees, whatever fails: no partition is ever in two lanes; none starts
    but from a position that is committed or proven by the hub; what is lost is recorded before
    anything continues behind it.
    """
    d = Draft(state, news, now)
    for outcome in news.outcomes:
        take(d, outcome)
    _take_orders(d)
    if news.look is not None:
        _prepare(d)
    if news.turn:
        notice_lanes(d)
        notice_logs(d)
        notice_rests(d)
    look = d.state.look
    # What a lane must be asked first may change everything: a decision follows it.
    waits = any(isinstance(it, (Finish, Release)) for it in d.commands)
    if d.dirty and look is not None and not waits:
        d.dirty = False
        decide(d, look)
    if d.dirty != d.state.undecided:
        d.note(undecided=d.dirty)
    follow_sources(d)
    if news.measured is not None or d.state.config is not state.config:
        follow_pace(d)
    return d.state, d.commands


def _prepare(d: Draft) -> None:
    look, before = d.news.look, d.state.look
    assert look is not None
    if before is not None and look.began <= before.began:
        # It says nothing that is not known by now.
        return
    if look.plan.refusals and d.state.begun:
        why = "; ".join(look.plan.refusals)
        if why != d.state.refused_plan:
            d.emit("plan_refused", why)
        d.note(refused_plan=why)
        d.ask_anew()
    else:
        d.do(Prepare(look))


def _take_orders(d: Draft) -> None:
    """Apply orders: new settings, pauses, sources that leave, a requested discovery."""
    state, news = d.state, d.news
    if (state.paused, state.leaving, state.parts) != (news.paused, news.leaving, news.parts):
        d.note(paused=dict(news.paused), leaving=news.leaving, parts=dict(news.parts))
        d.dirty = True
    if state.config is not news.config:
        # Nothing is decided any more from the old config's snapshot.
        d.note(config=news.config, look=None)
        d.dirty = True
        d.emit("reloaded", "the config was read again, and is in force")
        d.look_again()
    if news.again:
        d.look_again()
    if news.look_failed:
        d.ask_anew()
