"""The lanes of the status document: running and ended ones."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from aggregator.model.values import SourcePartition
from aggregator.plan.lifecycle.state import LaneLife, LaneOver
from aggregator.status.schema import LaneState, LaneStatus, Phase
from aggregator.status.view import LaneProgress, View


def lanes_of(view: View) -> dict[str, LaneStatus]:
    """Lanes by name, in order: ended ones too, while no other lane reads their partitions."""
    found = {}
    for name, over in view.state.over.items():
        state = LaneState.FAILED if over.reason else LaneState.DONE
        found[name] = _lane(view, over, state, over.reason)
    for name, life in view.state.lanes.items():
        draining = life.ends_by is not None or view.phase is Phase.STOPPING
        state = LaneState.DRAINING if draining else LaneState.RUNNING
        if name in view.ended:
            state = LaneState.FAILED if view.ended[name] else LaneState.DONE
        elif not life.key:
            state = LaneState.STARTING
        found[name] = _lane(view, life, state, view.ended.get(name, ""), life.leaving)
    return {
        name: lane
        for name, lane in sorted(found.items())
        if any(alias in view.config.sources for alias in lane.clusters)
    }


def _lane(
    view: View,
    own: LaneLife | LaneOver,
    state: LaneState,
    reason: str,
    leaving: Iterable[SourcePartition] = (),
) -> LaneStatus:
    progress = view.progress.get(own.lane.name, LaneProgress())
    return LaneStatus(
        name=own.lane.name,
        state=state,
        generation=own.generation,
        clusters=own.lane.clusters,
        partitions=len(own.lane.partitions),
        records=progress.records,
        reported_at=moment(progress.at_ms),
        leaving=tuple(sorted({sp.cluster for sp in leaving})),
        restarts=own.restarts,
        reason=reason,
        objects=progress.report.objects if progress.report else "",
    )


def moment(millis: int | None) -> datetime | None:
    """A time of the checkpoint or of a task as one with a zone."""
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)
