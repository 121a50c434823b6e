"""The status document: the one description of an aggregation that every view renders.

The engine fills it, REST serves it, the command line prints it. Plain values; times are UTC.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Phase(StrEnum):
    """Where in its life an aggregation is."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


class SourceState(StrEnum):
    """Health of a source."""

    RUNNING = "RUNNING"
    CATCHING_UP = "CATCHING_UP"
    UNREACHABLE = "UNREACHABLE"
    FAILED = "FAILED"


class LaneState(StrEnum):
    """What a lane's query is doing."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    DRAINING = "DRAINING"
    FAILED = "FAILED"
    DONE = "DONE"


class PartitionState(StrEnum):
    """What is known of a source partition."""

    RUNNING = "RUNNING"
    STUCK = "STUCK"
    HELD = "HELD"


class Part(BaseModel):
    """Base of the document's parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PartitionStatus(Part):
    """One source partition. `position` and `log_end` are NEXT offsets; unknown is null, never 0."""

    cluster: str
    topic: str
    partition: int
    hub_topic: str
    lane: str = ""
    state: PartitionState = PartitionState.RUNNING
    position: int | None = None
    log_end: int | None = None
    reason: str = ""

    @property
    def lag(self) -> int | None:
        """Offsets between the position and the log's end; null when either is unknown."""
        if self.position is None or self.log_end is None:
            return None
        return max(0, self.log_end - self.position)


class LaneStatus(Part):
    """One lane: its query's generation and the last batch that ended."""

    name: str
    state: LaneState
    generation: int
    clusters: tuple[str, ...]
    partitions: int
    batch: int | None = None
    records: int = Field(default=0, description="records of all batches that ended, since start")
    last_batch_at: datetime | None = None
    restarts: int = 0
    reason: str = ""


class SourceStatus(Part):
    """One source. `lag` is the sum over its partitions with known lag."""

    alias: str
    state: SourceState
    since: datetime
    reason: str = ""
    cluster_id: str = ""
    topics: int = 0
    partitions: int = 0
    lag: int | None = None


class CheckpointStatus(Part):
    """The last commit of the checkpoint."""

    path: str
    seq: int | None = None
    epoch: int | None = None
    committed_at: datetime | None = None
    error: str = ""


class RecoveryStatus(Part):
    """What the last recovery after an unclean stop did; counts of offsets and records."""

    at: datetime
    partitions: int
    tail: int = Field(description="offsets of the hub tail that were read")
    found: int = Field(description="records found in the hub beyond the checkpoint")
    replayed: int = Field(description="records that were missing, and were written")
    seconds: float


class Status(Part):
    """The whole document."""

    name: str
    phase: Phase
    version: str
    host: str
    pid: int
    started_at: datetime
    at: datetime = Field(description="when this document was made")
    hub_cluster_id: str = ""
    trigger: str
    checkpoint_interval_seconds: float
    sources: tuple[SourceStatus, ...] = ()
    lanes: tuple[LaneStatus, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    checkpoint: CheckpointStatus
    recovery: RecoveryStatus | None = None
    warnings: tuple[str, ...] = ()
    reason: str = Field(default="", description="why the phase is FAILED")
