"""All source watches together: log ends, reachability, stuck partitions, told to the board."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping

from aggregator.audit.document import LaneState, SourceState
from aggregator.config.schema import Config
from aggregator.engine.board import Board
from aggregator.engine.watch import SourceWatch
from aggregator.events import Event, EventSink
from aggregator.model import SourcePartition
from aggregator.plan.behind import Delays
from aggregator.plan.outages import Probe, sick_sources
from aggregator.plan.reload import same_connection
from aggregator.plan.stuck import Movement, follow, stuck
from aggregator.plan.suspects import Seen

BEHIND_SECONDS = 5.0
CATCHING_UP_ABOVE = 10_000
"""A source further behind than so many offsets, and what comes in five seconds, catches up."""


class SourcesWatch:
    """One watch per source; `tell` brings a board up to date. Used by the engine's thread."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._started = False
        self._watches = {alias: SourceWatch(config, alias) for alias in config.sources}
        self._movements: dict[SourcePartition, Movement] = {}
        self._delays = Delays()
        self._totals: dict[str, deque[tuple[float, int]]] = {}
        self._sick: Mapping[str, str] = {}

    def start(self) -> None:
        """Begin to watch what `follow` names."""
        self._started = True
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        """End the watches soon."""
        for watch in self._watches.values():
            watch.stop()

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on: watches end, begin, or go on as they are."""
        before, self._config = self._config, config
        kept = {
            alias: watch
            for alias, watch in self._watches.items()
            if alias in config.sources
            and same_connection(before.sources[alias], config.sources[alias])
            and before.supervision == config.supervision
        }
        added = {alias: SourceWatch(config, alias) for alias in config.sources if alias not in kept}
        for alias, watch in self._watches.items():
            if alias not in kept:
                watch.stop()
                if alias in added:
                    added[alias].partitions = watch.partitions
        self._watches = {alias: {**kept, **added}[alias] for alias in config.sources}
        if self._started:
            for watch in added.values():
                watch.start()

    def follow(self, partitions: Collection[SourcePartition]) -> None:
        """Watch these partitions from now on."""
        for alias, watch in self._watches.items():
            watch.partitions = frozenset(sp for sp in partitions if sp.cluster == alias)

    def log_ends(self) -> dict[SourcePartition, int]:
        """The log ends last told, of all sources."""
        return {
            sp: end for watch in self._watches.values() for sp, end in watch.latest.log_ends.items()
        }

    def seen(self) -> dict[str, Seen]:
        """What each source last told of its ids and logs."""
        return {alias: watch.latest.seen for alias, watch in self._watches.items()}

    def probes(self) -> dict[str, Probe]:
        """What the probes of each source have told."""
        return {
            alias: Probe(watch.latest.answered_at, watch.latest.failure)
            for alias, watch in self._watches.items()
        }

    def tell(self, board: Board, emit: EventSink) -> None:
        """Put log ends, delays, health and stuck partitions on the board; news become events."""
        now = time.monotonic()
        # Each once: an end has to go with the moment at which it was told.
        latest = {alias: watch.latest for alias, watch in self._watches.items()}
        board.log_ends = {sp: end for it in latest.values() for sp, end in it.log_ends.items()}
        watched = {sp for watch in self._watches.values() for sp in watch.partitions}
        positions = {sp: at for sp, at in board.positions.items() if sp in watched}
        self._movements = follow(self._movements, positions, board.log_ends, now)
        patience = self._config.supervision.stuck_after
        before, board.stuck = board.stuck, stuck(self._movements, now, patience)
        for sp, reason in board.stuck.items():
            if sp not in before:
                emit(Event("partition_stuck", f"{sp}: {reason}", {"partition": str(sp)}))
        self._sick = sick_sources(self.probes(), self._config.supervision.deadline, now)
        told_at = {alias: it.answered_at for alias, it in latest.items()}
        silent = self._sick.keys()
        board.behind = self._delays.follow(positions, board.log_ends, told_at, silent, now)
        failed, errors, lags = _failed(board), _errors(board), board.lags()
        for alias, watch in self._watches.items():
            lag = lags.get(alias, 0)
            state, reason = self._health(alias, watch, board, failed, errors, lag)
            if alias in board.sources and board.source(alias, state, reason):
                message = f"source {alias} is {state}" + (f": {reason}" if reason else "")
                emit(Event("source_state", message, {"source": alias, "state": str(state)}))

    def _health(
        self,
        alias: str,
        watch: SourceWatch,
        board: Board,
        failed: Mapping[str, str],
        errors: Mapping[str, str],
        lag: int,
    ) -> tuple[SourceState, str]:
        if alias in board.paused:
            return SourceState.PAUSED, f"until `aggregator resume {alias}`"
        if alias in self._sick:
            return SourceState.UNREACHABLE, self._sick[alias]
        note = board.sources.get(alias)
        if note and note.state is SourceState.UNREACHABLE and not watch.latest.has_answered:
            # It gave no answer at the start, and its deadline is not over yet.
            return note.state, note.reason
        if alias in failed:
            return SourceState.FAILED, failed[alias]
        if alias in errors:
            return SourceState.FAILED, errors[alias]
        if lag > max(CATCHING_UP_ABOVE, self._arrivals(alias, watch)):
            return SourceState.CATCHING_UP, ""
        return SourceState.RUNNING, ""

    def _arrivals(self, alias: str, watch: SourceWatch) -> float:
        """How many records arrive at a source in BEHIND_SECONDS, by its log ends."""
        seen = self._totals.setdefault(alias, deque())
        now, interval = time.monotonic(), BEHIND_SECONDS
        seen.append((now, sum(watch.latest.log_ends.values())))
        while len(seen) > 2 and seen[1][0] < now - interval:
            seen.popleft()
        (then, before), (_, after) = seen[0], seen[-1]
        return (after - before) / max(now - then, 1.0) * interval


def _failed(board: Board) -> dict[str, str]:
    """Sources of which a lane has failed and does not run again yet: alias -> why."""
    return {
        sp.cluster: note.reason
        for note in board.lanes.values()
        if note.state is LaneState.FAILED
        for sp in note.partitions
    }


def _errors(board: Board) -> dict[str, str]:
    """Sources that give nothing, as their readers tell: alias -> why."""
    found: dict[str, str] = {}
    for name, note in board.lanes.items():
        progress = board.progress.get(name)
        if note.state is LaneState.RUNNING and progress is not None and progress.report is not None:
            found |= progress.report.errors
    return found
