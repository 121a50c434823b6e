"""The status document: the one description of an aggregation that every view renders.

The engine fills it, REST serves it, the command line prints it. Plain values; times are UTC.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from aggregator.model.values import SourceState
from aggregator.status.completeness import CompletenessStatus
from aggregator.status.copied import Copied, DedupStatus
from aggregator.status.service_status import Figure, ServiceStatus
from aggregator.status.sink import TeeStatus


class Phase(StrEnum):
    """Where in its life an aggregation is. In STANDBY another instance writes, and it waits."""

    STANDBY = "STANDBY"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


NOT_BEGUN = (Phase.STANDBY, Phase.STARTING)
"""Of such an instance there is nothing to compare, and nothing to keep."""


class LaneState(StrEnum):
    """What a lane's query is doing."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    DRAINING = "DRAINING"
    FAILED = "FAILED"
    DONE = "DONE"


class PartitionState(StrEnum):
    """What is known of a source partition.

    HELD waits for something that will pass, QUARANTINED for a decision about a gap, PAUSED for a
    person to resume its source.
    """

    RUNNING = "RUNNING"
    STUCK = "STUCK"
    HELD = "HELD"
    QUARANTINED = "QUARANTINED"
    PAUSED = "PAUSED"


class Document(BaseModel):
    """Base of the document's parts."""

    model_config = ConfigDict(frozen=True)


class PartitionStatus(Document):
    """One source partition. `position` and `log_end` are NEXT offsets; unknown is null, never 0.

    HELD with a reason may also be reported by its reader: its source refuses it, or does not hold
    it.
    """

    cluster: str
    topic: str
    partition: int
    hub_topic: str
    lane: str = ""
    state: PartitionState = PartitionState.RUNNING
    position: int | None = None
    log_end: int | None = None
    seconds_behind: float | None = Field(
        default=None, description="since when its log reaches beyond the position; 0.0 at its end"
    )
    seconds_behind_at_least: bool = Field(
        default=False, description="it was so before its log was first looked at: maybe longer"
    )
    reason: str = ""

    @property
    def lag(self) -> int | None:
        """Offsets between the position and the log's end; null when either is unknown."""
        if self.position is None or self.log_end is None:
            return None
        return max(0, self.log_end - self.position)


class LaneStatus(Document):
    """One lane: its query's generation and its last report."""

    name: str
    state: LaneState
    generation: int
    clusters: tuple[str, ...]
    partitions: int
    records: int = Field(default=0, description="records that it has sent since the start")
    reported_at: datetime | None = None
    leaving: tuple[str, ...] = Field(
        default=(), description="sources of which it is about to read something no more"
    )
    restarts: int = 0
    reason: str = ""
    objects: str = Field(
        default="",
        description="which sources' records are copied as objects, one by one, and why; empty "
        "where all go from batch to batch as bytes",
    )


class Percentiles(Document):
    """What half, 95 and 99 of a hundred records did not exceed, in ms; up to a quarter too much."""

    p50: int
    p95: int
    p99: int
    longer_from: int | None = Field(
        default=None,
        description="50, 95 or 99: from that one on the truth is longer than the value, which is "
        "the longest time that is counted; null when all are within it",
    )


class Latency(Document):
    """Of the records that arrived in the last minute; null when none did."""

    age_ms: Percentiles | None = Field(
        default=None, description="from a record's timestamp to its acknowledgement by the hub"
    )
    flight_ms: Percentiles | None = Field(
        default=None, description="from its fetch from the source to that acknowledgement"
    )


class SourceStatus(Document):
    """One source. `lag` is the sum over its partitions with known lag.

    `seconds_behind` is the longest of them. Counts are since the start.
    """

    alias: str
    state: SourceState
    since: datetime
    reason: str = ""
    group_error: str = Field(
        default="", description="why its committed offsets cannot be published (publish_group)"
    )
    cluster_id: str = ""
    topics: int = 0
    partitions: int = 0
    lag: int | None = None
    seconds_behind: float | None = None
    seconds_behind_at_least: bool = False
    records: int = Field(default=0, description="records sent, to quarantine as well")
    bytes: int = Field(default=0, description="bytes of their keys and values")
    latency: Latency = Latency()
    age_counts: tuple[int, ...] = Field(
        default=(), exclude=True, description="records since the start by age, for metrics"
    )
    flight_counts: tuple[int, ...] = Field(default=(), exclude=True, description="and by flight")
    copied: tuple[Copied, ...] = Field(default=(), description="records and bytes per topic")
    skipped: int = Field(default=0, description="records left out because the hub held them")
    looped: int = Field(default=0, description="records left out because they came from the hub")
    retried: int = Field(default=0, description="records sent again after a failure")
    read_bytes: int = Field(default=0, description="bytes of keys and values that were read")
    quarantined: int = Field(default=0, description="records that the hub refused, since start")
    gaps: int = Field(default=0, description="gaps of its partitions, ever")
    lost: int = Field(default=0, description="offsets lost in them, as far as known")
    lost_at: datetime | None = Field(
        default=None,
        description="when the newest gap was found in which any are, or may be, lost",
    )


class CheckpointStatus(Document):
    """The last commit of the checkpoint."""

    path: str
    seq: int | None = None
    epoch: int | None = None
    committed_at: datetime | None = None
    error: str = ""


class RecoveryStatus(Document):
    """What the last recovery after an unclean stop did; counts of offsets and records."""

    at: datetime
    partitions: int
    tail: int = Field(description="offsets of the hub tail that were read")
    found: int = Field(description="records found in the hub beyond the checkpoint")
    holed: int = Field(description="partitions of which the hub lacked something below that")
    replayed: int = Field(description="records that were missing, and were written since")
    seconds: float


class GapStatus(Document):
    """One gap: what was found, and its state. Offsets are [from_offset, to_offset)."""

    id: str
    cluster: str
    topic: str
    partition: int
    cause: str
    from_offset: int
    to_offset: int | None = Field(description="null when the end of the loss is unknown")
    lost: int | None = Field(description="offsets that the hub does not hold; null when unknown")
    position: int = Field(description="where the partition stood")
    reason: str
    found_at: datetime
    epoch: int
    cluster_id_then: str
    cluster_id_now: str
    topic_id_then: str
    topic_id_now: str
    decision: str
    decided_at: datetime | None
    resolved: bool
    resumes_at: int | None = Field(description="the position from which the partition continued")
    note: str


class GapsStatus(Document):
    """All gaps ever recorded, in numbers; and the latest, those that are open first."""

    total: int = 0
    open: int = 0
    lost: int = Field(default=0, description="offsets lost, as far as known")
    latest: tuple[GapStatus, ...] = ()


class QuarantineStatus(Document):
    """Records that the hub refused and that went to the quarantine topic, since the start."""

    topic: str
    records: int = 0
    reasons: dict[str, int] = Field(default_factory=dict)
    newest: str = Field(default="", description="the origin of the newest one, and why")
    error: str = Field(default="", description="why newer ones may not be counted")
    sources: dict[str, int] = Field(
        default_factory=dict, exclude=True, description="records by source, shown with these"
    )


class AuditCounts(Document):
    """What an audit found. Counts are of records, as in its report."""

    partitions: int = Field(default=0, description="source partitions that it judged")
    not_compared: int = Field(default=0, description="of these: silent, or with a conflict")
    not_judged: int = Field(default=0, description="records whose state it could not determine")
    expected: int = 0
    present: int = 0
    missing: int = 0
    twice: int = 0
    altered: int = 0
    out_of_order: int = 0
    foreign: int = 0

    @property
    def findings(self) -> str:
        """What is wrong, in words; nothing when nothing is."""
        counts = {
            "missing": self.missing,
            "twice": self.twice,
            "altered": self.altered,
            "out of order": self.out_of_order,
            "foreign": self.foreign,
        }
        return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


class AuditStatus(AuditCounts):
    """The newest audit that is recorded, whatever it judged: what `aggregator verify` found."""

    at: datetime | None = Field(default=None, description="when it was made; null when unknown")
    wrong: bool = Field(default=False, description="something is wrong: it ended with 4")
    error: str = Field(default="", description="why a newer one may not be known")


class HeartbeatsStatus(ServiceStatus):
    """Heartbeats that are written into a topic of the hub, for others to see."""

    topic: str
    sources: tuple[str, ...] = Field(default=(), description="those that had one just now")
    error: str = Field(default="", description="why none arrive at the hub")

    def lines(self) -> Iterable[str]:
        """Who had one, or why none."""
        if self.error:
            return [f"Heartbeats: none are written: {self.error}"]
        return [f"Heartbeats into {self.topic}: {', '.join(self.sources) or 'none just now'}"]

    def attention(self) -> str:
        """That there are none."""
        return f"no heartbeats are written: {self.error}" if self.error else ""


class PausedPart(Document):
    """A topic, or one of its partitions, that is paused by itself."""

    source: str
    topic: str
    partition: int | None = None
    since: datetime
    by: str = ""


class RefusedTopicStatus(Document):
    """Source topics (`source/topic`) that do not flow into a hub topic, and what would let them."""

    hub_topic: str
    sources: tuple[str, ...]
    reason: str


class SyncedGroup(Document):
    """A consumer group of the sources whose committed offsets are translated to the hub."""

    group: str
    partitions: int = Field(default=0, description="hub partitions that have its offsets")
    at: datetime | None = Field(default=None, description="when it was last translated")
    error: str = Field(default="", description="why not all of it is at the hub")


class GroupSyncStatus(ServiceStatus):
    """Consumer groups that are translated while it runs (groups.sync of the sources)."""

    groups: tuple[SyncedGroup, ...] = ()
    at: datetime | None = Field(default=None, description="when all were last looked at")
    error: str = Field(default="", description="why they cannot be looked at")

    def lines(self) -> Iterable[str]:
        """The groups that are at the hub, and why others are not."""
        good = [it.group for it in self.groups if not it.error]
        yield f"Consumer groups at the hub: {', '.join(good) or 'none yet'}"
        yield from (f"group {it.group}: {it.error}" for it in self.groups if it.error)
        if self.error:
            yield f"groups: {self.error}"

    def figures(self) -> Iterable[Figure]:
        """Whether it works, and for how many."""
        well = 0.0 if self.error else 1.0
        yield Figure.of("group_sync_up", "1 while consumer groups are translated.", well)
        synced = float(sum(not group.error for group in self.groups))
        yield Figure.of("group_sync_groups", "Groups that the hub has all of.", synced)

    def attention(self) -> str:
        """That some are not."""
        return f"not all consumer groups are translated: {self.error}" if self.error else ""


class AclSyncStatus(ServiceStatus):
    """ACLs that are added at the hub while it runs (acls.sync of the sources)."""

    added: int = Field(default=0, description="since the start")
    superfluous: tuple[str, ...] = Field(
        default=(), description="grants of the hub that no source has; nothing removes them"
    )
    notes: tuple[str, ...] = Field(default=(), description="what is left out, and why")
    at: datetime | None = Field(default=None, description="when all were last looked at")
    error: str = Field(default="", description="why not all are there, with what is missing")

    def lines(self) -> Iterable[str]:
        """What was added, what is superfluous, what is missing."""
        yield f"ACLs: {self.added:,} added at the hub since the start"
        yield from (f"ACLs: not granted by any source: {it}" for it in self.superfluous)
        yield from (f"ACLs: {it}" for it in self.notes)
        if self.error:
            yield f"ACLs: {self.error}"

    def figures(self) -> Iterable[Figure]:
        """Whether it works."""
        well = 0.0 if self.error else 1.0
        yield Figure.of("acl_sync_up", "1 while ACLs of sources are at the hub.", well)

    def attention(self) -> str:
        """That some are missing."""
        return f"not all ACLs are at the hub: {self.error}" if self.error else ""


class BackfillPartStatus(Document):
    """One partition of a backfill. `until` and `position` are NEXT offsets."""

    partition: int
    begin: int
    until: int
    position: int
    lost: int = Field(default=0, description="offsets that the source had deleted by then")


class BackfillStatus(Document):
    """An older range of a topic that comes into the hub beside the live flow."""

    id: str
    source: str
    topic: str
    state: str = Field(description="ACTIVE, DONE, FAILED or CANCELLED")
    doing: str = Field(default="", description="what an active one does now, or waits for")
    reason: str = Field(default="", description="why it failed, or why its last try did")
    by: str = ""
    ordered_at: datetime
    records: int = Field(default=0, description="written by it")
    left: int = Field(default=0, description="offsets that are still to be read")
    lost: int = Field(default=0, description="offsets that the source had deleted by then")
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    parts: tuple[BackfillPartStatus, ...] = ()


class Status(Document):
    """The whole document. A service without a field here has one of its name, by its own type.

    Such a document is read with these types as context: {"services": name -> type}. As every part
    it may be of another version: what is unknown here is left out.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    phase: Phase
    version: str
    host: str
    pid: int
    started_at: datetime
    at: datetime = Field(description="when this document was made")
    hub_cluster_id: str = ""
    checkpoint_interval_seconds: float
    sources: tuple[SourceStatus, ...] = ()
    lanes: tuple[LaneStatus, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    checkpoint: CheckpointStatus
    recovery: RecoveryStatus | None = None
    quarantine: QuarantineStatus | None = None
    heartbeats: HeartbeatsStatus | None = Field(
        default=None, description="null where the config asks for none"
    )
    group_sync: GroupSyncStatus | None = None
    """None where no source has groups.sync."""
    completeness: CompletenessStatus | None = None
    acl_sync: AclSyncStatus | None = None
    """None where no source has acls.sync."""
    tee: TeeStatus | None = None
    """None where none runs beside it."""
    dedup: tuple[DedupStatus, ...] = ()
    gaps: GapsStatus = GapsStatus()
    audit: AuditStatus | None = None
    refused_topics: tuple[RefusedTopicStatus, ...] = Field(
        default=(), description="selected, and not taken; all else is"
    )
    paused: tuple[PausedPart, ...] = Field(
        default=(), description="topics and partitions that are paused by themselves"
    )
    backfills: tuple[BackfillStatus, ...] = ()
    waits_for_restart: tuple[str, ...] = Field(
        default=(), description="keys of the config, read again, that hold from the next start on"
    )
    warnings: tuple[str, ...] = ()
    reason: str = Field(default="", description="why the phase is FAILED")

    @model_validator(mode="after")
    def _type_others(self, info: ValidationInfo) -> Self:
        kinds = (info.context or {}).get("services", {})
        others = self.__pydantic_extra__ or {}
        for name, part in list(others.items()):
            if isinstance(part, ServiceStatus):
                continue
            if name in kinds:
                others[name] = kinds[name].model_validate(part)
            else:
                del others[name]
        return self

    @property
    def others(self) -> dict[str, ServiceStatus]:
        """The parts of services without a field of this document, by their names."""
        return dict(self.__pydantic_extra__ or {})

    @property
    def services(self) -> tuple[ServiceStatus, ...]:
        """The parts of services that are on, in this order wherever they are shown."""
        known = (self.heartbeats, self.group_sync, self.acl_sync, self.tee)
        return tuple(it for it in (*known, *self.others.values()) if it is not None)
