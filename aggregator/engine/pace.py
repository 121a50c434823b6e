"""At what pace the lanes read now: by the config, the session's slots, sizes, and who is behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aggregator.audit.document import SourceState
from aggregator.config.schema import Config
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.model import Lane, Positions, SourcePartition
from aggregator.plan.pace import Pace, Sizes, is_held_back, pace_warnings, plan_pace
from aggregator.plan.plan import Plan
from aggregator.plan.slots import fitting_trigger, too_few_slots


class Paces:
    """The pace in force, and what changes it. Used by the engine's thread alone."""

    def __init__(self, config: Config, trigger: str, board: Board, emit: EventSink) -> None:
        self._config = config
        self._asked = trigger
        self._board = board
        self._emit = emit
        self._slots: int | None = None
        self._sizes = Sizes()
        self._behind: frozenset[str] = frozenset()
        self.now = Pace(trigger)

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._config = config
        self._behind &= config.sources.keys()
        self._decide()

    def planned(self, plan: Plan, *, first: bool) -> None:
        """Go by a new plan. The slots are those of the first: the session has no others."""
        if first:
            self._slots = plan.slots.slots
            if self._asked != self._config.stream.trigger:
                # Not what the plan was made for, which has its own warnings.
                for words in pace_warnings(self._config, (), Pace(self._asked), {}):
                    self._emit(Event("warning", words))
        trigger = fitting_trigger(self._asked, self._slots, plan.slots.required)
        if trigger != self._board.trigger:
            self._board.trigger = trigger
            if not first and self._slots is not None and trigger != self._asked:
                words = too_few_slots(self._config.spark.master, self._slots, plan.slots.required)
                if words not in plan.warnings:
                    self._emit(Event("warning", words))
        self._sizes = self._sizes.sampled(plan.sizes)
        self._decide()

    def starting(
        self,
        partitions: Collection[SourcePartition],
        positions: Positions,
        ends: Mapping[SourcePartition, int],
    ) -> None:
        """These are about to be read from `positions`: with a long way to go, at less speed."""
        backlogs: dict[str, int] = {}
        for sp in partitions:
            if sp in positions and sp in ends:
                left = max(0, ends[sp] - positions[sp])
                backlogs[sp.cluster] = backlogs.get(sp.cluster, 0) + left
        late = {
            alias
            for alias, backlog in backlogs.items()
            if alias not in self._behind and is_held_back(self._config, alias, backlog, held=False)
        }
        self._hold_back(self._behind | late, backlogs)

    def follow(self, lanes: Collection[Lane]) -> bool:
        """Compare how far the sources of the lanes that run are behind; True: a pace changes.

        Positions of a real-time lane are told once in a batch, so a source that runs freely is
        behind when it is said to be CATCHING_UP, which allows for that.
        """
        before, lags = self.now, {}
        for alias in {alias for lane in lanes for alias in lane.clusters}:
            source = self._config.sources.get(alias)
            if source is not None and source.catch_up_records_per_second is not None:
                lag = self._lag(alias, lanes)
                if lag is not None:
                    lags[alias] = lag
        late = {
            alias
            for alias, lag in lags.items()
            if (alias in self._behind or self._catches_up(alias))
            and is_held_back(self._config, alias, lag, held=alias in self._behind)
        }
        self._hold_back((self._behind - lags.keys()) | late, lags)
        return self.now != before

    def _lag(self, alias: str, lanes: Collection[Lane]) -> int | None:
        """How far a source is behind; none before each of its lanes has ended a batch."""
        board = self._board
        for lane in lanes:
            if alias in lane.clusters:
                note, progress = board.lanes.get(lane.name), board.progress.get(lane.name)
                fresh = note and progress and progress.generation == note.generation
                if not fresh or any(sp not in board.log_ends for sp in lane.partitions):
                    return None
        return board.lag(alias)

    def _catches_up(self, alias: str) -> bool:
        note = self._board.sources.get(alias)
        return note is not None and note.state is SourceState.CATCHING_UP

    def _hold_back(self, behind: Collection[str], lags: Mapping[str, int]) -> None:
        before, self._behind = self._behind, frozenset(behind)
        for alias in sorted(self._behind - before):
            limit = self._config.sources[alias].catch_up_records_per_second
            self._say(
                alias, f"is {lags[alias]:,} records behind: it catches up at {limit:,} a second"
            )
        for alias in sorted(before - self._behind):
            self._say(alias, "has caught up")
        self._decide()

    def _decide(self) -> None:
        self.now = plan_pace(self._config, self._board.trigger, self._sizes.used, self._behind)

    def _say(self, alias: str, words: str) -> None:
        self._emit(Event("source_pace", f"source {alias} {words}", {"source": alias}))
