"""The model as frozen values: partitions, positions, facts, routes, lanes.

Everything here is plain data: no Spark, no Kafka client, no clock. Offsets are always the NEXT
offset: a position of 7 means that 0 to 6 are done; a log end of 7 means that 6 is the newest.
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from aggregator.model.record_rules import EventRule

ORIGIN_CLUSTER = "origin.cluster"
ORIGIN_TOPIC = "origin.topic"
ORIGIN_PARTITION = "origin.partition"
ORIGIN_OFFSET = "origin.offset"
ORIGIN_TIMESTAMP = "origin.timestamp"
ORIGIN_HEADERS = (
    ORIGIN_CLUSTER,
    ORIGIN_TOPIC,
    ORIGIN_PARTITION,
    ORIGIN_OFFSET,
    ORIGIN_TIMESTAMP,
)
"""Header keys appended to every hub record, in this order; values are UTF-8 text."""

SchemaMode = Literal["pass", "translate", "check"]
"""What becomes of the schema ids in keys and values on their way to the hub."""

SchemaIds = Mapping[str, Mapping[str, Mapping[str, Mapping[str, "int | str"]]]]
"""Source topic -> "key" or "value" -> id or GUID -> what a record must have instead.

That is one of {"id": 5}, {"guid": ...}, {"refused": reason} and {"waits": why}.
"""

OriginForm = Literal["headers", "header"]
"""How a hub record says where it came from: in ORIGIN_HEADERS, or in ORIGIN_HEADER alone."""

ORIGIN_HEADER = "origin"
"""Key of the one header; its value is cluster/topic/partition/offset, as `eu/orders/5/1204`."""
ORIGIN_TEXT = r"([^/]+)/([^/]+)/([0-9]{1,10})/([0-9]{1,19})"
"""That value, as a regex of Python and of Java: no alias and no topic has a "/" in its name."""

QUARANTINE_REASON = "quarantine.reason"
QUARANTINE_HUB_TOPIC = "quarantine.hub_topic"
QUARANTINE_SIZE = "quarantine.size"
QUARANTINE_KEPT = "quarantine.kept"
QUARANTINE_HEADERS = (
    QUARANTINE_REASON,
    QUARANTINE_HUB_TOPIC,
    QUARANTINE_SIZE,
    QUARANTINE_KEPT,
)
"""Header keys of a quarantined record, in this order before those of its origin; UTF-8 text."""
QUARANTINE_TIMESTAMP = "quarantine.timestamp"
"""One more behind them where the origin is ORIGIN_HEADER: the topic has timestamps of its own."""

HEARTBEATS_TOPIC = "heartbeats"
"""The hub topic of the heartbeats; MirrorMaker 2 calls its own so."""


Header = tuple[str, bytes | None]


class TopicPartition(NamedTuple):
    """One partition of one topic, of a cluster that the context names."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SourcePartition(NamedTuple):
    """One partition of one topic of one source; `cluster` is the source's alias."""

    cluster: str
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The same partition without its cluster."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}-{self.partition}"


class Part(NamedTuple):
    """A part of a source that people pause: a topic, or one of its partitions (else None)."""

    cluster: str
    topic: str
    partition: int | None = None

    def covers(self, sp: SourcePartition) -> bool:
        """Whether a partition is in it."""
        return sp[:2] == self[:2] and self.partition in (None, sp.partition)

    def __str__(self) -> str:
        text = f"{self.cluster}/{self.topic}"
        return text if self.partition is None else f"{text}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Pause:
    """Since when something is paused, and by whom; `stopped` is what users of Connect call it."""

    since: datetime
    stopped: bool = False
    by: str = ""


def parse_origin_text(text: str) -> tuple[SourcePartition, int] | None:
    """Source partition and offset in a value of ORIGIN_HEADER; None when it is not one."""
    if (match := re.fullmatch(ORIGIN_TEXT, text)) is None:
        return None
    cluster, topic, partition, offset = match.groups()
    if int(partition) >= 1 << 31 or int(offset) >= 1 << 63:
        return None
    return SourcePartition(cluster, topic, int(partition)), int(offset)


class LogId(NamedTuple):
    """What an offset counts in: a cluster's id and that of a topic in it; "" is not known."""

    cluster: str = ""
    topic: str = ""

    def is_other_cluster(self, now: LogId) -> bool:
        """Whether `now` is certainly in another cluster: what is not known proves nothing."""
        return bool(self.cluster and now.cluster) and self.cluster != now.cluster

    def is_other_topic(self, now: LogId) -> bool:
        """Whether `now` is certainly of another topic, such as one that was created again."""
        return bool(self.topic and now.topic) and self.topic != now.topic

    def is_other(self, now: LogId) -> bool:
        """Whether `now` is certainly another log."""
        return self.is_other_cluster(now) or self.is_other_topic(now)


UNKNOWN_LOG = LogId()


class Positions(Mapping[SourcePartition, int]):
    """Immutable map of source partition -> position (the NEXT offset to read, never the last).

    An unknown partition is absent; it is never 0.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[SourcePartition, int] | None = None) -> None:
        # Of ten thousand to sort them takes milliseconds, each time.
        is_sorted = isinstance(offsets, Positions)
        found = (offsets or {}).items()
        self._offsets: dict[SourcePartition, int] = dict(found if is_sorted else sorted(found))

    @classmethod
    def _of_sorted(cls, offsets: dict[SourcePartition, int]) -> Positions:
        made = cls()
        made._offsets = offsets
        return made

    def __getitem__(self, key: SourcePartition) -> int:
        return self._offsets[key]

    def __iter__(self) -> Iterator[SourcePartition]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    # What `Mapping` would do by one lookup after the other: this is asked for many times a second.

    def __contains__(self, key: object) -> bool:
        return key in self._offsets

    def __eq__(self, other: object) -> bool:
        own = self._offsets
        found = other._offsets if isinstance(other, Positions) else other
        return own is found or own == found

    def items(self) -> ItemsView[SourcePartition, int]:
        """Partitions and their positions, in order."""
        return self._offsets.items()

    def keys(self) -> KeysView[SourcePartition]:
        """The partitions, in order."""
        return self._offsets.keys()

    def __repr__(self) -> str:
        return f"Positions({{{', '.join(f'{sp}: {at}' for sp, at in self._offsets.items())}}})"

    def merged(self, newer: Mapping[SourcePartition, int]) -> Positions:
        """Both together; where both know a partition, `newer` wins (it may go back: a rewind)."""
        if not newer:
            return self
        both = {**self._offsets, **(newer._offsets if isinstance(newer, Positions) else newer)}
        # Of one that both know it keeps the place.
        return self._of_sorted(both) if len(both) == len(self._offsets) else Positions(both)

    def only(self, partitions: frozenset[SourcePartition] | set[SourcePartition]) -> Positions:
        """The part that concerns `partitions`."""
        return self._of_sorted({sp: at for sp, at in self._offsets.items() if sp in partitions})


Ranges = Sequence[tuple[int, int]]
"""Offsets [from, to), sorted; they do not touch."""


@dataclass(frozen=True, slots=True)
class Skip:
    """What the hub holds of a source partition beyond its position.

    `later` is for compacted hub topics: by hub partition, the highest offset found of each key. An
    earlier record of it may have been compacted away there, and written again came too late.
    """

    ranges: Ranges
    later: Mapping[TopicPartition, Mapping[bytes, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as its cluster describes it.

    `configs` holds only what is set on the topic itself (not broker defaults), name -> value.
    `max_message_bytes`, `retention_ms`, `cleanup_policy`, `timestamp_after_max_ms`,
    `timestamp_before_max_ms`, `timestamp_type` and `compression_type` are the effective values.
    """

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool = False
    configs: Mapping[str, str] = field(default_factory=dict)
    max_message_bytes: int = 1_048_588
    retention_ms: int = 604_800_000
    cleanup_policy: str = "delete"
    timestamp_after_max_ms: int = 9_223_372_036_854_775_807
    timestamp_type: str = "CreateTime"
    timestamp_before_max_ms: int = 9_223_372_036_854_775_807
    compression_type: str = "producer"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster as it is now: its id, its topics, and its brokers with their `addresses`.

    A topic that was not asked about has no id ("") and no configs. `notes`: what is not known.
    """

    alias: str
    cluster_id: str
    brokers: int
    topics: Mapping[str, TopicFacts]
    notes: tuple[str, ...] = ()
    producer_expiry_ms: int | None = None  # of the hub
    addresses: frozenset[str] = frozenset()


class FailureKind(StrEnum):
    """Why a cluster gave no answer."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ClusterFailure:
    """The failure of one cluster, as a value: the others continue."""

    alias: str
    kind: FailureKind
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.alias}: {self.kind}: {self.reason}"
        return f"{text} ({self.hint})" if self.hint else text


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """What a partition's log holds now: [earliest, latest).

    To a read_committed reader `latest` is the last stable offset: an open transaction holds it.
    """

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Raw:
    """A record, as any client reads it; `at_ms` is when it arrived.

    That is by the clock of its writer, unless it is `by_broker`.
    """

    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    by_broker: bool = True


@dataclass(frozen=True, slots=True)
class Discovery:
    """Facts of the clusters that answered, failures of those that did not."""

    ok: Mapping[str, ClusterFacts]
    failed: Mapping[str, ClusterFailure] = field(default_factory=dict)


class SourceState(StrEnum):
    """Health of a source."""

    RUNNING = "RUNNING"
    CATCHING_UP = "CATCHING_UP"
    UNREACHABLE = "UNREACHABLE"
    PAUSED = "PAUSED"
    FAILED = "FAILED"

    @property
    def is_well(self) -> bool:
        """Whether its records are copied, live or to catch up."""
        return self in (SourceState.RUNNING, SourceState.CATCHING_UP)


class ReaderState(StrEnum):
    """What the reader of a lane does with a partition, as the connector names it.

    One that is STUCK was given up for a hub partition that takes nothing: what of it has arrived
    beyond its last position is not known.
    """

    READING = "reading"
    HELD = "held"
    DONE = "done"
    OUT_OF_RANGE = "out_of_range"
    DAMAGED = "damaged"
    REFUSED = "refused"
    POISONED = "poisoned"
    AWAITING = "awaiting"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a hub topic refuses; None and False where nothing is refused for that reason.

    `max_bytes` is the largest batch of one record, uncompressed, with our headers. `ahead_ms` and
    `behind_ms` say how far a timestamp may be from now.
    """

    max_bytes: int | None = None
    ahead_ms: int | None = None
    behind_ms: int | None = None
    key_required: bool = False

    def __bool__(self) -> bool:
        return self != Limits()


@dataclass(frozen=True, slots=True)
class PoisonRule:
    """What becomes of the records of a route that its hub topic refuses.

    `quarantine` is the topic they go to; "" means that the partition stops. A record larger than
    `quarantine_bytes` does not fit there whole. Only what `limits` says is looked for;
    `once_refused` is what to look for once the hub has refused something that `limits` let pass.
    """

    quarantine: str = ""
    limits: Limits = Limits()
    # Not compared: a change of these alone is no reason to restart a lane.
    quarantine_bytes: int = field(default=0, compare=False)
    once_refused: Limits = field(default=Limits(), compare=False)


@dataclass(frozen=True, slots=True)
class Route:
    """One source topic -> one hub topic, with its partitioning.

    `hub_partitions` is the hub topic's count after the plan is applied.
    `transform` is "module:function" or "". Batches of at most `batch_bytes` are copied as they are
    where they allow it.
    """

    cluster: str
    topic: str
    hub_topic: str
    partitions: int
    hub_partitions: int
    partition_by: str = "key"
    transform: str = ""
    poison: PoisonRule = PoisonRule()
    origin: OriginForm = "headers"
    schemas: SchemaMode = "pass"
    dedup: EventRule | None = None
    batch_bytes: int = 0

    @property
    def hub_topics(self) -> frozenset[str]:
        """Where its records go: to its hub topic, into quarantine, or among the duplicates."""
        dropped = self.dedup.duplicates if self.dedup is not None else ""
        return frozenset({self.hub_topic, self.poison.quarantine, dropped}) - {""}

    def source_partitions(self) -> tuple[SourcePartition, ...]:
        """Every partition this route reads."""
        return tuple(
            SourcePartition(self.cluster, self.topic, partition)
            for partition in range(self.partitions)
        )


@dataclass(frozen=True, slots=True)
class Lane:
    """A set of source partitions, unioned and run by one streaming query.

    `name` is stable while the lane lives (it names the query, the producer and log lines).
    """

    name: str
    partitions: tuple[SourcePartition, ...]

    @property
    def clusters(self) -> tuple[str, ...]:
        """Aliases of the sources in this lane, sorted."""
        return tuple(sorted({sp.cluster for sp in self.partitions}))
