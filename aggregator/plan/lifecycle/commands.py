"""What is to be done, as values, and what came of it. The engine carries them out in order. Pure.

One that fails takes those with it that `needs` it: nothing starts from a position that could not be
committed. Their partitions are judged anew by the next step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.model.errors import AggregatorError
from aggregator.model.events import Event
from aggregator.model.values import Lane, Positions, Route, Skip, SourcePartition, TopicPartition
from aggregator.plan.lanes.rate_limits import Pace
from aggregator.plan.positions.gaps import GapRecord
from aggregator.plan.snapshot import Look, TopicsSeen

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Check the transforms of a look's plan, and change the hub as it says.

    The result is a `Ready`: the hub may refuse some of it, and people decide about gaps meanwhile.
    """

    look: Look


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
    """Keep which topics the sources were seen to have, beyond what is kept."""

    topics: TopicsSeen


@dataclass(frozen=True, slots=True)
class AskHub:
    """Ask for the log ranges of hub topics; the result is a `HubLogs`."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Distrust:
    """Commit, all at once, what is not believed before the hub was looked into.

    `positions` as no clean ones, with their `ends`: anything beyond lies behind these ends of the
    hub. Of the sources `opened` (alias) so do partitions without a position; of those in `closed`
    nothing is left to be looked for.
    """

    positions: Positions = field(default_factory=Positions)
    ends: Mapping[SourcePartition, Ends] = field(default_factory=dict)
    opened: Mapping[str, Ends] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Recover:
    """Begin to look what the hub holds of these partitions; the result is a `Recovered`, later.

    `alone`: no lane of ours runs, so the hub can be expected to come to rest. `left_at` are moments
    up to which partitions were read.
    """

    partitions: frozenset[SourcePartition]
    look: Look
    alone: bool
    left_at: Mapping[SourcePartition, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hole:
    """A partition of which the hub lacks something below what it holds: what to leave out then.

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

    `tail` is how many offsets it read for so many partitions, `found` how many records there were
    beyond the checkpoint, `seconds` how long it took. `silent` are partitions to be recovered again
    later, and why: their source did not tell whether what was found is of it. So are those that
    are `waiting` for a hub topic that does not show all that it holds; `waits` says why it does
    not. Nothing was committed of these.
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
    """Let a lane end as soon as its tasks have told where they are."""

    name: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Let a lane read no more of these partitions while it goes on."""

    name: str
    partitions: frozenset[SourcePartition]


@dataclass(frozen=True, slots=True)
class Finish:
    """Stop a lane that has ended, or is to, and commit where it got to; the result is the text of
    what went wrong, or "". `clean`: its tasks have told that they send nothing more.
    """

    name: str
    clean: bool


@dataclass(frozen=True, slots=True)
class Release:
    """Commit where a lane has given these partitions up."""

    name: str
    partitions: frozenset[SourcePartition]


@dataclass(frozen=True, slots=True)
class SetPace:
    """Read at this pace from now on."""

    pace: Pace


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Have a look at the clusters soon."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Something that people are told."""

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
    | LookAgain
    | Tell
    | Abort
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a command: a result, or an error; or it was not tried, as an earlier failed."""

    command: Command
    result: object = None
    error: Exception | None = None
    dropped: bool = False
