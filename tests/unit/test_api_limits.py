"""Whatever is sent to the API, the process that copies records reads no file that it should not,
takes no memory without end, and goes on answering."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from aggregator.connect.core_words import CLASSES
from aggregator.serve.bodies import MOST_AT_ONCE
from aggregator.serve.lines import MOST_LINES
from support.limited import LimitedApi, limited_api
from support.played import CONNECTOR, READ, WRITE, bearer
from support.reading import wait_for
from support.rest import ask

# A process that serves.
pytestmark = pytest.mark.slow

VALIDATE = f"/connector-plugins/{CLASSES[0]}/config/validate"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
STORES = ("src.kafka.ssl.truststore.location", "src.kafka.ssl.keystore.location")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LimitedApi]:
    with limited_api(tmp_path_factory.mktemp("limited") / "state") as api:
        yield api


def within(seconds: float, call: Any) -> Any:
    """What a call gives in time; AssertionError when it hangs."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, f"no answer within {seconds:g} s"
    return found[0]


def naming(path: str) -> list[dict[str, str]]:
    """Configs of connectors that name a file in each way there is."""
    return [
        *({**CONNECTOR, key: path} for key in STORES),
        {**CONNECTOR, "src.consumer.ssl.truststore.location": path},
        {**CONNECTOR, "src.kafka.sasl.jaas.config": f'{KRB5} keyTab="{path}" principal="x";'},
        {**CONNECTOR, "aggregator.schemas.registry": "https://r", "aggregator.schemas.ca": path},
        {**CONNECTOR, "src.kafka.sasl.oauthbearer.token.endpoint.url": f"file://{path}"},
        {**CONNECTOR, "topics": f"${{file:{path}}}"},
    ]


@pytest.mark.parametrize("token", [READ, WRITE], ids=["read", "write"])
def test_no_config_that_is_checked_has_a_device_or_a_pipe_read(
    api: LimitedApi, tmp_path: Path, token: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    before = api.figure("VmRSS")
    for path in ("/dev/zero", str(pipe)):
        for config in naming(path):
            code, told = within(
                5, lambda config=config: ask("PUT", api.url + VALIDATE, config, bearer(token))
            )
            assert code in (200, 403), told
            assert api.figure("VmHWM") - before < 100_000, config


def raw(api: LimitedApi, head: str, *parts: bytes) -> bytes:
    """The answer to what is sent, as far as it is taken, until the other end closes."""
    with connected(api) as line:
        try:
            line.sendall(head.encode())
            for part in parts:
                line.sendall(part)
        except OSError:
            pass
        answer = b""
        try:
            while got := line.recv(65536):
                answer += got
        except ConnectionResetError:
            return answer or b"reset"
        return answer


def connected(api: LimitedApi) -> socket.socket:
    parts = urlsplit(api.url)
    return socket.create_connection((parts.hostname, parts.port), 30)


def head(method: str, path: str, *more: str) -> str:
    lines = (f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json")
    token = f"authorization: Bearer {READ}"
    return "\r\n".join((*lines, token, *more, "", ""))


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "in chunks"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", VALIDATE), ("POST", "/connectors"), ("POST", "/api/gaps/accept"), ("GET", "/api/lag")],
)
def test_a_body_without_end_is_refused(
    api: LimitedApi, method: str, path: str, chunked: bool
) -> None:
    before = api.figure("VmRSS")
    piece = b'"' + b"x" * 999_998 + b'"'
    if chunked:
        pieces = [b"f4240\r\n" + piece + b"\r\n"] * 300
        answer = raw(api, head(method, path, "transfer-encoding: chunked"), *pieces)
        assert answer == b"reset" or answer.startswith(b"HTTP/1.1 413"), answer
    else:
        answer = raw(api, head(method, path, f"content-length: {10**10}"))
        assert answer.startswith(b"HTTP/1.1 413"), answer
        assert b'"error_code":413' in answer
    assert api.figure("VmHWM") - before < 60_000


def test_headers_without_end_are_refused(api: LimitedApi) -> None:
    for request in (head("GET", "/" + "x" * 200_000), head("GET", "/", "a: " + "x" * 200_000)):
        assert raw(api, request)[:12] in (b"HTTP/1.1 400", b"reset")


def test_bodies_that_never_come_leave_room_for_those_who_look_and_who_may_write(
    api: LimitedApi,
) -> None:
    """So do more connections than are taken; and all of it is given back."""
    files, threads = api.open_files, api.figure("Threads")
    slow = head("PUT", VALIDATE, "content-length: 1000")
    lines = [connected(api) for _ in range(2 * MOST_AT_ONCE)]
    try:
        for line in lines:
            line.sendall(slow.encode() + b"{")
        assert within(10, lambda: ask("GET", f"{api.url}/api/gaps", None, bearer(READ)))[0] == 200
        assert ask("PUT", api.url + VALIDATE, CONNECTOR, bearer(WRITE))[0] == 200
        code, told = ask("PUT", api.url + VALIDATE, CONNECTOR, bearer(READ))
        assert code == 503 and "try again" in told["message"]
        lines += [connected(api) for _ in range(2 * MOST_LINES)]
        for line in lines[2 * MOST_AT_ONCE :]:
            with suppress(OSError):
                line.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n")
        most = files + MOST_LINES + 10
        wait_for(lambda: api.open_files <= most, f"at most {most} open files", 5)
        # Nobody closes them but the other end.
        wait_for(lambda: api.open_files <= files + 2, f"{files} open files, as before", 40)
    finally:
        for line in lines:
            line.close()
    assert ask("PUT", api.url + VALIDATE, CONNECTOR, bearer(READ))[0] == 200
    # Those that FastAPI keeps for the next requests.
    assert api.figure("Threads") <= threads + 40
