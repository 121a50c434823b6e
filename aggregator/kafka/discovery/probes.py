"""All probes together: which sources answer, and how far and how long each is behind."""

import time
from collections import deque
from collections.abc import Collection, Mapping

from aggregator.config.schema import Config
from aggregator.kafka.discovery.probe import SourceWatch, Watched
from aggregator.model.values import Positions, SourcePartition
from aggregator.plan.completeness.marks import Mark
from aggregator.plan.health.fetched_ends import HEARD_SECONDS, Fetches
from aggregator.plan.health.followed_logs import AllLogs
from aggregator.plan.health.stuck import Probe, heard_too, stuck, unhealthy_sources
from aggregator.plan.health.suspects import Seen
from aggregator.plan.lifecycle.inputs import Measured
from aggregator.plan.reload import same_connection

ARRIVAL_SECONDS = 5.0
LEAST_DEADLINE = 2 * HEARD_SECONDS
"""With less, a source would be silent before it is noticed that its fetches have stopped."""
DOUBT_SECONDS = 10.0
"""A source is probed often for this time after one of its logs seemed to be cut, or another one."""
ANSWER_SECONDS = 1.0
"""A source whose fetches have stopped is silent only after a probe had this time for an answer."""


class SourcesWatch:
    """One watch per source. Used by the engine's thread."""

    def __init__(self) -> None:
        self._config: Config | None = None
        self._followed: frozenset[SourcePartition] = frozenset()
        self._watches: dict[str, SourceWatch] = {}
        self._logs = AllLogs()
        self._totals: dict[str, deque[tuple[float, int]]] = {}
        self._doubts: dict[str, int] = {}
        self._doubted_at: dict[str, float] = {}

    def stop(self) -> None:
        """End the watches soon."""
        for watch in self._watches.values():
            watch.stop()

    def follow(self, config: Config, partitions: Collection[SourcePartition]) -> None:
        """Watch these partitions by this config from now on; the first call starts the probes.

        Where a source is reached otherwise, its watch ends and another one begins.
        """
        if config is self._config and partitions == self._followed:
            return
        self._followed = frozenset(partitions)
        if config is not self._config:
            before, self._config = self._config, config
            kept = {
                alias: watch
                for alias, watch in self._watches.items()
                if before is not None
                and alias in config.sources
                and same_connection(before.sources[alias], config.sources[alias])
                and before.supervision == config.supervision
            }
            for alias in self._watches.keys() - kept.keys():
                self._watches[alias].stop()
            added = {it: SourceWatch(config, it) for it in config.sources if it not in kept}
            self._watches = {alias: {**kept, **added}[alias] for alias in config.sources}
        own: dict[str, set[SourcePartition]] = {alias: set() for alias in self._watches}
        for sp in self._followed:
            if sp.cluster in own:
                own[sp.cluster].add(sp)
        for alias, watch in self._watches.items():
            # One that is as before stays the same value: what is measured of it need not change.
            is_same = own[alias] == watch.partitions
            watch.follow(watch.partitions if is_same else frozenset(own[alias]))

    def seen(self) -> dict[str, Seen]:
        """The ids and logs that each source last reported."""
        return {alias: watch.latest.seen for alias, watch in self._watches.items()}

    def marks(self) -> dict[str, Mark]:
        """The ends of all acknowledged records that each source last reported."""
        latest = {alias: watch.latest.mark for alias, watch in self._watches.items()}
        return {alias: mark for alias, mark in latest.items() if mark is not None}

    def measure(
        self, positions: Positions, fetches: Fetches, *, often: bool = False
    ) -> Measured | None:
        """Compare the positions with the answers; None before anything is watched.

        A source that answers fetches is not silent, also when it answers no probe. While they
        report all its log ends it is probed seldom, unless it has to be `often`.
        """
        if self._config is None:
            return None
        now, logs = time.monotonic(), self._logs
        watched = {alias: watch.partitions for alias, watch in self._watches.items()}
        logs.take(positions, fetches.ends, watched)
        for watch in self._watches.values():
            self._pace(watch, fetches, now, often=often)
        # Each is read once: an end belongs to the moment at which it was reported.
        latest = {alias: watch.latest for alias, watch in self._watches.items()}
        probed = {alias: (it.seen, it.answered_at) for alias, it in latest.items()}
        logs.follow(probed, self._unheard(latest, now), now)
        sources = logs.sources.values()
        moving = {sp: it for own in sources for sp, it in own.moving.items()}
        late = [item for own in sources for item in own.late.ends.items()]
        silent, stale = self._silent(latest, fetches, now)
        return Measured(
            logs.ends,
            logs.behind,
            {alias: own.lag for alias, own in logs.sources.items() if own.lag is not None},
            stuck(moving, now, self._config.supervision.stuck_after),
            silent,
            frozenset(it for it in latest if latest[it].has_answered or it in fetches.heard),
            self._arrivals(now),
            {sp: it.late_ms for sp, it in late if it.late_ms is not None},
            stale,
            positions,
        )

    def _pace(self, watch: SourceWatch, fetches: Fetches, now: float, *, often: bool) -> None:
        """Probe a source as often as its fetches make necessary."""
        alias, logs = watch.alias, self._logs.sources[watch.alias]
        if logs.doubts != self._doubts.get(alias, 0):
            self._doubts[alias], self._doubted_at[alias] = logs.doubts, now
            watch.probe_now()
        is_clear = now - self._doubted_at.get(alias, now - DOUBT_SECONDS) >= DOUBT_SECONDS
        watch.fetched = fetches.ends
        may = is_clear and not often and self._deadline >= LEAST_DEADLINE
        watch.probe_seldom(may and logs.is_covered and fetches.hears(alias, now))

    def _unheard(self, latest: Mapping[str, Watched], now: float) -> Collection[str]:
        """The sources that report no log ends any more."""
        # A source that answers fetches alone reports no ends, unless these do.
        probes = {
            alias: Probe(now if watch.is_seldom else watch.heard_at(now), latest[alias].failure)
            for alias, watch in self._watches.items()
        }
        return unhealthy_sources(probes, self._deadline, now).keys()

    def _silent(
        self,
        latest: Mapping[str, Watched],
        fetches: Fetches,
        now: float,
    ) -> tuple[dict[str, str], frozenset[SourcePartition]]:
        """The sources that do not answer, and those of which some brokers do not, and why.

        Also the partitions that have therefore an old one of these ends.
        """
        deadline, probes, found = self._deadline, {}, {}
        stale: set[SourcePartition] = set()
        for alias, watch in self._watches.items():
            failure = latest[alias].failure
            # A probe that was put off until the fetches stopped has its time.
            given = watch.often_since + ANSWER_SECONDS - deadline if watch.often_since else 0.0
            probes[alias] = Probe(max(watch.heard_at(now), given), failure)
            owing = self._logs.sources[alias].late
            late = owing.late(owing.ends, deadline, now)
            if late and now - latest[alias].answered_at > deadline:
                of = f"{len(late)} of {len(watch.partitions)} partitions"
                words = f"the brokers of {of} have given no answer for {deadline:g} s"
                found[alias] = f"{words}: {failure}" if failure else words
                stale |= late
        sick = unhealthy_sources(heard_too(probes, fetches.heard), deadline, now)
        for alias in sick:
            stale |= self._logs.sources[alias].ends.keys()
        return {**found, **sick}, frozenset(stale)

    @property
    def _deadline(self) -> float:
        assert self._config is not None
        return self._config.supervision.deadline

    def _arrivals(self, now: float) -> dict[str, float]:
        """How many records arrive at each source in ARRIVAL_SECONDS, by its log ends."""
        sums = {alias: logs.total for alias, logs in self._logs.sources.items()}
        found = {}
        for alias, total in sums.items():
            seen = self._totals.setdefault(alias, deque())
            seen.append((now, total))
            while len(seen) > 2 and seen[1][0] < now - ARRIVAL_SECONDS:
                seen.popleft()
            (then, before), (_, after) = seen[0], seen[-1]
            found[alias] = (after - before) / max(now - then, 1.0) * ARRIVAL_SECONDS
        return found
