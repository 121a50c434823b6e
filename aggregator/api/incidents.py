"""Incidents in one timeline: gaps, quarantine, recoveries, audits. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from pydantic import Field

from aggregator.features.quarantine.quarantined import QuarantinedRecord
from aggregator.features.quarantine.records import RecordState
from aggregator.features.timeline.timeline_report import EventRow
from aggregator.features.verify.past_audits import AuditSummary
from aggregator.model.errors import EXIT_CLUSTER, EXIT_DATA, EXIT_DONE
from aggregator.status.schema import Document, GapStatus, Phase, RecoveryStatus

SLACK = timedelta(seconds=5)
"""An event is emitted a little before the end of the recovery that it is about."""


class IncidentKind(StrEnum):
    """What an incident is of."""

    GAP = "gap"
    QUARANTINE = "quarantine"
    RECOVERY = "recovery"
    AUDIT = "audit"


class Incident(Document):
    """One of them. `id` names it for actions on it: a gap, the origin of a record."""

    at: datetime
    kind: IncidentKind
    level: str = Field(description="error: it waits for a person; warning; info")
    source: str | None
    what: str
    state: str
    id: str = ""
    open: bool = Field(description="something can be done about it: accept a gap, retry a record")


class Incidents(Document):
    """The newest first. `failing`: what could not be read, and why."""

    name: str
    phase: Phase
    at: datetime
    incidents: tuple[Incident, ...]
    failing: tuple[str, ...] = ()


def incidents(
    gaps: Iterable[GapStatus],
    quarantined: Iterable[QuarantinedRecord],
    recovery: RecoveryStatus | None,
    recoveries: Iterable[EventRow],
    audits: Iterable[AuditSummary],
) -> list[Incident]:
    """All as one timeline, the newest first; `recoveries` are events of those before."""
    found = [
        *map(_gap, gaps),
        *map(_record, quarantined),
        *map(_audit, audits),
        *(_earlier(it) for it in recoveries if not _is_of(it, recovery)),
        *([] if recovery is None else [_recovery(recovery)]),
    ]
    return sorted(found, key=lambda it: it.at, reverse=True)


def _is_of(event: EventRow, recovery: RecoveryStatus | None) -> bool:
    """Whether an event was about this recovery, which ended some time after it."""
    if recovery is None:
        return False
    begun = recovery.at - timedelta(seconds=recovery.seconds) - SLACK
    return begun <= event.at <= recovery.at


def _gap(gap: GapStatus) -> Incident:
    offsets = f"offset {gap.from_offset}"
    if gap.to_offset is None:
        offsets = f"offsets {gap.from_offset} to an unknown offset"
    elif gap.to_offset > gap.from_offset + 1:
        offsets = f"offsets {gap.from_offset} to {gap.to_offset - 1}"
    waits = not gap.resolved and gap.decided_at is None
    state = "decided" if gap.resolved else "open" if waits else "accepted, continues soon"
    return Incident(
        at=gap.found_at,
        kind=IncidentKind.GAP,
        level="error" if waits else "warning",
        source=gap.cluster,
        what=f"{gap.topic}-{gap.partition}, {offsets}: {gap.note or gap.reason}",
        state=state,
        id=gap.id,
        open=waits,
    )


def _record(record: QuarantinedRecord) -> Incident:
    waits = record.state != RecordState.RETRIED
    detail = f": {record.detail}" if record.detail else ""
    return Incident(
        at=_moment(record.quarantined_at_ms),
        kind=IncidentKind.QUARANTINE,
        level="warning" if waits else "info",
        source=record.source,
        what=f"{record.origin} was refused by {record.hub_topic} ({record.reason}, "
        f"{record.bytes:,} bytes){detail}",
        state=record.state,
        id=record.origin,
        open=waits,
    )


def _moment(millis: int) -> datetime:
    """A time of a topic, which may be one that no calendar has."""
    try:
        return datetime.fromtimestamp(max(millis, 0) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _recovery(recovery: RecoveryStatus) -> Incident:
    return Incident(
        at=recovery.at,
        kind=IncidentKind.RECOVERY,
        level="info",
        source=None,
        what=f"{recovery.partitions} partitions: {recovery.tail:,} offsets of the hub were read in "
        f"{recovery.seconds:.1f} s, {recovery.found:,} records were there already, "
        f"{recovery.replayed:,} were missing and written",
        state="done",
        open=False,
    )


def _earlier(event: EventRow) -> Incident:
    return Incident(
        at=event.at,
        kind=IncidentKind.RECOVERY,
        level="info",
        source=event.source,
        what=event.message,
        state="begun",
        open=False,
    )


def _audit(audit: AuditSummary) -> Incident:
    is_wrong = audit.exit_code == EXIT_DATA
    verdict = {EXIT_DONE: "all is well", EXIT_CLUSTER: "not everything could be looked at"}.get(
        audit.exit_code, f"wrong: {audit.findings}" if audit.findings else "something is wrong"
    )
    if audit.not_judged:
        verdict = verdict.replace("all is well", "nothing is wrong in them")
        verdict += f"; {audit.not_judged:,} could not be judged"
    return Incident(
        at=audit.at,
        kind=IncidentKind.AUDIT,
        level="error" if is_wrong else "info",
        source=None,
        what=f"{audit.expected:,} records of {audit.partitions} partitions judged in "
        f"{audit.seconds:.1f} s: {verdict}",
        state="wrong" if is_wrong else "well" if audit.exit_code == EXIT_DONE else "partly",
        id=audit.audit,
        open=False,
    )
