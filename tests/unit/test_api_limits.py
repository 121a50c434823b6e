"""Whatever is sent to the API, the process that copies records reads no file that it should not,
takes no memory without end, and keeps answering."""

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
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aggregator.api.request_bodies import MOST_AT_ONCE
from aggregator.api.server import MOST_LINES
from aggregator.config.allowed import LOGIN, URLS
from aggregator.config.files import LOCATIONS
from aggregator.features.connectors.config_keys import CLASSES, CLIENTS
from support.examples import examples
from support.limited import LimitedApi, limited_api
from support.played import ALIAS, CONNECTOR, READ, WRITE, bearer
from support.reading import wait_for
from support.rest import ask

# A process that serves.
pytestmark = pytest.mark.slow

VALIDATE = f"/connector-plugins/{CLASSES[0]}/config/validate"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
STORES = ("src.kafka.ssl.truststore.location", "src.kafka.ssl.keystore.location")
ANSWER_SECONDS = 30.0
"""A reader of a pipe that no one writes to never answers; a busy machine takes some seconds."""


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
            code, answer = within(
                ANSWER_SECONDS,
                lambda config=config: ask("PUT", api.url + VALIDATE, config, bearer(token)),
            )
            assert code in (200, 403), answer
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
        code, answer = ask("PUT", api.url + VALIDATE, CONNECTOR, bearer(READ))
        assert code == 503 and "try again" in answer["message"]
        lines += [connected(api) for _ in range(2 * MOST_LINES)]
        for line in lines[2 * MOST_AT_ONCE :]:
            with suppress(OSError):
                line.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n")
        most = files + MOST_LINES + 10
        wait_for(lambda: api.open_files <= most, f"at most {most} open files", 5)
        # Only the other end closes them.
        wait_for(lambda: api.open_files <= files + 2, f"{files} open files, as before", 40)
    finally:
        for line in lines:
            line.close()
    assert ask("PUT", api.url + VALIDATE, CONNECTOR, bearer(READ))[0] == 200
    # Those that FastAPI keeps for the next requests.
    assert api.figure("Threads") <= threads + 40


CANARY = "canary-5d81c0"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What must not be read, beside a folder that may be, and ways from the one to the other."""
    place = tmp_path_factory.mktemp("place")
    (place / "open").mkdir()
    (place / "open" / "fine").write_text("fine")
    (place / "secret").write_text(f"{CANARY}\npassword={CANARY}\n")
    (place / "open" / "link").symlink_to(place / "secret")
    (place / "open" / "up").symlink_to(place)
    os.mkfifo(place / "pipe")
    (place / "open" / "pipe").symlink_to(place / "pipe")
    return place


@pytest.fixture(scope="module")
def open_api(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Iterator[LimitedApi]:
    state = tmp_path_factory.mktemp("open") / "state"
    with limited_api(state, f"api.references.files=[{place / 'open'}]") as api:
        yield api


LEAFS = st.sampled_from(
    [
        *("@/secret", "@/pipe", "@/open/../secret", "@/open/link", "@/open/up/secret"),
        *("@/open/pipe", "/dev/zero", "/proc/self/environ", "@/open/fine", " @/secret", "@", ""),
        *("@/open//link", "@/./secret", "@/secret:password", "@/open/up/secret:password"),
    ]
)
FORMS = st.sampled_from(
    [
        *("{}", "${{file:{}}}", "${{dir:{}}}", "a${{file:{}}}b", "$${{file:{}}}", "file://{}"),
        *("$${{${{file:{}}}}}", "${{file:${{file:{}}}}}", "${{FILE:{}}}", "${{ file:{}}}"),
        *(f'{KRB5} keyTab="{{}}" principal="x";', f"{KRB5} keyTab={{}};", f'{KRB5} KeyTab="{{}}";'),
        *(f"{KRB5} keyTab='{{}}';", f'{KRB5} ticketCache="{{}}" useTicketCache=true;'),
        *('["{}"]', '[{{match: "a", to: "{}"}}]', "{},{}", "http://{}", "https://h:1{}"),
    ]
)
NAMES = st.sampled_from(
    [
        *STORES,
        *(f"{it}{name}" for it in CLIENTS for name in (*URLS, LOGIN, "config.providers")),
        *(f"src.consumer.{name}" for name in (*LOCATIONS, LOGIN)),
        *("aggregator.title", "aggregator.rename", "topics", "topic.rename.format"),
        *("aggregator.schemas.ca", "aggregator.schemas.registry", "aggregator.schemas.password"),
        *("src.kafka.client.id", "src.kafka.SSL.TRUSTSTORE.LOCATION", "aggregator.start", "name"),
    ]
)
VALUES = st.builds(lambda form, leaf: form.format(leaf, leaf), FORMS, LEAFS)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"[" * 1_000_000, b'{"a":' * 300_000, b"[" + b"[]," * 600_000 + b"[]]"]),
    st.sampled_from([b'{"config": ' + b'"x"' * 600_000, b"\xff" * 1_999_999, b"9" * 1_900_000]),
)


def is_read(pipe: Path) -> bool:
    """Whether anybody has the pipe open to read."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def test_whatever_a_config_refers_to_nothing_is_read_that_is_not_allowed(
    open_api: LimitedApi, place: Path
) -> None:
    url, answers, taken = open_api.url, "", 0
    before = open_api.figure("VmRSS")

    @settings(examples(60), derandomize=True, database=None)
    @given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=2))
    @example({"topics": "orders"})
    def check(named: dict[str, str]) -> None:
        nonlocal answers, taken
        more = {name: value.replace("@", str(place)) for name, value in named.items()}
        config = {**CONNECTOR, **more}
        for method, path, body, token in (
            ("PUT", VALIDATE, config, READ),
            ("PUT", VALIDATE, config, WRITE),
            ("PUT", "/connectors/us/config", config, WRITE),
            ("PATCH", f"/connectors/{ALIAS}/config", more, WRITE),
            ("PUT", "/api/sources/africa", {"config": config}, WRITE),
        ):
            code, answer = ask(method, url + path, body, bearer(token))
            assert code in (200, 201, 400, 403), (method, path, answer)
            taken += code == 201
            answers += str(answer)
        answers += str(ask("GET", f"{url}/api/config", None, bearer(READ)))
        assert CANARY not in answers and "PATH=" not in answers
        answers = ""
        assert not is_read(place / "pipe")

    check()
    assert taken
    assert open_api.figure("VmHWM") - before < 150_000


def test_whatever_a_body_is_it_is_answered_and_forgotten(open_api: LimitedApi) -> None:
    before, threads = open_api.figure("VmRSS"), open_api.figure("Threads")

    @settings(examples(30), derandomize=True, database=None)
    @given(BODIES, st.sampled_from([("PUT", VALIDATE), ("POST", "/connectors")]))
    def check(body: bytes, call: tuple[str, str]) -> None:
        method, path = call
        length = f"content-length: {len(body)}"
        answer = raw(open_api, head(method, path, "connection: close", length), body)
        assert answer.split(b" ")[1] in (b"400", b"403"), answer[:300]

    check()
    assert open_api.figure("VmHWM") - before < 300_000
    assert open_api.figure("Threads") <= threads + 40
    assert ask("PUT", open_api.url + VALIDATE, CONNECTOR, bearer(READ))[0] == 200
