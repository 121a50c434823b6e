"""A service is one class and one line in the list: all that shows services shows it then."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.request import urlopen

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from aggregator.api.latest_status import StatusHolder
from aggregator.cli.main import app
from aggregator.config import load_text
from aggregator.config.in_force import InForce
from aggregator.datapath.connector.hub_origins import ProcessOrigins
from aggregator.engine.control.commands import Control
from aggregator.features import services as services_module
from aggregator.features.service import Now, Resources, Service
from aggregator.features.services import Services
from aggregator.kafka.admin import ClusterAdmin
from aggregator.status.assemble import status
from aggregator.status.schema import Phase, Status
from aggregator.status.service_status import Figure, ServiceStatus
from aggregator.status.view import first_view
from aggregator.store.checkpoint.start_state import CheckpointState
from support.rest import ask
from support.serving import app_over, served
from support.statuses import status_with


class TideStatus(ServiceStatus):
    height: float

    def lines(self) -> Iterable[str]:
        yield f"Tide: {self.height:g} m"

    def figures(self) -> Iterable[Figure]:
        yield Figure.of("tide_metres", "The height of the tide.", self.height)

    def attention(self) -> str:
        return "the harbour is flooded" if self.height > 3 else ""


class Tide(Service):
    name = "tide"
    part = TideStatus

    def __init__(self) -> None:
        self.calls: list[str] = []

    def follow(self, now: Now) -> None:
        self.calls.append("follow")

    def status(self) -> TideStatus | None:
        return TideStatus(height=3.5) if self.calls else None

    def source_errors(self) -> Mapping[str, str]:
        return {"eu": "no pier"}

    def heard(self) -> Collection[str]:
        return {"eu"}

    def end(self) -> None:
        self.calls.append("end")


@pytest.fixture
def sets(tmp_path: Path) -> list[str]:
    return [
        "name=central",
        "hub.bootstrap_servers=127.0.0.1:9",
        "sources.eu.bootstrap_servers=127.0.0.1:10",
        "sources.eu.topics.include=orders",
        f"checkpoint.path={tmp_path}",
    ]


def test_a_service_in_the_list_is_shown_by_everything_that_shows_services(
    sets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {**services_module.SERVICES, Tide: lambda _: Tide()}
    monkeypatch.setattr(services_module, "SERVICES", known)
    config = load_text("", sets, {})
    hub = cast("ClusterAdmin", None)
    services = Services(Resources(InForce(config), lambda _: None, hub, None, ProcessOrigins))
    assert "tide" not in services.status()
    services.follow(Now(config, None, CheckpointState(), until_done=True))
    assert services.source_errors() == {"eu": "no pier"}
    assert services.has_heard([])
    assert not services.has_heard(["eu", "us"])
    view = replace(first_view(config), phase=Phase.RUNNING, services=services.status())
    services.end()
    assert services.of(Tide).calls == ["follow", "end"]
    holder = StatusHolder()
    holder.put(view.at, view.phase, lambda: status(view))
    with served(app_over(Control(config), holder)) as server:
        _, document = ask("GET", f"{server.url}/api/status")
        _, overview = ask("GET", f"{server.url}/api/overview")
        with urlopen(f"{server.url}/metrics", timeout=60) as answer:
            metrics = answer.read().decode()
        flags = [*sets, f"api.listen={server.url.removeprefix('http://')}"]
        printed = shown("status -o json", flags)
        table = shown("status", flags)
    expected = {"height": 3.5}
    assert document["tide"] == overview["tide"] == json.loads(printed)["tide"] == expected
    attention = {"level": "warning", "what": "the harbour is flooded", "source": None}
    assert attention in overview["attention"]
    assert "aggregator_tide_metres 3.5" in metrics.splitlines()
    assert "Tide: 3.5 m" in table.splitlines()


def shown(words: str, sets: list[str]) -> str:
    flags = [part for item in sets for part in ("--set", item)]
    done = CliRunner().invoke(app, [*words.split(), *flags])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_part_that_no_service_has_is_of_another_version_and_left_out() -> None:
    document: dict[str, Any] = status_with().model_dump(mode="json")
    assert Status.model_validate(document).services == ()
    for kinds in ({}, {"wind": TideStatus}):
        found = Status.model_validate(
            {**document, "tide": {"height": 1}}, context={"services": kinds}
        )
        assert found == Status.model_validate(document)
    with pytest.raises(ValidationError, match="height"):
        Status.model_validate(
            {**document, "tide": {"height": "high"}}, context={"services": {"tide": TideStatus}}
        )


def test_each_service_has_a_name_of_its_own() -> None:
    names = [it.name for it in services_module.SERVICES]
    assert len(set(names)) == len(names)
