"""Notices while lanes run that a log is no longer the one that they read: another topic, or cut.

A reader says itself when its log does not hold its position. But into a topic that was created
again it may read on, if that has grown beyond its position meanwhile. So what the probes tell is
compared with what the lanes read.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from aggregator.connector.reports import OUT_OF_RANGE
from aggregator.engine.events import Event, EventSink
from aggregator.engine.launch import RunningLane
from aggregator.engine.look import Look, identity_of
from aggregator.engine.observer import Observer
from aggregator.engine.sources import SourcesWatch
from aggregator.model import SourcePartition
from aggregator.plan.suspects import (
    Reading,
    Seen,
    Stand,
    cut,
    follow_stands,
    foreign,
    gone,
    seen_of,
)


class GapWatch:
    """Compares the probes with the lanes that run; used by the engine's thread."""

    def __init__(self, sources: SourcesWatch, observer: Observer, emit: EventSink) -> None:
        self._sources = sources
        self._observer = observer
        self._emit = emit
        self._stands: Mapping[SourcePartition, Stand] = {}
        self._suspects: dict[SourcePartition, str] = {}
        self._gone: set[tuple[str, str]] = set()

    def act(self, running: Mapping[str, RunningLane]) -> bool:
        """Take one look; True when something is new, and a whole look should follow soon."""
        seen = self._sources.seen()
        readings = self._readings(running)
        self._stands = follow_stands(self._stands, readings, time.monotonic())
        found = {
            **self._out_of_range(running),
            **cut(self._stands, seen),
            **foreign(readings, seen),
        }
        news = False
        for sp, reason in found.items():
            if sp not in self._suspects:
                self._suspects[sp] = reason
                self._emit(Event("partition_suspect", f"{sp}: {reason}", {"partition": str(sp)}))
                news = True
        before, self._gone = self._gone, gone(readings, seen)
        return news or bool(self._gone - before)

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
            sp: Reading(entry.position, entry.cluster_id, entry.topic_id)
            for sp, entry in entries.items()
            if sp in log_ends
        }
        others = foreign(known, self._sources.seen() if seen is None else seen)
        return {sp: end for sp, end in log_ends.items() if sp not in others}

    def _out_of_range(self, running: Mapping[str, RunningLane]) -> dict[SourcePartition, str]:
        found = {}
        for lane in running.values():
            report = lane.query.report
            for sp, state in report.states.items():
                if state == OUT_OF_RANGE and sp in lane.lane.partitions:
                    at = report.positions[sp]
                    found[sp] = f"its log does not hold {at}, where its reader stands"
        return found

    def _readings(self, running: Mapping[str, RunningLane]) -> dict[SourcePartition, Reading]:
        positions, entries = self._observer.positions, self._observer.state.entries
        return {
            sp: Reading(positions[sp], entries[sp].cluster_id, entries[sp].topic_id)
            for lane in running.values()
            for sp in lane.lane.partitions
            if sp in positions and sp in entries
        }
