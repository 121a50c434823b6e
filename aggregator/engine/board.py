"""What a running engine knows, gathered in one place and told as the status document."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aggregator import __version__
from aggregator.audit.document import (
    CheckpointStatus,
    LaneState,
    LaneStatus,
    Phase,
    QuarantineStatus,
    RecoveryStatus,
    SourceState,
    SourceStatus,
    Status,
)
from aggregator.audit.gaps import gaps_status, lost_offsets
from aggregator.config.schema import Config
from aggregator.connector.reports import LaneReport
from aggregator.engine.figures import SourceFigures
from aggregator.engine.partitions import behind_fields, partitions_of
from aggregator.flow.stage import Stage
from aggregator.flow.state import State
from aggregator.model import Route, SourcePartition
from aggregator.plan.behind import Delay, longest_by_source
from aggregator.plan.gaps import GapRecord
from aggregator.plan.plan import Plan

SHOWN_AS_HELD = (Stage.OUT, Stage.HELD, Stage.QUARANTINED, Stage.LOST, Stage.RESTING, Stage.DONE)


@dataclass(frozen=True, slots=True)
class LaneNote:
    """What the board shows of a lane."""

    state: LaneState
    generation: int
    partitions: tuple[SourcePartition, ...]
    restarts: int = 0
    reason: str = ""
    leaving: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """What a lane has told last: the records of all its lives since the start, and when it was."""

    records: int = 0
    replayed: int = 0
    at_ms: int | None = None
    generation: int = 0
    report: LaneReport | None = None


@dataclass(slots=True)
class SourceNote:
    """What the board remembers of a source."""

    state: SourceState
    since: datetime
    reason: str = ""
    cluster_id: str = ""


@dataclass(slots=True)
class Board:
    """Written by the engine's threads, read by anybody through `document`."""

    config: Config
    phase: Phase = Phase.STARTING
    reason: str = ""
    hub_cluster_id: str = ""
    routes: tuple[Route, ...] = ()
    warnings: tuple[str, ...] = ()
    lanes: dict[str, LaneNote] = field(default_factory=dict)
    progress: Mapping[str, LaneProgress] = field(default_factory=dict)
    sources: dict[str, SourceNote] = field(default_factory=dict)
    positions: Mapping[SourcePartition, int] = field(default_factory=dict)
    log_ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    behind: Mapping[SourcePartition, Delay] = field(default_factory=dict)
    figures: Mapping[str, SourceFigures] = field(default_factory=dict)
    paused: Mapping[str, datetime] = field(default_factory=dict)
    held: Mapping[SourcePartition, str] = field(default_factory=dict)
    stuck: Mapping[SourcePartition, str] = field(default_factory=dict)
    waiting: Mapping[SourcePartition, str] = field(default_factory=dict)
    """What is to start when another lane has let it go: the reason in words."""
    seq: int | None = None
    epoch: int | None = None
    committed_ms: int | None = None
    checkpoint_error: str = ""
    recovery: RecoveryStatus | None = None
    replayed_before: int = 0
    """Records that had been found missing and were written before the last recovery."""
    recovered_at: datetime | None = None
    ended: Mapping[str, str] = field(default_factory=dict)
    """Lanes that have ended as all stops: name -> what went wrong, or ""."""
    quarantine: QuarantineStatus | None = None
    quarantined: Mapping[str, int] = field(default_factory=dict)
    gaps: tuple[GapRecord, ...] = ()
    gapped: Mapping[SourcePartition, str] = field(default_factory=dict)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    lock: threading.RLock = field(default_factory=threading.RLock)

    def source(self, alias: str, state: SourceState, reason: str = "") -> bool:
        """Note the state of a source; True when it is news."""
        with self.lock:
            known = self.sources.get(alias)
            if known is not None and (known.state, known.reason) == (state, reason):
                return False
            news = known is None or known.state != state
            since = datetime.now(UTC) if news or known is None else known.since
            cluster_id = known.cluster_id if known is not None else ""
            self.sources[alias] = SourceNote(state, since, reason, cluster_id)
            return news

    def planned(self, plan: Plan, unreachable: Mapping[str, str]) -> None:
        """Note a plan, and the sources (alias -> why) that gave no answer to it."""
        with self.lock:
            self.routes, self.warnings = plan.routes, plan.warnings
            self.hub_cluster_id = plan.hub.cluster_id
            for alias in self.config.sources:
                if alias in unreachable and alias not in self.paused:
                    self.source(alias, SourceState.UNREACHABLE, unreachable[alias])
                elif alias not in self.sources:
                    self.source(alias, SourceState.RUNNING)
                if alias in plan.sources:
                    self.sources[alias].cluster_id = plan.sources[alias].cluster_id

    def follow(self, state: State, paused: Mapping[str, datetime]) -> None:
        """Show what is decided."""
        with self.lock:
            self.paused = paused
            self.gaps = tuple(state.gaps.values())
            at = state.partitions.items()
            self.gapped = {sp: it.why for sp, it in at if it.stage is Stage.QUARANTINED}
            self.waiting = {sp: it.why for sp, it in at if it.stage is Stage.READY and it.why}
            self.held = {sp: it.why for sp, it in at if it.stage in SHOWN_AS_HELD and it.why}
            self.lanes = lanes_of(state, self.phase, self.ended)
            if state.recovered is not None and state.recovered[0] != self.recovered_at:
                self.recovered_at, found = state.recovered
                self.replayed_before = self.replayed()
                self.recovery = RecoveryStatus(
                    at=self.recovered_at,
                    partitions=found.partitions,
                    tail=found.tail,
                    found=found.found,
                    holed=len(found.holes),
                    replayed=0,
                    seconds=round(found.seconds, 3),
                )

    def lags_of_running(self, state: State) -> dict[str, int]:
        """How far the sources are behind that run and of which all log ends are known."""
        running = state.in_lanes
        unknown = {sp.cluster for sp in running if sp not in self.log_ends}
        known = {sp.cluster for sp in running} - unknown
        return {alias: lag for alias, lag in self.lags().items() if alias in known}

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on: sources that it does not name are shown no more."""
        with self.lock:
            self.config = config
            self.sources = {
                alias: it for alias, it in self.sources.items() if alias in config.sources
            }
            self.routes = tuple(it for it in self.routes if it.cluster in config.sources)
            self.held = {sp: why for sp, why in self.held.items() if sp.cluster in config.sources}
            self.lanes = {
                name: note
                for name, note in self.lanes.items()
                if any(sp.cluster in config.sources for sp in note.partitions)
            }

    def lag(self, alias: str) -> int | None:
        """Offsets that a source is behind, over its partitions of known lag; None if none is."""
        return self.lags().get(alias)

    def lags(self) -> dict[str, int]:
        """The same of all sources of which any is known; one pass over the partitions."""
        lags: dict[str, int] = {}
        for sp, position in self.positions.items():
            end = self.log_ends.get(sp)
            if end is not None:
                lags[sp.cluster] = lags.get(sp.cluster, 0) + max(0, end - position)
        return lags

    @property
    def catching_up(self) -> frozenset[str]:
        """Sources (aliases) that copy what has waited for long."""
        return frozenset(
            alias for alias, it in self.sources.items() if it.state is SourceState.CATCHING_UP
        )

    def document(self) -> Status:
        """The status as it is now."""
        with self.lock:
            partitions, lags = partitions_of(self), self.lags()
            behind = longest_by_source(self.behind)
            return Status(
                name=self.config.name,
                phase=self.phase,
                version=__version__,
                host=socket.gethostname(),
                pid=os.getpid(),
                started_at=self.started_at,
                at=datetime.now(UTC),
                hub_cluster_id=self.hub_cluster_id,
                checkpoint_interval_seconds=self.config.stream.checkpoint_interval,
                sources=tuple(
                    self._source(alias, lags.get(alias), behind.get(alias))
                    for alias in self.sources
                ),
                lanes=tuple(
                    _lane(name, note, self.progress.get(name, LaneProgress()))
                    for name, note in sorted(self.lanes.items())
                ),
                partitions=partitions,
                checkpoint=CheckpointStatus(
                    path=self.config.checkpoint.path,
                    seq=self.seq,
                    epoch=self.epoch,
                    committed_at=_moment(self.committed_ms),
                    error=self.checkpoint_error,
                ),
                recovery=self._recovery(),
                quarantine=self.quarantine,
                gaps=gaps_status(self.gaps),
                warnings=self.warnings,
                reason=self.reason,
            )

    def replayed(self) -> int:
        """Records that recoveries found missing and the lanes have written, since the start."""
        return sum(progress.replayed for progress in self.progress.values())

    def _recovery(self) -> RecoveryStatus | None:
        if self.recovery is None:
            return None
        return self.recovery.model_copy(update={"replayed": self.replayed() - self.replayed_before})

    def _source(self, alias: str, lag: int | None, behind: Delay | None) -> SourceStatus:
        note, figures = self.sources[alias], self.figures.get(alias, SourceFigures())
        gaps = [record for record in self.gaps if record.gap.partition.cluster == alias]
        routes = [route for route in self.routes if route.cluster == alias]
        return SourceStatus(
            alias=alias,
            state=note.state,
            since=self.paused.get(alias, note.since),
            reason=note.reason,
            cluster_id=note.cluster_id,
            topics=len(routes),
            partitions=sum(route.partitions for route in routes),
            lag=lag,
            **behind_fields(behind),
            records=figures.records,
            bytes=figures.bytes_,
            latency=figures.latency,
            copied=figures.copied,
            skipped=figures.skipped,
            looped=figures.looped,
            quarantined=self.quarantined.get(alias, 0),
            gaps=len(gaps),
            lost=lost_offsets(gaps),
        )


def lanes_of(state: State, phase: Phase, ended: Mapping[str, str]) -> dict[str, LaneNote]:
    """The lanes that run, and those that are over while nobody else reads their partitions."""
    notes = {
        name: LaneNote(
            LaneState.FAILED if over.reason else LaneState.DONE,
            over.generation,
            over.lane.partitions,
            over.restarts,
            over.reason,
        )
        for name, over in state.over.items()
    }
    for name, life in state.lanes.items():
        draining = life.ends_by is not None or phase is Phase.STOPPING
        stage = LaneState.DRAINING if draining else LaneState.RUNNING
        if name in ended:
            stage = LaneState.FAILED if ended[name] else LaneState.DONE
        notes[name] = LaneNote(
            stage if life.key else LaneState.STARTING,
            life.generation,
            life.lane.partitions,
            life.restarts,
            ended.get(name, ""),
            tuple(sorted({sp.cluster for sp in life.leaving})),
        )
    return notes


def _lane(name: str, note: LaneNote, progress: LaneProgress) -> LaneStatus:
    return LaneStatus(
        name=name,
        state=note.state,
        generation=note.generation,
        clusters=tuple(sorted({sp.cluster for sp in note.partitions})),
        partitions=len(note.partitions),
        records=progress.records,
        reported_at=_moment(progress.at_ms),
        leaving=note.leaving,
        restarts=note.restarts,
        reason=note.reason,
    )


def _moment(millis: int | None) -> datetime | None:
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)
