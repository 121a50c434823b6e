"""Commands as values, and their outcomes. The engine executes them in order. Pure.

When one fails, the commands that `needs` it are skipped: nothing starts from a position that could
not be committed. The next step judges their partitions again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.model.errors import AggregatorError
from aggregator.model.events import Event
from aggregator.model.values import Lane, Positions, Route, Skip, SourcePartition, TopicPartition
from aggregator.plan.lanes.rate_limits import Pace
from aggregator.plan.positions.gaps import GapRecord
from aggregator.plan.snapshot import ClusterSnapshot, TopicsSeen

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Check the transforms of a snapshot's plan and apply its changes to the hub.

    The result is a `Ready`: the hub may refuse some of it, and gaps may be decided meanwhile.
    """

    snapshot: ClusterSnapshot


@dataclass(frozen=True, slots=True)
class RecordGaps:
    """Write what was found or decided about gaps, before any position moves."""

    records: tuple[GapRecord, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Commit positions that were decided on; `why` names the commit."""

    positions: Positions
    why: str


@dataclass(frozen=True, slots=True)
class Remember:
    """Store topics seen at the sources that the checkpoint does not list yet."""

    topics: TopicsSeen


@dataclass(frozen=True, slots=True)
class AskHub:
    """Ask for the log ranges of hub topics; the result is a `HubLogs`."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Distrust:
    """Commit, in one go, what is not trusted until the hub has been read.

    `positions` as no clean ones, with their `ends`: anything beyond lies behind these ends of the
    hub. Of the sources `opened` (alias) so do partitions without a position; of those in `closed`
    nothing is left to search for. The hub topics `lost` of some hold less than was copied.
    """

    positions: Positions = field(default_factory=Positions)
    ends: Mapping[SourcePartition, Ends] = field(default_factory=dict)
    opened: Mapping[str, Ends] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()
    lost: Mapping[SourcePartition, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recover:
    """Begin reading what the hub holds of these partitions; a `Recovered` follows later.

    `alone`: no lane of this instance runs, so the hub's logs should stop growing. `left_at` are the
    moments up to which partitions were read.
    """

    partitions: frozenset[SourcePartition]
    snapshot: ClusterSnapshot
    alone: bool
    left_at: Mapping[SourcePartition, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hole:
    """What to skip in a partition of which the hub holds later records but lacks earlier ones.

    `ends` are the hub's before anything beyond the position came. It is true of one commit only: of
    this position, and of `snapshot` (see `Remembered.snapshots`).
    """

    position: int
    snapshot: int
    skip: Skip
    ends: Ends


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery found and has committed.

    `tail` is how many offsets it read for `partitions`, `found` how many records there were beyond
    the checkpoint, `seconds` how long it took. `silent` are partitions to recover again later, and
    why: their source did not confirm that the records found are its own. So are those `waiting` for
    a hub topic that does not show all of its records yet; `waits` has the reason. Nothing was
    committed for these.
    """

    holes: Mapping[SourcePartition, Hole] = field(default_factory=dict)
    records: tuple[GapRecord, ...] = ()
    partitions: int = 0
    tail: int = 0
    found: int = 0
    seconds: float = 0.0
    silent: Mapping[SourcePartition, str] = field(default_factory=dict)
    waiting: Mapping[SourcePartition, str] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """Commit where a lane begins, then start it; the result is a `Started`."""

    lane: Lane
    positions: Positions
    routes: tuple[Route, ...]
    holes: Mapping[SourcePartition, Hole] = field(default_factory=dict)
    until: Mapping[SourcePartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started:
    """A lane runs: its number, and the key by which its tasks are known."""

    generation: int
    key: str


@dataclass(frozen=True, slots=True)
class End:
    """End a lane as soon as its tasks have reported their positions."""

    name: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Stop reading these partitions in a lane that keeps running."""

    name: str
    partitions: frozenset[SourcePartition]


@dataclass(frozen=True, slots=True)
class Finish:
    """Stop a lane that has ended or must end, and commit its last positions.

    The result is an error text, or "". `clean`: its tasks report that they send nothing more.
    """

    name: str
    clean: bool


@dataclass(frozen=True, slots=True)
class Release:
    """Commit the positions at which a lane has released these partitions."""

    name: str
    partitions: frozenset[SourcePartition]


@dataclass(frozen=True, slots=True)
class SetPace:
    """Read at this pace from now on."""

    pace: Pace


@dataclass(frozen=True, slots=True)
class RequestDiscovery:
    """Run discovery soon."""


@dataclass(frozen=True, slots=True)
class Emit:
    """Emit an event."""

    event: Event


@dataclass(frozen=True, slots=True)
class Abort:
    """End the run with this error."""

    error: AggregatorError


Command = (
    Prepare
    | RecordGaps
    | Move
    | Remember
    | AskHub
    | Distrust
    | Recover
    | Start
    | End
    | Hold
    | Finish
    | Release
    | SetPace
    | RequestDiscovery
    | Emit
    | Abort
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command: a result, an error, or not tried because an earlier one failed."""

    command: Command
    result: object = None
    error: Exception | None = None
    dropped: bool = False
