"""Statuses to show and to measure, made up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from aggregator.connector.reports import bucket_bounds
from aggregator.documents.document import (
    AuditStatus,
    CheckpointStatus,
    Copied,
    GapsStatus,
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
)
from aggregator.model import SourceState

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
                    Copied(topic=f"t{it}", records=10, bytes=1000) for it in range(topics)
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
        gaps=GapsStatus(total=3, open=1, lost=9),
        audit=AuditStatus(at=NOW - timedelta(days=1), partitions=2, expected=99, present=99),
    )
