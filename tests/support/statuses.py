"""Statuses to show and to measure, made up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from aggregator.config.schema import Config
from aggregator.datapath.connector.reports import bucket_bounds
from aggregator.features.lineage.emitter import LineageStatus
from aggregator.model.values import ClusterFacts, Lane, Positions, Route, SourceState
from aggregator.plan.health.delays import Delay
from aggregator.plan.lanes.slots import SlotPlan
from aggregator.plan.lifecycle.inputs import Measured
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import LaneLife, Partition, SourceLife, State
from aggregator.plan.plan import Plan
from aggregator.status.completeness import CompletenessStatus, CompleteTopic
from aggregator.status.copied import Copied, DedupStatus
from aggregator.status.figures import SourceFigures
from aggregator.status.schema import (
    AclSyncStatus,
    AuditStatus,
    CheckpointStatus,
    GapsStatus,
    GroupSyncStatus,
    LaneState,
    LaneStatus,
    Latency,
    PartitionState,
    PartitionStatus,
    Percentiles,
    Phase,
    RecoveryStatus,
    SourceStatus,
    Status,
    SyncedGroup,
)
from aggregator.status.sink import TeeState, TeeStatus
from aggregator.status.view import View, first_view

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOUNDS = bucket_bounds()
SECOND = next(at for at, bound in enumerate(BOUNDS) if bound >= 1000)


def counts(**at: int) -> tuple[int, ...]:
    """Counts of a histogram: `b3=7` is seven in its bucket 3."""
    found = [0] * (len(BOUNDS) + 1)
    for place, count in at.items():
        found[int(place.removeprefix("b"))] = count
    return tuple(found)


def status_with(**parts: Any) -> Status:
    """A status that says no more than it has to, but for these parts."""
    fields: dict[str, Any] = {
        "name": "central",
        "phase": Phase.RUNNING,
        "version": "1.2",
        "host": "here",
        "pid": 1,
        "started_at": NOW - timedelta(hours=1),
        "at": NOW,
        "checkpoint_interval_seconds": 5.0,
        "checkpoint": CheckpointStatus(path="/state"),
    }
    return Status(**{**fields, **parts})


def whole_status(sources: int = 1, topics: int = 1, partitions: int = 2) -> Status:
    """A status with something in each part that is measured."""
    aliases = [f"s{at}" for at in range(sources)]
    return status_with(
        sources=tuple(
            SourceStatus(
                alias=alias,
                state=SourceState.CATCHING_UP,
                since=NOW,
                seconds_behind=1.5,
                lost_at=NOW - timedelta(days=2),
                skipped=3,
                copied=tuple(
                    Copied(topic=f"t{it}", records=10, bytes=1000, dropped=3, without_id=1)
                    for it in range(topics)
                ),
                latency=Latency(flight_ms=Percentiles(p50=2, p95=3, p99=4)),
                age_counts=counts(b0=5, **{f"b{SECOND}": 2}, **{f"b{len(BOUNDS)}": 1}),
                flight_counts=counts(b1=4),
            )
            for alias in aliases
        ),
        lanes=(
            LaneStatus(
                name="union",
                state=LaneState.RUNNING,
                generation=1,
                clusters=tuple(aliases),
                partitions=2,
                restarts=4,
            ),
        ),
        partitions=tuple(
            PartitionStatus(
                cluster=alias,
                topic=f"t{topic}",
                partition=number,
                hub_topic=f"hub.t{topic}",
                state=PartitionState.RUNNING if number else PartitionState.QUARANTINED,
                position=90,
                log_end=100 if number else None,
            )
            for alias in aliases
            for topic in range(topics)
            for number in range(partitions)
        ),
        checkpoint=CheckpointStatus(path="/s", committed_at=NOW - timedelta(seconds=7)),
        recovery=RecoveryStatus(
            at=NOW, partitions=1, tail=20, found=5, holed=0, replayed=0, seconds=0.5
        ),
        dedup=(DedupStatus(hub_topic="hub.t0", by="key", ready=True, events=1_000, bytes=32_000),),
        acl_sync=AclSyncStatus(added=2),
        tee=TeeStatus(
            state=TeeState.RUNNING,
            path="/t",
            at=NOW,
            topics=2,
            records=9,
            lag=3,
            seconds_behind=1.5,
        ),
        group_sync=GroupSyncStatus(groups=(SyncedGroup(group="billing"),)),
        lineage=LineageStatus(jobs=2, events=4),
        completeness=CompletenessStatus(
            allowed_lateness_seconds=120,
            topics=tuple(
                CompleteTopic(topic="hub.t0", source=it, up_to=NOW) for it in (None, *aliases)
            ),
            late=dict.fromkeys(aliases, 6),
        ),
        gaps=GapsStatus(total=3, open=1, lost=9),
        audit=AuditStatus(at=NOW - timedelta(days=1), partitions=2, expected=99, present=99),
    )


def whole_view(config: Config, topics: int, partitions: int) -> View:
    """A moment of a run by this config, as an engine would hand it out for a status.

    The run reads `topics` topics of each source, with `partitions` partitions each.
    """
    routes = tuple(
        Route(alias, f"topic-{topic}", f"topic-{topic}", partitions, partitions)
        for alias in config.sources
        for topic in range(topics)
    )
    every = [sp for route in routes for sp in route.source_partitions()]
    union = Lane("union", tuple(every))
    hub, slots = ClusterFacts("(hub)", "H", 3, {}), SlotPlan("local[4]", 4, 4)
    state = State(
        config,
        begun=True,
        plan=Plan(hub, {}, {}, routes, {}, (), (union,), slots),
        partitions=dict.fromkeys(every, Partition(Stage.READING, lane="union")),
        lanes={"union": LaneLife(union, routes, 1, "key")},
        sources={alias: SourceLife(SourceState.RUNNING, NOW) for alias in config.sources},
    )
    figures = SourceFigures(
        copied=tuple(
            Copied(topic=f"topic-{it}", records=10**6 + it, bytes=10**9) for it in range(topics)
        ),
        latency=Latency(flight_ms=Percentiles(p50=2, p95=3, p99=4)),
        age=counts(b0=5, b9=7),
        flight=counts(b1=4, b7=1),
    )
    return replace(
        first_view(config),
        state=state,
        phase=Phase.RUNNING,
        positions=Positions({sp: 10**6 + at for at, sp in enumerate(every)}),
        measured=Measured(
            ends={sp: 10**6 + 2 * at for at, sp in enumerate(every)},
            behind={sp: Delay(0.25) for sp in every},
        ),
        figures=dict.fromkeys(config.sources, figures),
    )
