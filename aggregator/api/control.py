"""The endpoints that change sources and how they flow: add, pause, positions, reload."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from aggregator.api.connector_settings import Settings
from aggregator.api.instance import CHANGING, Here, check_source
from aggregator.api.permissions import caller_name
from aggregator.features.positions import targets as rewind
from aggregator.features.positions.change_report import MovesReport
from aggregator.model.values import Part
from aggregator.status.command_answers import ReloadReport, SourceControl

Number = Annotated[int | None, Query(ge=0, lt=1 << 31)]


class PositionsRequest(rewind.MoveRequest):
    """The new positions. Unless `dry_run` is false the answer only shows what would be done."""

    dry_run: bool = Field(default=True)


class SourceRequest(BaseModel):
    """A source in the words of a connector's config."""

    config: Settings = Field(min_length=1)


router = APIRouter(prefix="/api", dependencies=CHANGING)


# Plain functions: FastAPI runs them in threads, as they wait for the engine.
@router.put("/sources/{alias}/pause")
def pause(here: Here, alias: str, request: Request) -> SourceControl:
    """Stop reading a source, and keep it paused, over restarts too."""
    check_source(here, alias)
    return here.control.pause(alias, by=caller_name(request))


@router.put("/sources/{alias}/resume")
def resume(here: Here, alias: str, request: Request) -> SourceControl:
    """Resume a source from where it is."""
    check_source(here, alias)
    return here.control.resume(alias, by=caller_name(request))


@router.put("/sources/{alias}/topics/{topic}/pause")
def pause_topic(
    here: Here, alias: str, topic: str, request: Request, partition: Number = None
) -> SourceControl:
    """Pause a topic, or one partition of it, while the rest of its source continues."""
    check_source(here, alias)
    return here.control.pause_part(Part(alias, topic, partition), by=caller_name(request))


@router.put("/sources/{alias}/topics/{topic}/resume")
def resume_topic(
    here: Here, alias: str, topic: str, request: Request, partition: Number = None
) -> SourceControl:
    """Resume a topic, with all its partitions, or one of them, from where it is."""
    check_source(here, alias)
    return here.control.resume_part(Part(alias, topic, partition), by=caller_name(request))


@router.post("/positions")
def positions(here: Here, wanted: PositionsRequest) -> MovesReport:
    """Set positions of paused sources; a dry run unless it says `"dry_run": false`."""
    fields = wanted.model_dump(exclude={"dry_run"})
    return here.control.set_positions(rewind.MoveRequest(**fields), dry_run=wanted.dry_run)


@router.post("/reload")
def reload(here: Here) -> ReloadReport:
    """Read the config again; the old one stays in force when anything is wrong."""
    return here.control.reload()


@router.put("/sources/{alias}")
def put(here: Here, request: Request, alias: str, wanted: SourceRequest) -> ReloadReport:
    """Add a source, or read it in another way, while the others flow; it is kept."""
    return here.connectors.put(alias, wanted.config, caller_name(request))


@router.delete("/sources/{alias}")
def remove(here: Here, request: Request, alias: str) -> ReloadReport:
    """Take a source out; its positions stay."""
    return here.connectors.remove(alias, caller_name(request))


@router.put("/sources/{alias}/reset")
def reset(here: Here, request: Request, alias: str) -> ReloadReport:
    """Take back what was changed at run time: the source is what the config file says."""
    return here.connectors.take_back(alias, caller_name(request))


@router.put("/sources/{alias}/restart")
def restart(here: Here, alias: str) -> SourceControl:
    """Restart the lanes of a source."""
    here.connectors.get(alias)
    return here.control.restart(alias)
