"""Commands over the real API: who may give them, how they are answered; the engine is played."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.requests import Request as Received

from aggregator.api.permissions import CallerError, check_caller
from aggregator.config import load_text
from aggregator.config.api import ApiConfig
from aggregator.config.load import Added
from aggregator.config.schema import Config
from aggregator.engine.control.command_queue import NotReadyError
from aggregator.engine.control.commands import Control
from aggregator.model.errors import (
    AggregatorError,
    CheckpointConflictError,
    ConfigError,
    Problem,
    RefusedError,
)
from aggregator.store.controls import Controls
from aggregator.store.state_store import StateStore
from support.rest import SETS, PlayedEngine, ask
from support.serving import app_over, served


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_text("", [*SETS, f"checkpoint.path={tmp_path / 'state'}"])


@pytest.fixture
def control(config: Config) -> Control:
    def reread(_: Added) -> Config:
        raise ConfigError([Problem("hub", "is gone"), Problem("sources", "are gone")])

    return Control(config, reread)


@pytest.fixture
def engine(control: Control) -> Iterator[PlayedEngine]:
    engine = PlayedEngine(control)
    yield engine
    engine.stop()


@pytest.fixture
def url(control: Control) -> Iterator[str]:
    with served(app_over(control)) as server:
        yield server.url


def test_a_source_is_paused_and_resumed_by_the_engine(
    url: str, engine: PlayedEngine, control: Control, config: Config
) -> None:
    code, body = ask("PUT", f"{url}/api/sources/eu/pause")
    assert (code, body["name"], body["source"], body["paused"]) == (200, "central", "eu", True)
    assert engine.calls == ["leave ['eu']", "publish"]
    assert control.out["eu"].startswith("paused since 20")
    kept = Controls(StateStore(config.checkpoint.path))
    assert kept.read().sources == control.paused
    assert body["by"] == control.paused["eu"].by == "REST from 127.0.0.1"
    assert " by REST from 127.0.0.1; aggregator resume eu" in control.out["eu"]
    since = body["since"]
    assert ask("PUT", f"{url}/api/sources/eu/pause")[1]["since"] == since
    code, body = ask("PUT", f"{url}/api/sources/eu/resume")
    assert (code, body["paused"], body["since"], body["by"]) == (200, False, None, "")
    assert engine.calls[-2:] == ["request discovery", "publish"]
    assert control.out == {}
    assert kept.read().sources == {}


def test_a_backfill_that_is_not_there_cannot_be_cancelled(url: str, engine: PlayedEngine) -> None:
    code, body = ask("PUT", f"{url}/api/backfills/b1/cancel")
    assert (code, body["exit_code"]) == (409, 2)
    assert "there is no backfill b1" in body["message"]
    assert ask("GET", f"{url}/api/backfills")[0] == 503
    wanted = {"source": "nix", "topic": "orders", "dry_run": False}
    assert ask("POST", f"{url}/api/backfills", wanted)[0] == 404
    assert engine.calls == []


def test_a_topic_and_a_partition_are_paused_and_resumed_by_the_engine(
    url: str, engine: PlayedEngine, control: Control, config: Config
) -> None:
    topic = f"{url}/api/sources/eu/topics/orders"
    code, body = ask("PUT", f"{topic}/pause?partition=3")
    assert (code, body["topic"], body["partition"], body["paused"]) == (200, "orders", 3, True)
    assert (body["by"], body["parts"]) == ("REST from 127.0.0.1", ["eu/orders-3"])
    assert engine.calls == ["rest eu/orders-3", "publish"]
    assert control.paused == {}
    (why,) = control.out_parts.values()
    assert why.startswith("paused since 20")
    assert why.endswith("by REST from 127.0.0.1; aggregator resume eu --topic orders --partition 3")
    assert ask("PUT", f"{topic}/pause")[1]["partition"] is None
    kept = Controls(StateStore(config.checkpoint.path))
    assert kept.read().parts == control.parts
    code, body = ask("PUT", f"{topic}/resume?partition=3")
    assert (code, body["exit_code"]) == (409, 2)
    assert "is paused as a whole" in body["message"]
    code, body = ask("PUT", f"{topic}/resume")
    assert (code, body["paused"], body["parts"]) == (200, False, [])
    assert kept.read().parts == control.parts == {}
    assert ask("PUT", f"{topic}/pause?partition=-1")[0] == 400


def test_a_topic_that_is_not_taken_is_not_paused(
    url: str, engine: PlayedEngine, control: Control
) -> None:
    engine.failure = RefusedError(["source eu takes no topic ordres now; did you mean orders?"])
    code, body = ask("PUT", f"{url}/api/sources/eu/topics/ordres/pause")
    assert code == 409
    assert "did you mean orders?" in body["message"]
    assert control.parts == {}


def test_what_is_paused_stays_so_over_a_restart(control: Control, config: Config) -> None:
    Controls(StateStore(config.checkpoint.path)).put("eu", paused=True)
    control.load()
    assert control.paused.keys() == {"eu"}


@pytest.mark.usefixtures("engine")
def test_an_unknown_source_is_404(url: str) -> None:
    code, body = ask("PUT", f"{url}/api/sources/nix/pause")
    assert (code, body["error_code"], body["exit_code"]) == (404, 404, 2)
    assert body["message"] == "there is no source nix; sources are eu"


@pytest.mark.usefixtures("engine")
def test_a_bad_config_is_reported_with_all_its_problems_and_the_old_one_stays(
    url: str, control: Control, config: Config
) -> None:
    code, body = ask("POST", f"{url}/api/reload")
    assert (code, body["exit_code"]) == (400, 2)
    assert "hub: is gone" in body["message"]
    assert "sources: are gone" in body["message"]
    assert control.config is config
    assert ask("GET", f"{url}/api/config")[1]["name"] == "central"


@pytest.mark.usefixtures("engine")
def test_positions_are_checked_before_anybody_is_asked(url: str) -> None:
    code, body = ask("POST", f"{url}/api/positions", {"to_offset": 1, "to": "latest"})
    assert (code, body["exit_code"]) == (400, 2)
    assert "give one of to, to_offset" in body["message"]
    code, body = ask("POST", f"{url}/api/positions", {"nix": 1})
    assert code == 400
    assert "nix: Extra inputs" in body["message"]
    code, body = ask("POST", f"{url}/api/positions", {"to_offset": 1, "source": "us"})
    assert (code, body["message"].split()[-1]) == (409, "eu")


def test_while_it_starts_or_stops_nothing_is_taken(
    url: str, control: Control, config: Config
) -> None:
    code, body = ask("PUT", f"{url}/api/sources/eu/pause")
    assert code == 503
    assert "still starting" in body["message"]
    engine = PlayedEngine(control)
    assert ask("PUT", f"{url}/api/sources/eu/resume")[0] == 200
    engine.stop()
    code, body = ask("PUT", f"{url}/api/sources/eu/pause")
    assert (code, body["message"]) == (503, "it is stopping")
    assert Controls(StateStore(config.checkpoint.path)).read().sources == {}


def test_a_command_that_was_not_taken_in_time_is_gone_when_it_stops(control: Control) -> None:
    done: list[str] = []
    control.gate.open()
    with pytest.raises(NotReadyError, match="it is busy and did not answer in time"):
        control.gate.ask(lambda _: done.append("late"), 0.01)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(control.gate.ask, lambda _: done.append("waits"), 60.0)
        control.gate.close()
        with pytest.raises(NotReadyError, match="it is stopping"):
            waits.result()
    assert done == []


@pytest.mark.parametrize(
    "failure",
    [
        AggregatorError("supervision.failure is abort"),
        CheckpointConflictError("another instance writes this checkpoint"),
    ],
)
def test_an_error_that_is_no_refusal_is_the_engines_too(
    url: str, engine: PlayedEngine, failure: AggregatorError
) -> None:
    engine.failure = failure
    code, body = ask("PUT", f"{url}/api/sources/eu/pause")
    assert (code, body["message"]) == (500, str(failure))
    engine.stop()
    assert engine.ended is failure


def test_a_refusal_is_the_callers_and_the_engine_continues(url: str, engine: PlayedEngine) -> None:
    engine.failure = RefusedError(["it is stopping"])
    code, body = ask("PUT", f"{url}/api/sources/eu/pause")
    assert code == 409
    assert "it is stopping" in body["message"]
    engine.failure = None
    assert ask("PUT", f"{url}/api/sources/eu/pause")[0] == 200
    engine.stop()
    assert engine.ended is None


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("headers", "code", "why"),
    [
        ({"host": "evil.example:8083"}, 403, "not this machine"),
        ({"origin": "https://evil.example"}, 403, "another site: https://evil.example"),
        ({"sec-fetch-site": "cross-site"}, 403, "another site: cross-site"),
        ({"content-type": "text/plain"}, 415, "has to be application/json"),
    ],
)
def test_other_sites_command_nothing(
    url: str, headers: dict[str, str], code: int, why: str
) -> None:
    found, body = ask("POST", f"{url}/api/reload", headers=headers)
    assert (found, body["error_code"]) == (code, code)
    assert why in body["message"]


@pytest.mark.usefixtures("engine")
def test_our_own_page_may(url: str) -> None:
    headers = {"origin": url, "sec-fetch-site": "same-origin"}
    assert ask("PUT", f"{url}/api/sources/eu/pause", headers=headers)[0] == 200


def api(listen: str) -> ApiConfig:
    return ApiConfig(listen=listen, local_writers="everybody")


def received(client: str, host: str, server: str = "0.0.0.0") -> Received:
    scope = {"type": "http", "method": "PUT", "path": "/", "client": (client, 1)}
    return Received({**scope, "server": (server, 8083), "headers": [(b"host", host.encode())]})


@pytest.mark.parametrize(
    ("client", "host", "server", "listen"),
    [
        ("127.0.0.1", "localhost:8083", "127.0.0.1", "127.0.0.1"),
        ("::1", "[::1]:8083", "::1", "::"),
        ("::ffff:127.0.0.1", "127.0.0.1", "::", "::"),
        ("10.0.0.5", "10.0.0.5:8083", "10.0.0.5", "10.0.0.5"),
        ("10.0.0.5", "hub-mirror:8083", "10.0.0.5", "hub-mirror"),
    ],
)
def test_this_machine_may_command(client: str, host: str, server: str, listen: str) -> None:
    check_caller(received(client, host, server), api(f"{listen}:8083"))


@pytest.mark.parametrize(
    ("client", "host"),
    [
        ("10.0.0.9", "10.0.0.5:8083"),
        ("10.0.0.9", "127.0.0.1"),
        ("127.0.0.1", ""),
        ("", "127.0.0.1"),
    ],
)
def test_another_machine_may_not(client: str, host: str) -> None:
    with pytest.raises(CallerError) as refused:
        check_caller(received(client, host, "10.0.0.5"), api("0.0.0.0:8083"))
    assert refused.value.status == 403
