"""The whole API over a played engine, before clusters that agree to whatever is planned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import ASGIApp

from aggregator.api.app import make_app
from aggregator.api.latest_status import StatusHolder
from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.engine.control import commands as engine_control
from aggregator.engine.control.commands import Control
from aggregator.features.timeline.past_queries import events_log
from aggregator.features.timeline.recorder import Recorder
from aggregator.features.verify.audit_process import AuditRunner
from aggregator.model.events import Event, LogLevel
from aggregator.store.state_store import StateStore
from support.rest import PlayedEngine
from support.serving import nothing_recorded, served
from support.statuses import whole_status, whole_view

READ, WRITE = "read-me-0123456789", "change-me-0123456789"
ALIAS = "s0"
"""The one source of the config, and of the status."""
CONNECTOR = {"src.kafka.bootstrap.servers": "127.0.0.1:11", "topics": "orders"}
"""A config that is taken."""


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"authorization": f"Bearer {token}"}


@dataclass
class PlayedApi:
    """An API that asks for tokens; `config` is what it begins with."""

    url: str
    config: Config
    control: Control
    engine: PlayedEngine

    @property
    def state(self) -> Path:
        """Where the tables are."""
        return Path(self.config.checkpoint.path)

    def as_it_began(self) -> None:
        """Take back what was asked of it, so that the next who asks meets the same."""
        self.control.in_force.config = self.config
        pauses = self.control.pauses
        pauses.sources, pauses.parts = {}, {}
        self.control.log_level = LogLevel()
        self.engine.calls.clear()


@contextmanager
def played_api(state: Path, *sets: str) -> Iterator[PlayedApi]:
    """One that is gone with the block. It has one source, and events that are in a table."""
    app, control, recorder = _made(state, *sets)
    for message in ("first", "second"):
        recorder.feed.take(Event("warning", message, {"source": ALIAS}, datetime.now(UTC)))
    rows = recorder.feed.unsaved()
    events_log(StateStore(str(state))).append(rows[:1])
    recorder.feed.saved(rows[:1])
    # Those who follow them learn at once that no more come, and do not wait.
    recorder.feed.close()
    engine = PlayedEngine(control)
    with pytest.MonkeyPatch.context() as patch:
        hub = SimpleNamespace(topics={})
        agreed: Any = SimpleNamespace(raise_if_refused=lambda: None, refused=(), routes=(), hub=hub)
        patch.setattr(engine_control, "discover", lambda config: None)
        patch.setattr(engine_control, "hub_facts", lambda found: None)
        patch.setattr(engine_control, "plan_with", lambda *found: agreed)
        try:
            with served(app) as server:
                yield PlayedApi(server.url, control.config, control, engine)
        finally:
            engine.stop()


def _made(state: Path, *more: str) -> tuple[ASGIApp, Control, Recorder]:
    sets = [
        "hub.bootstrap_servers=127.0.0.1:9",
        f"sources.{ALIAS}.bootstrap_servers=127.0.0.1:10",
        f"sources.{ALIAS}.topics.include=t0",
        "supervision.connect_timeout=100ms",
        f"checkpoint.path={state}",
        f"api.read_token={READ}",
        f"api.write_token={WRITE}",
        *more,
    ]
    config = load_text("", sets, {})
    control = Control(config, lambda added: load_text("", sets, {}, added=added))
    holder, status = StatusHolder(), whole_status()
    holder.put(status.at, status.phase, lambda: status)
    holder.recent.take(whole_view(config, topics=1, partitions=1))
    recorder = nothing_recorded(control, holder)
    audits = AuditRunner()
    # None is begun: it would be a process with a JVM.
    audits.close()
    return make_app(control, holder, recorder, audits), control, recorder
