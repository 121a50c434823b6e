"""What an engine tells: a view of each moment, and the clusters what is committed and alive.

Nothing is decided here, and nothing of it holds the engine up: who is told has a thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.engine.commits.observer import Observer
from aggregator.engine.control.commands import Control
from aggregator.features.acls.acl_sync import AclSync
from aggregator.features.completeness.claim_maker import CompletenessWatch
from aggregator.features.dedup.event_keeper import DedupKeeper
from aggregator.features.delta_sink.supervisor import TeeBeside
from aggregator.features.groups.group_sync import GroupSync
from aggregator.features.groups.position_groups import Groups
from aggregator.features.heartbeats.heartbeats import Heartbeats
from aggregator.features.heartbeats.records import beating
from aggregator.features.quarantine.follower import QuarantineWatch
from aggregator.features.verify.latest_audit import AuditWatch
from aggregator.model.events import Event, EventSink
from aggregator.model.values import HEARTBEATS_TOPIC, SourceState
from aggregator.plan.lifecycle.inputs import Measured
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import State
from aggregator.status.schema import BackfillStatus, HeartbeatsStatus, Phase
from aggregator.status.view import Committed, Complete, View


@dataclass(frozen=True, slots=True)
class Told:
    """The threads that an engine's view is made of, and those that tell others."""

    observer: Observer
    quarantine: QuarantineWatch
    audits: AuditWatch
    groups: Groups
    heartbeats: Heartbeats
    group_sync: GroupSync
    completeness: CompletenessWatch
    acl_sync: AclSync
    tee: TeeBeside
    dedup: DedupKeeper


class Teller:
    """Used by the engine's thread alone; whoever is given a view may keep it."""

    def __init__(
        self,
        view: View,
        told: Told,
        control: Control,
        emit: EventSink,
        on_view: Callable[[View], None],
        backfills: Callable[[], tuple[BackfillStatus, ...]],
    ) -> None:
        self.view = view
        self._told = told
        self._control = control
        self._emit = emit
        self._on_view = on_view
        self._backfills = backfills
        self._untold: Mapping[str, str] = {}
        """Why a source cannot be told what is committed of it."""

    def tell(self, state: State, measured: Measured | None, phase: Phase | None = None) -> None:
        """Hand out a view of now; `phase` changes it from now on."""
        told, before, observer = self._told, self.view, self._told.observer
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
            quarantine=told.quarantine.latest,
            audit=told.audits.latest,
            groups=self._untold,
            heartbeats=self._beats,
            group_sync=told.group_sync.status,
            completeness=Complete(
                told.completeness.latest,
                told.completeness.late({it: own.age for it, own in figures.items()}),
                told.completeness.keeper.failing,
            ),
            acl_sync=told.acl_sync.status,
            tee=told.tee.status,
            dedup=told.dedup.known,
            backfills=self._backfills(),
            replayed_before=replayed_before,
            config_error=self._control.config_error,
        )
        self._on_view(self.view)

    def tell_ended(self, state: State, measured: Measured | None, ended: Mapping[str, str]) -> None:
        """The same, with the lanes that have ended as all stops: name -> what went wrong."""
        self.view = replace(self.view, ended=dict(ended))
        self.tell(state, measured)

    def tell_clusters(self, state: State) -> None:
        """Have the clusters told what is committed, what is read, where groups stand, who reads."""
        self.publish()
        states = {alias: life.state for alias, life in state.sources.items()}
        self._told.heartbeats.follow(self._config, beating(states, state.of(Stage.READING)))
        self._told.group_sync.follow(self._config, state.plan, self._told.observer.state)
        self._told.acl_sync.follow(self._config, state.plan)

    def publish(self) -> None:
        """Have the sources told what is committed of them."""
        groups = self._told.groups
        if not groups.is_wanted(self._config):
            return
        groups.follow(self._config, self._told.observer.state.positions)
        failures = groups.failures
        for alias in failures.keys() - self._untold.keys():
            words = f"source {alias} cannot be told what is committed: {failures[alias]}"
            self._emit(Event("group_failed", words, {"source": alias}))
        self._untold = failures

    def end(self) -> None:
        """From here on nobody looks whether the sources are read, and no more of the hub lands."""
        self._told.heartbeats.end()
        self._told.tee.end()

    @property
    def _config(self) -> Config:
        return self._control.config

    @property
    def _beats(self) -> HeartbeatsStatus | None:
        if not self._config.heartbeats:
            return None
        found = self._told.heartbeats
        return HeartbeatsStatus(
            topic=HEARTBEATS_TOPIC, sources=tuple(sorted(found.written)), error=found.failure
        )


def _catching_up(state: State) -> frozenset[str]:
    states = state.sources.items()
    return frozenset(alias for alias, it in states if it.state is SourceState.CATCHING_UP)
