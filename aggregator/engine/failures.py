"""What follows when a lane fails, or a partition's next record cannot be written."""

from __future__ import annotations

import time

from aggregator.config.schema import Config
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.engine.launch import RunningLane
from aggregator.engine.starts import Starts
from aggregator.engine.supervision import Supervision
from aggregator.errors import AggregatorError
from aggregator.model import Lane, SourcePartition

TRIES_ALLOWED = 3
"""A run that is to end gives a lane so many; one that goes on for ever gives it endless."""


class Failures:
    """Notes failures, so that others go on and these are tried again. The engine's thread alone.

    Raises AggregatorError where `supervision.failure` says that a failure ends the run.
    """

    def __init__(
        self,
        config: Config,
        starts: Starts,
        supervision: Supervision,
        board: Board,
        emit: EventSink,
        *,
        until_done: bool,
    ) -> None:
        self._config = config
        self._starts = starts
        self._supervision = supervision
        self._board = board
        self._emit = emit
        self._until_done = until_done

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._config = config

    def lane(self, failed: RunningLane | Lane, reason: str) -> None:
        """A lane has failed, or could not be started: it is tried again with back-off."""
        lane = failed if isinstance(failed, Lane) else failed.lane
        own = frozenset(lane.partitions)
        note = self._board.lanes[lane.name]
        self._supervision.failed(lane, explained=note.careful)
        delay = self._starts.backoff.failed(lane.name, own, time.monotonic())
        note.restarts += 1
        if isinstance(failed, RunningLane):
            self._starts.orphans.add(failed.query.key, own)
        words = f"lane {lane.name} failed, next try in {delay:.0f} s: {reason}"
        self._emit(Event("lane_failed", words, {"lane": lane.name}))
        if not note.careful:
            self._check_abort(f"lane {lane.name} failed", reason)
        if self._until_done and self._starts.backoff.failures(lane.name) >= TRIES_ALLOWED:
            self._starts.ended(own)

    def partition(self, sp: SourcePartition, reason: str) -> None:
        """A partition's next record cannot be written: it is taken out, and tried again."""
        again = self._starts.stopped(sp, reason, for_good=self._until_done)
        when = "" if again is None else f", next try in {again:.0f} s"
        words = f"{sp} is stopped{when}: {reason}"
        self._emit(Event("partition_stopped", words, {"partition": str(sp)}))
        self._check_abort(f"{sp} is stopped", reason)

    def are_waiting(self) -> bool:
        """Whether one that failed is to be tried again, in a run that is to end."""
        return self._starts.backoff.waiting(TRIES_ALLOWED)

    def _check_abort(self, what: str, reason: str) -> None:
        if self._config.supervision.failure == "abort":
            raise AggregatorError(f"{what}, and supervision.failure is abort: {reason}")
