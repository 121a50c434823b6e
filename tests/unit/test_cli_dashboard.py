"""`aggregator open`: the right address in the browser, and no token in it."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aggregator.api.latest_status import StatusHolder
from aggregator.cli import dashboard
from aggregator.cli.main import app
from aggregator.config import load_text
from aggregator.engine.control.commands import Control
from aggregator.model.errors import EXIT_OTHER
from support.rest import SETS
from support.serving import app_over, served
from support.statuses import whole_status

TOKEN = "read-me-0123456789"


@pytest.fixture
def holder() -> StatusHolder:
    holder, status = StatusHolder(), whole_status()
    holder.put(status.at, status.phase, lambda: status)
    return holder


@pytest.fixture
def port(tmp_path: Path, holder: StatusHolder) -> Iterator[int]:
    """An instance that asks for a token, as others may reach it."""
    config = load_text("", [*SETS, f"checkpoint.path={tmp_path}", f"api.read_token={TOKEN}"])
    with served(app_over(Control(config), holder)) as server:
        yield server.port


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that the browser was given."""
    urls: list[str] = []

    def note(url: str) -> bool:
        urls.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", note)
    return urls


def call(listen: str, *more: str, code: int = 0, token: str = TOKEN) -> Result:
    sets = (*SETS, f"api.listen={listen}", f"api.read_token={token}")
    flags = [part for item in sets for part in ("--set", item)]
    result = CliRunner().invoke(app, ["open", *flags, *more])
    assert result.exit_code == code, result.output
    return result


def test_the_browser_is_given_the_dashboard_and_the_address_is_printed(
    port: int, opened: list[str]
) -> None:
    result = call(f"127.0.0.1:{port}")
    assert opened == [f"http://127.0.0.1:{port}/ui/"]
    assert result.stdout == f"{opened[0]}\n" and result.stderr == ""


def test_an_instance_that_listens_everywhere_is_opened_on_this_machine(
    port: int, opened: list[str]
) -> None:
    call(f"0.0.0.0:{port}")
    assert opened == [f"http://127.0.0.1:{port}/ui/"]


def test_over_tls_the_address_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "running_status", lambda _: whole_status())
    tls = ("api.tls.certificate=/c.pem", "api.tls.key=/k.pem", f"api.read_token={TOKEN}")
    config = load_text("", [*SETS, "api.listen=[::]:8083", *tls])
    assert dashboard.dashboard_url(config) == "https://[::1]:8083/ui/"


def test_with_print_no_browser_is_asked(port: int, opened: list[str]) -> None:
    assert call(f"127.0.0.1:{port}", "--print").stdout == f"http://127.0.0.1:{port}/ui/\n"
    assert opened == []


@pytest.mark.parametrize("answer", [False, webbrowser.Error("could not locate runnable browser")])
def test_without_a_browser_the_address_is_there_to_be_taken(
    port: int, monkeypatch: pytest.MonkeyPatch, answer: bool | Exception
) -> None:
    def none(_url: str) -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(webbrowser, "open", none)
    result = call(f"127.0.0.1:{port}")
    assert result.stdout == f"http://127.0.0.1:{port}/ui/\n"
    assert result.stderr == "no browser is found here: open that address in one\n"


def test_a_token_that_the_instance_does_not_know_is_a_matter_of_the_page(
    port: int, opened: list[str]
) -> None:
    call(f"127.0.0.1:{port}", token="another-0123456789")
    assert opened == [f"http://127.0.0.1:{port}/ui/"]


def test_one_that_still_starts_has_its_page_as_well(
    port: int, opened: list[str], holder: StatusHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "latest", lambda: None)
    call(f"127.0.0.1:{port}")
    assert opened == [f"http://127.0.0.1:{port}/ui/"]


def test_where_nothing_runs_it_says_what_to_do(opened: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = call(f"127.0.0.1:{port}", code=EXIT_OTHER).stderr
    assert f"no instance answers on 127.0.0.1:{port}; start it with aggregator run" in said
    assert opened == []


def test_an_api_that_is_off_has_no_page(opened: list[str]) -> None:
    said = call("off", code=EXIT_OTHER).stderr
    assert "api.listen is off; set it to host:port" in said
    assert opened == []


def test_the_page_of_another_aggregation_is_not_opened(port: int, opened: list[str]) -> None:
    said = call(f"127.0.0.1:{port}", "--set", "name=other", code=EXIT_OTHER).stderr
    assert f"aggregation 'central' answers on 127.0.0.1:{port}, not 'other'" in said
    assert opened == []
