"""Probes the sources, each in a thread of its own: does it answer, and what do its logs hold?"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aggregator.config.schema import Config
from aggregator.discover import ClusterAdmin, ClusterCallError, open_admin
from aggregator.discover.ids import ClusterIds, read_ids
from aggregator.model import FailureKind, SourcePartition, TopicPartition
from aggregator.plan.suspects import Seen

PROBE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Watched:
    """What one source last told: its log ends and ids; and why it told nothing since.

    `answered_at` is when it last answered, by the monotonic clock; the watch's begin before that.
    """

    failure: str = ""
    answered_at: float = 0.0
    seen: Seen = field(default_factory=Seen)
    has_answered: bool = False


class SourceWatch:
    """Polls one source for the log ends of the partitions it is told to watch.

    A source that hangs delays only its own thread. `latest` is replaced as a whole, so that it
    can be read from any thread.
    """

    def __init__(self, config: Config, alias: str) -> None:
        self.alias = alias
        self.latest = Watched()
        self.partitions: frozenset[SourcePartition] = frozenset()
        self._config = config
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"watch-{alias}", daemon=True)

    def follow(self, partitions: frozenset[SourcePartition]) -> None:
        """Watch these partitions from now on; the first call begins to poll."""
        self.partitions = partitions
        if self._thread.ident is None:
            self.latest = Watched(answered_at=time.monotonic())
            self._thread.start()

    def stop(self) -> None:
        """End the thread soon; nobody waits for a source that hangs."""
        self._stop.set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                with open_admin(self._config, self.alias) as admin:
                    self._watch(admin)
            except ClusterCallError as error:
                # No client comes of its settings. A file that they name may be mended.
                self.latest = replace(self.latest, failure=str(error))
                self._stop.wait(PROBE_SECONDS)

    def _watch(self, admin: ClusterAdmin) -> None:
        while not self._stop.wait(PROBE_SECONDS):
            before = self.latest
            try:
                seen = self._probe(admin)
            except Exception as error:  # a thread has no caller to raise to: it is the answer
                self.latest = replace(before, failure=str(error))
            else:
                self.latest = Watched("", time.monotonic(), seen, True)

    def _probe(self, admin: ClusterAdmin) -> Seen:
        asked_at = time.monotonic()
        wanted = [sp.topic_partition for sp in self.partitions]
        timeout = self._config.supervision.deadline
        if not wanted:
            admin.partition_counts(timeout)
            return Seen()
        ends: Mapping[TopicPartition, int] = {}
        failure: ClusterCallError | None = None
        try:
            ends = admin.log_ends(wanted, timeout)
        except ClusterCallError as error:
            if error.failure.kind is not FailureKind.OTHER:
                raise
            failure = error
        # After the offsets: an id that is still the same proves what they belong to.
        seen = self.latest.seen
        known = ClusterIds(seen.cluster_id, seen.topic_ids) if seen.cluster_id else None
        ids = read_ids(admin, {tp.topic for tp in wanted}, timeout, known)
        if failure is not None and ids.topic_ids:
            raise failure
        # Otherwise it answers, and the topics are gone.
        own = {SourcePartition(self.alias, tp.topic, tp.partition): end for tp, end in ends.items()}
        return Seen(asked_at, ids.cluster_id, ids.topic_ids, own)
