"""The REST application: routes of all calls, and those that show the latest status.

`/` and `/health` answer in the shapes of Kafka Connect, `/api/...` in our own. `/health` is for
those who send requests on, `/alive` for those who end what hangs.
"""

from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from aggregator import __version__
from aggregator.api import (
    actions,
    backfills,
    connect_rest,
    control,
    dashboard,
    live,
    lookups,
    timeline,
)
from aggregator.api.auth import Gate
from aggregator.api.connectors import Connectors
from aggregator.api.dashboard import page_for
from aggregator.api.error_answers import ERRORS, FAILED, HEALTH, STARTING, Health, answer, text
from aggregator.api.followers import Followers
from aggregator.api.instance import Asked, Here, HubTopic, Instance, StartingError
from aggregator.api.latest_status import StatusHolder
from aggregator.api.live import live_messages
from aggregator.api.lookups import Source, Topic
from aggregator.api.metrics import metrics_text
from aggregator.api.queries import QueryService
from aggregator.api.timeline import event_messages
from aggregator.config.mask import masked
from aggregator.engine.control.commands import Control
from aggregator.features.timeline.recorder import Recorder
from aggregator.features.verify.audit_process import AuditRunner
from aggregator.model.errors import AggregatorError
from aggregator.status.lag import LagReport, only, only_into, report_of
from aggregator.status.schema import Phase, Status

CONNECT = "4.0.0"
"""Clients look at it for what they may ask; what they ask is answered as by this version."""
STANDING_BY = "Another instance writes: this one waits for it to end."
READY = "Worker has completed startup and is ready to handle requests."
ALIVE = "The process answers."
FOLLOWERS = 50
"""How many may follow the events at once."""
VIEWERS = 100
"""And the live figures, as each open page of the dashboard does."""
HUNG_SECONDS = 600.0
"""A running engine publishes about once a second. A slow hub or store may hold it up for minutes,
but not for this long."""


router = APIRouter()


# A plain function, as all that need a status: one takes a while to make, and the server's own
# thread answers the others meanwhile.
@router.get("/", response_model=None, responses={307: {"description": "a browser: the pages"}})
def root(here: Here, request: Request) -> dict[str, str] | Response:
    """Which Connect it speaks as, our version, and the hub's cluster id; or the dashboard."""
    page = page_for(request)
    if page is not None:
        return page
    status = here.holder.latest()
    cluster_id = status.hub_cluster_id if status is not None else ""
    own = f"aggregator {__version__}"
    return {"version": CONNECT, "commit": own, "kafka_cluster_id": cluster_id}


@router.get("/health", response_model=Health, responses=dict.fromkeys((500, 503), HEALTH))
async def health(here: Here) -> Response:
    """200 healthy, 503 starting, 500 unhealthy, as Connect's."""
    code, body = health_of(here.holder.phase())
    return JSONResponse(body, code)


@router.get("/alive", response_model=Health, responses={503: HEALTH})
async def alive(here: Here) -> Response:
    """200 while it may be left alone, whatever it does; 503 when its engine hangs."""
    code, body = alive_of(here.holder.phase(), here.holder.still())
    return JSONResponse(body, code)


@router.get("/metrics", response_class=Response, responses=text("text/plain"))
def metrics(here: Here) -> Response:
    """The status in Prometheus' words."""
    config, holder = here.control.config.metrics, here.holder
    # The earlier one is made on request, so only for the names that need it.
    earlier = holder.earlier() if "mm2" in config.names else None
    text = metrics_text(holder.latest(), config, earlier)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.get("/api/status")
def status(here: Here) -> Status:
    """The status document."""
    return here.status()


@router.get("/api/lag")
def lag(
    here: Here,
    source: Source = None,
    topic: Topic = None,
    hub_topic: HubTopic = None,
) -> LagReport:
    """Lag per source partition, with rates and ETA; of one source, one topic, or all."""
    status = here.status()
    report = only(report_of(status, here.holder.earlier()), source, topic)
    return report if hub_topic is None else only_into(report, status, hub_topic)


@router.get("/api/config", responses=FAILED)
async def config(here: Here) -> dict[str, Any]:
    """The effective config, secrets masked."""
    return masked(here.control.config)


def _all_calls() -> FastAPI:
    # FastAPI's own page of it would load scripts from another host.
    app = FastAPI(
        title="aggregator",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=ERRORS,
    )
    for calls in (
        router,
        control.router,
        connect_rest.router,
        dashboard.router,
        lookups.router,
        actions.router,
        backfills.router,
        timeline.router,
        live.router,
    ):
        app.include_router(calls)
    app.mount("/ui", dashboard.files, name="ui")
    kinds = (AggregatorError, StartingError, RequestValidationError, HTTPException, Exception)
    for kind in kinds:
        # HTTPException: a path or a method that there is not.
        app.add_exception_handler(kind, answer)
    return app


CALLS = _all_calls()
"""Every call, declared once for a process."""


def make_app(
    steered: Control, holder: StatusHolder, recorder: Recorder, audits: AuditRunner
) -> ASGIApp:
    """The API of one instance: `steered` commands it, `holder` has its latest status.

    `recorder` has its history and events. `audits` runs those that are asked for; its owner ends
    it.
    """
    feed = recorder.feed
    instance = Instance(
        control=steered,
        holder=holder,
        recorder=recorder,
        audits=audits,
        connectors=Connectors(steered, holder, recorder.report),
        query_service=QueryService(steered),
        followers=Followers(FOLLOWERS, event_messages(feed), lambda: feed.closed),
        viewers=Followers(VIEWERS, live_messages(holder.recent), lambda: feed.closed),
    )
    return Gate(Asked(CALLS, instance), steered.config.api)


def health_of(phase: Phase | None) -> tuple[int, dict[str, str]]:
    """HTTP code and body of `/health` in a phase, None before the first.

    These calls need no token. So the reasons are in the status alone: they may name
    addresses, paths and processes.
    """
    if phase is Phase.STANDBY:
        return 200, {"status": "standby", "message": STANDING_BY}
    if phase is None or phase is Phase.STARTING:
        return 503, {"status": "starting", "message": STARTING}
    if phase is Phase.FAILED:
        return 500, {"status": "unhealthy", "message": "The aggregation failed."}
    if phase is Phase.RUNNING:
        return 200, {"status": "healthy", "message": READY}
    message = f"The aggregation is {str(phase).lower()}."
    return 200, {"status": "healthy", "message": message}


def alive_of(phase: Phase | None, still: float) -> tuple[int, dict[str, str]]:
    """HTTP code and body of `/alive`, for an engine that was silent for `still` seconds.

    Only one that runs is judged by that. A start waits for leases, for producers of others and for
    the hub, as long as they need; one that is ended meanwhile begins the same wait again.
    """
    phase_name = str(phase or Phase.STARTING).lower()
    if phase is Phase.RUNNING and still > HUNG_SECONDS:
        return 503, {"status": phase_name, "message": f"The engine was silent for {still:.0f} s."}
    return 200, {"status": phase_name, "message": ALIVE}
