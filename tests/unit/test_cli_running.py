"""Asking an instance over its real API, and telling others apart from it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aggregator.audit.document import (
    CheckpointStatus,
    LaneState,
    LaneStatus,
    Phase,
    SourceState,
    SourceStatus,
    Status,
)
from aggregator.audit.lag import LagReport
from aggregator.cli.main import app
from aggregator.cli.running import Absent, api_url, running_lag, running_status
from aggregator.cli.tables import records_of
from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.serve.app import make_app
from aggregator.serve.holder import StatusHolder
from aggregator.serve.server import ApiServer

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
)


def config_of(listen: str, name: str = "central") -> Config:
    return load_text("", [*SETS, f"api.listen={listen}", f"name={name}"])


def lane(name: str, *clusters: str, records: int = 0) -> LaneStatus:
    return LaneStatus(
        name=name,
        state=LaneState.RUNNING,
        generation=1,
        clusters=clusters,
        partitions=1,
        records=records,
    )


STATUS = Status(
    name="central",
    phase=Phase.RUNNING,
    version="1",
    host="here",
    pid=42,
    started_at=NOW,
    at=NOW,
    trigger="realtime",
    checkpoint_interval_seconds=10,
    sources=(SourceStatus(alias="eu", state=SourceState.RUNNING, since=NOW, topics=1, lag=7),),
    lanes=(lane("eu", "eu", records=1234), lane("eu-2", "eu", records=1)),
    checkpoint=CheckpointStatus(path="./state", seq=5, epoch=2, committed_at=NOW),
    warnings=("careful",),
)


@pytest.fixture
def listen() -> Iterator[str]:
    holder = StatusHolder()
    holder.put(STATUS)
    server = ApiServer(make_app(holder, {}), "127.0.0.1", 0)
    server.start()
    yield f"127.0.0.1:{server.port}"
    server.stop()


@pytest.fixture
def stranger() -> Iterator[Callable[[int, str], str]]:
    """A server that is not ours, with a fixed answer: (code, body) -> its address."""
    servers = []

    def start(code: int, body: str) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(code)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_running_instance_answers(listen: str) -> None:
    assert running_status(config_of(listen)) == STATUS
    assert isinstance(running_lag(config_of(listen)), LagReport)


def test_another_aggregation_is_not_ours(listen: str) -> None:
    found = running_status(config_of(listen, name="other"))
    assert found == Absent(f"aggregation 'central' answers on {listen}, not 'other'")


@pytest.mark.parametrize(
    ("code", "body", "reason"),
    [
        (200, "<html>", "something else answers"),
        (200, '{"version": "4"}', "something else answers"),
        (200, '{"name": "central"}', "something else answers"),
        (200, "[]", "something else answers"),
        (404, "{}", "(HTTP 404)"),
        (503, "{}", "is still starting"),
    ],
)
def test_something_else_on_the_port(
    stranger: Callable[[int, str], str], code: int, body: str, reason: str
) -> None:
    found = running_status(config_of(stranger(code, body)))
    assert isinstance(found, Absent)
    assert reason in found.reason


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = running_status(config_of(f"127.0.0.1:{port}"))
    assert found == Absent(f"no instance answers on 127.0.0.1:{port}")


def test_an_api_that_is_off_cannot_be_asked() -> None:
    assert running_status(config_of("off")) == Absent(
        "api.listen is off, so no instance can be asked"
    )


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("off", None),
        ("127.0.0.1:0", None),
        ("127.0.0.1:8083", "http://127.0.0.1:8083"),
        ("0.0.0.0:8083", "http://127.0.0.1:8083"),
        ("[::]:8083", "http://[::1]:8083"),
        ("host.example:80", "http://host.example:80"),
    ],
)
def test_where_an_api_is_asked(listen: str, url: str | None) -> None:
    assert api_url(listen) == url


def status_command(listen: str, *more: str) -> str:
    sets = [part for item in (*SETS, f"api.listen={listen}") for part in ("--set", item)]
    result = CliRunner().invoke(app, ["status", *sets, *more])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_status_of_a_running_instance(listen: str) -> None:
    text = status_command(listen)
    assert "central: RUNNING, pid 42 on here, since 2026-01-31 12:00:00 UTC (realtime)" in text
    assert "1,235" in text
    assert "Checkpoint: ./state, commit 5, epoch 2, 2026-01-31 12:00:00 UTC" in text
    assert "warning: careful" in text
    assert json.loads(status_command(listen, "-o", "json")) == {
        "running": True,
        **STATUS.model_dump(mode="json"),
    }


def test_status_without_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = status_command("off")
    assert "central: not running (api.listen is off" in text
    assert "There is no checkpoint under ./state yet." in text
    assert json.loads(status_command("off", "-o", "json"))["running"] is False
    assert list(tmp_path.iterdir()) == []


def test_records_of_a_source_that_shares_a_lane_are_not_known() -> None:
    lanes = (lane("shared-1", "eu", "us", records=9), lane("ap", "ap", records=4))
    status = STATUS.model_copy(update={"lanes": lanes})
    assert records_of(status, "eu") is None
    assert records_of(status, "ap") == 4
