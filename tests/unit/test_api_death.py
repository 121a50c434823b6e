"""An API that dies says so, and takes nothing with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from aggregator.api import server
from aggregator.cli.run import Record
from aggregator.cli.serving import serving
from aggregator.config import load_text
from aggregator.engine.control.commands import Control
from aggregator.status.view import first_view
from support.reading import wait_for
from support.rest import SETS, ask


def test_when_the_api_dies_it_is_logged_and_views_are_taken_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_text("", [*SETS, f"checkpoint.path={tmp_path}", "api.listen=127.0.0.1:0"])
    control = Control(config)
    logged: list[tuple[str, str]] = []

    def log(kind: str, message: str, **_: Any) -> None:
        logged.append((kind, message))

    async def dies(*_: object) -> bool:
        raise RuntimeError("it is broken")

    record = Record(control, log, str)
    with serving(control, log, record.recorder, take_over=False) as put:
        put(first_view(config))
        ((kind, message),) = logged
        url = message.removeprefix("the API answers on ")
        assert (kind, ask("GET", f"{url}/api/status")[0]) == ("api", 200)
        monkeypatch.setattr(server._Server, "on_tick", dies)
        wait_for(lambda: len(logged) > 1, "it is logged")
        assert logged[1][0] == "api_failed"
        assert re.search("RuntimeError: it is broken.*records flow on", logged[1][1])
        # The engine's thread continues, and the port is free for another API.
        put(first_view(config))
        with pytest.raises(URLError):
            ask("GET", f"{url}/api/status")
    assert len(logged) == 2
