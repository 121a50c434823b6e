"""Asking an instance over its real API, and recognizing what else may answer there."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator import __version__
from aggregator.api.latest_status import StatusHolder
from aggregator.cli.aggregation import Aggregation
from aggregator.cli.lag import report_of_lag
from aggregator.cli.main import app
from aggregator.cli.render import to_text
from aggregator.cli.run import report_of_result
from aggregator.cli.running import (
    Absent,
    CommandError,
    api_url,
    ask_running,
    command_running,
    running_status,
)
from aggregator.cli.status import report_of_status
from aggregator.cli.tables import latency_text
from aggregator.config import load_text
from aggregator.config.api import ApiConfig, TlsConfig
from aggregator.config.schema import Config
from aggregator.features.connectors.connector_table import Change, ConnectorTable
from aggregator.features.timeline.timeline_report import EventRow, EventsReport
from aggregator.model.errors import CheckpointError
from aggregator.model.values import SourceState
from aggregator.status.copied import Copied
from aggregator.status.lag import LagReport, report_of
from aggregator.status.schema import (
    CheckpointStatus,
    LaneState,
    LaneStatus,
    Latency,
    PartitionState,
    PartitionStatus,
    Percentiles,
    Phase,
    SourceStatus,
    Status,
)
from support.serving import app_over, served
from support.strangers import speaking

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


EU = SourceStatus(
    alias="eu",
    state=SourceState.RUNNING,
    since=NOW,
    topics=1,
    lag=7,
    records=1235,
    bytes=2_500_000,
    latency=Latency(age_ms=Percentiles(p50=85, p95=700, p99=1240)),
    copied=(Copied(topic="orders", records=1235, bytes=2_500_000),),
)
STATUS = Status(
    name="central",
    phase=Phase.RUNNING,
    version="1",
    host="here",
    pid=42,
    started_at=NOW,
    at=NOW,
    checkpoint_interval_seconds=10,
    sources=(EU,),
    lanes=(lane("eu", "eu", records=1234), lane("eu-2", "eu", records=1)),
    checkpoint=CheckpointStatus(path="./state", seq=5, epoch=2, committed_at=NOW),
    warnings=("careful",),
)


@pytest.fixture
def listen() -> Iterator[str]:
    holder = StatusHolder()
    holder.put(STATUS.at, STATUS.phase, lambda: STATUS)
    with served(app_over(holder=holder)) as server:
        yield f"127.0.0.1:{server.port}"


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
    assert isinstance(ask_running(config_of(listen), "/api/lag", LagReport), LagReport)


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


def test_what_an_instance_of_another_version_says_beside_what_is_known_here_is_left_out(
    stranger: Callable[[int, str], str],
) -> None:
    document: dict[str, Any] = STATUS.model_dump(mode="json")
    more = {
        **document,
        "version": "9",
        "tides": {"height": 3},
        "moon": "full",
        "sources": [{**it, "mood": "good"} for it in document["sources"]],
    }
    found = running_status(config_of(stranger(200, json.dumps(more))))
    assert found == STATUS.model_copy(update={"version": "9"})


@pytest.mark.parametrize("changed", [{"phase": "DREAMING"}, {"checkpoint": None}])
def test_an_instance_of_another_version_that_is_not_understood_is_there(
    stranger: Callable[[int, str], str], changed: dict[str, Any]
) -> None:
    """So nothing is done as if none ran."""
    document = {**STATUS.model_dump(mode="json"), "version": "9", **changed}
    config = config_of(stranger(200, json.dumps(document)))
    found = running_status(config)
    reason = (
        f"the instance on {config.api.listen} is of version 9, and this one, {__version__}, does "
        "not understand its answer: use that version"
    )
    assert found == Absent(reason, is_there=True)
    with pytest.raises(CommandError, match=f"nothing was done: {re.escape(reason)}"):
        command_running(config, "POST", "/api/reload", Status)
    # With the same version, it is not one of our answers.
    document["version"] = __version__
    found = running_status(config_of(stranger(200, json.dumps(document))))
    assert isinstance(found, Absent)
    assert "something else answers" in found.reason


def test_no_one_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = running_status(config_of(f"127.0.0.1:{port}"))
    assert found == Absent(f"no instance answers on 127.0.0.1:{port}")


def test_what_speaks_another_protocol_is_something_else() -> None:
    with speaking(b"SSH-2.0-OpenSSH_9.2\r\n") as port:
        listen = f"127.0.0.1:{port}"
        assert running_status(config_of(listen)) == Absent(f"something else answers on {listen}")


def test_certificates_that_cannot_be_read_are_named() -> None:
    config = config_of("127.0.0.1:9")
    tls = TlsConfig(certificate="/nix.pem", key="/nix.key")
    api = config.api.model_copy(update={"tls": tls})
    assert running_status(config.model_copy(update={"api": api})) == Absent(
        "no instance answers on 127.0.0.1:9: the files of api.tls cannot be used: No such file or "
        "directory"
    )


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
    assert api_url(ApiConfig(listen=listen)) == url
    tls = TlsConfig(certificate="/c", key="/k")
    over_tls = url.replace("http:", "https:") if url is not None else None
    assert api_url(ApiConfig(listen=listen, tls=tls)) == over_tls


def status_command(listen: str, *more: str) -> str:
    sets = [part for item in (*SETS, f"api.listen={listen}") for part in ("--set", item)]
    result = CliRunner().invoke(app, ["status", *sets, *more])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_status_of_a_running_instance(listen: str) -> None:
    text = status_command(listen)
    assert "central: RUNNING, pid 42 on here, since 2026-01-31 12:00:00 UTC\n" in text
    assert re.search(r"^eu +RUNNING +1 +0 +1,235 +2\.5 MB +85 ms / 1\.2 s +7 +-$", text, re.M)
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


def test_an_instance_that_does_not_know_us_is_not_said_to_be_stopped(
    stranger: Callable[[int, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    listen = stranger(401, "{}")
    text = status_command(listen)
    assert f"central: cannot be asked (the instance on {listen} does not know this token" in text
    found = json.loads(status_command(listen, "-o", "json"))
    assert (found["running"], found["is_there"]) == (False, True)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of the tables is away."""

    def changes(_: ConnectorTable) -> dict[str, Change]:
        raise CheckpointError("the table of connectors cannot be read")

    monkeypatch.setattr(ConnectorTable, "changes", changes)


@pytest.mark.usefixtures("away")
def test_an_instance_answers_though_the_store_of_the_tables_is_away(listen: str) -> None:
    assert "central: RUNNING, pid 42 on here" in status_command(listen)
    sets = [part for item in (*SETS, f"api.listen={listen}") for part in ("--set", item)]
    asked = CliRunner().invoke(app, ["lag", *sets, "-o", "json"])
    assert asked.exit_code == 0, asked.output
    (note,) = json.loads(asked.stdout)["notes"]
    assert "that the instance knows: the table of connectors cannot be read" in note


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("args", [("status",), ("lag",), ("pause", "eu")])
def test_without_an_instance_the_store_must_be_there(args: tuple[str, ...], tmp_path: Path) -> None:
    more = ("api.listen=off", f"checkpoint.path={tmp_path / 'state'}")
    sets = [part for item in (*SETS, *more) for part in ("--set", item)]
    asked = CliRunner().invoke(app, [*args, *sets])
    assert asked.exit_code == 1
    assert "the table of connectors cannot be read" in asked.stderr


def test_what_is_not_right_without_what_was_added_is_asked_as_a_whole(
    listen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--set` may change a source that was added at run time."""
    config = {"src.kafka.bootstrap.servers": "us:1", "topic.whitelist": "orders"}
    added = {"us": Change("us", config, "me", NOW)}
    monkeypatch.setattr(ConnectorTable, "changes", lambda _: added)
    text = status_command(listen, "--set", "sources.us.weight=4")
    assert "central: RUNNING, pid 42 on here" in text


def test_events_are_followed_however_many_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [event_of(number) for number in range(1, 6)]
    looks: list[int] = []

    def events(_: Aggregation, *span: Any, limit: int, after: int, **more: Any) -> EventsReport:
        looks.append(limit)
        if len(looks) == 2:
            known.extend(event_of(number) for number in range(6, 31))
        if len(looks) == 5:
            raise CheckpointError("enough")
        newer = [it for it in known if it.id > after]
        return EventsReport(name="central", events=tuple(newer[-limit:]))

    monkeypatch.setattr(Aggregation, "events", events)
    monkeypatch.setattr("aggregator.cli.events.FOLLOW_SECONDS", 0.01)
    sets = [part for item in SETS for part in ("--set", item)]
    asked = CliRunner().invoke(app, ["events", "--follow", "--limit", "2", "-o", "json", *sets])
    shown = [json.loads(line)["id"] for line in asked.stdout.splitlines()]
    # At first the newest two, then all that came.
    assert shown == [4, 5, *range(6, 31)]
    assert looks == [2, 2, 20, 200, 2]


def event_of(number: int) -> EventRow:
    return EventRow(id=number, at=NOW, kind="x", level="INFO", message="m")


def test_a_lag_of_nothing_says_so() -> None:
    shown = to_text(report_of_lag(report_of(STATUS), str), tty=False)
    assert "No such partitions are known.\n" in shown


def test_age_is_no_latency_while_a_source_catches_up_and_none_when_nothing_came() -> None:
    assert latency_text(EU) == "85 ms / 1.2 s"
    for state in (SourceState.PAUSED, SourceState.UNREACHABLE):
        assert latency_text(EU.model_copy(update={"state": state})) == "85 ms / 1.2 s"
    assert latency_text(EU.model_copy(update={"state": SourceState.CATCHING_UP})) is None
    assert latency_text(EU.model_copy(update={"latency": Latency()})) is None


def test_at_the_end_of_a_run_its_records_are_those_of_its_sources() -> None:
    us = EU.model_copy(update={"alias": "us", "records": 5})
    # A lane that ended and whose partitions others read since is not among the lanes any more.
    status = STATUS.model_copy(update={"sources": (EU, us), "lanes": ()})
    text = to_text(report_of_result(status, 0, ()), tty=False)
    assert re.search(r"^ +2 +2 +0 +1,240 +14$", text, re.M)


@pytest.mark.parametrize(
    ("seconds", "at_least", "text"),
    [
        (0.0, False, "0 s"),
        (2.5, False, "2.5 s"),
        (300.0, True, "> 5 min"),
        (None, False, "unknown"),
    ],
)
def test_lag_shows_for_how_long_a_partition_has_been_behind(
    seconds: float | None, at_least: bool, text: str
) -> None:
    part = PartitionStatus(
        cluster="eu",
        topic="orders",
        partition=0,
        hub_topic="orders",
        position=3,
        log_end=5,
        seconds_behind=seconds,
        seconds_behind_at_least=at_least,
    )
    lag = report_of(STATUS.model_copy(update={"partitions": (part,)}))
    report = report_of_lag(lag, str)
    shown = to_text(report, tty=False)
    rows, totals = (line for line in shown.splitlines() if line.startswith("eu "))
    assert re.search(rf"^eu +orders +0 +3 +5 +2 +4[.]0 kB +{text} +- +RUNNING +-$", rows)
    assert re.search(rf"^eu +1 +0 +2 +4[.]0 kB +{text} +- +- +unknown$", totals)
    assert report.data["rows"][0]["seconds_behind"] == seconds
    assert report.data["totals"][0]["seconds_behind_at_least"] is at_least


def test_status_shows_many_partitions_that_wait_for_the_same_reason_in_a_row() -> None:
    def part(number: int, reason: str) -> PartitionStatus:
        return PartitionStatus(
            cluster="eu",
            topic=f"t{number // 2}",
            partition=number % 2,
            hub_topic="t",
            state=PartitionState.HELD,
            reason=reason,
        )

    parts = (*(part(at, "it is created") for at in range(40)), part(80, "no answer"))
    shown = to_text(report_of_status(STATUS.model_copy(update={"partitions": parts})), tty=False)
    assert re.search(r"^eu +20 topics +40 in all +HELD +- +- +it is created$", shown, re.M)
    assert re.search(r"^eu +t40 +0 +HELD +- +- +no answer$", shown, re.M)
    assert shown.count("it is created") == 1
