"""Backfills as documents: dry runs, orders, and the progress of each."""

from collections.abc import Iterable

from pydantic import Field

from aggregator.features.backfill.ranges import Backfill
from aggregator.model.alike import made_of
from aggregator.status.schema import BackfillPartStatus, BackfillStatus, Document

SHOWN = 20
"""How many ended ones the status shows: the last."""


class BackfillReport(Document):
    """One order. `backfill.id` is empty when nothing was ordered."""

    name: str
    dry_run: bool = False
    running: bool = Field(description="reported by the running instance")
    backfill: BackfillStatus
    hub_offsets: int = Field(default=0, description="offsets of the hub that are read first")
    notes: tuple[str, ...] = ()


class BackfillsReport(Document):
    """All that were ever ordered, the oldest first."""

    name: str
    running: bool = Field(description="reported by the running instance")
    backfills: tuple[BackfillStatus, ...] = ()


def backfill_status(backfill: Backfill, doing: str = "", reason: str = "") -> BackfillStatus:
    """A backfill as it is shown; `doing` and `reason` are those of the running instance."""
    return made_of(
        BackfillStatus,
        backfill,
        source=backfill.cluster,
        doing=doing,
        reason=reason or backfill.reason,
        lost=sum(part.lost for part in backfill.parts),
        parts=tuple(
            BackfillPartStatus(
                partition=part.partition.partition,
                begin=part.start,
                until=part.end,
                position=part.position,
                lost=part.lost,
            )
            for part in backfill.parts
        ),
    )


def worth_showing(backfills: Iterable[Backfill]) -> list[Backfill]:
    """Those that are active, and the last ones that were."""
    found = list(backfills)
    ended = [it for it in found if not it.is_active][-SHOWN:]
    return [it for it in found if it.is_active or it in ended]
