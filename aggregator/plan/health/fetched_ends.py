"""What responses to fetches show about the ends of source logs, in addition to probes. Pure.

A fetch says where a log ends, but not what was acknowledged before a moment that we know, nor which
log it is. So no claim is made of it, and no log is judged by it: these need a probe, which is sent
at once where a fetch gives a reason for it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.model.values import SourcePartition

HEARD_SECONDS = 1.5
"""A source whose last answer is older is probed at once. An idle one answers once a second."""


class LogEnd(NamedTuple):
    """Where a partition's log ends, as a fetch reported it at the moment `at`; None: not known.

    `late_since` is since when its broker owes an answer, or there is no broker, and `late_ms` the
    same as a time of day; None while that is not so. `doubts` counts how often the log seemed to be
    cut, or another one.
    """

    end: int | None
    at: float
    late_since: float | None = None
    late_ms: int | None = None
    doubts: int = 0


@dataclass(frozen=True, slots=True)
class Fetches:
    """The newest answers to fetches: when each source (alias) answered one last, and the log ends.

    `ends` has only partitions that are fetched all the time. Moments are monotonic seconds.
    """

    heard: Mapping[str, float] = field(default_factory=dict)
    ends: Mapping[SourcePartition, LogEnd] = field(default_factory=dict)

    def hears(self, alias: str, now: float) -> bool:
        """Whether a source has answered a fetch lately."""
        heard_at = self.heard.get(alias)
        return heard_at is not None and now - heard_at <= HEARD_SECONDS

    def cover(self, partitions: Collection[SourcePartition]) -> bool:
        """Whether the ends of all these partitions are known without a probe."""
        known = (self.ends.get(sp) for sp in partitions)
        return bool(partitions) and all(
            it and it.end is not None and it.late_since is None for it in known
        )

    def doubts(self, partitions: Collection[SourcePartition]) -> int:
        """How often a log of these partitions seemed to be cut, or another one."""
        return sum(it.doubts for sp in partitions if (it := self.ends.get(sp)) is not None)

    def late(
        self, partitions: Collection[SourcePartition], seconds: float, now: float
    ) -> set[SourcePartition]:
        """Those of these partitions whose broker owes an answer for longer than some seconds."""
        return {
            sp
            for sp in partitions
            if (it := self.ends.get(sp)) is not None
            and it.late_since is not None
            and now - it.late_since > seconds
        }

    def joined(
        self, probed: Mapping[SourcePartition, int], asked_at: Mapping[str, float]
    ) -> dict[SourcePartition, int]:
        """The ends that probes reported, and where a fetch has reported one since, the higher one.

        `asked_at` is when each source was probed. Of two answers of about the same time the lower
        may be the older one; a log that was cut is probed again at once.
        """
        found = dict(probed)
        for sp, it in self.ends.items():
            if it.end is not None and it.at > asked_at.get(sp.cluster, 0.0):
                found[sp] = max(it.end, found.get(sp, it.end))
        return found
