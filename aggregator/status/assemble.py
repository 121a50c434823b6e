"""The status document of a moment: the one that REST, command line, dashboard and tests read."""

import os
import socket
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import BaseModel

from aggregator import __version__
from aggregator.model.alike import made_of
from aggregator.model.values import Route, SourcePartition
from aggregator.plan.health.delays import Delay, longest_by_source
from aggregator.plan.lifecycle.state import LaneLife, LaneOver, SourceLife
from aggregator.plan.positions.gaps import GapRecord
from aggregator.plan.topics.hub_topics import LeftOutTopic
from aggregator.status.command_answers import paused_parts
from aggregator.status.completeness import CompletenessStatus
from aggregator.status.figures import SourceFigures
from aggregator.status.gaps import gaps_status, last_loss, lost_offsets
from aggregator.status.partition_status import behind_fields, partitions_of
from aggregator.status.schema import (
    CheckpointStatus,
    LaneState,
    LaneStatus,
    Phase,
    RecoveryStatus,
    RefusedTopicStatus,
    SourceStatus,
    Status,
)
from aggregator.status.service_status import ServicePart
from aggregator.status.view import LaneProgress, View

T = TypeVar("T")


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
    return made_of(
        LaneStatus,
        own.lane,
        own,
        state=state,
        partitions=len(own.lane.partitions),
        records=progress.records,
        reported_at=moment(progress.at_ms),
        leaving=tuple(sorted({sp.cluster for sp in leaving})),
        reason=reason,
        objects=progress.report.objects if progress.report else "",
    )


def moment(millis: int | None) -> datetime | None:
    """A time of the checkpoint or of a task as one with a zone."""
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)


def _by_source(items: Iterable[T], source: Callable[[T], str]) -> dict[str, list[T]]:
    """The items of each source, in their order."""
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(source(item), []).append(item)
    return found


def status(view: View) -> Status:
    """The document of a view; pure but for the name of this machine and process."""
    config, plan = view.config, view.state.plan
    lanes, behind = lanes_of(view), longest_by_source(view.measured.behind)
    behind_by = view.measured.known_lags(view.positions)
    routes = _by_source(plan.routes if plan is not None else (), lambda it: it.cluster)
    gaps = _by_source(view.state.gaps.values(), lambda it: it.gap.partition.cluster)
    return Status(
        name=config.name,
        phase=view.phase,
        version=__version__,
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=view.started_at,
        at=view.at,
        hub_cluster_id=plan.hub.cluster_id if plan is not None else "",
        checkpoint_interval_seconds=config.stream.checkpoint_interval,
        sources=tuple(
            _source(
                view,
                alias,
                life,
                routes.get(alias, []),
                gaps.get(alias, []),
                behind_by.get(alias),
                behind.get(alias),
            )
            for alias, life in view.state.sources.items()
            if alias in config.sources
        ),
        lanes=tuple(lanes.values()),
        partitions=partitions_of(view, lanes),
        checkpoint=CheckpointStatus(
            path=config.checkpoint.path,
            seq=view.committed.seq,
            epoch=view.committed.epoch,
            committed_at=moment(view.committed.at_ms),
            error=view.committed.error,
        ),
        recovery=_recovery(view),
        completeness=CompletenessStatus(
            allowed_lateness_seconds=config.completeness.allowed_lateness
        ),
        gaps=gaps_status(tuple(view.state.gaps.values())),
        refused_topics=tuple(map(_refused_topic, plan.refused if plan is not None else ())),
        paused=paused_parts(view.parts),
        backfills=view.backfills,
        waits_for_restart=view.waiting,
        warnings=(
            *([view.config_error] if view.config_error else []),
            *(plan.warnings if plan is not None else ()),
        ),
        reason=view.reason,
    ).model_copy(update={name: _made(it) for name, it in view.services.items()})


def _made(part: ServicePart) -> BaseModel | tuple[BaseModel, ...]:
    return part if isinstance(part, BaseModel | tuple) else part()


def _refused_topic(refused: LeftOutTopic) -> RefusedTopicStatus:
    return RefusedTopicStatus(
        hub_topic=refused.hub_topic,
        sources=tuple(f"{alias}/{topic}" for alias, topic in refused.sources),
        reason=refused.reason,
    )


def _source(
    view: View,
    alias: str,
    life: SourceLife,
    routes: list[Route],
    gaps: list[GapRecord],
    lag: int | None,
    behind: Delay | None,
) -> SourceStatus:
    figures = view.figures.get(alias, SourceFigures())
    return made_of(
        SourceStatus,
        life,
        figures,
        alias=alias,
        since=view.paused[alias].since if alias in view.paused else life.since,
        group_error=view.source_errors.get(alias, ""),
        topics=len(routes),
        partitions=sum(route.partitions for route in routes),
        lag=lag,
        **behind_fields(behind),
        bytes=figures.bytes_,
        age_counts=figures.age,
        flight_counts=figures.flight,
        quarantined=view.quarantined.get(alias, 0),
        gaps=len(gaps),
        lost=lost_offsets(gaps),
        lost_at=last_loss(gaps),
    )


def _recovery(view: View) -> RecoveryStatus | None:
    if view.state.recovered is None:
        return None
    at, found = view.state.recovered
    return made_of(
        RecoveryStatus,
        found,
        at=at,
        holed=len(found.holes),
        replayed=view.replayed - view.replayed_before,
        seconds=round(found.seconds, 3),
    )
