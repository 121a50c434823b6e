"""Quarantined records as they are shown, and what became of those that were tried again."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from aggregator.features.quarantine.ledger import LedgerEntry
from aggregator.features.quarantine.retry import RetryOutcome
from aggregator.status.schema import Document

ABSENT = "not in quarantine, or retried already"


class SetAside(Document):
    """One record that is not in its hub topic, by its origin."""

    origin: str
    source: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class QuarantinedRecord(SetAside):
    """One record that the hub refused; its content is not shown."""

    reason: str
    hub_topic: str
    bytes: int
    kept: str = Field(description="how much of it is in quarantine: whole, key or nothing")
    state: str = Field(description="open, trying, refused or retried")
    detail: str
    quarantined_at_ms: int


class QuarantineReport(Document):
    """The newest matching records, the oldest of them first; `states` counts all that match."""

    topic: str
    states: dict[str, int]
    records: tuple[QuarantinedRecord, ...]


class RetryRow(Document):
    """The outcome for one record, or in a dry run the expected one."""

    origin: str
    hub_topic: str
    state: str = Field(description="retried: the hub has it now; unknown: not in quarantine")
    detail: str


class RetryReport(Document):
    """All records to retry."""

    dry_run: bool
    records: tuple[RetryRow, ...]
    error: str = Field(default="", description="why the others were not tried")


def common_of(entry: LedgerEntry) -> dict[str, Any]:
    """What a quarantined and a dropped record are shown with, by field."""
    record = entry.record
    cluster, topic, partition = record.origin.partition
    return {
        "origin": str(record.origin),
        "source": cluster,
        "topic": topic,
        "partition": partition,
        "offset": record.origin.offset,
        "timestamp_ms": record.timestamp,
        "hub_topic": record.hub_topic,
        "bytes": record.size,
        "kept": record.kept,
        "state": str(entry.state),
        "detail": entry.detail,
    }


def record_of(entry: LedgerEntry) -> QuarantinedRecord:
    """A record of the ledger, as every view shows it."""
    record = entry.record
    return QuarantinedRecord(
        **common_of(entry), reason=record.reason, quarantined_at_ms=record.at_ms
    )


def quarantine_report(topic: str, entries: Sequence[LedgerEntry], limit: int) -> QuarantineReport:
    """The newest `limit` of these entries."""
    return QuarantineReport(
        topic=topic,
        states=dict(Counter(str(entry.state) for entry in entries)),
        records=tuple(record_of(entry) for entry in entries[-limit:]),
    )


def retry_rows(outcomes: Sequence[RetryOutcome], unknown: Sequence[str]) -> tuple[RetryRow, ...]:
    """What was tried, and origins that are unknown."""
    tried = (
        RetryRow(
            origin=str(it.record.origin),
            hub_topic=it.record.hub_topic,
            state=str(it.state),
            detail=it.detail,
        )
        for it in outcomes
    )
    absent = (RetryRow(origin=it, hub_topic="", state="unknown", detail=ABSENT) for it in unknown)
    return (*tried, *absent)
