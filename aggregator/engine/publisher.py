"""Publishes a view of each moment, and the inputs of the engine's services.

Nothing is decided here, and nothing of it holds the engine up: services have threads of their own.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.engine.commits.observer import Observer
from aggregator.engine.control.commands import Control
from aggregator.features.heartbeats.heartbeats import beating
from aggregator.features.service import EngineProgress, Now
from aggregator.features.services import Services
from aggregator.model.values import SourceState
from aggregator.plan.lifecycle.inputs import Measured
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import State
from aggregator.status.schema import BackfillStatus, Phase
from aggregator.status.view import Committed, View


class StatusPublisher:
    """Used by the engine's thread alone; a receiver may keep a view."""

    def __init__(
        self,
        view: View,
        observer: Observer,
        services: Services,
        control: Control,
        on_view: Callable[[View], None],
        backfills: Callable[[], tuple[BackfillStatus, ...]],
    ) -> None:
        self.view = view
        self._observer = observer
        self._services = services
        self._control = control
        self._on_view = on_view
        self._backfills = backfills

    def publish(self, state: State, measured: Measured | None, phase: Phase | None = None) -> None:
        """Publish a view of now; `phase` changes it from now on."""
        before, observer = self.view, self._observer
        replayed_before = before.replayed_before
        if before.state.recovered != state.recovered:
            replayed_before = before.replayed
        figures = observer.figures.at(time.monotonic(), _catching_up(state))
        self.view = replace(
            before,
            config=self._config,
            state=state,
            at=datetime.now(UTC),
            phase=phase or before.phase,
            paused=self._control.paused,
            parts=self._control.parts,
            waiting=self._control.waiting,
            measured=measured or before.measured,
            positions=observer.positions,
            progress=observer.progress,
            figures=figures,
            committed=Committed(
                observer.state.seq, observer.state.epoch, observer.committed_ms, observer.error
            ),
            source_errors=self._services.source_errors(),
            services=self._services.status(),
            backfills=self._backfills(),
            replayed_before=replayed_before,
            config_error=self._control.config_error,
        )
        self._on_view(self.view)

    def publish_ended(
        self, state: State, measured: Measured | None, ended: Mapping[str, str]
    ) -> None:
        """The same, with the lanes that have ended as all stops: name -> what went wrong."""
        self.view = replace(self.view, ended=dict(ended))
        self.publish(state, measured)

    def follow(self, progress: EngineProgress) -> None:
        """Give the services what is planned, committed and read now."""
        state = progress.state
        states = {alias: life.state for alias, life in state.sources.items()}
        self._services.follow(
            Now(
                config=self._config,
                plan=state.plan,
                committed=self._observer.state,
                reading=beating(states, state.of(Stage.READING)),
                until_done=state.until_done,
                progress=progress,
            )
        )

    def end(self) -> None:
        """From here on no service begins anything new."""
        self._services.end()

    @property
    def _config(self) -> Config:
        return self._control.config


def _catching_up(state: State) -> frozenset[str]:
    states = state.sources.items()
    return frozenset(alias for alias, it in states if it.state is SourceState.CATCHING_UP)
