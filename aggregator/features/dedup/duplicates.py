"""Records that dedup has dropped, as they are shown."""

from collections.abc import Sequence

from pydantic import Field

from aggregator.features.quarantine.ledger import LedgerEntry
from aggregator.features.quarantine.quarantined import SetAside, common_of
from aggregator.status.schema import Document


class DroppedRecord(SetAside):
    """One record whose event the hub held already; its content is not shown."""

    by: str = Field(description="the rule that identified the event: topics.dedup.by")
    event: str = Field(description="the event's id; in hexadecimal digits where it is no text")
    hub_topic: str
    bytes: int
    kept: str = Field(description="how much of it is kept: whole, key or nothing")
    state: str = Field(description="dropped, or as of quarantine: trying, refused or retried")
    detail: str
    dropped_at_ms: int


class DroppedReport(Document):
    """The newest of the records that fit, the oldest of them first; `count` is of all of them."""

    topic: str
    count: int
    records: tuple[DroppedRecord, ...]


def dropped_of(entry: LedgerEntry) -> DroppedRecord:
    """A record of the ledger, as every view shows it."""
    _, _, said = entry.record.reason.partition(" ")
    by, _, event = said.partition(" ")
    fields = common_of(entry)
    if entry.state == "open":
        fields["state"] = "dropped"
    return DroppedRecord(**fields, by=by, event=event, dropped_at_ms=entry.record.at_ms)


def dropped_report(topic: str, entries: Sequence[LedgerEntry], limit: int) -> DroppedReport:
    """The newest `limit` of these entries."""
    records = tuple(dropped_of(entry) for entry in entries[-limit:])
    return DroppedReport(topic=topic, count=len(entries), records=records)
