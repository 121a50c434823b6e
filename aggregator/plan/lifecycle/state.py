"""All that a running instance keeps for its decisions, in one value. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aggregator.config.schema import Config
from aggregator.model.values import Lane, Part, Route, SourcePartition, SourceState
from aggregator.plan.health.suspects import ReadState
from aggregator.plan.lanes.rate_limits import Pace
from aggregator.plan.lifecycle.commands import Hole, Recovered
from aggregator.plan.lifecycle.inputs import HubLogs
from aggregator.plan.lifecycle.stage import IN_A_LANE, Stage
from aggregator.plan.plan import Plan
from aggregator.plan.positions.gaps import GapRecord
from aggregator.plan.positions.start import GapKind
from aggregator.plan.snapshot import ClusterSnapshot, TopicsSeen


@dataclass(frozen=True, slots=True)
class Partition:
    """One source partition: its stage, why, and what has to be known to leave that stage.

    `lane` has it while it is in one. `left_at` is until when a lane read it, `until` when it is
    tried again (monotonic seconds). `key` names the life of a lane whose tasks may still send of
    it. `suspect` and `stopped` say why its lane must release it. `hole` is what its next lane must
    skip. `cut` is from where on its log is another one than was read, and `damaged`: its reader
    could not read the record at its position; both until the next judgement.
    `stuck`: a lane gave it up last because a hub partition took nothing of it; so it gets a lane
    beside the others.
    """

    stage: Stage = Stage.OUT
    why: str = ""
    lane: str = ""
    left_at: float = 0.0
    until: float = 0.0
    key: str = ""
    suspect: str = ""
    stopped: str = ""
    hole: Hole | None = None
    cut: int | None = None
    damaged: bool = False
    stuck: bool = False


@dataclass(frozen=True, slots=True)
class LaneLife:
    """A lane that runs: what it reads, by which routes, and how it is ending.

    `leaving` are partitions that it must stop reading. `ends_by` is when a lane that is ending is
    stopped by force. `finished`: it ends because it has copied all it had to copy.
    """

    lane: Lane
    routes: tuple[Route, ...]
    generation: int = 0
    key: str = ""
    restarts: int = 0
    leaving: frozenset[SourcePartition] = frozenset()
    ends_by: float | None = None
    finished: bool = False


@dataclass(frozen=True, slots=True)
class LaneOver:
    """A lane that has ended, until another one reads its partitions; `reason` if it failed."""

    lane: Lane
    generation: int
    restarts: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SourceLife:
    """A source's state, since when, and the reason unless it is obvious.

    `cluster_id` is the last that it reported.
    """

    state: SourceState
    since: datetime
    reason: str = ""
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class Failures:
    """How often something has failed lately, when it last did, and since when."""

    count: int
    at: float
    since: float


class Stages:
    """Partitions by their stages, and which are damaged: of one value of `State.partitions`."""

    def __init__(self, partitions: Mapping[SourcePartition, Partition]) -> None:
        self.partitions = partitions
        groups: dict[Stage, list[SourcePartition]] = {}
        damaged = []
        for sp, it in partitions.items():
            groups.setdefault(it.stage, []).append(sp)
            if it.damaged:
                damaged.append(sp)
        self.damaged = frozenset(damaged)
        self._of = {frozenset({stage}): frozenset(own) for stage, own in groups.items()}

    def of(self, stages: frozenset[Stage]) -> frozenset[SourcePartition]:
        """The partitions in these stages: the same value each time."""
        if stages not in self._of:
            each = (self._of.get(frozenset({it}), frozenset()) for it in stages)
            self._of[stages] = frozenset[SourcePartition]().union(*each)
        return self._of[stages]


@dataclass(slots=True)
class LastStages:
    """The stages that were asked for last. States that follow each other share it.

    Most steps move no partition, but ask several times a second who is in which stage.
    """

    known: Stages = field(default_factory=lambda: Stages({}))

    def of(self, partitions: Mapping[SourcePartition, Partition]) -> Stages:
        """Those of these partitions, which are the same value as long as none has changed."""
        # Read once: a view has its state in other threads.
        known = self.known
        if known.partitions is not partitions:
            known = self.known = Stages(partitions)
        return known


@dataclass(frozen=True, slots=True)
class State:
    """The state of a run. `until_done`: it ends when all that existed at its start is copied.

    `refused` are the topics (alias, name) of which the hub has refused a record; `alone` the
    sources that share no lane. `begun`: its first lanes have been started. `undecided`: a decision
    is still to follow. `arrangement` are the lanes as they were last planned, of which some may
    still wait for others to end. `plan` is that of the last snapshot in use, also while there is no
    `snapshot` of the config in force. `asked_at` is when the awaited discovery was requested.
    `gap_error` is why no gap is decided until the next discovery, and `gap_error_reported` the last
    such error that was emitted. `refused_plan` is why a later plan was refused. `hub_logs` is what
    the hub held at the start, None before it has answered; `doubted`: it was decided from that what
    to trust of the checkpoint. `topics` are those of the sources, `kept` those that a restart will
    know of. `backfilled` are partitions that a backfill may still write, and where it ends.
    """

    config: Config
    until_done: bool = False
    fresh: bool = False
    begun: bool = False
    undecided: bool = False
    doubted: bool = False
    partitions: Mapping[SourcePartition, Partition] = field(default_factory=dict)
    lanes: Mapping[str, LaneLife] = field(default_factory=dict)
    over: Mapping[str, LaneOver] = field(default_factory=dict)
    arrangement: tuple[Lane, ...] = ()
    snapshot: ClusterSnapshot | None = None
    plan: Plan | None = None
    refused_plan: str = ""
    sources: Mapping[str, SourceLife] = field(default_factory=dict)
    stuck: frozenset[SourcePartition] = frozenset()
    topics: TopicsSeen = field(default_factory=TopicsSeen)
    kept: TopicsSeen = field(default_factory=TopicsSeen)
    asked_at: float | None = None
    judged: float = -1.0
    unread_snapshots: int = 0
    gaps: Mapping[str, GapRecord] = field(default_factory=dict)
    gap_error: str = ""
    gap_error_reported: str = ""
    backfilled: Mapping[SourcePartition, int] = field(default_factory=dict)
    reported: frozenset[tuple[str, str, bool]] = frozenset()
    failures: Mapping[str, Failures] = field(default_factory=dict)
    alone: frozenset[str] = frozenset()
    refused: frozenset[tuple[str, str]] = frozenset()
    recovering: frozenset[SourcePartition] = frozenset()
    recovers_alone: bool = False
    recovered: tuple[datetime, Recovered] | None = None
    hub_logs: HubLogs | None = None
    progress: Mapping[SourcePartition, ReadState] = field(default_factory=dict)
    gone: frozenset[tuple[str, str]] = frozenset()
    probed: Mapping[str, float] = field(default_factory=dict)
    until: Mapping[SourcePartition, int] = field(default_factory=dict)
    behind: frozenset[str] = frozenset()
    pace: Pace = field(default_factory=Pace)
    paused: Mapping[str, str] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    parts: Mapping[Part, str] = field(default_factory=dict)
    last_stages: LastStages = field(default_factory=LastStages, compare=False, repr=False)

    def at(self, sp: SourcePartition) -> Partition:
        """What is known of a partition."""
        return self.partitions.get(sp, Partition())

    def of(self, *stages: Stage) -> frozenset[SourcePartition]:
        """The partitions in these stages."""
        return self.last_stages.of(self.partitions).of(frozenset(stages))

    @property
    def in_lanes(self) -> frozenset[SourcePartition]:
        """Partitions that a lane has."""
        return self.of(*IN_A_LANE)

    @property
    def damaged(self) -> frozenset[SourcePartition]:
        """What a reader could not read, and is not settled."""
        open_ = {
            it.gap.partition
            for it in self.gaps.values()
            if it.gap.kind is GapKind.DAMAGED and not it.resolved
        }
        return self.last_stages.of(self.partitions).damaged | open_

    @property
    def lost_keys(self) -> set[str]:
        """Lives of lanes that failed, of which a task may still send."""
        return {self.at(sp).key for sp in self.of(Stage.LOST)}

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way: what can be read is read, and nothing is awaited."""
        moving = {Stage.UNCLEAN, Stage.RECOVERING, Stage.READY}
        moving |= {Stage.LEAVING, Stage.LOST, Stage.RESTING}
        waits = self.undecided or self.recovering or self.asked_at is not None
        changes = any(it.ends_by is not None or it.leaving for it in self.lanes.values())
        return self.begun and not (self.until_done or waits or changes or self.of(*moving))

    @property
    def is_over(self) -> bool:
        """Whether a run with an end has nothing more to do."""
        going = {*Stage} - {Stage.OUT, Stage.HELD, Stage.QUARANTINED, Stage.DONE}
        waits = self.asked_at is not None or self.recovering or self.backfilled
        return not (waits or self.of(*going))
