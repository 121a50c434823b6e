"""Decides what is recovered, and which lanes end, hold and start. Pure."""

from collections.abc import Collection
from dataclasses import replace

from aggregator.model.values import Lane, OffsetRange, Positions, Route, SourcePartition
from aggregator.plan.lanes.changes import plan_steps
from aggregator.plan.lanes.lanes import plan_lanes
from aggregator.plan.lifecycle.commands import (
    AskHub,
    Distrust,
    Hold,
    Move,
    Recover,
    Remember,
    Start,
)
from aggregator.plan.lifecycle.inputs import HubLogs
from aggregator.plan.lifecycle.judge import Judgement, judge, paused_part, renewed_of
from aggregator.plan.lifecycle.read_rates import pace_starting
from aggregator.plan.lifecycle.reports import end_lane
from aggregator.plan.lifecycle.stage import Stage, Trigger
from aggregator.plan.lifecycle.state import LaneLife
from aggregator.plan.lifecycle.step_context import StepContext
from aggregator.plan.positions.doubt import Believed, plan_doubt
from aggregator.plan.positions.hub_losses import same_topics
from aggregator.plan.positions.recovery import hub_topics_of
from aggregator.plan.snapshot import ClusterSnapshot
from aggregator.plan.topics.refused_records import after_refusal


def decide(ctx: StepContext, snapshot: ClusterSnapshot) -> None:
    """Judge every partition in no lane, then adjust recoveries and lanes to that."""
    if not (ctx.state.doubted or _doubt(ctx, snapshot)):
        return
    judgement = judge(ctx, snapshot)
    _end_renewed(ctx, judgement)
    _settle_doubts(ctx, snapshot, judgement)
    _recover(ctx, snapshot)
    # The first lanes start together.
    if ctx.state.begun or not (judgement.waits or ctx.state.recovering):
        _arrange(ctx, snapshot, judgement)
    if ctx.state.begun:
        _remember(ctx)


def _remember(ctx: StepContext) -> None:
    """Store which topics exist, so that the next start knows which came while nothing ran."""
    known = {(sp.cluster, sp.topic) for sp in ctx.inputs.known.positions}
    if (new := ctx.state.topics.beyond(ctx.state.kept, known)).topics:
        ctx.command(Remember(new))


def _doubt(ctx: StepContext, snapshot: ClusterSnapshot) -> bool:
    """Decide, before the first commit of a run, what to trust of the checkpoint it begins with.

    Later the hub also holds what this run has written, and the two look the same. So what is not
    trusted is committed as such, in one go: it waits for its source, or for another start, and is
    recovered as after a crash. Returns whether nothing has to be done about it.
    """
    known, plan = ctx.inputs.known, snapshot.plan
    if ctx.state.fresh:
        ctx.update(doubted=True)
        if known.doubts:
            ctx.command(Distrust(closed=frozenset(known.doubts)))
        return not known.doubts
    renewed = renewed_of(ctx, snapshot)
    clean = known.positions.keys() - known.unclean - renewed.keys()
    routed = {sp for route in plan.routes for sp in route.source_partitions()}
    absent = {sp for sp in routed - known.positions.keys() if sp.cluster not in known.doubts}
    away = ctx.inputs.config.sources.keys() - plan.sources.keys() - known.doubts.keys()
    # A topic that this start has created is empty, and may have no leader yet.
    topics = hub_topics_of(plan.routes, routed) | {tp.topic for tp in known.hub_ends}
    topics &= plan.hub.topics.keys()
    if topics and (known.positions or absent) and ctx.state.hub_logs is None:
        ctx.command(AskHub(frozenset(topics)))
        return False
    hub_ends = same_topics(known.hub_ends, known.hub_ids, plan.hub_ids)
    own_ends = {sp: it for sp, it in known.own_ends.items() if sp not in renewed}
    believed = Believed(clean, hub_ends, known.by_hand, absent, away, known.is_empty, own_ends)
    hub_logs = ctx.state.hub_logs or HubLogs()
    empty = {tp: OffsetRange(0, 0) for tp in known.hub_ends if tp.topic not in plan.hub.topics}
    doubt = plan_doubt(plan.routes, believed, {**empty, **hub_logs.logs}, hub_logs.silent)
    if not (doubt.ends or doubt.sources):
        ctx.update(doubted=True)
        return True
    if doubt.reason and not known.unclean:
        ctx.emit("doubt", doubt.reason)
    opened = dict.fromkeys(doubt.sources, doubt.hub_ends)
    positions = known.positions.only(set(doubt.ends))
    ctx.command(Distrust(positions, doubt.ends, opened, lost=doubt.lost))
    return False


def _end_renewed(ctx: StepContext, judgement: Judgement) -> None:
    """End lanes that write into a hub topic that is another one by now, or has lost records.

    As a whole: what their tasks report of the hub is of the earlier topic.
    """
    for name, life in sorted(ctx.state.lanes.items()):
        topics = {it for sp in life.lane.partitions for it in judgement.renewed.get(sp, ())}
        if topics and life.ends_by is None:
            words = (
                f"lane {name} ends: hub topic {', '.join(sorted(topics))} was created again or cut "
                "off, and what it lacks is copied again"
            )
            ctx.emit("hub_lost", words, {"lane": name})
            end_lane(ctx, name)


def _settle_doubts(ctx: StepContext, snapshot: ClusterSnapshot, judgement: Judgement) -> None:
    """Commit the start of partitions to search for, and close doubts that are settled.

    A source is in doubt until each of its partitions was seen: some may be of a topic that is
    paused, or have no leader.
    """
    doubts, known = ctx.inputs.known.doubts, ctx.inputs.known.positions
    if not doubts:
        return
    of_source: dict[str, set[SourcePartition]] = {}
    for route in snapshot.plan.routes:
        of_source.setdefault(route.cluster, set()).update(route.source_partitions())
    refused = {alias for topic in snapshot.plan.refused for alias, _ in topic.sources}
    closed = frozenset(
        alias
        for alias, partitions in of_source.items()
        if alias in doubts and alias not in refused and partitions <= known.keys()
    )
    if judgement.doubtful or closed:
        now, ids = snapshot.plan.hub_ids, ctx.inputs.known.doubt_ids
        own = {alias: same_topics(it, ids.get(alias, {}), now) for alias, it in doubts.items()}
        ends = {sp: own[sp.cluster] for sp in judgement.doubtful}
        ctx.command(Distrust(judgement.doubtful, ends, closed=closed))


def _recover(ctx: StepContext, snapshot: ClusterSnapshot) -> None:
    """Recover unclean partitions one after the other, beside running lanes or before there are any.

    Running lanes do not wait for it, and the hub keeps growing meanwhile.
    """
    unclean = frozenset(ctx.state.of(Stage.UNCLEAN))
    if not unclean or ctx.state.recovering:
        return
    alone = not ctx.state.lanes
    left_at = {sp: ctx.at(sp).left_at for sp in unclean if ctx.at(sp).left_at}
    ctx.command(Recover(unclean, snapshot, alone, left_at))
    for sp in unclean:
        ctx.transition(Trigger.RECOVERED_FROM, sp, Stage.RECOVERING)
    ctx.update(recovering=unclean, recovers_alone=alone)


def _arrange(ctx: StepContext, snapshot: ClusterSnapshot, judgement: Judgement) -> None:
    """End, reduce and start lanes so that they match the plan.

    No partition is ever in two lanes: what another one has starts when that has given it up.
    """
    if ctx.state.recovers_alone:
        return
    wanted = ctx.state.of(Stage.READY) | judgement.may_read
    planned = plan_lanes(
        wanted,
        ctx.inputs.config.stream.lanes,
        ctx.state.arrangement,
        ctx.state.alone,
        {sp for sp, it in ctx.state.partitions.items() if it.stuck},
        room=snapshot.plan.slots.has_room,
    )
    running = ctx.state.lanes
    steps = plan_steps(
        planned,
        {lane.name for lane in planned if _is_changed(ctx, lane, snapshot.plan.routes)},
        {name: life.lane for name, life in running.items()},
        {name for name, life in running.items() if life.ends_by is not None},
    )
    ctx.update(arrangement=planned)
    for name in sorted(steps.leave):
        end_lane(ctx, name)
    for name, partitions in sorted(steps.hold.items()):
        _hold(ctx, name, partitions)
    for lane in steps.start:
        if all(ctx.at(sp).stage is Stage.READY for sp in lane.partitions):
            _start(ctx, lane, snapshot, judgement.positions)
    _keep_waiting(ctx, steps.later)
    _note_new(ctx, judgement.positions, snapshot.plan.waiting)
    ctx.update(begun=True)


def _hold(ctx: StepContext, name: str, partitions: frozenset[SourcePartition]) -> None:
    life = ctx.state.lanes[name]
    if new := partitions - life.leaving:
        for sp in sorted(new):
            if ctx.at(sp).stage is Stage.READING:
                ctx.transition(Trigger.TAKEN_OUT, sp, Stage.LEAVING)
        ctx.lane(name, replace(life, leaving=life.leaving | new))
        ctx.command(Hold(name, frozenset(new)))


def _start(ctx: StepContext, lane: Lane, snapshot: ClusterSnapshot, positions: Positions) -> None:
    own = set(lane.partitions)
    pace_starting(ctx, own, positions, snapshot.ends)
    if ctx.state.until_done:
        # The ends of the first snapshot that has a partition, however often its lane starts; but
        # not beyond what its log holds now, which may be another one.
        first = ctx.state.until
        ctx.update(
            until={**first, **{sp: min(at, first.get(sp, at)) for sp, at in snapshot.ends.items()}}
        )
    routes = _routes_of(ctx, lane, snapshot.plan.routes)
    holes = {sp: hole for sp in lane.partitions if (hole := ctx.at(sp).hole) is not None}
    until = {sp: at for sp, at in ctx.state.until.items() if sp in own}
    for sp in lane.partitions:
        # A hole holds for one start: when it fails, what the hub holds is looked for again.
        ctx.transition(Trigger.STARTED, sp, Stage.READING, lane=lane.name, hole=None)
    over = ctx.state.over.get(lane.name)
    _forget_over(ctx, lane)
    ctx.lane(lane.name, LaneLife(lane, routes, restarts=over.restarts if over else 0))
    ctx.command(Start(lane, positions.only(own), routes, holes, until))


def _forget_over(ctx: StepContext, lane: Lane) -> None:
    """Forget ended lanes whose partitions this lane reads now."""
    own = set(lane.partitions)
    ctx.update(
        over={
            name: it
            for name, it in ctx.state.over.items()
            if name != lane.name and own.isdisjoint(it.lane.partitions)
        }
    )


def _keep_waiting(ctx: StepContext, later: tuple[Lane, ...]) -> None:
    for lane in later:
        for sp in lane.partitions:
            if ctx.at(sp).stage is Stage.READY:
                why = f"starts in lane {lane.name} when another has let it go"
                ctx.keep(sp, replace(ctx.at(sp), why=why))


def _note_new(
    ctx: StepContext, positions: Positions, creating: Collection[SourcePartition]
) -> None:
    """Commit the start positions of new, waiting partitions: a restart must not forget them.

    To a restart they would be as any other that it does not know, and `start` may say `latest`.
    So also those of topics that came while we ran, of a source that is paused or away, and of what
    is paused by itself: the rest of its topic may be read meanwhile. And of what waits for its hub
    topic: where it begins is decided now.
    """
    known, came, parts = ctx.inputs.known.positions, ctx.state.topics.came, ctx.inputs.parts
    new = {
        sp: at
        for sp, at in positions.items()
        if sp not in known
        and ctx.at(sp).stage is not Stage.READING
        and (
            ctx.at(sp).stage is Stage.READY
            or (sp.cluster, sp.topic) in came
            or sp in creating
            or paused_part(sp, parts) is not None
        )
    }
    if not ctx.state.begun:
        # All others start at once.
        new = {
            sp: at for sp, at in new.items() if sp in creating or paused_part(sp, parts) is not None
        }
    if new:
        ctx.command(Move(Positions(new), "new"))


def _is_changed(ctx: StepContext, lane: Lane, routes: tuple[Route, ...]) -> bool:
    """Whether a planned lane is not running, or must restart to match the plan.

    One that only reads fewer partitions needs no restart.
    """
    life = ctx.state.lanes.get(lane.name)
    if life is None or set(lane.partitions) - set(life.lane.partitions):
        return True
    if set(lane.partitions) & life.leaving:
        return True
    topics = {(sp.cluster, sp.topic) for sp in lane.partitions}
    before = [it for it in life.routes if (it.cluster, it.topic) in topics]
    return not _same(before, _routes_of(ctx, lane, routes))


def _routes_of(ctx: StepContext, lane: Lane, routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """The routes of a lane, as its query is built from them now."""
    topics = {(sp.cluster, sp.topic) for sp in lane.partitions}
    own = [route for route in routes if (route.cluster, route.topic) in topics]
    return after_refusal(own, ctx.state.refused)


def _same(before: list[Route], after: tuple[Route, ...]) -> bool:
    """Whether two sets of routes make the same query: a lane names the partitions that it reads."""
    if before == [*after]:
        return True
    return [replace(r, partitions=0) for r in before] == [replace(r, partitions=0) for r in after]
