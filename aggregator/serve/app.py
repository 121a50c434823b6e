"""The REST endpoints of a running aggregation, over its latest status.

`/` and `/health` answer in the shapes of Kafka Connect, `/api/...` in our own. Whatever changes
anything is in `aggregator.serve.control`.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from aggregator import __version__
from aggregator.config.mask import masked
from aggregator.config.schema import MetricsConfig
from aggregator.documents.document import Phase, Status
from aggregator.documents.lag import LagReport, only, report_of
from aggregator.serve.actions import actions_router
from aggregator.serve.answers import ERRORS, FAILED, HEALTH, Health, text
from aggregator.serve.backfills import backfills_router
from aggregator.serve.connect import connect_router
from aggregator.serve.connectors import Connectors
from aggregator.serve.control import add_control
from aggregator.serve.desk import Desk
from aggregator.serve.gate import Gate
from aggregator.serve.holder import StatusHolder
from aggregator.serve.lookups import Source, Topic, lookups_router
from aggregator.serve.metrics import metrics_text
from aggregator.serve.pages import add_pages, page_for
from aggregator.serve.sources import sources_router
from aggregator.serve.timeline import timeline_router
from aggregator.steering.control import Control
from aggregator.timeline.recorder import Recorder
from aggregator.verify.apart import AuditRunner

STARTING = "Worker is still starting up."
READY = "Worker has completed startup and is ready to handle requests."


def make_app(
    holder: StatusHolder,
    config_view: dict[str, Any],
    control: Control | None = None,
    recorder: Recorder | None = None,
    audits: AuditRunner | None = None,
) -> FastAPI:
    """The app over `holder`; `config_view` is the effective config with its secrets masked.

    With `control` the instance can be commanded, and its config is the one that is shown. With
    `recorder` as well, history and events are told. `audits` runs those that are asked for; whoever
    gives it ends it.
    """
    # FastAPI's own page of it would load scripts from another host.
    app = FastAPI(
        title="aggregator",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=ERRORS,
    )

    @app.get("/", response_model=None, responses={307: {"description": "a browser: the pages"}})
    async def root(request: Request) -> dict[str, str] | Response:
        """Version and the hub's cluster id, as Connect's root; a browser gets the dashboard."""
        page = page_for(request) if control is not None else None
        if page is not None:
            return page
        status = holder.latest()
        cluster_id = status.hub_cluster_id if status is not None else ""
        return {"version": __version__, "commit": "unknown", "kafka_cluster_id": cluster_id}

    @app.get("/health", response_model=Health, responses=dict.fromkeys((500, 503), HEALTH))
    async def health() -> Response:
        """200 healthy, 503 starting, 500 unhealthy, as Connect's."""
        code, body = health_of(holder.latest())
        return JSONResponse(body, code)

    # A plain function: many sources take a while to write down, and nobody is to wait for that.
    @app.get("/metrics", response_class=Response, responses=text("text/plain"))
    def metrics() -> Response:
        """The status in Prometheus' words."""
        config = control.config.metrics if control is not None else MetricsConfig()
        # The earlier one is made for whoever asks, so only for the names that need it.
        earlier = holder.earlier() if "mm2" in config.names else None
        told = metrics_text(holder.latest(), config, earlier)
        return Response(told, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    @app.get("/api/status", response_model=Status)
    async def status() -> Any:
        """The status document."""
        return holder.latest() or _starting()

    @app.get("/api/lag", response_model=LagReport)
    async def lag(source: Source = None, topic: Topic = None) -> Any:
        """Lag per source partition, with rates and ETA; of one source, one topic, or all."""
        latest = holder.latest()
        if latest is None:
            return _starting()
        return only(report_of(latest, holder.earlier()), source, topic)

    @app.get("/api/config", responses=FAILED)
    async def config() -> dict[str, Any]:
        """The effective config, secrets masked."""
        return config_view if control is None else masked(control.config)

    if control is not None:
        app.add_middleware(Gate, api=control.config.api)
        add_control(app, control)
        connectors = Connectors(control, holder)
        app.include_router(connect_router(control, connectors))
        app.include_router(sources_router(control, connectors))
        add_pages(app, control, holder, _starting)
        desk, runner = Desk(control), audits or AuditRunner()
        app.include_router(lookups_router(control, holder, desk, runner, _starting))
        app.include_router(actions_router(control, desk, runner))
        app.include_router(backfills_router(control, holder, _starting))
        if recorder is not None:
            app.include_router(timeline_router(control, recorder))
    return app


def health_of(status: Status | None) -> tuple[int, dict[str, str]]:
    """HTTP code and body of `/health` for a status, None before the first."""
    if status is not None and status.phase is Phase.STANDBY:
        return 200, {"status": "standby", "message": status.reason}
    if status is None or status.phase is Phase.STARTING:
        return 503, {"status": "starting", "message": STARTING}
    if status.phase is Phase.FAILED:
        return 500, {"status": "unhealthy", "message": status.reason or "The aggregation failed."}
    if status.phase is Phase.RUNNING:
        return 200, {"status": "healthy", "message": READY}
    message = f"The aggregation is {str(status.phase).lower()}."
    return 200, {"status": "healthy", "message": message}


def _starting() -> Response:
    return JSONResponse({"error_code": 503, "message": STARTING}, 503)
