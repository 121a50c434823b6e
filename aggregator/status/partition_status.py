"""The partitions of the status document: where each is, its state, and why it is not read."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aggregator.model.values import SourcePartition
from aggregator.plan.health.delays import Delay
from aggregator.plan.lifecycle.judge import paused_part
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import LaneLife, LaneOver
from aggregator.status.schema import LaneState, LaneStatus, PartitionState, PartitionStatus
from aggregator.status.view import View

SHOWN_AS_HELD = {Stage.OUT, Stage.HELD, Stage.LOST, Stage.RESTING, Stage.DONE}


def partitions_of(view: View, lanes: Mapping[str, LaneStatus]) -> tuple[PartitionStatus, ...]:
    """The partitions of all routes, and those that are held though there is no route any more."""
    sources, plan = view.config.sources, view.state.plan
    hub_topics = {
        sp: route.hub_topic
        for route in (plan.routes if plan is not None else ())
        if route.cluster in sources
        for sp in route.source_partitions()
    }
    lives: Mapping[str, LaneLife | LaneOver] = {**view.state.over, **view.state.lanes}
    lane_of = {sp: name for name in lanes for sp in lives[name].lane.partitions}
    stages = {*SHOWN_AS_HELD, Stage.QUARANTINED}
    held = {sp for sp, it in view.state.partitions.items() if it.why and it.stage in stages}
    # Of a topic that is gone there is no route.
    gone = sorted(sp for sp in held - hub_topics.keys() if sp.cluster in sources)
    unread, measured = _unread(view, lanes), view.measured
    found = []
    for sp in [*hub_topics, *gone]:
        state, reason = _state(view, unread, sp)
        found.append(
            PartitionStatus(
                cluster=sp.cluster,
                topic=sp.topic,
                partition=sp.partition,
                hub_topic=hub_topics.get(sp, ""),
                lane=lane_of.get(sp, ""),
                state=state,
                position=view.positions.get(sp),
                log_end=_log_end(view, sp),
                **behind_fields(measured.behind.get(sp)),
                reason=reason,
            )
        )
    return tuple(found)


def _log_end(view: View, sp: SourcePartition) -> int | None:
    """The newest log end: of a partition that is read, at least its position; None: not known.

    What was read was there, though a probe looked before it came. Elsewhere a position beyond the
    end is a finding, and is shown.
    """
    end, position = view.measured.ends.get(sp), view.positions.get(sp)
    if sp in view.measured.stale:
        # By now the log may reach anywhere beyond it.
        return None
    if end is None or position is None or view.state.at(sp).stage is not Stage.READING:
        return end
    return max(end, position)


def behind_fields(delay: Delay | None) -> dict[str, Any]:
    """A delay as the fields that a partition and a source have for it; none when it is unknown."""
    if delay is None:
        return {}
    return {
        "seconds_behind": round(delay.seconds, 3),
        "seconds_behind_at_least": delay.at_least,
    }


def _state(
    view: View, unread: Mapping[SourcePartition, str], sp: SourcePartition
) -> tuple[PartitionState, str]:
    """What is known of a partition, and why it is so; "" where that goes without saying."""
    known, stuck = view.state.at(sp), view.measured.stuck
    if known.stage is Stage.QUARANTINED:
        return PartitionState.QUARANTINED, known.why
    if sp.cluster in view.paused:
        return PartitionState.PAUSED, view.state.paused.get(sp.cluster, "")
    if known.stage is Stage.OUT and (why := paused_part(sp, view.state.parts)) is not None:
        return PartitionState.PAUSED, why
    if known.why and known.stage in SHOWN_AS_HELD:
        return PartitionState.HELD, known.why
    if sp in unread:
        # Before what is only seen from outside: its reader knows why it does not continue.
        return PartitionState.HELD, unread[sp]
    if sp in stuck:
        return PartitionState.STUCK, stuck[sp]
    if sp in view.measured.late:
        since = datetime.fromtimestamp(view.measured.late[sp] / 1000, UTC)
        return PartitionState.RUNNING, f"its broker has answered nothing since {since:%H:%M:%S} UTC"
    # What starts when another lane has released it says so.
    return PartitionState.RUNNING, known.why if known.stage is Stage.READY else ""


def _unread(view: View, lanes: Mapping[str, LaneStatus]) -> dict[SourcePartition, str]:
    """What the readers of running lanes cannot read, and why."""
    found: dict[SourcePartition, str] = {}
    for name, life in view.state.lanes.items():
        progress, lane = view.progress.get(name), lanes.get(name)
        running = lane is not None and lane.state in (LaneState.RUNNING, LaneState.DRAINING)
        if (
            running
            and progress is not None
            and progress.generation == life.generation
            and progress.report
        ):
            # What a lane has given up is another's by now.
            own = set(life.lane.partitions)
            found |= {sp: why for sp, why in progress.report.unread.items() if sp in own}
    return found
