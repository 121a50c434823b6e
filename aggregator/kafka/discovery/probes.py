"""All probes together: which sources answer, and how far and how long each is behind."""

import time
from collections import deque
from collections.abc import Collection, Mapping

from aggregator.config.schema import Config
from aggregator.kafka.discovery.probe import SourceWatch, Watched
from aggregator.model.values import Positions, SourcePartition
from aggregator.plan.completeness.marks import Mark
from aggregator.plan.health.delays import Delays, lags
from aggregator.plan.health.stuck import (
    Movement,
    Probe,
    follow,
    heard_too,
    sick_sources,
    stuck,
)
from aggregator.plan.health.suspects import Seen
from aggregator.plan.lifecycle.inputs import Measured
from aggregator.plan.reload import same_connection

ARRIVAL_SECONDS = 5.0


class SourcesWatch:
    """One watch per source. Used by the engine's thread."""

    def __init__(self) -> None:
        self._config: Config | None = None
        self._watches: dict[str, SourceWatch] = {}
        self._movements: dict[SourcePartition, Movement] = {}
        self._delays = Delays()
        self._totals: dict[str, deque[tuple[float, int]]] = {}

    def stop(self) -> None:
        """End the watches soon."""
        for watch in self._watches.values():
            watch.stop()

    def follow(self, config: Config, partitions: Collection[SourcePartition]) -> None:
        """Watch these partitions by this config from now on; the first call starts the probes.

        Where a source is reached otherwise, its watch ends and another one begins.
        """
        if config is not self._config:
            before, self._config = self._config, config
            kept = {
                alias: watch
                for alias, watch in self._watches.items()
                if before is not None and _is_same(before, config, alias)
            }
            for alias in self._watches.keys() - kept.keys():
                self._watches[alias].stop()
            added = {it: SourceWatch(config, it) for it in config.sources if it not in kept}
            self._watches = {alias: {**kept, **added}[alias] for alias in config.sources}
        for alias, watch in self._watches.items():
            watch.follow(frozenset(sp for sp in partitions if sp.cluster == alias))

    def seen(self) -> dict[str, Seen]:
        """The ids and logs that each source last reported."""
        return {alias: watch.latest.seen for alias, watch in self._watches.items()}

    def marks(self) -> dict[str, Mark]:
        """The ends of all acknowledged records that each source last reported."""
        latest = {alias: watch.latest.mark for alias, watch in self._watches.items()}
        return {alias: mark for alias, mark in latest.items() if mark is not None}

    def measure(self, positions: Positions, heard: Mapping[str, float]) -> Measured | None:
        """Compare the positions with the probes' answers; None before anything is watched.

        `heard` is when each source (alias) last answered a fetch of a lane: one whose records come
        is not silent, also when it answers no probe. Its log ends are then unknown.
        """
        if self._config is None:
            return None
        now = time.monotonic()
        # Each is read once: an end belongs to the moment at which it was reported.
        latest = {alias: watch.latest for alias, watch in self._watches.items()}
        ends = {sp: end for it in latest.values() for sp, end in it.seen.ends.items()}
        watched = {sp for watch in self._watches.values() for sp in watch.partitions}
        own = {sp: at for sp, at in positions.items() if sp in watched}
        self._movements = follow(self._movements, own, ends, now)
        probes = {
            alias: Probe(watch.heard_at, latest[alias].failure)
            for alias, watch in self._watches.items()
        }
        deadline = self._config.supervision.deadline
        silent = sick_sources(probes, deadline, now)
        answered_at = {alias: it.answered_at for alias, it in latest.items()}
        return Measured(
            ends,
            self._delays.follow(own, ends, answered_at, silent.keys(), now),
            lags(positions, ends),
            stuck(self._movements, now, self._config.supervision.stuck_after),
            sick_sources(heard_too(probes, heard), deadline, now),
            frozenset(it for it in latest if latest[it].has_answered or it in heard),
            {alias: self._arrivals(alias, it, now) for alias, it in latest.items()},
        )

    def _arrivals(self, alias: str, watched: Watched, now: float) -> float:
        """How many records arrive at a source in ARRIVAL_SECONDS, by its log ends."""
        seen = self._totals.setdefault(alias, deque())
        seen.append((now, sum(watched.seen.ends.values())))
        while len(seen) > 2 and seen[1][0] < now - ARRIVAL_SECONDS:
            seen.popleft()
        (then, before), (_, after) = seen[0], seen[-1]
        return (after - before) / max(now - then, 1.0) * ARRIVAL_SECONDS


def _is_same(before: Config, after: Config, alias: str) -> bool:
    """Whether both watch a source in the same way."""
    return (
        alias in after.sources
        and same_connection(before.sources[alias], after.sources[alias])
        and before.supervision == after.supervision
    )
