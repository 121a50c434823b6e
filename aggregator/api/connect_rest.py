"""Kafka Connect's REST API over sources as connectors, for scripts and tools of Connect.

Paths, answers and codes are those of Connect 4 (org.apache.kafka.connect.runtime.rest). What has no
counterpart here answers 404 or 400 and says so.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from aggregator.api.connector_settings import Changes, Settings
from aggregator.api.connectors import STATES
from aggregator.api.instance import CHANGING, Here, check_may_change
from aggregator.api.permissions import CallerError, caller_name
from aggregator.engine.control.commands import Control
from aggregator.features.connectors import connector_json, plugins
from aggregator.features.connectors.to_source import class_of
from aggregator.features.positions.targets import MoveRequest
from aggregator.model.errors import RefusedError
from aggregator.model.events import LEVELS

ROOT = "root"
ADDED: dict[int | str, dict[str, Any]] = {201: {"description": "there was none of this name"}}
SET: dict[int | str, dict[str, Any]] = {204: {"description": "it is set, with scope=cluster"}}
STATES_TOLD: dict[int | str, dict[str, Any]] = {
    202: {"description": "with includeTasks or onlyFailed: the status, as GET shows it"}
}


class NewConnector(BaseModel):
    """The body of a POST: a name, a config, and its first state."""

    name: str = Field(min_length=1)
    config: Settings = Field(default_factory=dict)
    initial_state: str | None = None


class Offsets(BaseModel):
    """What is patched: rows of a partition and its offset, as `GET` gives them."""

    offsets: list[dict[str, Any]]


router = APIRouter(tags=["connect"])
"""The endpoints of Connect; those that change anything are for this machine."""


@router.get("/connectors")
def names(here: Here, expand: Annotated[list[str] | None, Query()] = None) -> Any:
    """All connectors: their names, or with `expand` what is known of each."""
    wanted = set(expand or ()) & {"status", "info"}
    if not wanted:
        return here.connectors.names()
    return {
        connector.name: {
            part: connector_json.info(connector)
            if part == "info"
            else connector_json.status_of(connector, _worker(here.control))
            for part in sorted(wanted)
        }
        for connector in here.connectors.all()
    }


@router.post("/connectors", status_code=201, dependencies=CHANGING)
def create(here: Here, request: Request, response: Response, wanted: NewConnector) -> Any:
    """Add a source; it is kept over restarts."""
    begin = STATES.get((wanted.initial_state or "RUNNING").upper())
    if begin is None:
        known = ", ".join(STATES)
        raise CallerError(400, f"initial_state is {wanted.initial_state}, not one of {known}")
    made = here.connectors.create(wanted.name, wanted.config, caller_name(request), begin)
    response.headers["location"] = f"/connectors/{wanted.name}"
    return connector_json.info(made)


@router.get("/connectors/{name}")
def one(here: Here, name: str) -> Any:
    """One connector: its config and tasks."""
    return connector_json.info(here.connectors.get(name))


@router.get("/connectors/{name}/config")
def config(here: Here, name: str) -> Any:
    """The config of a connector; a secret from the YAML is masked."""
    return here.connectors.get(name).config


@router.put("/connectors/{name}/config", dependencies=CHANGING, responses=ADDED)
def put(here: Here, request: Request, name: str, wanted: Annotated[Settings, Body()]) -> Response:
    """Add a connector (201), or change its whole config (200)."""
    new = name in here.connectors.put(name, wanted, caller_name(request)).added
    headers = {"location": f"/connectors/{name}"} if new else {}
    body = connector_json.info(here.connectors.get(name))
    return JSONResponse(body, 201 if new else 200, headers)


@router.patch("/connectors/{name}/config", dependencies=CHANGING)
def patch(here: Here, request: Request, name: str, wanted: Annotated[Changes, Body()]) -> Any:
    """Change some keys of a config; null takes a key out."""
    return connector_json.info(here.connectors.patch(name, wanted, caller_name(request)))


@router.delete("/connectors/{name}", status_code=204, dependencies=CHANGING)
def remove(here: Here, request: Request, name: str) -> None:
    """Take a source out. Its positions stay: added again, it continues from where it was."""
    here.connectors.remove(name, caller_name(request))


@router.get("/connectors/{name}/status")
def status(here: Here, name: str) -> Any:
    """The states of a connector and of its tasks."""
    return connector_json.status_of(here.connectors.get(name), _worker(here.control))


@router.get("/connectors/{name}/tasks")
def tasks(here: Here, name: str) -> Any:
    """The tasks of a connector, and what each one reads."""
    return connector_json.tasks_of(here.connectors.get(name))


@router.get("/connectors/{name}/tasks/{number}/status")
def task(here: Here, name: str, number: int) -> Any:
    """The state of one task."""
    found = connector_json.task_states(here.connectors.get(name), _worker(here.control))
    _check_task(name, number, found)
    return found[number]


@router.get("/connectors/{name}/topics")
def topics(here: Here, name: str) -> Any:
    """The hub topics that a connector writes."""
    return connector_json.topics_of(here.connectors.get(name))


@router.put(
    "/connectors/{name}/topics/reset",
    status_code=202,
    dependencies=CHANGING,
    response_class=Response,
)
def reset_topics(here: Here, name: str) -> Response:
    """Nothing to do: the topics are those that are written now."""
    here.connectors.get(name)
    return Response(status_code=202)


@router.get("/connectors/{name}/offsets")
def offsets(here: Here, name: str) -> Any:
    """How far each partition is copied, as MirrorMaker 2 shows it: the last offset."""
    return connector_json.offsets_of(here.connectors.get(name))


@router.patch("/connectors/{name}/offsets", dependencies=CHANGING)
def alter_offsets(here: Here, name: str, wanted: Offsets) -> dict[str, str]:
    """Set the offsets of a stopped connector; null is the beginning of a partition's log."""
    _check_stopped(here.control, here.connectors.get(name).name, "altered")
    try:
        request = connector_json.altered(name, wanted.offsets)
    except ValueError as error:
        raise CallerError(400, str(error)) from error
    return _moved(here.control, request, "altered")


@router.delete("/connectors/{name}/offsets", dependencies=CHANGING)
def delete_offsets(here: Here, name: str) -> dict[str, str]:
    """Let a stopped connector begin where its `start` says."""
    _check_stopped(here.control, here.connectors.get(name).name, "reset")
    request = connector_json.reset(name, here.control.config.sources[name].start)
    return _moved(here.control, request, "reset")


@router.put(
    "/connectors/{name}/pause", status_code=202, dependencies=CHANGING, response_class=Response
)
def pause(here: Here, name: str, request: Request) -> Response:
    """Let a source rest; returns when its lanes have ended."""
    here.connectors.get(name)
    here.control.pause(name, by=caller_name(request))
    # As Connect's: no body at all, not even a null.
    return Response(status_code=202)


@router.put(
    "/connectors/{name}/resume", status_code=202, dependencies=CHANGING, response_class=Response
)
def resume(here: Here, name: str, request: Request) -> Response:
    """Resume a source from where it is."""
    here.connectors.get(name)
    here.control.resume(name, by=caller_name(request))
    # As Connect's: no body at all, not even a null.
    return Response(status_code=202)


@router.put("/connectors/{name}/stop", status_code=204, dependencies=CHANGING)
def stop(here: Here, name: str, request: Request) -> None:
    """As pause; a stopped connector has no tasks, and its offsets can be set."""
    here.connectors.get(name)
    here.control.pause(name, stopped=True, by=caller_name(request))


@router.post(
    "/connectors/{name}/restart", status_code=204, dependencies=CHANGING, responses=STATES_TOLD
)
def restart(
    here: Here,
    name: str,
    include_tasks: Annotated[bool, Query(alias="includeTasks")] = False,
    only_failed: Annotated[bool, Query(alias="onlyFailed")] = False,
) -> Response:
    """Let the lanes of a source end and start again; with `onlyFailed` only where that can help."""
    before = here.connectors.get(name)
    status = connector_json.status_of(before, _worker(here.control))
    states = [status["connector"]["state"], *(it["state"] for it in status["tasks"])]
    wanted = not only_failed or connector_json.ConnectState.FAILED in states
    if not only_failed or connector_json.ends_lanes(before):
        here.control.restart(name)
    elif wanted:
        here.control.request_discovery()
    if not include_tasks and not only_failed:
        return Response(status_code=204)
    return JSONResponse(connector_json.restarted(status) if wanted else status, 202)


@router.post("/connectors/{name}/tasks/{number}/restart", status_code=204, dependencies=CHANGING)
def restart_task(here: Here, name: str, number: int) -> None:
    """As `restart`: the tasks of a source share what reads it."""
    connector = here.connectors.get(name)
    _check_task(name, number, connector_json.task_states(connector, _worker(here.control)))
    if connector_json.ends_lanes(connector, number):
        here.control.restart(name)
    else:
        here.control.request_discovery()


@router.get("/connector-plugins")
def all_plugins() -> Any:
    """The connectors whose words are understood."""
    return plugins.plugins()


@router.get("/connector-plugins/{plugin}/config")
def plugin_config(plugin: str) -> Any:
    """The keys of a connector's config."""
    _check_plugin(plugin)
    return plugins.definitions()


@router.put("/connector-plugins/{plugin}/config/validate")
def validate(here: Here, request: Request, plugin: str, wanted: Annotated[Settings, Body()]) -> Any:
    """Check a config without taking it."""
    return here.connectors.validate(
        _check_plugin(plugin), wanted, lambda: check_may_change(request)
    )


@router.get("/admin/loggers")
def loggers(here: Here) -> Any:
    """The level of the log."""
    return {ROOT: _level(here.control)}


@router.get("/admin/loggers/{logger}")
def logger_level(here: Here, logger: str) -> Any:
    """The level of one logger."""
    _check_logger(logger)
    return _level(here.control)


@router.put("/admin/loggers/{logger}", dependencies=CHANGING, responses=SET)
def set_level(
    here: Here,
    logger: str,
    wanted: Annotated[dict[str, str], Body()],
    scope: Annotated[str, Query(description="worker or cluster: here the same")] = "worker",
) -> Any:
    """Set the level of the log."""
    _check_logger(logger)
    level = wanted.get("level", "").upper()
    if level not in LEVELS:
        raise CallerError(404, f"Unknown level '{level}', not one of {', '.join(LEVELS)}")
    here.control.log_level.set(level)
    return Response(status_code=204) if scope.lower() == "cluster" else [ROOT]


def _level(control: Control) -> dict[str, Any]:
    at = control.log_level.changed
    changed = None if at is None else round(at.timestamp() * 1000)
    return {"level": control.log_level.level, "last_modified": changed}


def _check_logger(logger: str) -> None:
    if logger != ROOT:
        raise CallerError(404, f"Logger {logger} not found; there is one, {ROOT}")


def _check_task(name: str, number: int, tasks: list[dict[str, Any]]) -> None:
    if not 0 <= number < len(tasks):
        raise CallerError(404, f"Connector {name} has no task {number}; it has {len(tasks)}")


def _check_plugin(plugin: str) -> str:
    found = class_of(plugin)
    if found is None:
        raise CallerError(404, f"Unknown plugin {plugin}")
    return found


def _check_stopped(control: Control, name: str, word: str) -> None:
    if name not in control.stopped:
        raise CallerError(
            400,
            f"Connectors must be in the STOPPED state before their offsets can be {word}. This can "
            "be done for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{name}/stop' endpoint",
        )


def _moved(control: Control, request: MoveRequest, word: str) -> dict[str, str]:
    try:
        control.set_positions(request, dry_run=False)
    except RefusedError as error:
        raise CallerError(400, str(error)) from error
    return {"message": f"The offsets for this connector have been {word} successfully"}


def _worker(control: Control) -> str:
    return control.config.api.listen
