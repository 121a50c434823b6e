"""Keeps sick sources from hurting others: who is out, who stays apart, and whose lane failed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from aggregator.audit.document import LaneState, SourceState
from aggregator.config.schema import Config
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.engine.lanes import RunningLane
from aggregator.engine.sources import SourcesWatch
from aggregator.model import Lane, SourcePartition
from aggregator.plan.outages import Outages


class Supervision:
    """Compares the probes with the lanes that run; used by the engine's thread."""

    def __init__(
        self, config: Config, sources: SourcesWatch, board: Board, emit: EventSink
    ) -> None:
        self._sources = sources
        self._board = board
        self._emit = emit
        self._outages = Outages(config.supervision.deadline)

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._outages.deadline = config.supervision.deadline

    @property
    def out(self) -> Mapping[str, str]:
        """Sources (alias -> why) of which nothing is to run."""
        return self._outages.out

    @property
    def apart(self) -> frozenset[str]:
        """Sources that share no lane with others for now."""
        return self._outages.apart

    def changed(self, running: Mapping[str, RunningLane]) -> tuple[set[str], set[str]]:
        """The sources that have to leave the lanes they share, and those that may come back.

        Either means that the lanes are to be planned anew: at once for the first, with a new look
        for the second.
        """
        lanes = [lane.lane for lane in running.values()]
        sharing = {alias for lane in lanes if len(lane.clusters) > 1 for alias in lane.clusters}
        before, apart = set(self.out), self.apart
        self._outages.follow(self._sources.probes(), sharing, self._well(lanes), time.monotonic())
        gone, back = set(self.out) - before, (before - set(self.out)) | (apart - self.apart)
        for alias in sorted(gone):
            self._say("source_out", alias, f"is taken out of its lane: {self.out[alias]}")
        for alias in sorted(before - set(self.out)):
            self._say("source_back", alias, "is back, and catches up in a lane of its own")
        return gone, back

    def failed(self, lane: Lane) -> None:
        """A lane has failed: if several sources share it, each gets a lane of its own."""
        self._outages.separate(lane.clusters)

    def joined(
        self,
        wanted: Iterable[SourcePartition],
        to_run: Iterable[SourcePartition],
        running: Mapping[str, RunningLane],
    ) -> None:
        """Sources that are new while lanes run: with their backlog they share none yet.

        One of which something is to run as soon as a lane has ended is not new.
        """
        shared = any(len(lane.lane.clusters) > 1 for lane in running.values())
        known = {alias for lane in running.values() for alias in lane.lane.clusters}
        new = {sp.cluster for sp in wanted} - {sp.cluster for sp in to_run} - known
        if shared and new:
            self._outages.apart = self._outages.apart | new

    def _well(self, lanes: list[Lane]) -> set[str]:
        """Sources that run, are not behind, and whose lanes have ended a batch."""
        progress = self._board.progress
        fresh = {
            alias
            for lane in lanes
            if self._board.lanes[lane.name].state is not LaneState.RUNNING
            or lane.name not in progress
            or progress[lane.name].generation != self._board.lanes[lane.name].generation
            for alias in lane.clusters
        }
        reading = {alias for lane in lanes for alias in lane.clusters}
        running = {
            alias
            for alias, note in self._board.sources.items()
            if note.state is SourceState.RUNNING
        }
        return (reading & running) - fresh

    def _say(self, kind: str, alias: str, words: str) -> None:
        self._emit(Event(kind, f"source {alias} {words}", {"source": alias}))
