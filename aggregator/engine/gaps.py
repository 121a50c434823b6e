"""Finds, records and settles gaps: the one user of the table of gaps in a running instance."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import UTC, datetime

from aggregator.checkpoint.gaps import GapTable
from aggregator.config.schema import Config
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.engine.gapwatch import GapWatch
from aggregator.engine.observer import Observer
from aggregator.engine.sources import SourcesWatch
from aggregator.errors import AggregatorError, CheckpointConflictError
from aggregator.model import Positions
from aggregator.plan.gaps import GapPlan, GapRecord, Sight, gap_id, plan_gaps
from aggregator.plan.positions import Gap, StartPlan


class Gaps:
    """Decides about gaps at each look, records that, and moves the positions. Keeps the board told.

    Used by the engine's thread; `lost` by the one that recovers, too.
    """

    def __init__(
        self,
        config: Config,
        observer: Observer,
        sources: SourcesWatch,
        board: Board,
        emit: EventSink,
    ) -> None:
        place = config.checkpoint
        self.watch = GapWatch(sources, observer, emit)
        self._table = GapTable(place.path, place.storage_options)
        self._observer = observer
        self._board = board
        self._emit = emit
        self._told: set[tuple[str, str, bool]] = set()
        self._error = ""
        self._lock = threading.Lock()

    def settle(self, start: StartPlan, sight: Sight) -> GapPlan:
        """Decide about all gaps: record what is new, then commit the positions that follow.

        When that cannot be done, the partitions in question are held until it can. Raises
        CheckpointConflictError when another instance writes this checkpoint.
        """
        try:
            with self._lock:
                records = self._table.load()
                plan = plan_gaps(start, records.values(), sight)
                self._table.append(plan.records)
            records |= {record.id: record for record in plan.records}
            if plan.moves:
                self._observer.moved(plan.moves)
        except CheckpointConflictError:
            raise
        except AggregatorError as error:
            return self._postponed(start, str(error))
        self._error = ""
        self._board.gaps = tuple(records.values())
        self._board.gapped = plan.quarantined
        for record in plan.records:
            self._tell(record)
        for record in records.values():
            if not record.resolved and record.gap.partition in plan.quarantined:
                self._tell(record)
        return plan

    def lost(self, gaps: Iterable[Gap]) -> None:
        """Record what a recovery found lost, before it commits; CheckpointError when it cannot."""
        now, epoch = datetime.now(UTC), self._observer.state.epoch
        found = [GapRecord(gap_id(gap), gap, now, epoch) for gap in gaps]
        if found:
            with self._lock:
                known = self._table.load()
                self._table.append(record for record in found if record.id not in known)

    def _postponed(self, start: StartPlan, error: str) -> GapPlan:
        if error != self._error:
            self._emit(Event("gap_failed", f"gaps cannot be decided about now: {error}"))
        self._error = error
        gaps = {gap.partition: gap for gap in start.gaps}
        held = {sp: f"{gap.reason}; that cannot be recorded: {error}" for sp, gap in gaps.items()}
        positions = {sp: at for sp, at in start.positions.items() if sp not in gaps}
        return GapPlan(Positions(positions), {**start.held, **held})

    def _tell(self, record: GapRecord) -> None:
        news = (record.id, str(record.decision), record.resolved)
        if news in self._told:
            return
        self._told.add(news)
        gap, alias = record.gap, record.gap.partition.cluster
        if record.resolved:
            words = (
                record.note if record.decision == "stop" else f"{record.decision}: {record.note}"
            )
        else:
            words = (
                f"quarantined; `aggregator gaps accept {record.id}` goes on without what is lost, "
                f"sources.{alias}.on_gap decides for all to come"
            )
        self._emit(
            Event(
                "gap",
                f"{gap} [{record.id}] {words}",
                {
                    "gap": record.id,
                    "partition": str(gap.partition),
                    "cause": str(gap.kind),
                    "decision": str(record.decision),
                    "lost": -1 if gap.lost is None else gap.lost,
                },
            )
        )
