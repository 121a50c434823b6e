"""How fast the sources are read now: by the config, and by who is behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aggregator.audit.document import SourceState
from aggregator.config.schema import Config
from aggregator.engine.board import Board
from aggregator.engine.events import Event, EventSink
from aggregator.model import Positions, SourcePartition
from aggregator.plan.pace import is_held_back, plan_pace


class Paces:
    """The pace in force, and what changes it. Used by the engine's thread alone."""

    def __init__(self, config: Config, board: Board, emit: EventSink) -> None:
        self._config = config
        self._board = board
        self._emit = emit
        self._behind: frozenset[str] = frozenset()
        self.now = plan_pace(config)

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._config = config
        self._behind &= config.sources.keys()
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

    def follow(self, running: Collection[SourcePartition]) -> bool:
        """Compare how far the sources that run are behind; True: a pace changes."""
        before, lags = self.now, {}
        for alias in {sp.cluster for sp in running}:
            source = self._config.sources.get(alias)
            if source is not None and source.catch_up_records_per_second is not None:
                lag = self._lag(alias, running)
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

    def _lag(self, alias: str, running: Collection[SourcePartition]) -> int | None:
        """How far a source is behind; none before the ends of all its logs are known."""
        known = self._board.log_ends
        if any(sp.cluster == alias and sp not in known for sp in running):
            return None
        return self._board.lag(alias)

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
        self.now = plan_pace(self._config, self._behind)

    def _say(self, alias: str, words: str) -> None:
        self._emit(Event("source_pace", f"source {alias} {words}", {"source": alias}))
