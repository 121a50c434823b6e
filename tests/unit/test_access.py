"""Who may ask the API, and change things by it: tokens, certificates, and where somebody is."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, Request, build_opener, urlopen

import pytest

from aggregator.api import server
from aggregator.api.auth import Right, right_of
from aggregator.api.latest_status import StatusHolder
from aggregator.api.permissions import READINGS, is_same_user
from aggregator.api.server import ApiServer
from aggregator.cli.running import Absent, CommandError, command_running, running_status
from aggregator.config import load_text, masked
from aggregator.config.api import ApiConfig, TlsConfig
from aggregator.config.schema import Config
from aggregator.engine.control.commands import Control
from aggregator.features.connectors.config_keys import CLASSES
from aggregator.model.errors import ConfigError
from aggregator.status.command_answers import SourceControl
from support.rest import SETS, PlayedEngine, ask
from support.serving import app_over, served
from support.statuses import status_with

READ, WRITE = "read-me-0123456789", "change:me-0123456789"
PAUSE = "/api/sources/eu/pause"

Serve = Callable[..., Any]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def basic(password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"any:{password}".encode()).decode()}


@contextmanager
def serving(tmp_path: Path, *sets: str) -> Iterator[tuple[str, Config]]:
    """An API with these settings over a played engine: its URL, and the config to ask it by."""
    config = load_text("", [*SETS, f"checkpoint.path={tmp_path / 'state'}", *sets])
    control = Control(config)
    holder = StatusHolder()
    status = status_with()
    holder.put(status.at, status.phase, lambda: status)
    engine = PlayedEngine(control)
    try:
        with served(app_over(control, holder), config.api.tls) as server:
            listen = config.api.model_copy(update={"listen": f"127.0.0.1:{server.port}"})
            yield server.url, config.model_copy(update={"api": listen})
    finally:
        engine.stop()


TOKENS = (f"api.read_token={READ}", f"api.write_token={WRITE}")


@pytest.mark.parametrize(
    "path",
    ["/api/status", "/api/config", "/connectors", "/metrics", "/", "/api/openapi.json", "/nix"],
)
def test_with_tokens_set_nothing_is_shown_without_one(tmp_path: Path, path: str) -> None:
    with serving(tmp_path, *TOKENS) as (url, _):
        for headers in ({}, bearer("wrong"), bearer(READ[:-1]), basic(""), {"authorization": "x"}):
            code, body = ask("GET", url + path, headers=headers)
            assert (code, body["error_code"]) == (401, 401)
            assert "api.read_token" in body["message"] and READ not in body["message"]


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/api/status", "no-store"),
        ("/connectors", "no-store"),
        ("/api/nix", "no-store"),
        ("/metrics", "no-store"),
        ("/ui/app.js", "no-cache"),
    ],
)
@pytest.mark.parametrize("token", [READ, "wrong"])
def test_no_cache_keeps_an_answer_and_no_browser_guesses_what_it_is(
    tmp_path: Path, path: str, kept: str, token: str
) -> None:
    with serving(tmp_path, *TOKENS) as (url, _):
        try:
            answer: Any = urlopen(Request(url + path, headers=bearer(token)), timeout=60)
        except HTTPError as error:
            answer = error
        with answer:
            assert answer.headers["cache-control"] == kept
            assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_browser_is_never_asked_for_a_password(tmp_path: Path) -> None:
    with serving(tmp_path, *TOKENS) as (url, _):
        shown = subprocess.run(
            ["curl", "-si", f"{url}/api/status"], capture_output=True, text=True, check=True
        ).stdout.lower()
    assert "www-authenticate: bearer" in shown
    assert "basic" not in shown and "set-cookie" not in shown


def test_probes_need_no_token(tmp_path: Path) -> None:
    with serving(tmp_path, *TOKENS) as (url, _):
        for path in ("/health", "/alive"):
            assert ask("GET", url + path)[0] == 200


@pytest.mark.parametrize("show", [bearer, basic])
def test_who_may_read_reads_and_changes_nothing(
    tmp_path: Path, show: Callable[[str], dict[str, str]]
) -> None:
    with serving(tmp_path, *TOKENS) as (url, config):
        assert ask("GET", f"{url}/api/status", headers=show(READ))[0] == 200
        for method, path, body in (
            ("PUT", PAUSE, None),
            ("POST", "/api/reload", None),
            ("POST", "/connectors", {"name": "x", "config": {}}),
            ("PUT", "/connectors/eu/stop", None),
            ("DELETE", "/connectors/eu", None),
            ("PUT", "/admin/loggers/root", {"level": "DEBUG"}),
        ):
            code, reply = ask(method, url + path, body, headers=show(READ))
            assert (code, "api.write_token" in reply["message"]) == (403, True), (path, reply)
            assert ask(method, url + path, body)[0] == 401
        assert not Path(config.checkpoint.path).exists()


def test_a_check_reads_what_it_refers_to_only_for_who_may_change_things(tmp_path: Path) -> None:
    check = f"/connector-plugins/{CLASSES[0]}/config/validate"
    with serving(tmp_path, *TOKENS) as (url, _):
        good = {"src.kafka.bootstrap.servers": "us:1", "topic.rename.format": "${topic}.us"}
        for value, code in (("orders", 200), ("${file:/dev/zero}", 403), ("${env:HOME}", 403)):
            config = {**good, "topics": value}
            assert ask("PUT", url + check, config, headers=bearer(READ))[0] == code
        config = {**good, "topics": "${env:HOME}"}
        assert ask("PUT", url + check, config, headers=bearer(WRITE))[0] == 200


@pytest.mark.parametrize("show", [bearer, basic])
def test_who_may_write_does_both(tmp_path: Path, show: Callable[[str], dict[str, str]]) -> None:
    with serving(tmp_path, *TOKENS) as (url, _):
        assert ask("GET", f"{url}/api/status", headers=show(WRITE))[0] == 200
        assert ask("PUT", url + PAUSE, headers=show(WRITE))[1]["paused"] is True


def test_a_token_is_good_for_any_name_of_the_host_but_not_for_a_page_of_another_site(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, *TOKENS) as (url, _):
        elsewhere = {**bearer(WRITE), "host": "aggregator.example:8083"}
        assert ask("PUT", url + PAUSE, headers=elsewhere)[0] == 200
        for foreign in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
            assert ask("PUT", url + PAUSE, headers={**basic(WRITE), **foreign})[0] == 403


def test_with_a_token_to_read_alone_changes_are_for_this_machine(tmp_path: Path) -> None:
    with serving(tmp_path, f"api.read_token={READ}") as (url, _):
        assert ask("PUT", url + PAUSE)[0] == 401
        assert ask("PUT", url + PAUSE, headers=bearer(READ))[0] == 200
        elsewhere = {**bearer(READ), "host": "aggregator.example:8083"}
        assert ask("PUT", url + PAUSE, headers=elsewhere)[0] == 403


OTHER_USER = 65_534


def asked_by(user: int, url: str, *more: str) -> tuple[int, str]:
    """The code and text of an answer to a process of this user; tests run as root."""
    command = ["curl", "-s", "-w", "\n%{http_code}", *more, url]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, user=user, extra_groups=[]
    )
    text, _, code = done.stdout.rpartition("\n")
    return int(code), text


PUT = ("-X", "PUT")


def test_without_a_token_another_user_of_this_machine_changes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as (url, config):
        assert asked_by(OTHER_USER, f"{url}/api/status")[0] == 200
        code, reply = asked_by(OTHER_USER, url + PAUSE, *PUT)
        assert code == 403
        assert "api.write_token" in reply and "api.local_writers: everybody" in reply
        # What is said of the way is not believed.
        for header in ("x-forwarded-for: 127.0.0.1", "forwarded: for=127.0.0.1:1"):
            assert asked_by(OTHER_USER, url + PAUSE, *PUT, "-H", header)[0] == 403
        add = ("-H", "content-type: application/json", "-d", '{"name": "x", "config": {}}')
        assert asked_by(OTHER_USER, f"{url}/connectors", *add)[0] == 403
        assert asked_by(os.geteuid(), url + PAUSE, *PUT)[0] == 200
        # A command of the same user.
        assert isinstance(command_running(config, "PUT", PAUSE, SourceControl), SourceControl)
    with serving(tmp_path, "api.local_writers=everybody") as (url, _):
        assert asked_by(OTHER_USER, url + PAUSE, *PUT)[0] == 200


def test_a_token_to_read_makes_no_one_the_same_user(tmp_path: Path) -> None:
    show = ("-H", f"authorization: Bearer {READ}")
    with serving(tmp_path, f"api.read_token={READ}") as (url, _):
        assert asked_by(OTHER_USER, url + PAUSE, *PUT, *show)[0] == 403
        assert asked_by(os.geteuid(), url + PAUSE, *PUT, *show)[0] == 200
    with serving(tmp_path, *TOKENS) as (url, _):
        change = ("-H", f"authorization: Bearer {WRITE}")
        assert asked_by(OTHER_USER, url + PAUSE, *PUT, *change)[0] == 200


def test_who_closes_at_once_is_not_taken_for_root(tmp_path: Path) -> None:
    """The kernel lists closed sockets as root's: this client sends a request and does not wait."""
    program = (
        "import socket, sys\n"
        "for _ in range(50):\n"
        "    line = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "    line.sendall(b'PUT /api/sources/eu/pause HTTP/1.1\\r\\nhost: localhost\\r\\n\\r\\n')\n"
        "    line.close()\n"
    )
    with serving(tmp_path) as (url, _):
        host, port = url.removeprefix("http://").split(":")
        command = ["python3", "-c", program, host, port]
        subprocess.run(command, check=True, user=OTHER_USER, extra_groups=[])
        assert ask("GET", f"{url}/api/status")[0] == 200
    assert not (tmp_path / "state").exists()


OWN, PEER = ("127.0.0.1", 8083), ("127.0.0.1", 40_000)
LINE = "   0: {peer} {own} {state} 00000000:00000000 00:00000000 00000000 {user:5} 0 {inode} 1 0"
AT, AT6 = "0100007F", "0000000000000000FFFF00000100007F"


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"user": 0}, True),
        ({"user": OTHER_USER}, False),
        # Closed: it belongs to no one any more, and is listed with 0.
        ({"user": 0, "state": "06", "inode": 0}, False),
        ({"user": 0, "inode": 0}, False),
        ({"state": "05"}, False),
        ({"peer": f"{AT}:9C41"}, False),
        ({"own": f"{AT}:9C40"}, False),
        ({"peer": f"{AT6}:9C40", "own": f"{AT6}:1F93"}, True),
    ],
)
def test_who_holds_the_other_end(tmp_path: Path, changes: dict[str, Any], same: bool) -> None:
    line = {"user": os.geteuid(), "peer": f"{AT}:9C40", "own": f"{AT}:1F93", "state": "01"}
    (tmp_path / "tcp").write_text("head\n" + LINE.format(**{**line, "inode": 7, **changes}) + "\n")
    assert is_same_user(PEER, OWN, (tmp_path / "tcp", tmp_path / "none")) is same


def test_a_line_that_a_reading_of_a_long_table_misses_or_repeats_is_looked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {"user": os.geteuid(), "peer": f"{AT}:9C40", "own": f"{AT}:1F93", "state": "01"}
    line = LINE.format(**found, inode=7)
    others = LINE.format(**{**found, "user": OTHER_USER}, inode=8)
    readings = ["head", f"head\n{line}", "head", f"head\n{line}\n{line}", f"head\n{line}"]
    texts = iter(readings)
    monkeypatch.setattr(Path, "read_text", lambda *_: next(texts))
    assert is_same_user(PEER, OWN, (Path("tcp"),))
    # One that changes hands between two readings is never believed.
    texts = iter([f"head\n{line}", f"head\n{others}"] * READINGS)
    assert not is_same_user(PEER, OWN, (Path("tcp"),))


def test_a_machine_that_does_not_show_its_connections_trusts_no_one(tmp_path: Path) -> None:
    assert not is_same_user(PEER, OWN, (tmp_path / "none",))


@pytest.mark.parametrize(
    ("api", "authorization", "right"),
    [
        ({}, "", Right.PLACE),
        ({"read_token": READ}, "", None),
        ({"read_token": READ}, f"bearer  {READ}", Right.PLACE),
        ({"write_token": WRITE}, "", None),
        ({"write_token": WRITE}, f"Bearer {WRITE}", Right.WRITE),
        ({"read_token": READ, "write_token": WRITE}, f"Bearer {READ}", Right.READ),
        ({"read_token": READ}, "Basic %%%", None),
        ({"read_token": READ}, "Basic caf\u00e9", None),
        ({"read_token": READ}, "Bearer caf\u00e9", None),
        ({"tls": TlsConfig(certificate="c", key="k")}, "", Right.PLACE),
        ({"tls": TlsConfig(certificate="c", key="k", client_ca="a")}, "", Right.WRITE),
    ],
)
def test_what_the_sender_of_a_header_may(
    api: dict[str, Any], authorization: str, right: Right | None
) -> None:
    assert right_of(ApiConfig(**api), authorization) is right


@pytest.mark.parametrize("listen", ["0.0.0.0:8083", "[::]:8083", "hub-mirror:8083"])
def test_an_api_that_others_reach_has_to_know_who_asks(listen: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_text("", [*SETS, f"api.listen={listen}"])
    (problem,) = refused.value.problems
    assert problem.path == "api.listen" and "api.write_token" in problem.hint
    for more in (f"api.read_token={READ}", f"api.write_token={WRITE}"):
        load_text("", [*SETS, f"api.listen={listen}", more])


@pytest.mark.parametrize("token", ["short", "with a space in it"])
def test_a_token_that_is_none_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_text("", [*SETS, f"api.write_token={token}"])
    assert "api.write_token" in str(refused.value) and token not in str(refused.value)


def test_the_commands_show_the_token_of_their_config(tmp_path: Path) -> None:
    with serving(tmp_path, *TOKENS) as (_, config):
        assert not isinstance(running_status(config), Absent)
        reply = command_running(config, "PUT", PAUSE, SourceControl)
        assert isinstance(reply, SourceControl) and reply.paused
        assert READ not in str(masked(config)) and WRITE not in str(masked(config))
        reader = config.api.model_copy(update={"write_token": None})
        with pytest.raises(CommandError, match=r"api\.write_token"):
            command_running(config.model_copy(update={"api": reader}), "PUT", PAUSE, SourceControl)
        stranger = config.api.model_copy(update={"write_token": "x" * 16})
        strange = config.model_copy(update={"api": stranger})
        found = running_status(strange)
        assert isinstance(found, Absent) and "does not know this token" in found.reason
        # It is not for the next start either: somebody is there.
        with pytest.raises(CommandError, match=r"nothing was done: .* does not know this token"):
            command_running(strange, "PUT", PAUSE, SourceControl)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, and a server's certificate of it, and one of a stranger that signed his himself."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    openssl(*new, "-x509", "-keyout", "other.key", "-out", "other.pem", "-subj", "/CN=other")
    openssl(*new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=aggregator")
    signed = ("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key")
    openssl(*signed, "-CAcreateserial", "-days", "2", "-out", "server.pem")
    return folder


def over_tls(url: str, certificates: Path, client: str = "") -> int:
    """Ask for the status with a client's certificate, or none."""
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.check_hostname = False
    if client:
        context.load_cert_chain(certificates / f"{client}.pem", certificates / f"{client}.key")
    opener = build_opener(HTTPSHandler(context=context))
    with opener.open(Request(f"{url}/api/status"), timeout=60) as response:
        assert json.load(response)["name"] == "central"
        return int(response.status)


@pytest.mark.slow
def test_over_tls_the_commands_trust_the_certificate_of_the_config(
    tmp_path: Path, certificates: Path
) -> None:
    sets = (
        f"api.tls.certificate={certificates / 'server.pem'}",
        f"api.tls.key={certificates / 'server.key'}",
    )
    with serving(tmp_path, *sets) as (url, config):
        assert url.startswith("https://") and over_tls(url, certificates) == 200
        assert not isinstance(running_status(config), Absent)
        other = TlsConfig(
            certificate=str(certificates / "other.pem"), key=str(certificates / "other.key")
        )
        stranger = config.api.model_copy(update={"tls": other})
        assert isinstance(running_status(config.model_copy(update={"api": stranger})), Absent)


@pytest.mark.slow
def test_a_client_with_a_certificate_may_change_things_and_no_one_else_comes_in(
    tmp_path: Path, certificates: Path
) -> None:
    sets = (
        f"api.tls.certificate={certificates / 'server.pem'}",
        f"api.tls.key={certificates / 'server.key'}",
        f"api.tls.client_ca={certificates / 'ca.pem'}",
    )
    with serving(tmp_path, *sets) as (url, config):
        for client in ("", "other"):
            with pytest.raises(OSError):
                over_tls(url, certificates, client)
        assert over_tls(url, certificates, "server") == 200
        reply = command_running(config, "PUT", PAUSE, SourceControl)
        assert isinstance(reply, SourceControl) and reply.paused


@pytest.mark.slow
def test_a_handshake_that_does_not_end_is_ended(
    tmp_path: Path, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sooner than asyncio would, and whatever was sent of it."""
    monkeypatch.setattr(server, "QUIET_SECONDS", 2.0)
    sets = (
        f"api.tls.certificate={certificates / 'server.pem'}",
        f"api.tls.key={certificates / 'server.key'}",
    )
    with serving(tmp_path, *sets) as (url, _):
        parts = urlsplit(url)
        for begun in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with socket.create_connection((parts.hostname, parts.port), 30) as line:
                line.sendall(begun)
                # Closed, or reset; without an end it were a TimeoutError.
                with suppress(ConnectionResetError):
                    assert line.recv(1) == b""


@pytest.mark.slow
def test_certificates_that_are_none_are_a_config_error(tmp_path: Path, certificates: Path) -> None:
    for certificate, key in (("nix.pem", "nix.key"), ("server.csr", "server.key")):
        tls = TlsConfig(certificate=str(certificates / certificate), key=str(certificates / key))
        with pytest.raises(ConfigError, match=r"api\.tls"):
            ApiServer(app_over(), "127.0.0.1", 0, tls)
