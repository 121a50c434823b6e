"""The overview: every source in a line, the hub, and what needs a person. Pure.

Small however many partitions there are: it is what a page asks for every few seconds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from pydantic import ConfigDict, Field

from aggregator.model.alike import made_of
from aggregator.model.values import SourceState
from aggregator.status.lag import longest_behind, states_of, sum_known
from aggregator.status.schema import (
    AuditStatus,
    Document,
    GapsStatus,
    Latency,
    PartitionState,
    PartitionStatus,
    Phase,
    QuarantineStatus,
    RecoveryStatus,
    SourceStatus,
    Status,
)
from aggregator.status.sink import TeeStatus
from aggregator.status.sizes import lag_bytes_of, sizes_of

SICK = (SourceState.UNREACHABLE, SourceState.FAILED)
WAITING = (PartitionState.STUCK, PartitionState.HELD)


class Attention(Document):
    """Something that needs a person: `error` now, `warning` when there is time."""

    level: str
    what: str
    source: str | None = None


class SourceOverview(Document):
    """A source in one line. Rates are of the last minute or so, null before there are two moments.

    `age` and `flight` are milliseconds, as in the status.
    """

    alias: str
    title: str
    state: SourceState
    since: datetime
    reason: str = ""
    topics: int
    partitions: int
    states: dict[str, int] = Field(description="partitions by their state")
    lag: int | None = None
    lag_bytes: int | None = Field(
        default=None, description="an estimate: by the mean size of what was copied"
    )
    seconds_behind: float | None = None
    seconds_behind_at_least: bool = False
    records: int
    bytes: int
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    latency: Latency
    gaps: int
    lost: int
    quarantined: int


class Overview(Document):
    """The whole of an aggregation at a glance; services without a field here have their own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    phase: Phase
    reason: str = ""
    version: str
    at: datetime
    started_at: datetime
    hub_cluster_id: str
    sources: tuple[SourceOverview, ...]
    attention: tuple[Attention, ...]
    lanes: int
    checkpoint_seq: int | None
    checkpoint_at: datetime | None
    checkpoint_error: str
    recovery: RecoveryStatus | None
    quarantine: QuarantineStatus | None
    gaps: GapsStatus
    audit: AuditStatus | None
    tee: TeeStatus | None


def overview(status: Status, earlier: Status | None, titles: Mapping[str, str]) -> Overview:
    """The overview of a status; rates since an `earlier` one, `titles` are those of the config."""
    before = {it.alias: it for it in earlier.sources} if earlier is not None else {}
    seconds = (status.at - earlier.at).total_seconds() if earlier is not None else 0.0
    states: dict[str, Counter[str]] = {}
    for part in status.partitions:
        states.setdefault(part.cluster, Counter())[part.state] += 1
    sizes = lag_bytes_of(status)
    return made_of(
        Overview,
        status,
        sources=tuple(
            _source(
                it,
                titles.get(it.alias, ""),
                states.get(it.alias, Counter()),
                sizes.get(it.alias),
                before.get(it.alias),
                seconds,
            )
            for it in status.sources
        ),
        attention=tuple(attention(status)),
        lanes=len(status.lanes),
        checkpoint_seq=status.checkpoint.seq,
        checkpoint_at=status.checkpoint.committed_at,
        checkpoint_error=status.checkpoint.error,
    ).model_copy(update=status.others)


def attention(status: Status) -> Iterator[Attention]:
    """What needs a person, the worst first."""
    if status.phase is Phase.FAILED:
        yield _error(status.reason or "the aggregation has failed")
    if status.phase is Phase.STANDBY:
        yield _warning(status.reason)
    if status.checkpoint.error:
        yield _error(f"positions cannot be committed: {status.checkpoint.error}")
    for source in status.sources:
        if source.state in SICK:
            yield _error(_state_text(source), source.alias)
    for gap in status.gaps.latest:
        if not gap.resolved:
            what = f"a gap in {gap.topic}-{gap.partition} waits for a decision: {gap.reason}"
            yield _error(f"{what} (aggregator gaps accept {gap.id})", gap.cluster)
    if status.audit is not None and status.audit.wrong:
        what = f"the last audit, of {status.audit.at:%Y-%m-%d %H:%M} UTC, found"
        yield _error(f"{what} {audit_words(status.audit)} (aggregator verify)")
    for topic in status.refused_topics:
        what = f"{', '.join(topic.sources)} not taken into hub topic {topic.hub_topic}"
        yield _warning(f"{what}: {topic.reason}")
    waiting: dict[str, list[str]] = {}
    for it in status.partitions:
        if it.state in WAITING:
            waiting.setdefault(it.cluster, []).append(it.reason)
    for alias, whys in waiting.items():
        what = "a partition is" if len(whys) == 1 else f"{len(whys)} partitions are"
        yield _warning(f"{what} not read: {whys[0]}", alias)
    for source in status.sources:
        if source.state is SourceState.RUNNING and source.topics == 0:
            yield _warning("none of its topics matches its config", source.alias)
        if source.group_error:
            yield _warning(source.group_error, source.alias)
    for service in status.services:
        if what := service.attention():
            yield _warning(what)
    if status.quarantine is not None and status.quarantine.records:
        what = f"the hub refused {status.quarantine.records} records since the start; the newest:"
        yield _warning(f"{what} {status.quarantine.newest} (aggregator quarantine list)")


def _state_text(source: SourceStatus) -> str:
    """Its state and why; the reason of a failed call often begins with both names already."""
    state, reason = source.state.lower(), source.reason.removeprefix(f"{source.alias}: ")
    return reason if reason.startswith(state) else f"{state}: {reason}"


def _error(what: str, source: str | None = None) -> Attention:
    return Attention(level="error", source=source, what=what)


def _warning(what: str, source: str | None = None) -> Attention:
    return Attention(level="warning", source=source, what=what)


def audit_words(audit: AuditStatus) -> str:
    """What is wrong in an audit, in words."""
    findings = [audit.findings] if audit.findings else []
    if audit.not_compared:
        findings.append(f"{audit.not_compared:,} partitions not compared")
    return ", ".join(findings)


def _source(
    source: SourceStatus,
    title: str,
    states: Counter[str],
    lag_bytes: int | None,
    old: SourceStatus | None,
    seconds: float,
) -> SourceOverview:
    known = old is not None and seconds > 0 and old.records <= source.records
    return made_of(
        SourceOverview,
        source,
        title=title,
        states=dict(states),
        lag_bytes=lag_bytes,
        records_per_second=(source.records - old.records) / seconds if known and old else None,
        bytes_per_second=(source.bytes - old.bytes) / seconds if known and old else None,
    )


class TopicOverview(Document):
    """One topic of a source."""

    topic: str
    hub_topic: str
    partitions: int
    states: dict[str, int]
    lag: int | None
    lag_bytes: int | None
    seconds_behind: float | None
    records: int
    bytes: int
    reasons: tuple[str, ...] = Field(default=(), description="why some of it is not read")


class SourcePage(Document):
    """One source, topic by topic."""

    name: str
    phase: Phase
    at: datetime
    source: SourceOverview
    topics: tuple[TopicOverview, ...]


def source_page(
    status: Status, earlier: Status | None, titles: Mapping[str, str], alias: str
) -> SourcePage | None:
    """The page of a source; None when the status has no such source."""
    whole = overview(status, earlier, titles)
    found = next((it for it in whole.sources if it.alias == alias), None)
    if found is None:
        return None
    copied = next({it.topic: it for it in s.copied} for s in status.sources if s.alias == alias)
    by_topic: dict[str, list[PartitionStatus]] = {}
    for part in status.partitions:
        if part.cluster == alias:
            by_topic.setdefault(part.topic, []).append(part)
    size, topics = sizes_of(status), []
    for topic, parts in by_topic.items():
        lag = sum_known(it.lag for it in parts)
        topics.append(
            TopicOverview(
                topic=topic,
                hub_topic=parts[0].hub_topic,
                partitions=len(parts),
                states=states_of(parts),
                lag=lag,
                lag_bytes=size(alias, topic, lag),
                seconds_behind=longest_behind(parts),
                records=copied[topic].records if topic in copied else 0,
                bytes=copied[topic].bytes if topic in copied else 0,
                reasons=tuple(dict.fromkeys(it.reason for it in parts if it.reason)),
            )
        )
    return made_of(SourcePage, status, source=found, topics=tuple(topics))
