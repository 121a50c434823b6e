"""Rates between two readings of a partition, and when its lag is gone at them. Pure.

Unknown is None, never 0.
"""

from dataclasses import dataclass

from aggregator.status.percentiles import duration

CAUGHT_UP = "caught up"
GROWING = "growing"
NOT_MOVING = "not moving"
NOT_RUNNING = "not running"
UNKNOWN = "unknown"
WINDOW_SECONDS, WINDOW_INTERVALS = 60.0, 3


@dataclass(frozen=True, slots=True)
class Rates:
    """Offsets per second of a partition: read by us, and written by its producers."""

    consumed: float | None = None
    produced: float | None = None


@dataclass(frozen=True, slots=True)
class LagSample:
    """A position and a log end, seen at a moment (seconds); None is unknown."""

    at: float
    position: int | None
    log_end: int | None = None


@dataclass(frozen=True, slots=True)
class Eta:
    """When the lag is gone: in words, and in seconds where that can be said."""

    text: str
    seconds: float | None = None


def rates(first: LagSample, second: LagSample, shortest: float = 0.0) -> Rates:
    """The rates between two readings; unknown when they are not `shortest` seconds apart.

    A position that went back is a rewind and gives no rate.
    """
    seconds = second.at - first.at
    if seconds <= 0 or seconds < shortest:
        return Rates()
    return Rates(
        _rate(first.position, second.position, seconds),
        _rate(first.log_end, second.log_end, seconds),
    )


def rate_window(interval: float) -> float:
    """Seconds that rates of commits look back: one comes in `interval` seconds, so some of them."""
    return max(WINDOW_SECONDS, WINDOW_INTERVALS * interval)


def eta(lag: int | None, consumed: float | None, produced: float | None) -> Eta:
    """When the lag is gone at these rates; an unknown rate of the producers counts as none."""
    if lag is None:
        return Eta(UNKNOWN)
    if lag <= 0:
        return Eta(CAUGHT_UP, 0.0)
    if consumed is None:
        return Eta(UNKNOWN)
    written = produced or 0.0
    if consumed > written:
        seconds = lag / (consumed - written)
        return Eta(f"about {duration(seconds)}", seconds)
    if consumed == 0 and written == 0:
        return Eta(NOT_MOVING)
    # Equal rates: a stream that is followed at a constant distance never gets there either.
    return Eta(GROWING if written > consumed else NOT_MOVING)


def _rate(first: int | None, second: int | None, seconds: float) -> float | None:
    if first is None or second is None or second < first:
        return None
    return (second - first) / seconds
