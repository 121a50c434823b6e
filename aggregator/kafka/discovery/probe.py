"""Probes the sources, each in a thread of its own: does it answer, and what do its logs hold?"""

import math
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from aggregator.config.schema import Config
from aggregator.kafka.admin import ClusterAdmin, ClusterCallError, by_partition, open_admin
from aggregator.kafka.admin.ids import ClusterIds, read_ids
from aggregator.kafka.admin.parallel import seconds_for
from aggregator.model.loop import Loop
from aggregator.model.values import FailureKind, SourcePartition, TopicPartition
from aggregator.plan.completeness.marks import Mark
from aggregator.plan.health.fetched_ends import LogEnd
from aggregator.plan.health.suspects import Seen

PROBE_SECONDS = 1.0
MARK_SECONDS = 1.5
"""A source that is read committed is asked twice for a mark: so only with every second probe."""
SELDOM_SECONDS = 5.0
"""Between two probes while fetches report the log ends: they are for ids and marks alone."""
MOST_SECONDS = 30.0
"""The same of very many partitions: so late at most is a cut seen that only a probe shows."""
RESTS = 40
"""Then it rests for this many times the time on the CPU that the probe took its thread."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A source's last answer: its log ends and ids; and why it has not answered since.

    `answered_at` is when it last answered, by the monotonic clock; the watch's begin before that.
    `mark` is its answer for `aggregator.features.completeness`, None before the first one.
    """

    failure: str = ""
    answered_at: float = 0.0
    seen: Seen = field(default_factory=Seen)
    has_answered: bool = False
    mark: Mark | None = None


class SourceWatch:
    """Polls one source for the log ends of the partitions it has to watch.

    A source that hangs delays only its own thread. `latest` is replaced as a whole, so that it
    can be read from any thread.
    """

    def __init__(self, config: Config, alias: str) -> None:
        self.alias = alias
        self.latest = Watched()
        self.partitions: frozenset[SourcePartition] = frozenset()
        self._config = config
        self._admin: ClusterAdmin | None = None
        self._clients = ExitStack()
        self._rest = PROBE_SECONDS
        self._seldom_rest = SELDOM_SECONDS
        self._due_at = math.inf
        self._began_at: float | None = None
        """When the probe that is under way began."""
        self.is_seldom = False
        """Whether fetches report what the probes do, so that these come seldom."""
        self.fetched: Mapping[SourcePartition, LogEnd] = {}
        """What fetches report of the log ends."""
        self.often_since = 0.0
        """Since when they do not."""
        self._loop = Loop(
            f"watch-{alias}",
            self._turn,
            every=lambda: max(self._rest, self._seldom_rest) if self.is_seldom else self._rest,
            on_error=self._fail,
            finish=self._clients.close,
        )

    def heard_at(self, now: float) -> float:
        """When the source last answered: with the newest probe, or a part of the one under way.

        By how much a probe began late, or is late now, is added: the source did not owe an answer.
        With many sources, or on a busy machine, the threads of the probes wait for each other.
        """
        latest, admin, began = self.latest, self._admin, self._began_at
        late = max(0.0, (now if began is None else began) - self._due_at)
        answered_at = latest.answered_at + late
        if latest.failure or admin is None:
            return answered_at
        return max(answered_at, admin.answered_at)

    def follow(self, partitions: frozenset[SourcePartition]) -> None:
        """Watch these partitions from now on; the first call begins to poll."""
        had_any, self.partitions = bool(self.partitions), partitions
        if not self._loop.has_begun:
            self._due_at = time.monotonic()
            self.latest = Watched(answered_at=self._due_at)
            self._loop.start()
        elif partitions and not had_any:
            self.probe_now()

    def probe_seldom(self, seldom: bool) -> None:
        """Probe seldom, as fetches report the log ends by now; or often, and at once."""
        if seldom == self.is_seldom:
            return
        self.is_seldom = seldom
        if not seldom:
            self.often_since = time.monotonic()
            self.probe_now()

    def probe_now(self) -> None:
        """Probe at once; never waits."""
        self._due_at = min(self._due_at, time.monotonic())
        self._loop.wake()

    def stop(self) -> None:
        """End the thread soon, without waiting for a source that hangs."""
        self._loop.end()

    def _turn(self) -> None:
        if self._admin is None:
            # A file that the settings name may be mended: another turn tries it again.
            self._admin = self._clients.enter_context(open_admin(self._config, self.alias))
        self._began_at, worked = time.monotonic(), time.thread_time()
        seen, mark = self._probe(self._admin)
        now, worked = time.monotonic(), time.thread_time() - worked
        # Of thousands of partitions, or beside many sources, it takes long: half of the time it
        # rests. One that reads nothing is asked whether it is there, and names all its topics.
        self._seldom_rest = min(max(SELDOM_SECONDS, RESTS * worked), MOST_SECONDS)
        took = now - self._began_at
        rest = max(PROBE_SECONDS, took) if self.partitions else max(SELDOM_SECONDS, RESTS * took)
        self._rest = min(rest, MOST_SECONDS)
        if mark is not None and mark is not self.latest.mark:
            rest = max(self._rest, self._seldom_rest)
            mark = replace(mark, more_seconds=max(0.0, rest - SELDOM_SECONDS))
        self.latest = Watched("", now, seen, True, mark)
        self._end_turn()

    def _end_turn(self) -> None:
        rest = self._seldom_rest if self.is_seldom else PROBE_SECONDS
        # In this order: another thread reads them one by one.
        self._due_at = time.monotonic() + rest
        self._began_at = None

    def _fail(self, error: Exception) -> None:
        self.latest = replace(self.latest, failure=str(error))
        self._rest = PROBE_SECONDS
        self._end_turn()

    def _probe(self, admin: ClusterAdmin) -> tuple[Seen, Mark | None]:
        # Before anything is sent: a mark is as old as this, however long the answer takes.
        asked_at, asked_ms = time.monotonic(), time.time_ns() // 1_000_000
        wanted = [sp.topic_partition for sp in self.partitions]
        topics = {tp.topic for tp in wanted}
        # For each request: one that hangs is seen by `heard_at`.
        timeout = seconds_for(
            self._config.supervision.deadline, topics=len(topics), partitions=len(wanted)
        )
        if not wanted:
            admin.partition_counts(timeout)
            return Seen(), self.latest.mark
        ends: Mapping[TopicPartition, int] = {}
        highs: Mapping[TopicPartition, int] | None = None
        failure: ClusterCallError | None = None
        try:
            if self.is_seldom and admin.reads_committed:
                highs = admin.high_watermarks(wanted, timeout)
                ends = self._stable(admin, wanted, highs, timeout)
            else:
                ends = admin.log_ends(wanted, timeout)
                highs = self._highs(admin, wanted, ends, asked_at, timeout)
        except ClusterCallError as error:
            if error.failure.kind is not FailureKind.OTHER:
                raise
            failure = error
        # After the offsets: an id that is still the same proves what they belong to.
        seen = self.latest.seen
        known = ClusterIds(seen.cluster_id, seen.topic_ids) if seen.cluster_id else None
        ids = read_ids(admin, topics, timeout, known)
        if failure is not None and ids.topic_ids:
            raise failure
        # Otherwise it answers, and the topics are gone.
        own = by_partition({self.alias: ends})
        seen = Seen(asked_at, ids.cluster_id, ids.topic_ids, own, {})
        if highs is None:
            return seen, self.latest.mark
        high = by_partition({self.alias: highs})
        seen = replace(seen, highs=high)
        stable = {sp: end for sp, end in own.items() if end < high.get(sp, end)}
        mark = Mark(
            asked_at=asked_at,
            asked_ms=asked_ms,
            cluster_id=ids.cluster_id,
            topic_ids=ids.topic_ids,
            partitions=ids.partitions,
            ends=high,
            stable=stable,
        )
        return seen, mark

    def _stable(
        self,
        admin: ClusterAdmin,
        wanted: Collection[TopicPartition],
        highs: Mapping[TopicPartition, int],
        timeout: float,
    ) -> Mapping[TopicPartition, int]:
        """The log ends for a reader of committed records; only those are asked for that may differ.

        Where a fetch has found the end at what is the high watermark now, both are the same.
        """
        known = self.fetched
        found = {
            tp: high
            for tp, high in highs.items()
            if (it := known.get(SourcePartition(self.alias, *tp))) is not None and it.end == high
        }
        rest = [tp for tp in wanted if tp not in found]
        return {**found, **admin.log_ends(rest, timeout)} if rest else found

    def _highs(
        self,
        admin: ClusterAdmin,
        wanted: Collection[TopicPartition],
        ends: Mapping[TopicPartition, int],
        now: float,
        timeout: float,
    ) -> Mapping[TopicPartition, int] | None:
        """The high watermarks; None where this probe asks for none."""
        if not admin.reads_committed:
            return ends
        mark = self.latest.mark
        if mark is not None and now - mark.asked_at < MARK_SECONDS:
            return None
        return admin.high_watermarks(wanted, timeout)
