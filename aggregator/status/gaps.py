"""Gaps in the status document: a list, and counts."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from aggregator.model.alike import made_of
from aggregator.plan.positions.gaps import GapRecord
from aggregator.status.schema import Document, GapsStatus, GapStatus

SHOWN = 20
"""The status document has at most this many gaps; `aggregator gaps` lists all."""


class GapsReport(Document):
    """Gaps as they are asked for, open ones first; `total` and `open` are of all that fit."""

    total: int
    open: int
    gaps: tuple[GapStatus, ...]


def gaps_report(records: Sequence[GapRecord], *, only_open: bool, limit: int) -> GapsReport:
    """The first `limit` of these records."""
    kept = [record for record in newest_first(records) if not (only_open and record.resolved)]
    return GapsReport(
        total=len(records),
        open=sum(not record.resolved for record in records),
        gaps=tuple(gap_status(record) for record in kept[:limit]),
    )


def gap_status(record: GapRecord) -> GapStatus:
    """A record of the table, as every view shows it."""
    gap = record.gap
    return made_of(
        GapStatus,
        record,
        gap.partition,
        gap,
        **gap.as_columns(),
    )


def newest_first(records: Iterable[GapRecord]) -> list[GapRecord]:
    """Open gaps before the others, and the newest of each first."""
    by_age = sorted(records, key=lambda it: (it.found_at, it.gap.partition), reverse=True)
    return sorted(by_age, key=lambda record: record.resolved)


def gaps_status(records: Sequence[GapRecord]) -> GapsStatus:
    """The numbers of all records, and the first `SHOWN` of them."""
    return GapsStatus(
        total=len(records),
        open=sum(not record.resolved for record in records),
        lost=lost_offsets(records),
        latest=tuple(gap_status(record) for record in newest_first(records)[:SHOWN]),
    )


def lost_offsets(records: Iterable[GapRecord]) -> int:
    """Offsets lost in all of them, where that is known."""
    return sum(record.gap.lost or 0 for record in records)


def last_loss(records: Iterable[GapRecord]) -> datetime | None:
    """When the newest gap was found in which offsets are lost, or it is not known whether any."""
    return max((record.found_at for record in records if record.gap.lost != 0), default=None)
