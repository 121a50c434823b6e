"""The lanes of the status document: those that run, and those that are over."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from aggregator.documents.document import LaneState, LaneStatus, Phase
from aggregator.model import SourcePartition
from aggregator.status.view import LaneProgress, View


def lanes_of(view: View) -> dict[str, LaneStatus]:
    """Lanes by name, in order: also what is over, while nobody else reads its partitions."""
    found = {}
    for name, over in view.state.over.items():
        state = LaneState.FAILED if over.reason else LaneState.DONE
        found[name] = _lane(
            view, name, state, over.generation, over.lane.partitions, over.restarts, over.reason
        )
    for name, life in view.state.lanes.items():
        draining = life.ends_by is not None or view.phase is Phase.STOPPING
        state = LaneState.DRAINING if draining else LaneState.RUNNING
        if name in view.ended:
            state = LaneState.FAILED if view.ended[name] else LaneState.DONE
        found[name] = _lane(
            view,
            name,
            state if life.key else LaneState.STARTING,
            life.generation,
            life.lane.partitions,
            life.restarts,
            view.ended.get(name, ""),
            life.leaving,
        )
    return {
        name: lane
        for name, lane in sorted(found.items())
        if any(alias in view.config.sources for alias in lane.clusters)
    }


def _lane(
    view: View,
    name: str,
    state: LaneState,
    generation: int,
    partitions: Iterable[SourcePartition],
    restarts: int,
    reason: str,
    leaving: Iterable[SourcePartition] = (),
) -> LaneStatus:
    own, progress = tuple(partitions), view.progress.get(name, LaneProgress())
    return LaneStatus(
        name=name,
        state=state,
        generation=generation,
        clusters=tuple(sorted({sp.cluster for sp in own})),
        partitions=len(own),
        records=progress.records,
        reported_at=moment(progress.at_ms),
        leaving=tuple(sorted({sp.cluster for sp in leaving})),
        restarts=restarts,
        reason=reason,
    )


def moment(millis: int | None) -> datetime | None:
    """A time of the checkpoint or of a task as one with a zone."""
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)
