"""Reports of tasks as tests make them up: what matters is given, all else is as of a fresh task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggregator.datapath.connector.reports import Counted, LaneReport, TaskReport, join
from aggregator.model.values import SourcePartition, TopicPartition


def task(
    positions: Mapping[SourcePartition, int],
    *,
    point: int = 1,
    snapshot: int = 0,
    ends: Mapping[TopicPartition, int] | None = None,
    records: int = 0,
    number: int = 0,
    lane: str = "eu",
    generation: int = 1,
    **fields: Any,
) -> TaskReport:
    """The report of one task of a lane; `number` distinguishes it from the others."""
    cluster = next(iter(positions)).cluster
    return TaskReport(
        lane,
        generation,
        (0, number),
        cluster,
        point,
        1_000 + point,
        snapshot,
        positions,
        ends or {},
        sent={"orders": Counted(records, 10 * records)},
        **fields,
    )


def lane_report(*tasks: TaskReport, expected: int | None = None) -> LaneReport:
    """The reports of a lane's tasks; whole unless more are `expected`."""
    return join(tasks, len(tasks) if expected is None else expected)
