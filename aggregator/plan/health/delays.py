"""How long each position has been behind its log, from the ends that probes reported. Pure.

A position is behind since the moment when a probe first reported an end beyond it. So it is known
to the time between two probes, and of a long delay to about a twentieth of it. No clock: the
moments are arguments.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.model.values import SourcePartition

MOST_SAMPLES = 100
"""Samples that are kept of a partition; when there are more, every other one goes."""
SPAN_SHARE = 50
"""A new sample is so small a part of the whole span away from the last one, or not taken."""


class Delay(NamedTuple):
    """Seconds that a position has been behind its log; 0.0 is at its end.

    `at_least`: it was behind already when its log was first looked at, so it may be longer.
    """

    seconds: float
    at_least: bool = False


AT_END = Delay(0.0)


class Delays:
    """The log ends reported by probes that are still beyond the positions.

    Used by one thread. Nothing of a partition changes by itself: it need not be looked at while it
    is at its end, and neither has changed.
    """

    def __init__(self) -> None:
        self._logs: dict[SourcePartition, _Log] = {}

    def follow(
        self,
        positions: Mapping[SourcePartition, int],
        ends: Mapping[SourcePartition, int],
        answered_at: Mapping[str, float],
        silent: Collection[str],
        now: float,
    ) -> dict[SourcePartition, Delay]:
        """The delays of these positions after one more look at their log ends (NEXT offsets).

        `answered_at` says when the ends of each source (alias) were reported; these and `now` are
        seconds of one clock. Sources in `silent` no longer report ends: what was at its end may be
        so no longer. A partition whose delay is unknown is absent.
        """
        logs, found = self._logs, {}
        for sp, position in positions.items():
            end = ends.get(sp)
            if end is None:
                continue
            log = logs.get(sp)
            if log is None:
                log = logs[sp] = _Log()
            since = log.look(position, end, answered_at.get(sp.cluster, now))
            if since is not None:
                found[sp] = Delay(max(0.0, now - since), log.at_least(position))
            elif sp.cluster not in silent:
                found[sp] = AT_END
        return found

    def forget(self, sp: SourcePartition) -> None:
        """A partition is not looked at any more: if it is again, nothing of it is known."""
        self._logs.pop(sp, None)


def lags(
    positions: Mapping[SourcePartition, int], ends: Mapping[SourcePartition, int]
) -> dict[str, int]:
    """How many offsets each source (alias) is behind, over its partitions of which both are known.

    A source of which none is known is absent.
    """
    found: dict[str, int] = {}
    for sp, end in ends.items():
        if (position := positions.get(sp)) is not None:
            found[sp.cluster] = found.get(sp.cluster, 0) + max(0, end - position)
    return found


def longest(delays: Iterable[Delay | None]) -> Delay | None:
    """The longest of some delays, None of which is unknown; None when no one is known.

    It is `at_least` when any of them is: that one may be the longest in truth.
    """
    seconds, at_least = -1.0, False
    for delay in delays:
        if delay is not None:
            seconds, at_least = max(seconds, delay.seconds), at_least or delay.at_least
    return None if seconds < 0 else Delay(seconds, at_least)


def longest_by_source(delays: Mapping[SourcePartition, Delay]) -> dict[str, Delay]:
    """The longest delay of each source (alias) of which any is known."""
    groups: dict[str, list[Delay]] = {}
    for sp, delay in delays.items():
        groups.setdefault(sp.cluster, []).append(delay)
    return {alias: it for alias, own in groups.items() if (it := longest(own)) is not None}


@dataclass(slots=True)
class _Log:
    """`samples` are (when, end): the ends beyond the position, each when it was first reported.

    `before` is the end that was reported before the first of them; None when none was.
    """

    before: int | None = None
    samples: list[tuple[float, int]] = field(default_factory=list)

    def look(self, position: int, end: int, at: float) -> float | None:
        """Since when the log is beyond the position; None when it is not."""
        samples = self.samples
        while samples and samples[-1][1] > end:
            # The log was cut, or is another one: what it held was not behind this position.
            samples.pop()
        passed = 0
        while passed < len(samples) and samples[passed][1] <= position:
            passed += 1
        if passed:
            self.before = samples[passed - 1][1]
            del samples[:passed]
        if end <= position:
            self.before = end
            return None
        if not samples:
            samples.append((at, end))
        elif end > samples[-1][1]:
            # A log that does not grow needs no samples: an end counts from when it was first
            # reported.
            (first, _), (last, _) = samples[0], samples[-1]
            if (at - last) * SPAN_SHARE >= at - first:
                samples.append((at, end))
                if len(samples) > MOST_SAMPLES:
                    del samples[1:-1:2]
        return samples[0][0]

    def at_least(self, position: int) -> bool:
        """Whether no end is known that was reported earlier and is not beyond the position."""
        return self.before is None or self.before > position
