"""What `aggregator verify` compares: a range per source partition, and how strictly. Pure.

Below a committed position everything has to be in the hub; what is above is not judged, because a
running instance may be ahead. Both ends of a range are offsets of the source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from aggregator.model.values import OffsetRange, Route, SourcePartition, TopicFacts
from aggregator.plan.positions.start import GapKind, Observed, Remembered, plan_positions

NO_END = 2**62
"""An offset that no log reaches."""


class Standing(StrEnum):
    """Whether a source partition can be compared with the hub."""

    COMPARED = "compared"
    NOT_STARTED = "not started"
    UNREACHABLE = "unreachable"
    UNREADABLE = "unreadable"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Scope:
    """What was asked for; None is everything. Offsets and times are those of the source."""

    source: str | None = None
    topic: str | None = None
    partition: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None

    def takes(self, sp: SourcePartition) -> bool:
        """Whether a partition was asked for."""
        return (
            self.source in (None, sp.cluster)
            and self.topic in (None, sp.topic)
            and self.partition in (None, sp.partition)
        )

    @property
    def open_ended(self) -> bool:
        """Whether no upper end was asked for."""
        return self.until_ms is None and self.to_offset is None


@dataclass(frozen=True, slots=True)
class CopyBegin:
    """The lowest position of a partition in the checkpoint's history.

    `exact`: it is where the copy began. Otherwise older rows are gone, and it may have begun below.
    """

    position: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Window:
    """One source partition: `read` of its log is compared with the hub.

    Origins below `read` are not judged; those from `read.latest` to `beyond` are not either, and
    one at `beyond` or above names nothing that exists. An absent record below `sure_from` was
    perhaps never to be copied, as it is unknown where the copy began. What is below `asked` is out
    of scope. `loose`: a transform may drop or change records. `translated`: their schema ids are
    others at the hub. `sparse`: the source topic is compacted, so it may have forgotten records
    that it had. `superseding`: so may the hub. `as_batches`: batches are
    copied as they are. `asides` are the topics that its records may be kept
    in instead. `ahead` offsets of the source are above its position.
    """

    partition: SourcePartition
    hub_topic: str
    read: OffsetRange
    beyond: int = NO_END
    sure_from: int = 0
    standing: Standing = Standing.COMPARED
    reason: str = ""
    asked: int = 0
    ahead: int = 0
    loose: bool = False
    translated: bool = False
    sparse: bool = False
    superseding: bool = False
    as_batches: bool = False
    asides: frozenset[str] = frozenset()

    @property
    def compared(self) -> bool:
        """Whether there are source records to compare."""
        return self.standing is Standing.COMPARED and self.read.earliest < self.read.latest


@dataclass(frozen=True, slots=True)
class AuditSight:
    """What is known when the windows are planned.

    `known` is None without a checkpoint: then all that the sources hold is expected. `times` are
    the offsets of `since` and `until`. `unreachable` is source -> why.
    """

    routes: Sequence[Route]
    observed: Observed
    known: Remembered | None
    begun: Mapping[SourcePartition, CopyBegin] = field(default_factory=dict)
    starts: Mapping[str, str] = field(default_factory=dict)
    since: Mapping[SourcePartition, int] = field(default_factory=dict)
    until: Mapping[SourcePartition, int] = field(default_factory=dict)
    unreachable: Mapping[str, str] = field(default_factory=dict)
    source_topics: Mapping[tuple[str, str], TopicFacts] = field(default_factory=dict)
    hub_topics: Mapping[str, TopicFacts] = field(default_factory=dict)


def plan_windows(scope: Scope, sight: AuditSight) -> tuple[Window, ...]:
    """The window of every routed partition in scope, in order."""
    conflicts: dict[SourcePartition, str] = {}
    if sight.known is not None:
        earliest = {route.cluster: "earliest" for route in sight.routes}
        gaps = plan_positions(sight.routes, sight.known, sight.observed, earliest).gaps
        kinds = (GapKind.TOPIC_RECREATED, GapKind.CLUSTER_CHANGED)
        conflicts = {gap.partition: gap.reason for gap in gaps if gap.kind in kinds}
    return tuple(
        sorted(
            (
                _window(route, sp, scope, sight, conflicts)
                for route in sight.routes
                for sp in route.source_partitions()
                if scope.takes(sp)
            ),
            key=lambda window: window.partition,
        )
    )


def _window(
    route: Route,
    sp: SourcePartition,
    scope: Scope,
    sight: AuditSight,
    conflicts: Mapping[SourcePartition, str],
) -> Window:
    position = sight.known.positions.get(sp) if sight.known is not None else None
    log = sight.observed.offsets.get(sp)
    source = sight.source_topics.get((sp.cluster, sp.topic))
    hub = sight.hub_topics.get(route.hub_topic)

    lower, upper = _asked(sp, scope, sight)
    asked = lower or 0
    ahead = max(0, log.latest - (position or 0)) if log is not None and scope.open_ended else 0

    def window(
        read: OffsetRange, standing: Standing, reason: str = "", beyond: int = NO_END
    ) -> Window:
        return Window(
            partition=sp,
            hub_topic=route.hub_topic,
            read=read,
            beyond=beyond,
            sure_from=_sure_from(sp, read, sight),
            standing=standing,
            reason=reason,
            asked=asked,
            ahead=ahead if sight.known is not None else 0,
            loose=bool(route.transform),
            translated=route.schemas == "translate",
            sparse=source is not None and "compact" in source.cleanup_policy,
            superseding=hub is not None and "compact" in hub.cleanup_policy,
            as_batches=route.batch_bytes > 0,
            asides=route.hub_topics - {route.hub_topic},
        )

    if sp in conflicts:
        return window(OffsetRange(0, 0), Standing.CONFLICT, conflicts[sp])
    if sp.cluster in sight.unreachable or log is None or lower is None or upper is None:
        # Its records in the hub can still be doubled, or out of order.
        reason = sight.unreachable.get(sp.cluster, "its offsets could not be read")
        end = min(position or 0, NO_END if upper is None else upper)
        return window(OffsetRange(min(lower or 0, end), end), Standing.UNREACHABLE, reason)
    beyond = max(log.latest, position or 0) if scope.open_ended else NO_END
    if sight.known is not None and position is None:
        empty = OffsetRange(log.earliest, log.earliest)
        return window(empty, Standing.NOT_STARTED, "it has no position yet", beyond)
    upper = min(upper, log.latest, log.latest if position is None else position)
    begun = sight.begun.get(sp)
    lower = max(lower, log.earliest, begun.position if begun is not None and begun.exact else 0)
    return window(OffsetRange(min(lower, upper), upper), Standing.COMPARED, beyond=beyond)


def _asked(sp: SourcePartition, scope: Scope, sight: AuditSight) -> tuple[int | None, int | None]:
    """The range that was asked for; None for an end by time that the source did not report."""
    lower: int | None = scope.from_offset or 0
    upper: int | None = NO_END if scope.to_offset is None else scope.to_offset
    if scope.since_ms is not None:
        lower = sight.since.get(sp)
    if scope.until_ms is not None:
        upper = sight.until.get(sp)
    return lower, upper


def _sure_from(sp: SourcePartition, read: OffsetRange, sight: AuditSight) -> int:
    """From here on an absent record was to be copied, wherever the copy began."""
    begun = sight.begun.get(sp)
    if begun is not None and begun.exact:
        return read.earliest
    if sight.starts.get(sp.cluster, "earliest") == "earliest":
        return read.earliest
    return begun.position if begun is not None else read.latest
