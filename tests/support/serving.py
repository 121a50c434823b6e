"""The API of an instance, over what a test plays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from aggregator.api.app import make_app
from aggregator.api.latest_status import StatusHolder
from aggregator.api.server import ApiServer
from aggregator.config import load_text
from aggregator.config.api import TlsConfig
from aggregator.engine.control.commands import Control
from aggregator.features.timeline.recorder import Recorder
from aggregator.features.verify.audit_process import AuditRunner
from support.rest import SETS
from support.statuses import BOUNDS


def app_over(
    control: Control | None = None,
    holder: StatusHolder | None = None,
    recorder: Recorder | None = None,
) -> ASGIApp:
    """An app; a part that is not given has just begun, and has nothing to show."""
    control = control or Control(load_text("", SETS))
    holder = holder or StatusHolder()
    recorder = recorder or nothing_recorded(control, holder)
    return make_app(control, holder, recorder, AuditRunner())


def nothing_recorded(control: Control, holder: StatusHolder) -> Recorder:
    """A recorder that has not begun, and reports failures to no one."""
    return Recorder(control.in_force, holder.phase, holder.latest, str, lambda event: None, BOUNDS)


@contextmanager
def served(app: ASGIApp, tls: TlsConfig | None = None) -> Iterator[ApiServer]:
    """A server of it on a free port of this machine, while the block runs."""
    server = ApiServer(app, "127.0.0.1", 0, tls)
    server.start()
    try:
        yield server
    finally:
        server.stop()
