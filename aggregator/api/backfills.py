"""The endpoints of backfills: dry run, order, progress, cancel."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import Field

from aggregator.api.instance import CHANGING, Here, check_source
from aggregator.api.permissions import caller_name
from aggregator.features.backfill import ranges as backfills
from aggregator.features.backfill.backfill_report import BackfillReport, BackfillsReport

Name = Annotated[str, Path(max_length=40)]


class BackfillBody(backfills.BackfillRequest):
    """What to read. Unless `dry_run` is false the answer only shows what that would be."""

    dry_run: bool = Field(default=True)


router = APIRouter(prefix="/api/backfills")
"""Any caller may list them; ordering one needs the right to change something."""


# Plain functions: FastAPI runs them in threads, as they ask clusters and wait for the engine.
@router.get("")
def listed(here: Here) -> BackfillsReport:
    """All that were ever ordered, the oldest first."""
    return here.control.backfills(here.status().backfills)


@router.post("", dependencies=CHANGING)
def order(here: Here, wanted: BackfillBody, request: Request) -> BackfillReport:
    """Read a range beside the live flow; a dry run unless it says `"dry_run": false`."""
    check_source(here, wanted.source)
    fields = wanted.model_dump(exclude={"dry_run"})
    return here.control.order_backfill(
        backfills.BackfillRequest(**fields), by=caller_name(request), dry_run=wanted.dry_run
    )


@router.put("/{name}/cancel", dependencies=CHANGING)
def cancel(here: Here, name: Name) -> BackfillReport:
    """Read no more of it; what it has written stays."""
    return here.control.cancel_backfill(name)
