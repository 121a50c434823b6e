"""The running instance behind the API: what the endpoints read and command.

The endpoints are declared once for a process. A request's scope names its instance.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from aggregator.api.connectors import Connectors
from aggregator.api.followers import Followers
from aggregator.api.latest_status import StatusHolder
from aggregator.api.permissions import CallerError, check_caller
from aggregator.api.queries import QueryService
from aggregator.engine.control.commands import Control
from aggregator.features.timeline.recorder import Recorder
from aggregator.features.verify.audit_process import AuditRunner
from aggregator.status.schema import Status

INSTANCE = "aggregator.instance"
OF_CONNECT = ("/connectors/", "/connector-plugins/", "/admin/")


class StartingError(Exception):
    """There is no status yet to show."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One aggregation of this process, as its API needs it."""

    control: Control
    holder: StatusHolder
    recorder: Recorder
    audits: AuditRunner
    connectors: Connectors
    query_service: QueryService
    followers: Followers
    """Of the events."""
    viewers: Followers
    """Of the live figures."""

    def status(self) -> Status:
        """The latest status; StartingError before the first."""
        latest = self.holder.latest()
        if latest is None:
            raise StartingError
        return latest


class Asked:
    """An app that is asked for `instance`."""

    def __init__(self, app: ASGIApp, instance: Instance) -> None:
        self._app = app
        self._instance = instance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note in the scope of a request which instance it is for."""
        scope[INSTANCE] = self._instance
        path = str(scope.get("path", ""))
        if path.endswith("/") and path.startswith(OF_CONNECT):
            # Connect answers these, and not all of its clients follow where they are led.
            scope["path"] = path.rstrip("/")
        await self._app(scope, receive, send)


def instance_of(request: Request) -> Instance:
    """The instance that a request is for."""
    instance: Instance = request.scope[INSTANCE]
    return instance


async def _here(request: Request) -> Instance:
    # FastAPI would run a plain function in a thread, for each request.
    return instance_of(request)


Here = Annotated[Instance, Depends(_here)]
HubTopic = Annotated[str | None, Query(description="of what goes into this hub topic")]


def check_may_change(request: Request) -> None:
    """Let through whom `check_caller` does, by the config that is in force."""
    check_caller(request, instance_of(request).control.config.api)


CHANGING = [Depends(check_may_change)]
"""The dependencies of a call that changes something."""


def check_source(here: Instance, alias: str) -> None:
    """Raise CallerError (404) when there is no such source."""
    if alias not in here.control.config.sources:
        known = ", ".join(here.control.config.sources)
        raise CallerError(404, f"there is no source {alias}; sources are {known}")
