"""Decides since when a topic has had records that have not landed. Pure.

A poll shows where the log ended, and when. The oldest one that has not been reached says since when
something waits, at least.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aggregator.features.delta_sink.next_batch import Landed, reached
from aggregator.model.values import OffsetRange

MOST_LOOKS = 64
"""While a topic is far behind, some are dropped: the oldest stays, so nothing seems fresher."""

Logs = Mapping[int, OffsetRange]


class LogSeen(NamedTuple):
    """Where the logs of a topic ended at a moment."""

    at: float
    ends: Mapping[int, int]


def plan_seen(
    seen: tuple[LogSeen, ...], landed: Landed, logs: Logs, now: float
) -> tuple[LogSeen, ...]:
    """The looks that have not been reached, with one of `now`, oldest first."""
    ends = {partition: log.latest for partition, log in logs.items()}
    waiting = [it for it in seen if not reached(landed, it.ends, logs)]
    if not reached(landed, ends, logs) and (not waiting or waiting[-1].ends != ends):
        waiting.append(LogSeen(now, ends))
    if len(waiting) > MOST_LOOKS:
        waiting = [*waiting[:-1:2], waiting[-1]]
    return tuple(waiting)


def seconds_behind(seen: tuple[LogSeen, ...], now: float) -> float:
    """How long the oldest of what has not landed has waited."""
    return max(0.0, now - seen[0].at) if seen else 0.0
