"""Finds sources that answer no probe, and partitions whose position does not move. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aggregator.model.values import SourcePartition


@dataclass(frozen=True, slots=True)
class Probe:
    """The probe results of one source: when it last answered, and why it does not now."""

    answered_at: float
    failure: str = ""


def heard_too(probes: Mapping[str, Probe], heard: Mapping[str, float]) -> dict[str, Probe]:
    """The probes, where what else a source (alias) has answered counts as an answer as well."""
    return {
        alias: replace(probe, answered_at=max(probe.answered_at, heard.get(alias, 0.0)))
        for alias, probe in probes.items()
    }


def unhealthy_sources(probes: Mapping[str, Probe], deadline: float, now: float) -> dict[str, str]:
    """Alias -> why, of the sources that have not answered for longer than `deadline` seconds."""
    return {
        alias: probe.failure or f"no answer for {deadline:g} s"
        for alias, probe in probes.items()
        if now - probe.answered_at > deadline
    }


@dataclass(frozen=True, slots=True)
class Movement:
    """What was seen of one partition since its position last changed.

    `end` is the log's end at that moment, which is never below the position: an answer may be older
    than what a task has read since. `moved_at` is when the log was first seen beyond it.
    """

    position: int
    end: int
    moved_at: float | None = None


def follow(
    before: Mapping[SourcePartition, Movement],
    positions: Mapping[SourcePartition, int],
    log_ends: Mapping[SourcePartition, int],
    now: float,
) -> dict[SourcePartition, Movement]:
    """The movements after one more look; partitions with an unknown end are left as they were."""
    after = {}
    for sp, position in positions.items():
        known, end = before.get(sp), log_ends.get(sp)
        if end is None:
            if known is not None:
                after[sp] = known
        elif known is None or known.position != position:
            after[sp] = Movement(position, max(position, end))
        elif known.moved_at is None and end > known.end:
            after[sp] = Movement(position, known.end, now)
        else:
            after[sp] = known
    return after


def stuck(
    movements: Mapping[SourcePartition, Movement], now: float, after_seconds: float
) -> dict[SourcePartition, str]:
    """Stuck partitions, with the reason in words.

    Position below log end is not enough: behind the last record there may be transaction markers,
    which are never read. Only a log that grew for `after_seconds` without us counts.
    """
    return {
        sp: f"its log has moved on from {it.end}, its position has stayed at {it.position} for "
        f"{now - it.moved_at:.0f} s"
        for sp, it in movements.items()
        if it.moved_at is not None and now - it.moved_at >= after_seconds
    }
