from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from aggregator import __version__
from aggregator.api.app import HUNG_SECONDS, alive_of, health_of
from aggregator.api.latest_status import KEPT, StatusHolder
from aggregator.api.server import ApiServer
from aggregator.config import load_text, masked
from aggregator.config.mask import MASK
from aggregator.engine.control.commands import Control
from aggregator.model.errors import EXIT_OTHER, ConfigError
from aggregator.status.rates import WINDOW_SECONDS
from aggregator.status.schema import CheckpointStatus, PartitionStatus, Phase, Status
from support.rest import SETS
from support.serving import app_over, served

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
STATUS_NEEDED = (
    *("status", "lag", "overview", "sources/eu", "recovery", "lanes", "incidents", "backfills"),
    *("hub/topics", "hub/topics/orders", "topics/orders/look"),
)
"""What is answered from a status."""


def status(seconds: float = 0, position: int = 0, **more: object) -> Status:
    return Status.model_validate(
        {
            "name": "central",
            "phase": Phase.RUNNING,
            "version": __version__,
            "host": "h",
            "pid": 1,
            "started_at": NOW,
            "at": NOW + timedelta(seconds=seconds),
            "hub_cluster_id": "hub-id",
            "checkpoint_interval_seconds": 10,
            "partitions": (
                PartitionStatus(
                    cluster="eu",
                    topic="orders",
                    partition=0,
                    hub_topic="orders",
                    position=position,
                    log_end=1000,
                    seconds_behind=12.5,
                    seconds_behind_at_least=True,
                ),
            ),
            "checkpoint": CheckpointStatus(path="./state"),
            **more,
        }
    )


def put(holder: StatusHolder, made: Status) -> None:
    holder.put(made.at, made.phase, lambda: made)


@pytest.fixture
def holder() -> StatusHolder:
    return StatusHolder()


@pytest.fixture
def url(holder: StatusHolder) -> Iterator[str]:
    with served(app_over(holder=holder)) as server:
        yield server.url


def get(url: str) -> tuple[int, Any]:
    try:
        with urlopen(url, timeout=60) as response:
            return response.status, json.load(response)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_root_looks_like_connects(url: str, holder: StatusHolder) -> None:
    own = f"aggregator {__version__}"
    expected = {"version": "4.0.0", "commit": own, "kafka_cluster_id": ""}
    assert get(url + "/") == (200, expected)
    put(holder, status())
    assert get(url + "/")[1]["kafka_cluster_id"] == "hub-id"


def test_before_the_first_status_everything_is_starting(url: str) -> None:
    assert get(url + "/health")[0] == 503
    assert get(url + "/health")[1]["status"] == "starting"
    for path in STATUS_NEEDED:
        message = "Worker is still starting up."
        answer = {"error_code": 503, "message": message, "exit_code": EXIT_OTHER}
        assert get(f"{url}/api/{path}") == (503, answer), path


def test_status_is_the_document(url: str, holder: StatusHolder) -> None:
    put(holder, status(position=7))
    code, body = get(url + "/api/status")
    assert code == 200
    assert Status.model_validate(body) == status(position=7)


def test_lag_has_rates_of_the_window(url: str, holder: StatusHolder) -> None:
    put(holder, status(0, position=0))
    put(holder, status(50, position=500))
    code, body = get(url + "/api/lag")
    assert code == 200
    assert body["rows"][0]["lag"] == 500
    assert body["rows"][0]["consumed_per_second"] == 10
    assert body["totals"][0]["eta"] == "about 50 s"
    for part in (body["rows"][0], body["totals"][0]):
        assert (part["seconds_behind"], part["seconds_behind_at_least"]) == (12.5, True)


def test_config_is_the_effective_one_without_its_secrets() -> None:
    config = load_text("", [*SETS, "sources.eu.kafka.ssl.key.password=hidden-0123456789"])
    with served(app_over(Control(config))) as server:
        code, body = get(server.url + "/api/config")
    assert (code, body) == (200, json.loads(json.dumps(masked(config), default=str)))
    assert body["sources"]["eu"]["kafka"] == {"ssl.key.password": MASK}
    assert "hidden" not in json.dumps(body)


def test_what_does_not_exist_is_404(url: str) -> None:
    assert get(url + "/nix")[0] == 404


@pytest.mark.parametrize(
    ("phase", "code", "word"),
    [
        (Phase.STARTING, 503, "starting"),
        (Phase.RUNNING, 200, "healthy"),
        (Phase.STOPPING, 200, "healthy"),
        (Phase.STOPPED, 200, "healthy"),
        (Phase.FAILED, 500, "unhealthy"),
    ],
)
def test_health_of_each_phase(phase: Phase, code: int, word: str) -> None:
    found, body = health_of(phase)
    assert (found, body["status"]) == (code, word)
    assert body["message"]


@pytest.mark.parametrize("phase", [None, *Phase])
def test_it_is_alive_in_each_phase_unless_it_runs_and_reports_nothing(phase: Phase | None) -> None:
    assert alive_of(phase, HUNG_SECONDS)[0] == 200
    # It may wait for others as long as it has to, but for its own engine.
    hung = phase is Phase.RUNNING
    assert alive_of(phase, HUNG_SECONDS + 1)[0] == (503 if hung else 200)


def test_probes_are_answered_with_the_phase_and_no_status_is_made_for_them(
    url: str, holder: StatusHolder
) -> None:
    assert get(url + "/alive") == (200, {"status": "starting", "message": "The process answers."})
    made: list[int] = []
    holder.put(NOW, Phase.STANDBY, partial(made.append, 1))  # type: ignore[arg-type]
    assert get(url + "/alive")[1]["status"] == get(url + "/health")[1]["status"] == "standby"
    assert made == []


@pytest.mark.parametrize("path", ["/", "/api/status", "/api/lag", "/api/overview"])
def test_probes_are_answered_while_a_status_is_made(
    url: str, holder: StatusHolder, path: str
) -> None:
    begun, proceed = threading.Event(), threading.Event()

    def make() -> Status:
        begun.set()
        assert proceed.wait(60)
        return status()

    holder.put(NOW, Phase.RUNNING, make)
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(get, url + path)
        try:
            assert begun.wait(60)
            for probe in ("/health", "/alive"):
                assert pool.submit(get, url + probe).result(30)[0] == 200
        finally:
            proceed.set()
        assert asked.result()[0] == 200


def test_a_taken_port_is_a_config_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"api.listen: cannot listen on 127.0.0.1:{port}"):
            ApiServer(app_over(), "127.0.0.1", port)


def test_a_host_that_is_not_ours_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"api\.listen"):
        ApiServer(app_over(), "192.0.2.1", 0)


def test_a_stopped_server_frees_its_port() -> None:
    first = ApiServer(app_over(), "127.0.0.1", 0)
    first.start()
    first.stop()
    first.stop()
    second = ApiServer(app_over(), "127.0.0.1", first.port)
    second.start()
    assert get(second.url + "/")[0] == 200
    second.stop()


def test_a_server_that_never_started_can_be_stopped() -> None:
    ApiServer(app_over(), "127.0.0.1", 0).stop()


def test_the_holder_looks_one_window_back() -> None:
    holder = StatusHolder()
    assert (holder.latest(), holder.earlier()) == (None, None)
    for second in range(600):
        put(holder, status(second))
    latest, earlier = holder.latest(), holder.earlier()
    assert latest is not None and earlier is not None
    assert latest.at == NOW + timedelta(seconds=599)
    back = (latest.at - earlier.at).total_seconds()
    assert WINDOW_SECONDS <= back <= WINDOW_SECONDS * (1 + 1 / KEPT)
    assert len(holder._kept) <= KEPT + 2


@pytest.mark.parametrize("jump", [3600, -3600])
def test_rates_are_back_a_window_after_the_clock_was_set(jump: int) -> None:
    holder = StatusHolder()
    for second in range(100):
        put(holder, status(second))
    for second in range(100, 170):
        put(holder, status(second + jump))
    latest, earlier = holder.latest(), holder.earlier()
    assert latest is not None and earlier is not None
    back = (latest.at - earlier.at).total_seconds()
    assert WINDOW_SECONDS <= back <= WINDOW_SECONDS * (1 + 1 / KEPT)


def test_a_status_is_made_once_and_only_when_it_is_asked_for() -> None:
    holder, made = StatusHolder(), list[int]()

    def make(second: int) -> Status:
        made.append(second)
        return status(second)

    for second in range(10):
        holder.put(NOW + timedelta(seconds=second), Phase.RUNNING, partial(make, second))
    assert made == []
    assert holder.latest() is holder.latest()
    assert made == [9]


def test_those_who_wait_while_a_status_is_made_share_the_next_one() -> None:
    holder, made = StatusHolder(), list[int]()
    begun, proceed = threading.Event(), threading.Event()

    def make(second: int) -> Status:
        made.append(second)
        begun.set()
        assert second or proceed.wait(60)
        return status(second)

    def put_second(second: int) -> None:
        holder.put(NOW + timedelta(seconds=second), Phase.RUNNING, partial(make, second))

    with ThreadPoolExecutor(5) as pool:
        put_second(0)
        first = pool.submit(holder.latest)
        try:
            assert begun.wait(60)
            others = []
            for second in (1, 2, 3):
                put_second(second)
                others.append(pool.submit(holder.latest))
        finally:
            proceed.set()
        assert first.result() == status(0)
        assert [it.result() for it in others] == [status(3)] * 3
    assert made == [0, 3]


def test_nothing_is_made_of_a_start_to_compare_with() -> None:
    holder, made = StatusHolder(), list[int]()

    def make(second: int) -> Status:
        made.append(second)
        return status(second)

    for second in range(0, 50, 5):
        phase = Phase.STARTING if second < 30 else Phase.RUNNING
        holder.put(NOW + timedelta(seconds=second), phase, partial(make, second))
    earlier = holder.earlier()
    assert earlier is not None and earlier.at == NOW + timedelta(seconds=30)
    assert made == [30]


def test_positions_are_reported_as_they_move_however_seldom_they_are_committed() -> None:
    holder = StatusHolder()
    for second in range(0, 6000, 10):
        put(holder, status(second, checkpoint_interval_seconds=600))
    latest, earlier = holder.latest(), holder.earlier()
    assert latest is not None and earlier is not None
    back = (latest.at - earlier.at).total_seconds()
    assert WINDOW_SECONDS <= back <= WINDOW_SECONDS + 10
