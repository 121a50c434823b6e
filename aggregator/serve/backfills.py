"""The endpoints of backfills: what would be read, orders, how far each is, and taking one back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from aggregator.backfills import core as backfills
from aggregator.backfills.document import BackfillReport, BackfillsReport
from aggregator.serve.control import caller_check, caller_name, check_source
from aggregator.serve.holder import StatusHolder
from aggregator.steering.control import Control

Name = Annotated[str, Path(max_length=40)]


class BackfillBody(backfills.BackfillRequest):
    """What is to be read. Unless `dry_run` is false it is only told what that would be."""

    dry_run: bool = Field(default=True)


def backfills_router(
    control: Control, holder: StatusHolder, starting: Callable[[], Response]
) -> APIRouter:
    """What anybody may look at, and what only those may order who may change something."""
    router = APIRouter(prefix="/api/backfills")
    changing = [Depends(caller_check(control))]

    # Plain functions: FastAPI runs them in threads, as they ask clusters and wait for the engine.
    @router.get("", response_model=BackfillsReport)
    def listed() -> BackfillsReport | Response:
        """All that were ever ordered, the oldest first."""
        latest = holder.latest()
        return starting() if latest is None else control.backfills(latest.backfills)

    @router.post("", dependencies=changing)
    def order(wanted: BackfillBody, request: Request) -> BackfillReport:
        """Read a range beside the live flow; a dry run unless it says `"dry_run": false`."""
        check_source(control, wanted.source)
        fields = wanted.model_dump(exclude={"dry_run"})
        return control.order_backfill(
            backfills.BackfillRequest(**fields), by=caller_name(request), dry_run=wanted.dry_run
        )

    @router.put("/{name}/cancel", dependencies=changing)
    def cancel(name: Name) -> BackfillReport:
        """Read no more of it; what it has written stays."""
        return control.cancel_backfill(name)

    return router
