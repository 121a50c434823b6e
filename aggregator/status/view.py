"""All that is known of a running instance at one moment, as immutable values.

The engine makes one about once a second. Nothing is decided from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.datapath.connector.reports import LaneReport
from aggregator.model.values import Part, Pause, Positions
from aggregator.plan.lifecycle.inputs import Measured
from aggregator.plan.lifecycle.state import State
from aggregator.status.figures import SourceFigures
from aggregator.status.schema import BackfillStatus, Phase, QuarantineStatus
from aggregator.status.service_status import ServicePart


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """A lane's last report: the records of all its lives since the start, and when it was made."""

    records: int = 0
    replayed: int = 0
    at_ms: int | None = None
    generation: int = 0
    report: LaneReport | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The newest commit of the checkpoint; `error` says why the next one is not there yet."""

    seq: int | None = None
    epoch: int | None = None
    at_ms: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A moment of a run. `config` is the one in force; `state` is what has been decided by then.

    `paused` are sources, `parts` topics and partitions; `source_errors` says what services cannot
    do for a source. `services` has the parts of those that are on, by their names.
    `waiting` are keys of the config that was read last which hold from the next start on. `ended`
    are lanes that have ended as all stops: name -> what went wrong, or "". `replayed_before` are
    the records that lanes had written of what recoveries before the last one found missing.
    `config_error` says why the newest config cannot be used.
    """

    config: Config
    state: State
    started_at: datetime
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    phase: Phase = Phase.STARTING
    reason: str = ""
    paused: Mapping[str, Pause] = field(default_factory=dict)
    parts: Mapping[Part, Pause] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    measured: Measured = field(default_factory=Measured)
    positions: Positions = field(default_factory=Positions)
    progress: Mapping[str, LaneProgress] = field(default_factory=dict)
    figures: Mapping[str, SourceFigures] = field(default_factory=dict)
    committed: Committed = field(default_factory=Committed)
    source_errors: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, ServicePart] = field(default_factory=dict)
    backfills: tuple[BackfillStatus, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict)
    replayed_before: int = 0
    config_error: str = ""

    @property
    def quarantined(self) -> Mapping[str, int]:
        """Records of each source (alias) that the hub refused, since the start."""
        found = self.services.get("quarantine")
        return found.sources if isinstance(found, QuarantineStatus) else {}

    @property
    def replayed(self) -> int:
        """Records that recoveries found missing and the lanes have written, since the start."""
        return sum(it.replayed for it in self.progress.values())


def first_view(config: Config) -> View:
    """The view of a run that has not begun."""
    now = datetime.now(UTC)
    return View(config, State(config), now, now)


def waiting_view(config: Config, reason: str) -> View:
    """The view of a standby instance, and which writer it waits for."""
    return replace(first_view(config), phase=Phase.STANDBY, reason=reason)
