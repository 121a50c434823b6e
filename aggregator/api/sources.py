"""Our own calls that add, change, restart and remove a source, also for the command line."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from aggregator.api.connector_settings import Settings
from aggregator.api.instance import CHANGING, Here
from aggregator.api.permissions import caller_name
from aggregator.status.command_answers import ReloadReport, SourceControl


class SourceRequest(BaseModel):
    """A source in the words of a connector's config."""

    config: Settings = Field(min_length=1)


router = APIRouter(prefix="/api/sources", dependencies=CHANGING)


@router.put("/{alias}")
def put(here: Here, request: Request, alias: str, wanted: SourceRequest) -> ReloadReport:
    """Add a source, or read it in another way, while the others flow; it is kept."""
    return here.connectors.put(alias, wanted.config, caller_name(request))


@router.delete("/{alias}")
def remove(here: Here, request: Request, alias: str) -> ReloadReport:
    """Take a source out; its positions stay."""
    return here.connectors.remove(alias, caller_name(request))


@router.put("/{alias}/reset")
def reset(here: Here, request: Request, alias: str) -> ReloadReport:
    """Take back what was changed at run time: the source is what the config file says."""
    return here.connectors.take_back(alias, caller_name(request))


@router.put("/{alias}/restart")
def restart(here: Here, alias: str) -> SourceControl:
    """Restart the lanes of a source."""
    here.connectors.get(alias)
    return here.control.restart(alias)
