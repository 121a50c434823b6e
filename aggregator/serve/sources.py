"""Our own calls that add, change, restart and remove a source; the command line's."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from aggregator.documents.controls import ReloadReport, SourceControl
from aggregator.serve.connectors import Connectors
from aggregator.serve.control import caller_check, caller_name
from aggregator.serve.settings import Settings
from aggregator.steering.control import Control


class SourceRequest(BaseModel):
    """A source in the words of a connector's config."""

    config: Settings = Field(min_length=1)


def sources_router(control: Control, connectors: Connectors) -> APIRouter:
    """The endpoints; for this machine alone."""
    router = APIRouter(prefix="/api/sources", dependencies=[Depends(caller_check(control))])

    @router.put("/{alias}")
    def put(request: Request, alias: str, wanted: SourceRequest) -> ReloadReport:
        """Add a source, or read it in another way, while the others flow; it is kept."""
        return connectors.put(alias, wanted.config, caller_name(request))

    @router.delete("/{alias}")
    def remove(request: Request, alias: str) -> ReloadReport:
        """Take a source out; its positions stay."""
        return connectors.remove(alias, caller_name(request))

    @router.put("/{alias}/reset")
    def reset(request: Request, alias: str) -> ReloadReport:
        """Take back what was changed at run time: the source is what the config file says."""
        return connectors.take_back(alias, caller_name(request))

    @router.put("/{alias}/restart")
    def restart(alias: str) -> SourceControl:
        """Let the lanes of a source end, and start anew."""
        connectors.get(alias)
        return control.restart(alias)

    return router
