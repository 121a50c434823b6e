"""Applies reports of lanes and probes: what has ended, was released, or is another log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aggregator.model.values import ReaderState, SourcePartition
from aggregator.plan.health.suspects import ReadPosition, cut, follow_progress, foreign, gone
from aggregator.plan.lifecycle.commands import End, Finish, Release
from aggregator.plan.lifecycle.failures import may_try, stop_partition
from aggregator.plan.lifecycle.inputs import LaneSeen
from aggregator.plan.lifecycle.stage import Stage, Way
from aggregator.plan.lifecycle.state import LaneLife
from aggregator.plan.lifecycle.step_context import Draft

STOPPED = (ReaderState.POISONED, ReaderState.DAMAGED)


def notice_lanes(d: Draft) -> None:
    """Finish ended or late lanes; take back released partitions; note stopped ones."""
    for name, life in sorted(d.state.lanes.items()):
        seen = d.news.lanes.get(name)
        if seen is None:
            continue
        if life.ends_by is not None:
            if seen.ended or not seen.active or d.now >= life.ends_by:
                d.do(Finish(name, clean=seen.ended))
        elif not seen.active:
            d.do(Finish(name, clean=False))
        else:
            if life.leaving and all(_has_left(seen, sp) for sp in life.leaving):
                d.do(Release(name, life.leaving))
            _notice_poison(d, life, seen)
            if d.state.until_done and _is_done(life, seen):
                end_lane(d, name, finished=True)


def end_lane(d: Draft, name: str, *, finished: bool = False) -> None:
    """Let a lane end; until it has reported that, its partitions are leaving."""
    life = d.state.lanes[name]
    for sp in life.lane.partitions:
        if d.at(sp).stage is Stage.READING:
            d.go(Way.TAKEN_OUT, sp, Stage.LEAVING)
    ends_by = d.now + d.news.config.supervision.stop_timeout
    d.lane(name, replace(life, ends_by=ends_by, finished=finished))
    d.do(End(name))


def give_back(d: Draft, sp: SourcePartition, *, finished: bool) -> None:
    """A lane sends nothing more of a partition, and its position is committed."""
    partition = d.at(sp)
    if partition.stopped:
        # What cannot be read is looked at before it is given up.
        over = d.state.until_done and not (partition.damaged and may_try(d, sp))
        stage = Stage.DONE if over else Stage.RESTING
        d.go(Way.STOPPED, sp, stage, lane="", left_at=d.now, why=partition.stopped)
    elif finished:
        d.go(Way.FINISHED, sp, Stage.DONE, lane="", left_at=d.now)
    else:
        d.go(Way.KEPT, sp, Stage.HELD, lane="", left_at=d.now)
    d.dirty = True


def notice_logs(d: Draft) -> None:
    """Take out partitions whose log is another one, or shorter, than was read.

    A reader reports by itself when its log does not hold its position. But in a topic that was
    created again it may keep reading. So the probes' answers are compared with what is read. A full
    discovery follows, and judges each log by where its reader has stopped.
    """
    known, seen = d.news.known, d.news.seen
    out_of_range, cuts = _out_of_range(d)
    before, probed = d.state.probed, {alias: it.asked_at for alias, it in seen.items()}
    fresh = {alias for alias, at in probed.items() if before.get(alias) != at}
    if not fresh and all(d.at(sp).suspect for sp in out_of_range) and _are_noted(d, cuts):
        # No source was probed since the last step.
        return
    reading, logs = d.state.in_lanes, known.remembered.logs
    readings = {
        sp: ReadPosition(at, logs[sp])
        for sp in reading
        if sp.cluster in fresh and (at := known.positions.get(sp)) is not None and sp in logs
    }
    progress = follow_progress(d.state.progress, readings, seen, d.now)
    found = {**out_of_range, **cut(progress, d.now), **foreign(readings, seen)}
    for sp, reason in sorted(found.items()):
        own = progress.get(sp)
        ends = [cuts.get(sp), d.at(sp).cut, own.lowest if own is not None else None]
        lowest = min((it for it in ends if it is not None), default=None)
        is_new = not d.at(sp).suspect
        d.keep(sp, replace(d.at(sp), suspect=d.at(sp).suspect or reason, cut=lowest))
        if is_new:
            d.emit("partition_suspect", f"{sp}: {reason}", {"partition": str(sp)})
            d.dirty = True
            d.look_again()
    missing = gone(readings, seen)
    if missing - d.state.gone:
        d.look_again()
    others = probed.keys() - fresh
    progress |= {
        sp: own for sp, own in d.state.progress.items() if sp.cluster in others and sp in reading
    }
    missing |= {key for key in d.state.gone if key[0] in others}
    d.note(progress=progress, gone=frozenset(missing), probed=probed)


def _notice_poison(d: Draft, life: LaneLife, seen: LaneSeen) -> None:
    for sp, state in sorted(seen.states.items()):
        is_new = sp in life.lane.partitions and d.at(sp).stage is Stage.READING
        if state in STOPPED and is_new and not d.at(sp).stopped:
            stop_partition(d, sp, seen.reasons.get(sp, state))
            d.keep(sp, replace(d.at(sp), damaged=state == ReaderState.DAMAGED))


def _out_of_range(
    d: Draft,
) -> tuple[dict[SourcePartition, str], dict[SourcePartition, int]]:
    """What readers report: the reasons, and the offset from which a log is another one."""
    found, cuts = {}, {}
    for name, life in d.state.lanes.items():
        seen = d.news.lanes.get(name)
        for sp, state in seen.states.items() if seen is not None else ():
            if state == ReaderState.OUT_OF_RANGE and sp in life.lane.partitions and seen:
                at = d.news.known.positions.get(sp)
                found[sp] = f"its log does not hold {at}, where its reader is"
                if sp in seen.cuts:
                    cuts[sp] = seen.cuts[sp]
                    found[sp] = f"its log was cut off at {cuts[sp]}, and read up to {at} before"
    return found, cuts


def _are_noted(d: Draft, cuts: Mapping[SourcePartition, int]) -> bool:
    return all((known := d.at(sp).cut) is not None and known <= at for sp, at in cuts.items())


def _has_left(seen: LaneSeen, sp: SourcePartition) -> bool:
    # One that is refused, or waits, is tried again, until the order has reached its task.
    state = seen.states.get(sp, ReaderState.READING)
    return state not in (ReaderState.READING, ReaderState.REFUSED, ReaderState.AWAITING)


def _is_done(life: LaneLife, seen: LaneSeen) -> bool:
    states = (seen.states.get(sp, ReaderState.READING) for sp in life.lane.partitions)
    return seen.whole and all(it in (ReaderState.DONE, ReaderState.HELD) for it in states)
