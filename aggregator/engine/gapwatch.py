"""Notices while lanes run that a log is no longer the one that they read: another topic, or cut.

Spark's reader tells little. At a position that was deleted or cut off it fails, except at offset 0,
where it waits for ever. Into a topic that was created again it reads on, if that has grown beyond
its position meanwhile. So what the probes tell is compared with what the lanes read.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from aggregator.engine.events import Event, EventSink
from aggregator.engine.lanes import RunningLane
from aggregator.engine.look import Look, identity_of
from aggregator.engine.observer import Observer
from aggregator.engine.sources import SourcesWatch
from aggregator.errors import AggregatorError
from aggregator.model import SourcePartition
from aggregator.plan.suspects import (
    Reading,
    Seen,
    Stand,
    follow_stands,
    foreign,
    gone,
    seen_of,
    suspects,
)

OF_A_LOG = ("OffsetOutOfRangeException", "LogTruncationException")
"""What Spark's reader fails with when its log is cut (kafka-clients 3.9.2); no writer does."""


class GapWatch:
    """Compares the probes with the lanes that run; used by the engine's thread."""

    def __init__(self, sources: SourcesWatch, observer: Observer, emit: EventSink) -> None:
        self._sources = sources
        self._observer = observer
        self._emit = emit
        self._stands: Mapping[SourcePartition, Stand] = {}
        self._suspects: dict[SourcePartition, str] = {}
        self._gone: set[tuple[str, str]] = set()
        self._killed: set[tuple[str, int]] = set()

    def act(self, running: Mapping[str, RunningLane]) -> bool:
        """Take one look; True when something is new, and a whole look should follow soon.

        A lane that reads what is not what it began with is stopped at once: what it reads from now
        on must not be taken for what it read before.
        """
        seen = self._sources.seen()
        readings = self._readings(running)
        news = self._kill_foreign(running, readings, seen)
        self._stands = follow_stands(self._stands, readings, seen, time.monotonic())
        for sp, reason in suspects(self._stands, seen).items():
            if sp not in self._suspects:
                self._suspects[sp] = reason
                self._emit(Event("partition_suspect", f"{sp}: {reason}", {"partition": str(sp)}))
                news = True
        before, self._gone = self._gone, gone(readings, seen)
        return news or bool(self._gone - before)

    def stopped(self, lane: str, generation: int) -> bool:
        """Whether this life of a lane was stopped here."""
        return (lane, generation) in self._killed

    def explains(self, lane: str, generation: int, failure: str) -> bool:
        """Whether a lane failed of a gap: then `on_gap` decides, and nothing else does."""
        return self.stopped(lane, generation) or any(it in failure for it in OF_A_LOG)

    def note(self, look: Look) -> None:
        """Take over a look's ids, for all lanes that begin from now on, and its log ends."""
        self._observer.update(identity_of(look.plan))
        if not self._sources.log_ends():
            self._observer.saw(self.own(look.ends, seen_of(look.observed)))

    def suspects(self, running: Collection[SourcePartition]) -> set[SourcePartition]:
        """Partitions to take out, so that their logs can be judged by where their readers stopped.

        One that does not run is none any more.
        """
        self._suspects = {sp: why for sp, why in self._suspects.items() if sp in running}
        return set(self._suspects)

    def own(
        self, log_ends: Mapping[SourcePartition, int], seen: Mapping[str, Seen] | None = None
    ) -> dict[SourcePartition, int]:
        """The log ends without those of logs that are not what the checkpoint's positions are of.

        By the ids in `seen`, else by those that the probes last told. Ids never come back, so what
        was told before they were asked for is certain.
        """
        entries = self._observer.state.entries
        known = {
            sp: Reading(entry.position, 0, entry.cluster_id, entry.topic_id)
            for sp, entry in entries.items()
            if sp in log_ends
        }
        others = foreign(known, self._sources.seen() if seen is None else seen)
        return {sp: end for sp, end in log_ends.items() if sp not in others}

    def _kill_foreign(
        self,
        running: Mapping[str, RunningLane],
        readings: Mapping[SourcePartition, Reading],
        seen: Mapping[str, Seen],
    ) -> bool:
        others = foreign(readings, seen)
        news = False
        for name, lane in running.items():
            reasons = {others[sp] for sp in lane.lane.partitions if sp in others}
            life = (name, lane.query.generation)
            if not reasons or life in self._killed:
                continue
            self._killed.add(life)
            news = True
            words = f"lane {name} is stopped: {'; '.join(sorted(reasons))}"
            self._emit(Event("lane_stopped", words, {"lane": name}))
            try:
                lane.query.kill()
            except AggregatorError as error:
                self._emit(Event("lane_stop_failed", str(error), {"lane": name}))
        return news

    def _readings(self, running: Mapping[str, RunningLane]) -> dict[SourcePartition, Reading]:
        observer = self._observer
        positions, entries, progress = observer.positions, observer.state.entries, observer.progress
        readings = {}
        for name, lane in running.items():
            told = progress.get(name)
            this_life = told is not None and told.generation == lane.query.generation
            batch = told.batch if told is not None and this_life else None
            for sp in lane.lane.partitions:
                if sp in positions and sp in entries:
                    entry = entries[sp]
                    readings[sp] = Reading(
                        positions[sp],
                        -1 if batch is None else batch,
                        entry.cluster_id,
                        entry.topic_id,
                    )
        return readings
