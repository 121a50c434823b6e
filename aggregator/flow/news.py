"""What a step is told: looks, the checkpoint, reports of lanes, probes, orders, outcomes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aggregator.config.schema import Config
from aggregator.flow.commands import Outcome
from aggregator.model import OffsetRange, Positions, SourcePartition, TopicPartition
from aggregator.plan.gaps import GapRecord
from aggregator.plan.look import Look
from aggregator.plan.positions import Remembered
from aggregator.plan.suspects import Seen


@dataclass(frozen=True, slots=True)
class Known:
    """What the checkpoint knows, and the newest positions of what runs, which are ahead of it.

    Of a partition in `unclean` the hub may hold more than was committed. `hub_ends` is how far the
    hub was when something of ours last ended cleanly; `is_empty` when there is no commit at all.
    """

    remembered: Remembered = field(default_factory=Remembered)
    unclean: frozenset[SourcePartition] = frozenset()
    hub_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    epoch: int = 0
    is_empty: bool = True

    @property
    def positions(self) -> Positions:
        """Where each partition is."""
        return self.remembered.positions


@dataclass(frozen=True, slots=True)
class LaneSeen:
    """A lane as its tasks tell of it, and its query.

    `states` has only partitions that are not being read. `ended`: nothing more is sent, and all
    positions are exact. `failure` says why the query ended by itself, None while that is not known.
    """

    active: bool
    whole: bool = False
    ended: bool = False
    failure: str | None = None
    states: Mapping[SourcePartition, str] = field(default_factory=dict)
    reasons: Mapping[SourcePartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundGaps:
    """The result of `Prepare`: the records of the table of gaps, or why they cannot be read."""

    records: Mapping[str, GapRecord] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class News:
    """Everything that a step may go by. `turn` is False for what follows commands at once.

    `paused` and `leaving` are sources (alias -> why) of which nothing is to run. `open` are the
    keys of lanes that failed and have a task that may still send. `lags` are the sources whose lag
    is known, `catching_up` those that copy what has waited for long. `again`: somebody wants a look
    at the clusters soon. `look_failed`: the last one found nothing out.
    """

    config: Config
    at: datetime
    known: Known = field(default_factory=Known)
    lanes: Mapping[str, LaneSeen] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    open: frozenset[str] = frozenset()
    paused: Mapping[str, str] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    look: Look | None = None
    outcomes: tuple[Outcome, ...] = ()
    lags: Mapping[str, int] = field(default_factory=dict)
    catching_up: frozenset[str] = frozenset()
    again: bool = False
    look_failed: bool = False
    turn: bool = True


@dataclass(frozen=True, slots=True)
class HubLogs:
    """The result of `AskHub`."""

    logs: Mapping[TopicPartition, OffsetRange]
