"""The inputs of a step: snapshots, checkpoint, lane reports, probes, orders, outcomes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aggregator.config.schema import Config
from aggregator.model.values import OffsetRange, Part, Positions, SourcePartition, TopicPartition
from aggregator.plan.health.delays import Delay, lags
from aggregator.plan.health.suspects import Seen
from aggregator.plan.lifecycle.commands import Ends, Outcome
from aggregator.plan.plan import Plan
from aggregator.plan.positions.gaps import GapRecord
from aggregator.plan.positions.start import Remembered
from aggregator.plan.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Known:
    """What the checkpoint knows, and the newest positions of what runs, which are ahead of it.

    Of a partition in `unclean` the hub may hold more than was committed. `hub_ends` are the last
    known ends of the hub, `by_hand` those that set positions were based on, `own_ends` those in the
    commit of each partition; `is_empty` when there is no commit at all. `doubts` are sources
    (alias) whose unknown partitions must be searched for in the hub, behind these ends. The ids of
    the hub topics (name -> id) are those that belong to `hub_ends`, to each partition's `own_ends`,
    and to the ends of a doubt.
    """

    remembered: Remembered = field(default_factory=Remembered)
    unclean: frozenset[SourcePartition] = frozenset()
    hub_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    epoch: int = 0
    is_empty: bool = True
    by_hand: Mapping[SourcePartition, Ends] = field(default_factory=dict)
    own_ends: Mapping[SourcePartition, Ends] = field(default_factory=dict)
    doubts: Mapping[str, Ends] = field(default_factory=dict)
    hub_ids: Mapping[str, str] = field(default_factory=dict)
    own_ids: Mapping[SourcePartition, Mapping[str, str]] = field(default_factory=dict)
    doubt_ids: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def positions(self) -> Positions:
        """Where each partition is."""
        return self.remembered.positions


@dataclass(frozen=True, slots=True)
class LaneSeen:
    """A lane as its tasks report it, and its query.

    `states` has only partitions that are not being read. `ended`: nothing more is sent, and all
    positions are exact. `failure` says why the query ended by itself, None while that is not known.
    `errors` are the sources (alias -> why) that give its tasks nothing. `cuts` are offsets from
    which on a log is another one than was read.
    """

    active: bool
    whole: bool = False
    ended: bool = False
    failure: str | None = None
    states: Mapping[SourcePartition, str] = field(default_factory=dict)
    reasons: Mapping[SourcePartition, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    cuts: Mapping[SourcePartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measured:
    """The sources as they were measured, about once a second.

    `ends` are log ends (NEXT offsets) of what is read, as probes reported them, and `behind` since
    when the positions are behind those. `lags` are offsets, of the sources (alias) of which any is
    known. `stuck` says why a partition does not move though its log does, `silent` why a source
    gives no answer. `answered` are those that have ever answered. `arrivals` is how many records
    come in a few seconds. `late` is since when the broker of a partition owes an answer, in ms
    since 1970. Of a partition in `stale` the end is an old one: its source, or its broker, no
    longer answers. `positions` are those that the ends were compared with.
    """

    ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    behind: Mapping[SourcePartition, Delay] = field(default_factory=dict)
    lags: Mapping[str, int] = field(default_factory=dict)
    stuck: Mapping[SourcePartition, str] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()
    arrivals: Mapping[str, float] = field(default_factory=dict)
    late: Mapping[SourcePartition, int] = field(default_factory=dict)
    stale: frozenset[SourcePartition] = frozenset()
    positions: Positions | None = field(default=None, compare=False, repr=False)

    def known_lags(self, positions: Positions) -> Mapping[str, int]:
        """How far these positions are behind the log ends, without the old ones: by source."""
        if positions is self.positions and not self.stale:
            return self.lags
        return lags(positions, self.known_ends)

    @property
    def known_ends(self) -> Mapping[SourcePartition, int]:
        """The log ends without the old ones, beyond which a log may have grown since."""
        if not self.stale:
            return self.ends
        return {sp: end for sp, end in self.ends.items() if sp not in self.stale}


@dataclass(frozen=True, slots=True)
class FoundGaps:
    """The records of the table of gaps, or why they cannot be read."""

    records: Mapping[str, GapRecord] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Ready:
    """The result of `Prepare`: the plan as far as the hub lets it be, and the gaps by now."""

    plan: Plan
    gaps: FoundGaps = field(default_factory=FoundGaps)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """Everything that a step may use. `turn` is False for a step that directly follows commands.

    `paused` and `leaving` are sources (alias -> why) that must not run, `parts` topics and
    partitions (-> why) of others. `open` are the keys of lanes that failed and have a task that may
    still send. `measured` is None where nothing was measured since the last step. `again`:
    discovery was requested. `discovery_failed`: the last one failed. `backfilled` are partitions of
    which a backfill may still write records, and the offset where it ends.
    """

    config: Config
    at: datetime
    known: Known = field(default_factory=Known)
    lanes: Mapping[str, LaneSeen] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    open: frozenset[str] = frozenset()
    paused: Mapping[str, str] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    snapshot: ClusterSnapshot | None = None
    outcomes: tuple[Outcome, ...] = ()
    measured: Measured | None = None
    again: bool = False
    discovery_failed: bool = False
    turn: bool = True
    parts: Mapping[Part, str] = field(default_factory=dict)
    backfilled: Mapping[SourcePartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HubLogs:
    """The result of `AskHub`: the logs of topics, and the topics that do not report all of them."""

    logs: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
